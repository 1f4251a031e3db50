# SPDX-License-Identifier: Apache-2.0
"""Random programs over tensors, lists, dicts, objects and closures, run plain and compiled.

A program is a list of statements over a few arguments, some of which are aliases of each other,
with loops, branches on Python values and calls.  What is compared is
everything that a caller sees: the value, the arguments afterwards with their sharing, the
exception.  A break is fine; a different result is not. GM_RANDOM_PROGRAMS sets how many are tried.
"""

import builtins
import os
import random
import warnings

import pytest
from test_programs import describe

import gramme as G

N = int(os.environ.get("GM_RANDOM_PROGRAMS", "150"))

PRELUDE = """
import contextlib, functools, itertools, operator
from collections import OrderedDict, defaultdict, namedtuple

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

class Own(Exception):
    def __init__(self, code, *more):
        super().__init__(code, *more)
        self.code = code

class Guard:
    def __init__(self, log, catches=()):
        self.log, self.catches = log, catches
    def __enter__(self):
        self.log.append("enter")
        return self
    def __exit__(self, kind, value, traceback):
        self.log.append(("exit", kind and kind.__name__, repr(getattr(value, "args", None)) if not isinstance(value, Own) else value.code is None))
        return kind is not None and issubclass(kind, self.catches)

@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield log
    except ValueError as e:
        log.append(("caught", e.args))
    finally:
        log.append("out")

class Vec:
    def __init__(self, x):
        self.x = x
    def __add__(self, o):
        return Vec(self.x + (o.x if isinstance(o, Vec) else o))
    def __radd__(self, o):
        return Vec(o + self.x)
    def __iadd__(self, o):
        self.x = self.x + 1
        return self
    def __eq__(self, o):
        return isinstance(o, Vec) and self.x is o.x
    def __len__(self):
        return 2
    def __getitem__(self, i):
        if i > 1:
            raise IndexError(i)
        return self.x
    def __iter__(self):
        yield self.x
        yield "v"
    def __contains__(self, o):
        return o == 3
    def __call__(self, q=1):
        return q, self.x
    def __getattr__(self, name):
        if name == "soft":
            return "soft"
        raise AttributeError(name)

class Items(list):
    def append(self, v):
        super().append(v)
        self.last = v
    def __setitem__(self, i, v):
        super().__setitem__(i, (v,))

class Words(dict):
    def __missing__(self, k):
        return ("no", k)
    def __setitem__(self, k, v):
        super().__setitem__(k, v)
        self.stored = k

Pair = namedtuple("Pair", "a b")

def count_to(n, log):
    got = None
    for i in range(n):
        got = yield i if got is None else (i, got)
        log.append(got)
    return "end"

def relay(n, log):
    r = yield from count_to(n, log)
    yield r

def risky(k, log):
    try:
        if k == 0:
            raise Own(k, "zero")
        if k == 1:
            return {}["missing"]
        if k == 2:
            return log[99]
        return "fine"
    finally:
        log.append(("risky", k))
"""


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
        return self.pick(
            lambda: str(self.random.randint(-2, 4)),
            "n",
            "len(xs)",
            "len(d)",
            "shared",
            "read()",
            "b.kind",
            "up()",
            "up(k=2)",
            "n % 3",
        )

    def tensor(self):
        return self.pick(
            "t",
            "u",
            "t",
            "u",
            lambda: f"({self.tensor()} + {self.tensor()})",
            lambda: f"({self.tensor()} * {self.number()})",
            lambda: f"{self.tensor()}.tanh()",
            lambda: f"G.where({self.tensor()} > 0, {self.tensor()}, {self.tensor()})",
            lambda: f"helper({self.tensor()}, {self.number()})",
            lambda: f"({self.number()} - {self.tensor()})",
            lambda: f"({self.tensor()}.sum() + {self.tensor()})",
            lambda: f"{self.tensor()}.view(-1)",
            lambda: f"{self.tensor()}.detach()",
        )

    def value(self):
        return self.pick(
            self.number,
            self.tensor,
            self.tensor,
            "xs",
            "ys",
            "d",
            "b",
            "c",
            "None",
            "'s'",
            lambda: f"[{self.value()}, {self.number()}]",
            lambda: f"({self.value()}, {self.value()})",
            lambda: f"{{'p': {self.value()}}}",
            lambda: f"Box({self.value()})",
            "b.get()",
            "c.both",
            "d.get('k')",
            "d.get('zz', 5)",
            "xs[:]",
            "list(d)",
            "tuple(xs)",
            "xs[-1]",
            "sorted(d)",
            "[q for q in ys]",
            lambda: f"(lambda q, r={self.number()}: (q, r))({self.value()})",
        )

    def statement(self):
        self.pick(
            lambda: self.line(f"t = {self.tensor()}"),
            lambda: self.line(f"u = {self.tensor()}"),
            lambda: self.line(f"n = {self.number()}"),
            lambda: self.line(f"xs.append({self.value()})"),
            lambda: self.line(f"ys.insert({self.number()}, {self.value()})"),
            lambda: self.line(f"xs[{self.pick('0', '-1')}] = {self.value()}"),
            lambda: self.line("xs.pop()"),
            lambda: self.line("ys.reverse()"),
            lambda: self.line(f"xs += [{self.value()}]"),
            lambda: self.line("del ys[0]"),
            lambda: self.line("xs.clear()"),
            lambda: self.line(f"ys.extend(({self.value()}, 1))"),
            lambda: self.line("xs, ys = ys, xs"),
            lambda: self.line(f"d['{self.pick('k', 'm', 'w')}'] = {self.value()}"),
            lambda: self.line("d.pop('k', None)"),
            lambda: self.line(f"d.setdefault('q', {self.value()})"),
            lambda: self.line(f"d.update(m={self.value()})"),
            lambda: self.line(f"b.v = {self.value()}"),
            lambda: self.line(f"b.put({self.value()}).extra = {self.number()}"),
            lambda: self.line("b, c = c, b"),
            lambda: self.line(f"c.kind = {self.number()}"),
            lambda: self.line("b.__class__.kind"),
            lambda: self.line(f"t.{self.pick('add_', 'mul_')}({self.number()})"),
            lambda: self.line(f"t[0] = {self.number()}"),
            lambda: self.line(f"t += {self.number()}"),
            lambda: self.line(f"out.append({self.value()})"),
            lambda: self.line(f"out.append(({self.value()}, t is u, b is c, xs is ys))"),
            self.branch,
            self.loop,
            self.function,
            self.write_global,
            self.try_block,
            self.try_block,
            self.with_block,
            self.with_block,
            self.generator,
            self.generator,
            self.objects,
            self.objects,
            self.containers,
            self.containers,
            self.builtins,
            self.builtins,
            self.raising,
        )

    def error(self):
        return self.pick(
            "Own",
            "KeyError",
            "IndexError",
            "(ValueError, LookupError)",
            "Exception",
            "ValueError",
            "AttributeError",
            "TypeError",
        )

    def raising(self):
        if self.depth < 2:
            return
        self.line(
            self.pick(
                f"raise Own({self.number()})",
                "raise ValueError('v', n)",
                "{}['q']",
                "[][n]",
                "xs.absent",
                "risky(n % 4, out)",
                "int('z')",
                "raise KeyError",
                "None + 1",
                "a, b = xs, 1, 2",
                "assert n > 2, 'small'",
                "del missing_one",
                "undefined_name",
                "next(iter(()))",
                "raise",
                "1 // (n - n)",
                "len(7)",
                "operator.getitem([], 4)",
            )
        )

    def try_block(self):
        if self.depth > 3:
            return
        self.line("try:")
        self.block()
        if self.random.random() < 0.7:
            self.depth += 1
            self.raising()
            self.depth -= 1
        handlers = self.random.randint(0, 2)
        for i in range(handlers):
            self.line(f"except {self.error()} as e{self.depth}:")
            self.depth += 1
            self.line(
                f"out.append((type(e{self.depth - 1}).__name__, repr(e{self.depth - 1}.args) if "
                f"not isinstance(e{self.depth - 1}, Own) else e{self.depth - 1}.code))"
            )
            if self.random.random() < 0.2:
                self.line(
                    self.pick(
                        "raise",
                        f"raise TypeError('again') from e{self.depth - 1}",
                        "raise ValueError",
                    )
                )
            self.depth -= 1
            self.block()
        if handlers and self.random.random() < 0.3:
            self.line("else:")
            self.block()
        if handlers == 0 or self.random.random() < 0.4:
            self.line("finally:")
            self.block()

    def with_block(self):
        if self.depth > 3:
            return
        self.line(
            self.pick(
                "with Guard(out):",
                "with Guard(out, (LookupError, Own)) as g:",
                "with managed(out):",
                "with managed(out) as m, Guard(out, Exception):",
                "with contextlib.suppress(LookupError, Own):",
                "with G.no_grad():",
                "with contextlib.nullcontext(n):",
            )
        )
        self.block()
        if self.random.random() < 0.5:
            self.depth += 1
            self.raising()
            self.depth -= 1

    def generator(self):
        self.line(
            self.pick(
                f"out.append(list({self.source()}))",
                f"out.append([q for q in {self.source()} if q != 1])",
                (
                    f"it = {self.source()}\n{'    ' * self.depth}out.append((next(it, 'none'), "
                    "next(it, 'none')))"
                ),
                "it = relay(3, out)\n"
                + "    " * self.depth
                + "out.append((next(it), it.send('s'), list(it)))",
                "it = count_to(2, out)\n"
                + "    " * self.depth
                + "next(it); it.close(); out.append(list(it))",
                f"out.append(dict(zip('ab', {self.source()})))",
                f"out.append(tuple({self.source()})[:2])",
                f"p, *q = {self.source()}\n{'    ' * self.depth}out.append((p, q))",
                f"out.append(functools.reduce(lambda p, q: (p, q), {self.source()}, n))",
                f"out.append(sum(1 for _ in {self.source()}))",
                "out.append(any(q for q in (0, n, t.shape[0])))",
            )
        )

    def source(self):
        return self.pick(
            "count_to(2, out)",
            "relay(2, out)",
            "(q for q in (1, 'b', n))",
            "iter(Vec(n))",
            "iter(['x', 1])",
            "itertools.chain([1], 'ab', ys[:1])",
            "itertools.islice(itertools.count(n, 2), 3)",
            "itertools.accumulate([1, 2, n])",
            "itertools.zip_longest('ab', [1], fillvalue=n)",
            "itertools.product('ab', [n, 2])",
            "itertools.takewhile(lambda q: q < 2, [0, 1, 5, 1])",
            "itertools.islice(itertools.cycle([n, 'c']), 3)",
            "itertools.repeat(n, 2)",
            "itertools.starmap(lambda p, q: (q, p), [(1, n), (2, 3)])",
            "itertools.pairwise([n, 1, 2])",
            "itertools.combinations([1, n, 'z'], 2)",
            "map(lambda p, q: (p, q), relay(2, out), 'xy')",
            "filter(None, [0, n, 3])",
            "reversed([n, 1])",
            "enumerate(count_to(2, out), n)",
            "itertools.compress('abc', [1, 0, 1])",
            "itertools.dropwhile(lambda q: q != n, [2, n, 1])",
            "itertools.filterfalse(lambda q: q == n, [n, 4])",
            "(p + q for p in 'ab' for q in 'cd')",
            "iter(lambda k=[3]: k.pop() if k else 0, 0)",
        )

    def objects(self):
        self.line(
            self.pick(
                f"v = Vec({self.value()})",
                "out.append((v == Vec(v.x), v == 3, 3 in v, len(v), list(v), bool(v)))",
                "out.append(v.soft)",
                "out.append(getattr(v, 'hard', 'default'))",
                f"out.append(v({self.value()}))",
                "v += 1",
                "out.append(hasattr(v, 'hard'))",
                f"l.append({self.value()})",
                f"l[0] = {self.value()}",
                "out.append((l, l[-1], len(l), l == [1], type(l).__name__, vars(l)))",
                "l.extend([n]); l.insert(0, 'i')",
                "l += [n]",
                "l = Items([n, 's'])",
                "l.sort(key=str) if n == 99 else l.reverse()",
                f"w['{self.pick('k', 'z')}'] = {self.value()}",
                "out.append((w['k'], w['never'], len(w), list(w), 'k' in w, w.get('z')))",
                "w = Words(a=n)",
                "w.update(b=n); w.pop('a', None)",
                f"out.append(Pair({self.value()}, n)._replace(b=1).b)",
                "out.append(Pair(n, 2) == (n, 2))",
                f"out.append(f'{{n:>4}} {{n!r}} {{read()}}' + str({self.number()}))",
                "out.append(functools.partial(helper, t, s=n)(2))",
                (
                    "out.append(operator.attrgetter('kind')(b)) if n == 99 else "
                    "out.append(operator.add(n, 1))"
                ),
                "del v.x; v.x = n",
                "out.append(isinstance(v, (Vec, int)))",
            )
        )

    def containers(self):
        self.line(
            self.pick(
                "o.move_to_end('a')",
                f"o['{self.pick('a', 'n')}'] = {self.value()}",
                "o.move_to_end('b', last=False)",
                "out.append((list(o), o.popitem()))",
                "o.setdefault('b', n); o['b'] = 1",
                "out.append(list(o.items()))",
                "df['p'].append(n)",
                f"df['{self.pick('p', 'r')}'] = [{self.value()}]",
                "out.append(dict(df))",
                "out.append(df.get('none'))",
                "s = {n, 'a', 2}",
                "s.add(n); s.discard('a')",
                "out.append((n in s, len(s), sorted(map(str, s))))",
                "out.append(len(s | {9}), ) if n == 99 else out.append(s >= {n})",
                "out.append(s & {n, 2} == {2})",
                (
                    "out.append(sorted(xs, key=id) is xs) if n == 99 else out.append(sorted([3, n, "
                    "1], key=lambda q: -q, reverse=True))"
                ),
                "out.append(min([n, 2, 0], key=lambda q: (q - 1) ** 2))",
                "out.append(max('ab', default=n))",
                "xs[:] = ys[:2]",
                "del xs[1:]",
                "xs *= 2",
                "out.append(xs.index(n))" if self.depth > 1 else "out.append(xs.count(n))",
                "out.append(xs + ys if n else ys * 2)",
                "d.popitem() if len(d) > 1 else None",
                "out.append(list(reversed(d)))",
                "out.append(d.items() is None)",
                "out.append({**d, 'z': n}.keys() is not None)",
                "out.append([*xs, *d])",
                "first, *rest = [n, *ys]\n" + "    " * self.depth + "out.append((first, rest))",
                "out.append(d == dict(d))",
                "q = [n]; q.extend(q); out.append(q)",
                "out.append(list(dict.fromkeys('aba', n)) if n == 99 else 0)",
                "xs.remove(n)" if self.depth > 1 else "xs.count(1)",
                "out.append('-'.join(str(q) for q in (n, 1)))",
                "out.append(xs[::-1])",
                "out.append((1, 2, n)[-2:])",
            )
        )

    def builtins(self):
        self.line(
            self.pick(
                "out.append(divmod(7, n + 3))",
                "out.append([abs(n), round(2.5), pow(2, 3), bin(5), chr(97), ord('b')])",
                "out.append('abc'.upper().replace('A', str(n)).split('B'))",
                "out.append(b'ab' + bytes([1]))",
                "out.append((1 + 2j) * n)" if False else "out.append(n / 4)",
                "out.append(any([n, 0]) and all([]))",
                "out.append(list(zip([1, n], 'ab')))",
                "out.append(dict(a=n, **d).get('a'))",
                "out.append(callable(b.get))",
                "out.append(repr([n, 'q', None, 2.5]))",
                "out.append('%s-%r' % (n, 'k'))",
                "out.append(int('12') + n)",
                "out.append(isinstance(n, (int, str)))",
                "out.append(type(xs) is list)",
                "out.append(list(map(lambda q: q, xs)) == xs) if n == 99 else None",
                f"match {self.pick('n', 'xs', 'd', 'b', '(1, 2)')}:\n"
                + "\n".join(
                    "    " * (self.depth + 1) + text
                    for text in (
                        "case 0 | 2:\n" + "    " * (self.depth + 2) + "out.append('num')",
                        "case [first, *_]:\n" + "    " * (self.depth + 2) + "out.append(first)",
                        "case {'k': got}:\n" + "    " * (self.depth + 2) + "out.append(got)",
                        "case Box(v=inner):\n" + "    " * (self.depth + 2) + "out.append(inner)",
                        "case _:\n" + "    " * (self.depth + 2) + "out.append('other')",
                    )
                ),
            )
        )

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
        self.line(
            "if "
            f"{self.pick('n > 1', 'len(xs) > 2', 'b is c', 't is u', 'shared', 'b.kind == 3', 'not d')}:"
        )
        self.block()
        if self.random.random() < 0.5:
            self.line("else:")
            self.block()

    def loop(self):
        if self.depth > 2:
            return
        self.line(
            self.pick(
                "for i in range(3):",
                "for q in list(xs)[:2]:",
                "for i, q in enumerate(ys[:2]):",
                "for k, q in list(d.items()):",
            )
        )
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
        return (
            PRELUDE + "def set_shared(v):\n    global shared\n    shared = v\n"
            "def helper(a, k=2, *, s=1):\n    return a * k + s\n"
            "def root(t, u, xs, ys, d, b, c, n, v, l, w, o, df, s):\n    out = []\n"
            + body
            + "\n    return out, t, u, xs, ys, d, b, c, n, v, l, w, o, df\n"
        )


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
        v = space["Vec"](dice.choice([1, t]))
        l = space["Items"]([1, dice.choice(["a", xs])])
        o = space["OrderedDict"](a=1, b=t)
        if dice.random() < 0.3:
            o.move_to_end("a")
        df = space["defaultdict"](list, p=xs if dice.random() < 0.3 else [])
        arguments = (
            t,
            u,
            xs,
            ys,
            d,
            b,
            c,
            dice.choice([0, 2]),
            v,
            l,
            space["Words"](k=1),
            o,
            df,
            {1, "a"},
        )
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
