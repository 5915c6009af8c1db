"""`tete bench` in turns with a program beside this one, which does the same in PyTorch or JAX; prints a row of
README's table. It is for the Python that has them.

    run.py TETE PEER REPEATS RESULT.json attention|step OPTION…

PEER is torch-eager, torch-compile, torch-sdpa (of attention), torch-bf16 or jax-jit. A turn of `tete bench` is
a process, which warms up before it measures; the peer is one process. RESULT.json gets the figures."""
import json
import statistics
import subprocess
import sys
from pathlib import Path

# The options of `tete bench` that a peer knows, too.
KNOWN = {"attention": ["variant", "with", "heads", "d-model", "length", "memory-length", "batch", "dtype", "causal",
                       "forward", "precision", "threads", "whole"],
         "step": ["attention", "layers", "heads", "d-model", "context", "batch", "vocabulary", "precision", "threads"]}
PROGRAM = {"attention": "attention", "step": "gpt"}


def bench(tete, arguments):
    """A turn of ours: what `tete bench --json` says."""
    done = subprocess.run([tete, "bench", *arguments, "--repeats", "1", "--json"], stdout=subprocess.PIPE)
    if done.returncode != 0:  # it has said why
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def peer_arguments(x):
    """The words for a peer that does what x, a turn of ours, did."""
    if x["bench"] == "step":
        sizes = ["layers", "heads", "d_model", "context", "batch", "vocabulary", "threads"]
        words = ["--attention", x["attention"]]
    else:
        sizes = ["heads", "d_model", "length", "batch", "threads"]
        sizes += ["memory_length"] * (x["memory_length"] != x["length"])
        words = ["--variant", x["variant"], "--dtype", x["dtype"]]
        words += [word for amendment in x["with"] for word in ("--with", amendment)]
        words += ["--causal"] * x["causal"] + ["--forward"] * x["forward_only"]
    for size in sizes:
        words += ["--" + size.replace("_", "-"), str(x[size] or 1)]
    return words


class Peer:
    """A process that takes a turn for each line that it is sent (turns.py)."""

    def __init__(self, mode, x):
        engine, way = mode.split("-")
        program = Path(__file__).parent / f"{engine}_{PROGRAM[x['bench']]}.py"
        self.process = subprocess.Popen([sys.executable, program, "--mode", way, *peer_arguments(x)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        said = self.answer()
        if "refusal" in said:
            sys.exit(f"{mode}: {said['refusal']}")
        self.name = f"{said['engine']} {way}"

    def answer(self):
        """The next object that it says; lines that are none are passed over."""
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        sys.exit(f"the peer ended without an answer, with exit code {self.process.wait()}")

    def turn(self):
        print(file=self.process.stdin, flush=True)
        return self.answer()["seconds"]


def seconds(s):
    return f"{s:.3g} s" if s >= 1 else f"{1e3 * s:.3g} ms"


def main():
    if len(sys.argv) < 6 or sys.argv[5] not in KNOWN or not sys.argv[3].isdigit():
        sys.exit(__doc__)
    tete, mode, repeats, result, *arguments = sys.argv[1:]
    for word in arguments[1:]:
        if word.startswith("--") and word[2:].split("=")[0] not in KNOWN[arguments[0]]:
            sys.exit(f"{word}: no peer knows this option")
    peer = Peer(mode, bench(tete, arguments))
    turns = [(bench(tete, arguments), peer.turn()) for _ in range(max(1, int(repeats)))]
    peer.process.kill()
    x = turns[-1][0]
    for key in ("median_s", "percent_of_peak"):
        x[key] = statistics.median(ours[key] for ours, _ in turns)
    x["peer"] = {"mode": mode, "engine": peer.name, "median_s": statistics.median(theirs for _, theirs in turns)}
    x["peer"]["ratio"] = x["peer"]["median_s"] / x["median_s"]
    Path(result).write_text(json.dumps(x, indent=1))
    print(f"| `{' '.join(arguments)}` | {seconds(x['median_s'])} | {peer.name} {seconds(x['peer']['median_s'])} "
          f"| {x['peer']['ratio']:.2f} | {x['percent_of_peak']:.0f}% |", flush=True)


main()
