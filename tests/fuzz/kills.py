#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of processes that fill one cache: what is left must be whole, and
temporary folders must go.

Four writers at a time compile functions with the C compiler and store them, in a cache and a TMPDIR
of the campaign's own; each is killed after a random time, and another one takes its place.  Now and
then, and at the end, every entry is checked, a process reads what is there and compares it with
plain execution, and no folder of a dead process may be left once another one has opened the back
end.

    ./build/in-tree python3 tests/fuzz/kills.py --count 1000
"""

import argparse
import glob
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import gramme

WRITERS = 4


def make(number):
    space = {"gramme": gramme}
    exec(f"def f(x): return gramme.tanh(x) * {number}.5 + x", space)
    return space["f"]


def write(seed, first, functions):
    draw, x = random.Random(seed), gramme.arange(16.0)
    while True:
        f = make(first + draw.randrange(functions))
        if gramme.compile(f, backend="cc")(x).tolist() != f(x).tolist():
            os._exit(1)


def start(seed, first, functions):
    pid = os.fork()
    if pid == 0:
        try:
            write(seed, first, functions)
        finally:
            os._exit(2)
    return pid


READ = """
import gramme, sys
sys.path.insert(0, sys.argv[1])
import kills
x = gramme.arange(16.0)
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    f = kills.make(number)
    if gramme.compile(f, backend="cc")(x).tolist() != f(x).tolist():
        sys.exit("a stored function is wrong")
counts = gramme.compiler.cache_counts()
if counts["refused"]:
    sys.exit(f"entries were refused: {counts}")
"""


def check(program, first, functions):
    """What is wrong, a list of texts."""
    wrong = []
    verified = subprocess.run([program, "cache", "verify"], capture_output=True, text=True)
    if verified.returncode:
        wrong.append("cache verify: " + verified.stdout + verified.stderr)
    here = os.path.dirname(os.path.abspath(__file__))
    read = subprocess.run(
        [sys.executable, "-c", READ, here, str(first), str(first + functions)],
        capture_output=True,
        text=True,
    )
    if read.returncode:
        wrong.append("reading: " + read.stderr)
    return wrong


def leftovers(temporary):
    return glob.glob(os.path.join(temporary, "gramme-cc-*"))


def campaign(count, seed, program, every, functions):
    """(processes killed, folders that the dead left before they were reaped, what is wrong)"""
    draw, folder = random.Random(seed), tempfile.mkdtemp(prefix="kills-")
    cache, temporary = os.path.join(folder, "cache"), os.path.join(folder, "tmp")
    os.mkdir(temporary, 0o700)
    kept = {name: os.environ.get(name) for name in ("GRAMME_CACHE", "GRAMME_CACHE_DIR", "TMPDIR")}
    os.environ.update(GRAMME_CACHE="1", GRAMME_CACHE_DIR=cache, TMPDIR=temporary)
    wrong, most, running = [], 0, {}
    try:
        gramme.compile(make(-1), backend="cc")(
            gramme.arange(16.0)
        )  # so that writers need not load the back end
        for number in range(count):
            while len(running) < WRITERS:
                running[
                    start(draw.random(), number // WRITERS, functions)
                ] = time.monotonic() + draw.uniform(0, 0.6)
            pid = min(running, key=running.get)
            time.sleep(max(0, running.pop(pid) - time.monotonic()))
            os.kill(pid, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if status != -signal.SIGKILL:
                wrong.append(f"a writer ended with {status}")
            most = max(most, len(leftovers(temporary)))
            if number % every == every - 1:
                wrong += check(program, number // WRITERS, functions)
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        wrong += check(program, count // WRITERS, functions)
        time.sleep(0.5)  # compilers of the dead end by themselves
        wrong += check(program, count // WRITERS, functions)
        if leftovers(temporary):
            wrong.append(f"left behind: {leftovers(temporary)}")
        return most, wrong
    finally:
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=200, help="kills between two checks")
    parser.add_argument(
        "--functions",
        type=int,
        default=6,
        help="that the writers of one time compile: so few that they meet at one entry",
    )
    parser.add_argument("--program", default=shutil.which("gramme") or "gramme")
    options = parser.parse_args()
    most, wrong = campaign(
        options.count, options.seed, options.program, options.every, options.functions
    )
    for text in wrong[:20]:
        print("WRONG", text)
    print(f"{options.count} kills, at most {most} folders at once, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
