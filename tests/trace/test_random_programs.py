# SPDX-License-Identifier: Apache-2.0
"""Random programs over tensors, lists, dicts, objects and closures, run plain and compiled.

A program is a list of statements over a few arguments, some of which are aliases of each other, with loops, branches on Python values and calls.  What is compared is
everything that a caller sees: the value, the arguments afterwards with their sharing, the exception.  A break is fine; a different result is not.
GM_RANDOM_PROGRAMS sets how many are tried.
"""

import builtins
import os
import random
import warnings

import pytest
from test_programs import describe

import gramme as G

N = int(os.environ.get("GM_RANDOM_PROGRAMS", "150"))

PRELUDE = '''
class Box:
    kind = 3
    def __init__(self, v):
        self.v = v
    def get(self):
        return self.v
    def put(self, v):
        self.v = v
        return self
    @property
    def both(self):
        return [self.v, self.kind]

shared = 1
def make_counter():
    n = 0
    def up(k=1):
        nonlocal n
        n += k
        return n
    def read():
        return n
    return up, read
up, read = make_counter()
'''


class Writer:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.depth = 1
        self.fresh = self.nested = 0

    def pick(self, *choices):
        self.nested += 1
        plain = [choice for choice in choices if isinstance(choice, str)]
        choice = self.random.choice(plain if plain and self.nested > 6 else choices)
        result = choice() if callable(choice) else choice
        self.nested -= 1
        return result

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def number(self):
        return self.pick(lambda: str(self.random.randint(-2, 4)), "n", "len(xs)", "len(d)", "shared", "read()", "b.kind", "up()", "up(k=2)", "n % 3")

    def tensor(self):
        return self.pick("t", "u", "t", "u", lambda: f"({self.tensor()} + {self.tensor()})", lambda: f"({self.tensor()} * {self.number()})",
                         lambda: f"{self.tensor()}.tanh()", lambda: f"G.where({self.tensor()} > 0, {self.tensor()}, {self.tensor()})",
                         lambda: f"helper({self.tensor()}, {self.number()})", lambda: f"({self.number()} - {self.tensor()})",
                         lambda: f"({self.tensor()}.sum() + {self.tensor()})", lambda: f"{self.tensor()}.view(-1)", lambda: f"{self.tensor()}.detach()")

    def value(self):
        return self.pick(self.number, self.tensor, self.tensor, "xs", "ys", "d", "b", "c", "None", "'s'", lambda: f"[{self.value()}, {self.number()}]",
                         lambda: f"({self.value()}, {self.value()})", lambda: f"{{'p': {self.value()}}}", lambda: f"Box({self.value()})", "b.get()",
                         "c.both", "d.get('k')", "d.get('zz', 5)", "xs[:]", "list(d)", "tuple(xs)", "xs[-1]", "sorted(d)", "[q for q in ys]",
                         lambda: f"(lambda q, r={self.number()}: (q, r))({self.value()})")

    def statement(self):
        self.pick(
            lambda: self.line(f"t = {self.tensor()}"), lambda: self.line(f"u = {self.tensor()}"), lambda: self.line(f"n = {self.number()}"),
            lambda: self.line(f"xs.append({self.value()})"), lambda: self.line(f"ys.insert({self.number()}, {self.value()})"),
            lambda: self.line(f"xs[{self.pick('0', '-1')}] = {self.value()}"), lambda: self.line("xs.pop()"), lambda: self.line("ys.reverse()"),
            lambda: self.line(f"xs += [{self.value()}]"), lambda: self.line("del ys[0]"), lambda: self.line("xs.clear()"),
            lambda: self.line(f"ys.extend(({self.value()}, 1))"), lambda: self.line("xs, ys = ys, xs"),
            lambda: self.line(f"d['{self.pick('k', 'm', 'w')}'] = {self.value()}"), lambda: self.line("d.pop('k', None)"),
            lambda: self.line(f"d.setdefault('q', {self.value()})"), lambda: self.line(f"d.update(m={self.value()})"),
            lambda: self.line(f"b.v = {self.value()}"), lambda: self.line(f"b.put({self.value()}).extra = {self.number()}"),
            lambda: self.line("b, c = c, b"), lambda: self.line(f"c.kind = {self.number()}"), lambda: self.line("b.__class__.kind"),
            lambda: self.line(f"t.{self.pick('add_', 'mul_')}({self.number()})"), lambda: self.line(f"t[0] = {self.number()}"),
            lambda: self.line(f"t += {self.number()}"), lambda: self.line(f"out.append({self.value()})"), lambda: self.line(f"out.append(({self.value()}, t is u, b is c, xs is ys))"),
            self.branch, self.loop, self.function, self.write_global)

    def write_global(self):
        self.line(f"set_shared({self.number()})")

    def block(self):
        self.depth += 1
        self.line("n = n + 0")
        for _ in range(self.random.randint(1, 3)):
            self.statement()
        self.depth -= 1

    def branch(self):
        if self.depth > 3:
            return
        self.line(f"if {self.pick('n > 1', 'len(xs) > 2', 'b is c', 't is u', 'shared', 'b.kind == 3', 'not d')}:")
        self.block()
        if self.random.random() < 0.5:
            self.line("else:")
            self.block()

    def loop(self):
        if self.depth > 2:
            return
        self.line(self.pick("for i in range(3):", "for q in list(xs)[:2]:", "for i, q in enumerate(ys[:2]):", "for k, q in list(d.items()):"))
        self.block()

    def function(self):
        if self.depth > 2:
            return
        self.fresh += 1
        name = f"f{self.fresh}"
        self.line(f"def {name}(a, *rest, k=n):")
        self.depth += 1
        self.line(f"xs.append({self.value()})")
        self.line(f"return {self.pick('a', 'k', 'rest', '(t, a)', 'xs[-1]')}")
        self.depth -= 1
        self.line(f"out.append({name}({self.value()}, {self.value()}))")
        if self.random.random() < 0.2:
            self.line(f"out.append({name})")

    def program(self):
        for _ in range(self.random.randint(3, 12)):
            self.statement()
        body = "\n".join(self.lines)
        return (PRELUDE + "def set_shared(v):\n    global shared\n    shared = v\n"
                "def helper(a, k=2, *, s=1):\n    return a * k + s\n"
                "def root(t, u, xs, ys, d, b, c, n):\n    out = []\n" + body + "\n    return out, t, u, xs, ys, d, b, c, n\n")


def run(text, seed, compile):
    space = {"G": G}
    exec(builtins.compile(text, f"program{seed}", "exec"), space)
    dice = random.Random(seed)
    f = compile(space["root"])
    calls = []
    for _ in range(3):
        t = G.arange(3.0)
        u = t if dice.random() < 0.2 else G.ones(3) * 0.5
        xs = [1, G.ones(3), "a"]
        ys = xs if dice.random() < 0.2 else [2.5, [7]]
        d = {"k": 1, "m": xs if dice.random() < 0.3 else None}
        b = space["Box"](dice.choice([1, t, xs]))
        c = b if dice.random() < 0.3 else space["Box"](b)
        arguments = (t, u, xs, ys, d, b, c, dice.choice([0, 2]))
        try:
            result = f(*arguments)
        except Exception as error:
            result = error
        calls.append((result, arguments, space["shared"], space["read"]()))
    return describe(calls, {})


@pytest.mark.parametrize("seed", range(N))
def test_random_program(seed):
    text = Writer(seed).program()
    plain = run(text, seed, lambda fn: fn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = run(text, seed, lambda fn: G.compile(fn, backend="eager"))
    assert got == plain, text
