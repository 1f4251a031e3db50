# SPDX-License-Identifier: Apache-2.0
"""functools.cache and lru_cache over objects, tensors and methods: a key that is an object is that
object of each call."""

import functools
import gc
import types
import weakref

import pytest

import gramme as G
from stress import undisturbed

X = G.ones(3)


class Thing:
    def __init__(self, n=1):
        self.n = n


class Equal(Thing):
    """Equal to every other one: what a look-up finds, only its own code can tell."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 7


def fresh(f):
    return types.FunctionType(f.__code__.replace(), f.__globals__)


def cache_of(maxsize, typed=False):
    log = []

    @functools.lru_cache(maxsize, typed=typed)
    def cached(*args, **named):
        log.append(len(args))
        return [len(log)]

    return cached, log


def one(x, cached, a, b):
    return x * cached(a)[0], cached(a)


def two(x, cached, a, b):
    p, q = cached(a), cached(b)
    return x + p[0] * 10 + q[0], p, q, p is q


def mixed(x, cached, a, b):
    return x + cached(a, 1)[0] + cached(a, 1.0)[0] * 10 + cached(a, key=b)[0] * 100, cached(
        1, a
    ) is cached(1, a)


def again(x, cached, a, b):
    first = cached(a)
    second = cached(b)
    return x + first[0], first is cached(a), second is cached(b)


def of_tensor(x, cached, a, b):
    return x + cached(x)[0], cached(x, a) is cached(x, a)


PROGRAMS = [one, two, mixed, again, of_tensor]
KINDS = {
    "object": Thing,
    "function": lambda: lambda: 0,
    "class": lambda: type("C", (), {}),
    "module": lambda: G.nn.Linear(1, 1),
    "tensor": lambda: G.zeros(1),
    "equal": Equal,
}
ORDERS = ["ab", "aa", "ba", "ab", "bb", "cb", "aa", "cc", "ac"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("maxsize, typed", [(None, False), (2, False), (128, True), (0, False)])
def test_every_order_of_objects_gives_what_plain_python_gives(kind, maxsize, typed):
    for program in PROGRAMS:
        objects = {name: KINDS[kind]() for name in "abc"}
        (plain, plain_log), (used, used_log) = cache_of(maxsize, typed), cache_of(maxsize, typed)
        compiled = G.compile(fresh(program), backend="eager")
        for order in ORDERS:
            a, b = (objects[name] for name in order)
            x = G.ones(2)
            want, got = program(x, plain, a, b), compiled(x, used, a, b)
            assert repr(want) == repr(got), (program.__name__, order)
            assert plain.cache_info() == used.cache_info(), (program.__name__, order)
            assert plain_log == used_log, (program.__name__, order)


@undisturbed
def test_objects_need_no_break_and_another_object_no_recording():
    cached, log = cache_of(None)
    compiled = G.compile(fresh(one), backend="eager", fullgraph=True)
    things = [Thing() for _ in range(20)]
    results = [compiled(X, cached, t, None)[1] for t in things]
    assert [compiled(X, cached, t, None)[1] for t in things] == results
    assert all(cached(t) is r for t, r in zip(things, results))
    assert compiled.status()["breaks"] == []
    assert len(log) == 20


@undisturbed
def test_a_fresh_tensor_at_each_call_is_a_miss_of_one_recording():
    @functools.lru_cache(None)
    def doubled(t):
        return t * 2

    compiled = G.compile(lambda x: doubled(x) + 1, backend="eager", fullgraph=True)
    for i in range(20):
        assert compiled(G.full((2,), float(i))).tolist() == [2.0 * i + 1] * 2
    assert doubled.cache_info()[:2] == (0, 20) and compiled.status()["graphs"] == 1


class Model:
    def __init__(self, n):
        self.n = n

    @functools.lru_cache(8)
    def table(self, size):
        return G.arange(float(size)) * self.n

    @functools.lru_cache(8)
    def of(self, t):
        return t * self.n


@undisturbed
def test_cached_methods_are_recorded():
    Model.table.cache_clear(), Model.of.cache_clear()
    first, second = Model(2), Model(5)
    compiled = G.compile(
        lambda m, x: (x + m.table(3) + m.of(x), m.table(3), m.of(x)),
        backend="eager",
        fullgraph=True,
    )
    for model in (first, second, first, second):
        y, table, of = compiled(model, X)
        assert table is model.table(3) and of is model.of(X)
        assert y.tolist() == (X + table + of).tolist()
    assert Model.table.cache_info()[:2] == (10, 2) and Model.of.cache_info()[:2] == (10, 2)


class Recipe:
    pass


def test_a_size_beside_an_object_is_a_key():
    recipe = Recipe()

    @functools.lru_cache(256)
    def plan(recipe, shape):
        return tuple(reversed(shape))

    compiled = G.compile(
        lambda x: x.reshape(plan(recipe, x.shape)) * 2, backend="eager", fullgraph=True
    )
    for shape in ((2, 3), (2, 3), (4, 5)):
        assert compiled(G.ones(shape)).shape == shape[::-1]
    assert plan.cache_info()[:2] == (1, 2)
    plan(recipe, (4, 5)), plan(recipe, (6, 7))  # a tuple is the same key
    assert plan.cache_info()[:2] == (2, 3)
    compiled(G.ones(6, 7)), G.compile(
        lambda x: x.reshape(plan(recipe, (4, 5))), backend="eager", fullgraph=True
    )(G.ones(4, 5))
    assert plan.cache_info()[:2] == (4, 3)


def test_guards_keep_no_key_alive():
    cached, _ = cache_of(None)
    compiled = G.compile(fresh(one), backend="eager")
    thing = Thing()
    compiled(X, cached, thing, None), compiled(X, cached, thing, None)
    gone = weakref.ref(thing)
    del thing
    assert gone() is not None  # the cache has it
    cached.cache_clear()
    gc.collect()
    assert gone() is None
    other = Thing()
    assert compiled(X, cached, other, None)[1] is cached(other)


def test_a_class_that_gets_its_own_equality_is_asked():
    class Changing(Thing):
        pass

    cached, log = cache_of(None)
    compiled = G.compile(fresh(one), backend="eager")
    a, b = Changing(), Changing()
    assert compiled(X, cached, a, None)[1] == [1] and compiled(X, cached, b, None)[1] == [2]
    Changing.__eq__, Changing.__hash__ = lambda self, other: True, lambda self: 3
    assert (
        compiled(X, cached, a, None)[1] == [3]
        and compiled(X, cached, b, None)[1] == [3]
        and len(log) == 3
    )


@undisturbed
def test_the_branches_of_cond_may_ask_the_same_cache():
    thing, other = Thing(), Thing()

    @functools.lru_cache(None)
    def scale(o):
        return 3.0

    scale(thing), scale(other)
    both = lambda p, x: G.cond(p, lambda x: x * scale(thing), lambda x: x + scale(thing), (x,))
    compiled = G.compile(both, backend="eager")
    assert (
        compiled(G.tensor(True), X).tolist() == [3.0] * 3
        and compiled(G.tensor(False), X).tolist() == [4.0] * 3
    )
    assert scale.cache_info().hits == 2
    differs = lambda p, x: G.cond(p, lambda x: x * scale(thing), lambda x: x + scale(other), (x,))
    with pytest.raises(G.compiler.Unsupported, match="do not change the same"):
        G.compile(differs, backend="eager", fullgraph=True)(G.tensor(True), X)
