# SPDX-License-Identifier: Apache-2.0
"""functools.cache and lru_cache: a call in a compiled function is the call of plain Python, with its hits, misses and evictions, and
the object that it gives is the one that was remembered.  It breaks by a reason of its own, and the rest goes on.

TK-3 is the capability's number: a cached function is modelled, or guarded, never guessed."""

import functools
import time
import types
import warnings

import pytest

import gramme as G
from stress import FORCED

counts = pytest.mark.skipif(FORCED, reason="counts breaks, or measures")
X = G.ones(3)


def pair(maxsize, typed=False):
    """The same cached function twice: for plain Python and for the compiled function."""

    def make():
        log = []

        @functools.lru_cache(maxsize=maxsize, typed=typed)
        def table(*args, **named):
            log.append((args, tuple(named.items())))
            if args and args[0] == "bad":
                raise ValueError("not remembered")
            return [len(log)]

        return table, log

    return make(), make()


def program(x, table, n):
    a = table(n)
    y = x * a[0]
    b = table(n)
    if a is b:
        y = y + 1
    c = table(n + 1, key=2)
    c.append(n)
    return y - len(c), a is b, table(n + 1, key=2) is c, table(float(n))


def with_errors(x, table, n):
    try:
        table("bad")
    except ValueError as e:
        x = x + len(str(e))
    return x, table(n)


def clears(x, table, n):
    a = table(n)
    table.cache_clear()
    return x * table(n)[0], a, table.cache_info().currsize


@pytest.mark.parametrize("maxsize", [None, 0, 1, 2, 128])
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("f", [program, with_errors, clears], ids=lambda f: f.__name__)
def test_results_counts_and_identities(f, maxsize, typed):
    (plain, plain_log), (used, used_log) = pair(maxsize, typed)
    compiled = G.compile(types.FunctionType(f.__code__.replace(), f.__globals__))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (1, 2, 1, 3, 3, 1):
            want, got = f(X, plain, n), compiled(X, used, n)
            assert repr(want) == repr(got)
            assert plain.cache_info() == used.cache_info()
            assert plain_log == used_log


class Model:
    @functools.cache
    def size(self, n):
        return object(), n * 2

    def __call__(self, x):
        return x * self.size(3)[1], self.size(3)


def test_a_cached_method_gives_the_same_object_at_every_call():
    model = Model()
    compiled = G.compile(lambda x: model(x))
    first, second = compiled(X), compiled(X)
    assert first[1] is second[1] is model.size(3)
    assert first[0].tolist() == [6, 6, 6] and Model.size.cache_info().hits == 4


@functools.cache
def cached(n):
    return n


@counts
def test_the_reason_names_the_function():
    with pytest.raises(Exception, match=r"call of cached, which remembers its results") as raised:
        G.compile(lambda x: x * cached(3), fullgraph=True)(X)
    assert "[CACHED_CALL]" in str(raised.value)


def many(n):
    """A function with n calls of it in a row."""
    lines = "\n".join(f"    x = x + cached({i})" for i in range(n))
    space = {"cached": cached}
    exec(f"def f(x):\n{lines}\n    return x", space)
    return space["f"]


@counts
def test_compile_time_is_linear_in_the_number_of_such_calls():
    def seconds(n):
        f = G.compile(many(n), backend="eager")
        begin = time.perf_counter()
        f(X)
        return (time.perf_counter() - begin) / n

    seconds(50)
    small, large = min(seconds(100) for _ in range(3)), min(seconds(1600) for _ in range(2))
    assert large < 3 * small, (small, large)
