#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals at random moments of compiled calls: recording, lowering, a C compiler's run, kernels,
what stands between the parts of a function.

A handler raises an exception.  It must come out of the call, no block may stay open, no effect may
be missing before another one, and the function must be right when it is called again.  The states
that plain Python can leave are found by raising at each line of the plain program.

    ./build/in-tree python3 tests/fuzz/interrupts.py --count 1000
"""

import argparse
import random
import signal
import sys
import time
import warnings

import gramme


class Late(Exception):
    pass


class Block:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")

    def __exit__(self, *error):
        self.log.append("out")


def straight(x, log, n):
    for i in range(n):
        x = x * 1.0001 + i
    log.append("a")
    return x


def blocks(x, log, n):
    try:
        log.append("a")
        with Block(log):
            for i in range(n):
                x = x * 1.0001 + i
            gramme._dynamo.graph_break()
            log.append("b")
            for i in range(n):
                x = x * 1.0001 - i
            gramme._dynamo.graph_break()
            x = x + 1
        log.append("c")
    finally:
        log.append("d")
    return x


def inner(x, log, n):
    for i in range(n):
        x = x + i
    gramme._dynamo.graph_break()
    log.append("i")
    return x * 2


def calls(x, log, n):
    with Block(log):
        x = inner(x, log, n)
        x = inner(x, log, n)
    return x


def loop(x, log, n):
    for i in range(3):
        try:
            x = x * n
            gramme._dynamo.graph_break()
            log.append(f"r{i}")
        finally:
            log.append("f")
    return x


PROGRAMS = [straight, blocks, calls, loop]
ROUNDS = 100  # of the inner loops


def stopped_at(f, x, stop):
    """The log of a plain call in which the exception comes before the line that is executed as
    number `stop`; None: there is no such line."""
    log, lines = [], 0

    def trace(frame, event, argument):
        nonlocal lines
        if frame.f_code.co_filename != __file__:
            return None
        if event == "line":
            lines += 1
            if lines == stop:
                raise Late
        return trace

    sys.settrace(trace)
    try:
        f(x, log, 1)
        return None
    except Late:
        return tuple(log)
    finally:
        sys.settrace(None)


def plain_states(f, x):
    """Every log that plain execution can leave, and the whole one."""
    log, states, stop = [], set(), 1
    f(x, log, 1)
    while (state := stopped_at(f, x, stop)) is not None:
        states.add(state)
        stop += 1
    return states, tuple(log)


class Campaign:
    def __init__(self, seed, backends):
        self.random, self.backends = random.Random(seed), backends
        self.fired, self.worst, self.counts, self.wrong = None, 0.0, {}, []
        self.x = gramme.arange(8.0)
        self.known = {f: (plain_states(f, self.x), f(self.x, [], ROUNDS)) for f in PROGRAMS}

    def handler(self, number, frame):
        self.fired = time.perf_counter()
        raise Late

    def length(self, f, backend):
        """Seconds of an undisturbed first call."""
        gramme.compiler.reset()
        start = time.perf_counter()
        gramme.compile(f, backend=backend)(self.x, [], ROUNDS)
        return time.perf_counter() - start

    def once(self, f, backend, delay):
        (states, whole), value = self.known[f]
        log, came = [], False
        if self.random.random() < 0.8:
            gramme.compiler.reset()  # else the calls may be warm
        compiled = gramme.compile(f, backend=backend)
        self.fired = None
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            compiled(self.x, log, ROUNDS)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Late:
            came = True
            self.worst = max(self.worst, time.perf_counter() - self.fired)
        if self.fired is not None and not came:
            self.wrong.append((f.__name__, backend, delay, "the exception is lost"))
        if tuple(log) not in states and tuple(log) != whole:
            self.wrong.append((f.__name__, backend, delay, f"the state is {log}"))
        again = []
        if compiled(self.x, again, ROUNDS).tolist() != value.tolist() or tuple(again) != whole:
            self.wrong.append((f.__name__, backend, delay, f"the next call is wrong: {again}"))
        self.counts["interrupted" if came else "done"] = (
            self.counts.get("interrupted" if came else "done", 0) + 1
        )

    def run(self, count):
        before = signal.signal(signal.SIGALRM, self.handler)
        try:
            lengths = {(f, b): self.length(f, b) for f in PROGRAMS for b in self.backends}
            for _ in range(count):
                f, backend = self.random.choice(PROGRAMS), self.random.choice(self.backends)
                self.once(f, backend, max(self.random.uniform(0, 1.1) * lengths[f, backend], 1e-6))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backends", default="eager,tcc,cc,auto")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    there = gramme.compiler.list_backends()
    campaign = Campaign(options.seed, [b for b in options.backends.split(",") if b in there])
    campaign.run(options.count)
    for row in campaign.wrong[:20]:
        print("WRONG", *row)
    print(
        f"{options.count} calls, {campaign.counts.get('interrupted', 0)} interrupted, "
        f"{len(campaign.wrong)} wrong, the longest wait {1000 * campaign.worst:.1f} ms"
    )
    return 1 if campaign.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
