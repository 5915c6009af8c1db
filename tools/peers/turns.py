"""Taking turns with `tete bench` (run.py): a program here says when it is ready, and then times itself once
for each line that it is sent. What it says is one JSON object a line."""
import argparse
import importlib
import json
import math
import os
import sys
import time


def say(**line):
    print(json.dumps(line), flush=True)


def refuse(sentence):
    say(refusal=sentence)
    sys.exit()


def need(module, name):
    """The module, of that name among people."""
    try:
        return importlib.import_module(module)
    except ImportError:
        refuse(f"this Python has no {name}")


def layer_arguments(modes, amendments=()):
    """One layer of attention as `tete bench attention` asks for it; refuses what has no program."""
    variants = ["multi_head", "talking_heads", "project_logits", "project_weights", "dynamic_projections",
                "general_bilinear"]
    p = argparse.ArgumentParser()
    p.add_argument("--variant")
    p.add_argument("--with", dest="amendment")
    for size in ("heads", "d-model", "length", "memory-length", "batch", "threads"):
        p.add_argument("--" + size, type=int)
    p.add_argument("--dtype", default="f32")
    p.add_argument("--mode", choices=modes)
    p.add_argument("--causal", action="store_true")
    p.add_argument("--forward", action="store_true")
    a = p.parse_args()
    if a.variant not in variants:
        refuse(f"there is no program for '{a.variant}' (there are {', '.join(variants)})")
    if a.amendment not in [None, *amendments]:
        refuse(f"there is no program with '{a.amendment}' (there are {', '.join(amendments) or 'none'})")
    return a


def keep_to_cores(count):
    """Keeps this process on that many of the cores it has: for libraries that start a thread for each."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def serve(call, engine, least_seconds=0.05):
    """As turn_of in tools/bench/measure.cpp: nothing that is measured is a first time, and what is short
    is done again and again."""
    call()
    start = time.perf_counter()
    call()
    calls = max(1, math.ceil(least_seconds / (time.perf_counter() - start)))
    say(ready=True, engine=f"{engine.__name__} {engine.__version__}")
    for _ in sys.stdin:
        if calls > 1:
            call()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        seconds = (time.perf_counter() - start) / calls
        say(seconds=seconds)
