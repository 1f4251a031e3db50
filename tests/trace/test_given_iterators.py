# SPDX-License-Identifier: Apache-2.0
"""Iterators that come from outside of a compiled function: the items that it takes, and where it
leaves the iterator."""

import sys
import types
import weakref

import pytest

import gramme as G
from stress import counted, undisturbed

X = G.ones(2)


def take(x, it, l):
    return x * next(it)


def take_or(x, it, l):
    return x * next(it, 100.0)


def take_two(x, it, l):
    a, b = next(it, 5), next(it, 7)
    return x * a + b


def loop(x, it, l):
    for v in it:
        x = x * v + 1
        if v > 2:
            break
    return x


def drain(x, it, l):
    return x + sum(it), list(it)


def zipped(x, it, l):
    return [x * a + b for a, b in zip(range(2), it)]


def caught(x, it, l):
    try:
        return x * next(it)
    except StopIteration:
        return x - 1


def unpacked(x, it, l):
    a, *rest = it
    return x * a, rest


def kept(x, it, l):
    next(it, None)
    return x, it, iter(it) is it


def broken(x, it, l):
    x = x * next(it, 3)
    print(end="")
    return x + next(it, 4)


def list_too(x, it, l):
    x = x * next(it, 3)
    l.append(9)
    return x + len(l) + next(it, 4)


def cleared(x, it, l):
    x = x * next(it, 3)
    l.clear()
    return x


def in_both(x, it, l):
    inner = lambda: next(it, 2)
    return x + inner() * 10 + inner()


PROGRAMS = [
    take,
    take_or,
    take_two,
    loop,
    drain,
    zipped,
    caught,
    unpacked,
    kept,
    broken,
    list_too,
    cleared,
    in_both,
]


def rest(it):
    return repr(list(it))


def outcome(f, *args):
    try:
        return repr(f(*args)).split(" at 0x")[0]
    except StopIteration as e:
        return repr(e)
    except ValueError as e:
        return repr(e)


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_what_is_taken_and_what_is_left(program, kind):
    if kind is tuple and program in (list_too, cleared):
        pytest.skip("a tuple has no such methods")
    for items in ([1, 2, 3, 4, 5], [2.0], [], [1, 2], [1.5, 2.5, 3.5]):
        compiled = G.compile(
            types.FunctionType(program.__code__.replace(), globals(), closure=program.__closure__),
            backend="eager",
        )
        plain_of, used_of = kind(items), kind(items)
        plain, used = iter(plain_of), iter(used_of)
        for _ in range(4):
            assert outcome(program, X, plain, plain_of) == outcome(compiled, X, used, used_of), (
                items,
                program.__name__,
            )
            assert plain.__length_hint__() == used.__length_hint__() and plain_of == used_of
        assert rest(plain) == rest(used)


@undisturbed
def test_another_position_is_no_reason_to_record_again():
    compiled = G.compile(take, backend="eager", fullgraph=True)
    it = iter([float(i) for i in range(40)])
    assert [compiled(X, it, None)[0].item() for _ in range(40)] == [float(i) for i in range(40)]
    assert (
        compiled.status()["graphs"] == 2 and compiled.status()["breaks"] == []
    )  # a number, then any number
    tensors = [G.full((2,), float(i)) for i in range(40)]
    it = iter(tensors)
    compiled = G.compile(
        types.FunctionType(take.__code__.replace(), globals()), backend="eager", fullgraph=True
    )
    assert [compiled(X, it, None)[0].item() for _ in range(40)] == [float(i) for i in range(40)]
    assert compiled.status()["graphs"] == 1


def test_an_iterator_that_has_ended_lets_go_of_its_list():
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    it = iter([1, 2])
    compiled = G.compile(drain, backend="eager", fullgraph=True)
    compiled(X, it, None)
    assert it.__length_hint__() == 0 and it.__reduce__()[1] == ([],)
    it = iter([thing])
    del thing
    f = G.compile(lambda x, it: (x + len([v for v in it]), it), backend="eager", fullgraph=True)
    f(X, it)
    assert gone() is None


def test_a_failing_graph_leaves_the_iterator_where_plain_python_does():
    def f(x, it, i):
        y = x * next(it)
        return y[i] + next(it)

    for i in (0, 9):
        plain, used = iter([1.0, 2.0, 3.0]), iter([1.0, 2.0, 3.0])
        compiled = G.compile(f, backend="eager")
        for it, g in ((plain, f), (used, compiled)):
            try:
                g(X, it, i)
            except IndexError:
                pass
        assert rest(plain) == rest(used)


def test_a_body_that_advances_an_iterator_is_refused():
    it = iter([1.0, 2.0])
    compiled = G.compile(
        lambda p, x: G.cond(p, lambda x: x * next(it), lambda x: x + 1, (x,)),
        backend="eager",
        fullgraph=True,
    )
    with pytest.raises(G.compiler.Unsupported):
        compiled(G.tensor(True), X)
    assert rest(it) == "[1.0, 2.0]"
