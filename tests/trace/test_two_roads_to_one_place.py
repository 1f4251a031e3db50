# SPDX-License-Identifier: Apache-2.0
"""A place that a function reaches by two roads: the list that an iterator reads, an attribute that
is stored by a module and deleted by object, a class that is part of a cache's key."""

import functools
import itertools

import pytest

import gramme as G

X = G.ones(2)


def both(f, make):
    """Results of calls of f, plain and compiled, each with arguments of its own."""
    results = []
    for function in (f, G.compile(f, backend="eager")):
        results.append([run(function, arguments) for arguments in make()])
    assert results[0] == results[1]
    return results[0]


def run(function, arguments):
    try:
        return repr(function(X, *arguments)), [repr(a) for a in arguments if isinstance(a, list)]
    except Exception as error:
        return type(error).__name__, str(error)


CHANGES = {
    "append": lambda x, it, l: (l.append(5.0), x + sum(it))[1],
    "store": lambda x, it, l: (l.__setitem__(0, 5.0), x + next(it, 0))[1],
    "clear": lambda x, it, l: (l.clear(), x + sum(it))[1],
    "insert": lambda x, it, l: (l.insert(0, 9.0), x + next(it, 0))[1],
    "pop": lambda x, it, l: (l.pop(), x + sum(it))[1],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_list_that_changes_may_be_what_an_iterator_reads(change):
    def calls():
        shared = [1.0, 2.0]
        yield iter([1.0, 2.0]), [2.0, 3.0]
        yield iter(shared), shared
        yield iter([1.0, 2.0]), [2.0, 3.0]
        yield iter(()), [1.0]

    both(CHANGES[change], calls)


def test_an_item_of_an_iterator_may_be_its_list():
    def f(x, it):
        a = next(it)
        a[1] = 9.0
        return x + next(it)

    def calls():
        yield (iter([[1.0, 1.0], 2.0]),)
        loop = [0.0, 2.0]
        loop[0] = loop
        yield (iter(loop),)

    both(f, calls)


class Module(G.nn.Module):
    def __init__(self):
        super().__init__()
        self.t = 0


def store_again(x, o):
    o.t = 9
    del o.t
    o.t = 8
    return x


def store_around_dict(x, o):
    o.t = 1
    o.__dict__["t"] = 7
    o.t = 4
    return x


def store_thrice(x, o):
    o.t = 9
    del o.t
    o.t = 8
    del o.t
    o.t = 1
    return x


def delete_last(x, o):
    o.__dict__["t"] = 7
    o.t = 4
    del o.t
    return x


@pytest.mark.parametrize("f", [store_again, store_around_dict, store_thrice, delete_last])
def test_stores_and_deletes_of_a_module_are_replayed_in_their_order(f):
    plain, compiled = Module(), Module()
    g = G.compile(f, backend="eager")
    for _ in range(2):
        f(X, plain), g(X, compiled)
        assert compiled.__dict__.get("t") == plain.__dict__.get("t")
        plain.t = compiled.t = 0


class Dying:
    def __init__(self, owner):
        self.owner = owner

    def __del__(self):
        self.owner.n += 10


def test_the_end_of_an_iterator_frees_its_list_in_time():
    class Owner:
        n = 0

    def f(x, it, o):
        len([1 for _ in it])
        o.n = o.n + 1
        return o.n

    seen = []
    for function in (f, G.compile(f, backend="eager")):
        owner = Owner()
        seen.append((function(X, iter([Dying(owner), Dying(owner)]), owner), owner.n))
    assert seen[0] == seen[1] == (21, 21)


def test_a_hash_of_a_metaclass_runs_as_often_as_in_plain_python_and_its_error_comes():
    class Meta(type):
        calls, bad = 0, False

        def __hash__(cls):
            Meta.calls += 1
            if Meta.bad:
                raise ValueError("no hash")
            return 5

        def __eq__(cls, other):
            return cls is other

    class A(metaclass=Meta):
        pass

    seen = []
    for compiled in (False, True):
        cached = functools.lru_cache(None, typed=True)(lambda o: [1])
        f = lambda x, o: (x + 1, cached(o))[1]
        f = G.compile(f, backend="eager") if compiled else f
        a, Meta.bad = A(), False
        f(X, a)
        Meta.calls = 0
        f(X, a), f(X, A())
        calls, Meta.bad = Meta.calls, True
        with pytest.raises(ValueError, match="no hash"):
            f(X, a)
        seen.append((calls, cached.cache_info()[:2]))
    assert seen[0] == seen[1]


def test_annotations_of_a_fresh_function_are_a_dict():
    def make():
        def h(q: int = 1) -> str:
            return q

        return h

    f = G.compile(lambda x, h: (x + 1, h.__annotations__)[1], backend="eager")
    for _ in range(3):
        assert f(X, make()) == {"q": int, "return": str}


def test_the_text_of_a_class_of_builtins_has_its_name():
    class C:
        pass

    C.__module__, C.__qualname__ = "builtins", "q"
    assert G.compile(lambda x, o: (x + 1, str(type(o)))[1], backend="eager")(X, C()) == str(C)


def groups_of_a_key_that_advances(x, l):
    box, log = [], []

    def key(v):
        log.append(v)
        if len(log) == 3:
            log.append(next(box[0], None) is None)
        return v

    it = itertools.groupby(l, key)
    box.append(it)
    return [(a, list(g)) for a, g in it], log


class Advancing:
    def __init__(self, n, log, box):
        self.n, self.log, self.box = n, log, box

    def __eq__(self, other):
        self.log.append((self.n, other.n))
        if len(self.log) == 2:
            next(self.box[0], None)
        return self.n == other.n

    __hash__ = None


def groups_of_keys_whose_comparison_advances(x, l):
    box, log = [], []
    it = itertools.groupby(l, lambda v: Advancing(v, log, box))
    box.append(it)
    return [(a.n, list(g)) for a, g in it], log


@pytest.mark.parametrize(
    "f", [groups_of_a_key_that_advances, groups_of_keys_whose_comparison_advances]
)
@pytest.mark.parametrize("l", [[1, 1, 2, 2, 3, 3], [1, 2, 2, 3], [1, 1, 1], []])
def test_a_groupby_may_be_advanced_by_its_own_key_function_or_comparison(f, l):
    whole = lambda x, l: (x + 1, f(x, l))[1]
    assert G.compile(whole, backend="eager")(X, l) == f(X, l)
