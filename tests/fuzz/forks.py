#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forks while other threads compile and run: no child may hang, and each computes what its parent
does.

Threads make functions and call them, with code from the quick back end at once and from the C
compiler in the background; the main thread forks.  A child calls a function that its parent has
compiled, one that it has not, and a backward.  Every twentieth fork is the first of a new process
whose other thread is inside of its first compilation.

    ./build/in-tree python3 tests/fuzz/forks.py --count 1000
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time

import gramme

HANG_S = 60

FIRST = """
import os, signal, sys, threading, time
import gramme
def f(x): return gramme.tanh(x) * 2 + x
x = gramme.arange(4.0)
want = f(x).tolist()
thread = threading.Thread(target=lambda: gramme.compile(f)(x))
thread.start()
time.sleep(float(sys.argv[1]))
child = os.fork()
if child == 0:
    def g(x): return gramme.tanh(x) * 2 + x
    os._exit(0 if gramme.compile(g)(x).tolist() == want and gramme.compile(f)(x).tolist() == want else 1)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def make(number):
    space = {"gramme": gramme}
    exec(f"def f(x): return (gramme.tanh(x) * {number} + x).sum()", space)
    return space["f"]


def work(stop, counter):
    x = gramme.arange(64.0)
    while not stop.is_set():
        counter[0] += 1
        f = gramme.compile(make(counter[0]))
        for _ in range(4):
            f(x)


def child(x, known, number):
    w = gramme.arange(64.0).requires_grad_()
    f = make(number)
    compiled = gramme.compile(f)
    good = known(x).tolist() == make(1)(x).tolist() and compiled(x).tolist() == f(x).tolist()
    compiled(w).backward()
    v = gramme.arange(64.0).requires_grad_()
    f(v).backward()
    return good and w.grad.tolist() == v.grad.tolist()


def wait_for(pid):
    """The exit status; None: it hangs, and was killed."""
    end = time.monotonic() + HANG_S
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def first(delay):
    try:
        return subprocess.run(
            [sys.executable, "-c", FIRST, str(delay)], timeout=HANG_S, start_new_session=True
        ).returncode
    except subprocess.TimeoutExpired:
        return None


def campaign(count, threads, seed):
    import random

    draw = random.Random(seed)
    stop, counter, x = threading.Event(), [1], gramme.arange(64.0)
    known = gramme.compile(make(1))
    known(x)
    workers = [threading.Thread(target=work, args=(stop, counter)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    hangs = wrong = 0
    try:
        for number in range(count):
            if number % 20 == 19:
                status = first(draw.uniform(0, 0.15))
            else:
                time.sleep(draw.uniform(0, 0.01))
                pid = os.fork()
                if pid == 0:
                    good = False
                    try:
                        good = child(x, known, 1000000 + number)
                    finally:
                        os._exit(0 if good else 1)
                status = wait_for(pid)
            hangs += status is None
            wrong += status not in (None, 0)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    return hangs, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    hangs, wrong = campaign(options.count, options.threads, options.seed)
    print(f"{options.count} forks, {hangs} hangs, {wrong} wrong")
    return 1 if hangs or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
