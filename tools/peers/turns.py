"""Taking turns with `tete bench`: a program here says when it is ready, and then times itself once for
each line that it is sent. What it says is one JSON object a line."""
import json
import math
import resource
import sys
import time


def say(**line):
    print(json.dumps(line), flush=True)


try:
    import torch
except ImportError:
    say(refusal="it has no PyTorch (--python names another Python)")
    sys.exit()


def refuse(sentence):
    say(refusal=sentence)
    sys.exit()


def serve(call, least_seconds=0.05):
    """As turn_of in tools/bench/measure.cpp: nothing that is measured is a first time, and what is short
    is done again and again."""
    call()
    start = time.perf_counter()
    call()
    calls = max(1, math.ceil(least_seconds / (time.perf_counter() - start)))
    say(ready=True, engine="torch " + torch.__version__)
    for _ in sys.stdin:
        if calls > 1:
            call()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        seconds = (time.perf_counter() - start) / calls
        say(seconds=seconds, peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
