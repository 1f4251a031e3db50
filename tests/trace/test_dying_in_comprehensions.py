# SPDX-License-Identifier: Apache-2.0
"""Objects with finalizers that die in comprehensions, whose variables may have the names of
variables around them, captured by functions or not: each dies where plain Python lets it die."""

import gc

import pytest

import gramme as G

log = []


class Finalized:
    def __init__(self, n=4):
        self.n = n

    def __del__(self):
        log.append(f"{self.n} died")


@G.compiler.disable
def stop():
    log.append("stop")


CAPTURED = "d = D(9)\nf = lambda: d\n"
END = "\nlog.append('b'); y = x + r + f().n; d = None; log.append('c')"
# Bodies of functions of a tensor x, with D for Finalized.
BODIES = {
    "list": CAPTURED + "r = [d.n for d in [D(1), D(2)]][1]" + END,
    "set": CAPTURED + "r = max({d.n for d in [D(1), D(2)]})" + END,
    "dict": CAPTURED + "r = {d.n: d.n for d in [D(1), D(2)]}[2]" + END,
    "generator": CAPTURED + "r = sum(d.n for d in [D(1), D(2)])" + END,
    "one item": CAPTURED + "r = [d.n for d in [D(1)]][0]" + END,
    "condition": CAPTURED + "r = [d.n for d in [D(1), D(2), D(3)] if d.n > 1][0]" + END,
    "nested": (
        CAPTURED + "r = [[d.n + e.n for d in [D(1), D(2)]] for e in [D(3), D(4)]][1][1]" + END
    ),
    "nested of one name": (
        CAPTURED + "r = [[d.n for d in [D(1), D(2)]] for d in [D(3)]][0][1]" + END
    ),
    "two loops": CAPTURED + "r = [d.n + e.n for e in [D(3), D(4)] for d in [D(1), D(2)]][1]" + END,
    "break inside": CAPTURED + "r = [(d.n, stop())[0] for d in [D(1), D(2)]][1]" + END,
    "assignment": (
        CAPTURED + "r = [(e := d).n for d in [D(1), D(2)]][1]\n" "log.append('a'); e = 1" + END
    ),
    "deleted before": (
        "d = D(9)\n"
        "f = lambda: d\n"
        "del d\n"
        "r = [d.n for d in [D(1), D(2)]]\n"
        "log.append('b'); y = x + r[1]"
    ),
    "not captured": (
        "d = D(9)\n"
        "r = [d.n for d in [D(1), D(2)]]\n"
        "log.append('b'); y = x + r[1]; d = None; log.append('c')"
    ),
    "of no other name": "r = [d.n for d in [D(1), D(2)]]\nlog.append('b'); y = x + r[1]",
    "two names": (
        "a, b = D(8), D(9)\n"
        "f = lambda: (a, b)\n"
        "r = [a.n + b.n for a, b in [(D(1), D(2)), (D(3), D(4))]]\n"
        "log.append('b'); y = x + r[1] + f()[0].n; a = b = None; log.append('c')"
    ),
    "captured inside": (
        CAPTURED + "l = [(lambda: d) for d in [D(1), D(2)]]\n"
        "r = l[1]().n" + END + "\nl = None; log.append('e')"
    ),
    "captured inside, one by one": (
        CAPTURED + "l = [(lambda: d) for d in [D(1), D(2)]]\n"
        "r = l[1]().n" + END + "\nl.pop(); log.append('p'); l.pop(); log.append('e')"
    ),
    "captured in pairs": (
        CAPTURED + "l = {1: [lambda: d, lambda: d]}\n"
        "r = l[1][0]().n" + END + "\nl = f = None; log.append('e')"
    ),
    "class": (
        "class K:\n"
        "  d = D(9)\n"
        "  r = [d.n for d in [D(1), D(2)]]\n"
        "  log.append('b')\n"
        "y = x + K.r[1]; log.append('c')"
    ),
    "callee": (
        "def h(d):\n"
        "  f = lambda: d\n"
        "  r = [d.n for d in [D(1), D(2)]]\n"
        "  log.append('b')\n"
        "  return r[1] + f().n\n"
        "y = x + h(D(9)); log.append('c')"
    ),
    "tensors": CAPTURED + "r = [x + d.n for d in [D(1), D(2)]][1]" + END,
}


def function(body):
    lines = ["def f(x):", *("    " + line for line in body.split("\n")), "    return y"]
    source = "\n".join(lines)
    space = {**globals(), "D": Finalized}
    exec(source, space)
    return space["f"]


def run(f):
    gc.disable()  # what is left of other runs in cycles, functions of a variable that it holds
    log.clear()
    try:
        result = f(G.ones(1)).tolist()
        return list(log), result
    finally:
        gc.enable()


@pytest.mark.parametrize("name", BODIES)
def test_each_dies_where_plain_python_lets_it_die(name):
    want = run(function(BODIES[name]))
    compiled = G.compile(function(BODIES[name]), backend="eager")
    for _ in range(3):
        assert run(compiled) == want


def over(l):
    for d in l:
        1 // (d.n - 2)


FAILING = {
    "list": "[1 // (d.n - 2) for d in [D(1), D(2)]]",
    "set": "{1 // (d.n - 2) for d in [D(1), D(2)]}",
    "nested": "[[1 // (d.n - 2) for d in [e, D(2)]] for e in [D(1), D(3)]]",
    "callee": "over([D(1), D(2)])",
    "callee of two": "(lambda a, b: 1 // 0)(D(1), D(2))",
    "generator": "sum(1 // (d.n - 2) for d in [D(1), D(2)])",
}
AROUND = {"bound": "d = D(9)\n", "captured": CAPTURED, "unbound": ""}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", FAILING)
def test_variables_of_a_frame_that_fails_die_in_their_order(name, around):
    body = AROUND[around] + f"try: {FAILING[name]}\nexcept ZeroDivisionError: log.append('e')"
    body += "\nlog.append('b'); y = x + 1; d = None; log.append('c')"
    want = run(function(body))
    compiled = G.compile(function(body), backend="eager")
    for _ in range(3):
        assert run(compiled) == want
