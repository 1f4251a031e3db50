# SPDX-License-Identifier: Apache-2.0
"""Iterators of every kind of CPython's own that come from outside of a compiled function: the items
that it takes, where it leaves them, and what it does when what they walk has changed."""

import collections
import itertools
import types

import pytest

import gramme as G
from stress import counted

X = G.ones(2)


def odd(v):
    return v % 2


def half(v, w=2):
    return v / w


KINDS = {
    "list": lambda: iter([1.0, 2.0, 3.0]),
    "reversed list": lambda: reversed([1.0, 2.0, 3.0]),
    "tuple": lambda: iter((1.0, 2.0, 3.0)),
    "range": lambda: iter(range(3, 9, 2)),
    "negative range": lambda: iter(range(3, -9, -4)),
    "empty range": lambda: iter(range(0)),
    "count": lambda: itertools.islice(itertools.count(2), 3),
    "str": lambda: map(ord, "aÄ\u0394"),
    "bytes": lambda: iter(b"abc"),
    "keys": lambda: iter({1: 5, 2: 6, 3: 7}),
    "values": lambda: iter({"a": 5, "b": 6.5, "c": G.ones(2)}.values()),
    "set": lambda: iter({3, 1, 2}),
    "frozenset": lambda: iter(frozenset([30, 10, 2])),
    "map": lambda: map(half, [1, 2, 3]),
    "map over two": lambda: map(half, [1, 2, 3], range(1, 9)),
    "filter": lambda: filter(odd, [1, 2, 3, 5]),
    "filter of nothing": lambda: filter(None, [0, 2, 0, 5]),
    "map over a map": lambda: map(half, map(half, range(4))),
    "deque": lambda: iter(collections.deque([1, 2, 3])),
    "generator": lambda: (v for v in (1, 2, 3)),
    "ordered dict": lambda: iter(collections.OrderedDict({1: 2, 3: 4})),
    "reversed dict": lambda: reversed({1: 2, 3: 4}),
    "callable": lambda: iter(itertools.count().__next__, 3),
    "cycle": lambda: itertools.islice(itertools.cycle([1, 2]), 5),
    "chain": lambda: itertools.chain([1, 2], [3]),
}
PAIRS = {
    "items": lambda: iter({1: 5.0, 2: 6.0, 3: 7.0}.items()),
    "items by name": lambda: zip(range(3), {"a": 5, "b": 6, "c": 7}.values()),
    "zip": lambda: zip([1, 2, 3], range(5)),
    "strict zip": lambda: zip([1, 2, 3], range(2), strict=True),
    "zip of one twice": lambda: zip(*[iter([1, 2, 3, 4, 5])] * 2),
    "enumerate": lambda: enumerate([5.0, 6.0, 7.0]),
    "enumerate from 3": lambda: enumerate(iter([5.0, 6.0, 7.0]), 3),
    "enumerate of a zip": lambda: ((a, b) for a, (b, _) in enumerate(zip([4, 5], [6, 7]))),
    "enumerate from afar": lambda: enumerate([5.0, 6.0], 2**70),
}


def take(x, it):
    return x * next(it)


def take_or(x, it):
    return x * next(it, 100.0), x + next(it, 7)


def loop(x, it):
    for v in it:
        x = x * v + 1
        if len(repr(it)) == 0:
            break
    return x


def drain(x, it):
    return x + sum(it), list(it)


def first_of(x, it):
    for v in it:
        return x + v
    return x


def caught(x, it):
    try:
        return x * next(it)
    except StopIteration:
        return x - 1


def kept(x, it):
    next(it, None)
    return x, iter(it) is it


def broken(x, it):
    x = x * next(it, 3)
    print(end="")
    return x + next(it, 4)


def take_pair(x, it):
    a, b = next(it)
    return x * a + b


def pairs(x, it):
    for a, b in it:
        x = x * a + b
    return x


def pairs_or(x, it):
    a, b = next(it, (3, 4))
    print(end="")
    return x * a + b, next(it, None)


PROGRAMS = [take, take_or, drain, first_of, caught, kept, broken, loop]
PAIR_PROGRAMS = [take_pair, pairs, pairs_or, kept]


def outcome(f, *args):
    try:
        return repr(f(*args)).split(" at 0x")[0]
    except (StopIteration, ValueError, RuntimeError, TypeError, OverflowError) as e:
        return repr(e)


def again(program):
    return types.FunctionType(program.__code__.replace(), globals(), closure=program.__closure__)


@pytest.mark.parametrize("kind", [*KINDS, *PAIRS])
def test_what_is_taken_and_what_is_left(kind):
    make = KINDS.get(kind) or PAIRS[kind]
    for program in PAIR_PROGRAMS if kind in PAIRS else PROGRAMS:
        compiled = G.compile(again(program), backend="eager")
        for _ in range(2):
            plain, used = make(), make()
            for _ in range(4):
                want, got = outcome(program, X, plain), outcome(compiled, X, used)
                assert want == got, (kind, program.__name__)
            assert repr(list(plain)) == repr(list(used)), (kind, program.__name__)


RECORDED = {
    "range": (take, lambda: iter(range(1, 40))),
    "count": (take, lambda: itertools.count(1)),
    "keys": (take, lambda: iter({float(i): i for i in range(1, 40)})),
    "values": (take, lambda: iter({i: float(i) for i in range(1, 40)}.values())),
    "items": (take_pair, lambda: iter({float(i): float(i) for i in range(1, 40)}.items())),
    "tensors": (take, lambda: iter({i: G.full((2,), i) for i in range(1, 40)}.values())),
    "reversed list": (take, lambda: reversed([float(i) for i in range(1, 40)])),
    "zip": (take_pair, lambda: zip([float(i) for i in range(1, 40)], range(1, 40))),
    "enumerate": (take_pair, lambda: enumerate([float(i) for i in range(1, 40)], 1)),
    "map": (take, lambda: map(half, range(2, 40))),
}


@pytest.mark.parametrize("kind", RECORDED)
def test_another_position_is_no_reason_to_record_again(kind):
    program, make = RECORDED[kind]
    compiled = G.compile(again(program), backend="eager", fullgraph=counted(True) is True)
    plain, used = make(), make()
    for _ in range(20):
        assert outcome(program, X, plain) == outcome(compiled, X, used)
    status = compiled.status()
    assert status["graphs"] <= counted(3) and counted(0) == len(status["breaks"])


CHANGES = {
    "a dict that grew": (lambda: {1: 1, 2: 2}, iter, lambda d: d.update({9: 9})),
    "a dict that shrank": (lambda: {1: 1, 2: 2}, iter, lambda d: d.pop(1)),
    "a dict with other keys": (lambda: {1: 1, 2: 2}, iter, lambda d: (d.pop(1), d.update({7: 7}))),
    "a set that grew": (lambda: {1, 2}, iter, lambda s: s.add(9)),
    "a set with others": (lambda: {1, 2}, iter, lambda s: (s.discard(1), s.add(9))),
    "a list that grew": (lambda: [1, 2], iter, lambda l: l.append(9)),
    "a list that was cleared": (lambda: [1, 2], iter, lambda l: l.clear()),
    "values that were replaced": (
        lambda: {1: 1, 2: 2},
        lambda d: iter(d.values()),
        lambda d: d.update({2: 9}),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("inside", [False, True])
def test_what_an_iterator_walks_has_changed(change, inside):
    make, begin, alter = CHANGES[change]

    def inner(x, it, of):
        x = x * next(it, 3)
        alter(of)
        return x + next(it, 4)

    def after(x, it, of):
        x = x * next(it, 3)
        alter(of)
        return x

    def outer(x, it, of):
        return x + next(it, 4), x + next(it, 5)

    for program in [inner, after] if inside else [outer]:
        compiled = G.compile(program, backend="eager")
        for skipped in (0, 1, 2, 3):
            results = []
            for f in (program, compiled):
                of = make()
                it = begin(of)
                for _ in range(skipped):
                    next(it, None)
                if not inside:
                    alter(of)
                results.append((outcome(f, X, it, of), outcome(list, it), repr(of)))
            assert results[0] == results[1], (change, program.__name__, skipped)


@pytest.mark.parametrize("other", [list, set, dict.fromkeys])
def test_another_container_that_is_the_one_the_iterator_walks(other):
    """The first call gets two containers, the second one: its change is seen by the iterator."""

    def f(x, it, of):
        if isinstance(of, list):
            of.append(7)
        elif isinstance(of, set):
            of.add(7)
        else:
            of[7] = 7
        return x + next(it, 4)

    compiled = G.compile(f, backend="eager")
    for ended in (False, True):
        for shared in (False, True, False):
            results = []
            for g in (f, compiled):
                of = other([1, 2])
                it = iter(of if shared else other([1, 2]))
                for _ in range(2 + ended):
                    next(it, None)
                results.append((outcome(g, X, it, of), outcome(list, it), repr(of)))
            assert results[0] == results[1], (other, ended, shared)


def test_a_failing_graph_leaves_the_iterators_where_plain_python_does():
    def f(x, it, i):
        n, v = next(it)
        y = x * v + n
        return y[i] + next(it)[0]

    for i in (0, 9):
        compiled = G.compile(again(f), backend="eager")
        results = []
        for g in (f, compiled):
            it = enumerate(iter([1.0, 2.0, 3.0]))
            try:
                g(X, it, i)
            except IndexError:
                pass
            results.append(repr(list(it)))
        assert results[0] == results[1]


def owner_class():
    class Owner:
        a, b = 1.0, 2.0

    return Owner


def owner_function():
    def owner():
        pass

    owner.a, owner.b = 1.0, 2.0
    return owner


def owner_tensor():
    owner = G.ones(1)
    owner.a, owner.b = 1.0, 2.0
    return owner


@pytest.mark.parametrize("make", [owner_class, owner_function, owner_tensor])
@pytest.mark.parametrize("name", ["b", "new"])
def test_an_iterator_over_attributes_meets_what_the_region_stores(make, name):
    def f(x, owner, items):
        setattr(owner, name, 5.0)
        try:
            for key, value in items:
                if key == "b":
                    x = x * value
        except RuntimeError as error:
            return x * 7, str(error)
        return x, None

    def run(f):
        owner = make()
        found = f(G.ones(2), owner, iter(owner.__dict__.items()))
        return found[0].tolist(), found[1]

    assert run(G.compile(f, backend="eager")) == run(f)
