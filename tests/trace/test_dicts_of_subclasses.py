# SPDX-License-Identifier: Apache-2.0
"""Dicts whose classes answer in their own way, and keys that are compared as the ints and texts
that they are: small programs, each plain and compiled whole."""

import collections
import enum

import pytest

import gramme as G
from stress import undisturbed

log = []


class Sets(collections.OrderedDict):
    def __setitem__(self, key, value):
        log.append(key)
        super().__setitem__(key, value)


class Gets(collections.OrderedDict):
    def __getitem__(self, key):
        log.append(key)
        return 100


class Lists(collections.OrderedDict):
    def keys(self):
        log.append("keys")
        return ["b", "a"]


class Iterates(collections.OrderedDict):
    def __iter__(self):
        log.append("iter")
        return super().__iter__()


class Turned(collections.OrderedDict):
    def __iter__(self):
        return reversed(list(super().__iter__()))


class Knows(collections.OrderedDict):
    def __contains__(self, key):
        log.append(("in", key))
        return key == "there"

    def __getitem__(self, key):
        log.append(("get", key))
        return 4


class GetsOfDict(dict):
    def __getitem__(self, key):
        return 100


class Mapping:
    def keys(self):
        return ("u", "v")

    def __getitem__(self, key):
        return log.append(key) or 7


def updated(make, *args, **more):
    """A new one of them, updated."""

    def program(x, d):
        e = make()
        e.update(*(a() if callable(a) else a for a in args), **more)
        return x + len(e), list(e.items())

    return program


class Text(str):
    pass


UPDATES = {
    "a subclass with __setitem__ from a dict": (
        Sets,
        lambda x, d: (d.update({"c": 3}), x + len(d))[1],
    ),
    "from pairs and names": (Sets, lambda x, d: (d.update([("c", 3)], z=4), x + len(d))[1]),
    "from itself": (lambda: Sets(a=1), lambda x, d: (d.update(d), x + len(d))[1]),
    "by |=": (Sets, lambda x, d: (d.__ior__({"c": 3}), x + len(d))[1]),
    "made and updated": (Sets, updated(lambda: Sets({"u": 1}), a=2)),
    "made from a dict": (lambda: {"a": 1}, lambda x, d: x + len(Sets(d))),
    "from something with keys": (Sets, lambda x, d: (d.update(Mapping()), x + len(d))[1]),
    "a dict from something with keys": (
        dict,
        lambda x, d: (d.update(Mapping(), q=1), x + d["u"] + len(d))[1],
    ),
    "from an OrderedDict with __getitem__": (
        lambda: Gets(a=1, b=2),
        lambda x, d: x + updated(collections.OrderedDict, d)(x, d)[1][1][1],
    ),
    "a dict from an OrderedDict with __getitem__": (
        lambda: Gets(a=1, b=2),
        lambda x, d: x + updated(dict, d)(x, d)[1][1][1],
    ),
    "a dict from a dict with __getitem__": (
        lambda: GetsOfDict(a=1, b=2),
        lambda x, d: x + updated(dict, d)(x, d)[1][1][1],
    ),
    "an OrderedDict from a dict with __getitem__": (
        lambda: GetsOfDict(a=1, b=2),
        lambda x, d: x + updated(collections.OrderedDict, d)(x, d)[1][1][1],
    ),
    "from an OrderedDict with keys": (
        lambda: Lists(a=1, b=2, c=3),
        lambda x, d: (x, updated(dict, d)(x, d)[1]),
    ),
    "one with __iter__ from a dict": (Iterates, lambda x, d: (d.update({"c": 3}), x + len(d))[1]),
    "one with __iter__ from names": (
        lambda: Iterates(a=1),
        lambda x, d: (d.update(c=3, e=4), x + len(d))[1],
    ),
    "one with __iter__ from pairs": (Iterates, lambda x, d: (d.update([("a", 1)]), x + len(d))[1]),
    "one with __iter__ to another": (
        lambda: Iterates(a=1, b=2),
        lambda x, d: x + updated(collections.OrderedDict, d)(x, d)[1][1][1],
    ),
    "one that is turned, listed": (
        lambda: Turned(a=1, b=2),
        lambda x, d: (x, list(d), list(d.keys()), list(d.items()), d.popitem()),
    ),
    "one that is turned, moved": (
        lambda: Turned(a=1, b=2),
        lambda x, d: (x, d.move_to_end("a"), list(d), list(d.values())),
    ),
    "a default where there is none": (
        Sets,
        lambda x, d: (x, d.setdefault("a", 1), d.setdefault("a", 2), d.setdefault("b")),
    ),
    "a default by name": (
        lambda: Sets(a=1),
        lambda x, d: (x, d.setdefault(key="a", default=5), d.setdefault("c", default=6)),
    ),
    "a default of one with __iter__": (Iterates, lambda x, d: (x, d.setdefault("a", 1), len(d))),
    "a default of one with __contains__": (
        Knows,
        lambda x, d: (x, d.setdefault("there", 1), d.setdefault("new", 2)),
    ),
    "a default of one with __getitem__": (
        lambda: Gets(a=1),
        lambda x, d: (x, d.setdefault("a", 5), d.setdefault("b", 6)),
    ),
    "a default of a new one": (dict, lambda x, d: (x, Sets(a=1).setdefault("q", 2))),
    "from what is nothing of the kind": (Sets, lambda x, d: d.update(3)),
    "from pairs of three": (Sets, lambda x, d: d.update([(1, 2, 3)])),
}


RAISES = {"from what is nothing of the kind", "from pairs of three", "missing"}


def outcome(run, make):
    log.clear()
    d = make()
    try:
        result = run(G.ones(1), d)
    except (TypeError, ValueError) as e:
        result = type(e), str(e)
    values = [
        v.tolist() if isinstance(v, G.Tensor) else v
        for v in (result if isinstance(result, tuple) else (result,))
    ]
    return values, list(dict.items(d)), list(log)


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_asks_the_class_what_cpython_asks_it(name):
    make, program = UPDATES[name]
    want = outcome(program, make)
    G._dynamo.reset()
    assert outcome(G.compile(program, backend="eager", fullgraph=name not in RAISES), make) == want


def test_the_last_pair_of_a_dict_that_iterates_in_its_own_way_is_plain_pythons():
    class Wrong(collections.OrderedDict):
        def __iter__(self):
            return iter(["b", "a"])

    d = Wrong(a=1)
    assert (
        G.compile(lambda x, d: (d.popitem(), x + len(d))[1], backend="eager")(G.ones(1), d).tolist()
        == [1.0]
        and len(d) == 0
    )


# -- Keys that are members of an IntEnum or of a str Enum


class M(enum.IntEnum):
    A = 0
    B = 1


class S(str, enum.Enum):
    A = "a"
    B = "b"


class Bits(enum.IntFlag):
    A = 1
    B = 2


T, U, W, PLAIN = (
    {M.A: 2.0, M.B: 3.0},
    {S.A: 2.0, S.B: 3.0},
    {Bits.A: 2.0},
    {1: 7.0, "a": 8.0, 0: 5.0},
)


def stores(x, m, s):
    d = {}
    d[M.A] = 3
    d[s] = 4
    return x * d[0] + d[str(S.A.value)]


KEYS = {
    "an int": lambda x, m, s: x * T[M.A] + T[m] + T[1] + T[True],
    "a text": lambda x, m, s: x * U[S.B] + U[s] + U["b"] + U[Text("a")],
    "a flag": lambda x, m, s: x * W[Bits.A] + W[1],
    "in plain dicts": lambda x, m, s: x * PLAIN[m] + PLAIN[s] + PLAIN[M.B],
    "in": lambda x, m, s: x * (M.A in T) + (s in U) + (5 in T) + ("c" in U) + (Bits.B in W),
    "get": lambda x, m, s: x * T.get(M.B, 9) + T.get(7, 9) + U.get("zz", 1),
    "items": lambda x, m, s: sum(x * v for k, v in T.items())
    + sum(v for k, v in U.items() if k is S.A),
    "keys": lambda x, m, s: x * sum(k for k in T) + len([k.value for k in U]),
    "comparison": lambda x, m, s: x * (T == {0: 2.0, 1: 3.0}) + ({"a": 2.0, "b": 3.0} == U),
    "stored": stores,
    "sets": lambda x, m, s: x * (m in {M.A, 5}) + len({m, 0}) + len({s, "a"}),
    "missing": lambda x, m, s: x * T[7],
}


@pytest.mark.parametrize("m, s", [(M.A, S.A), (M.B, S.A)])
@pytest.mark.parametrize("name", KEYS)
def test_members_that_are_ints_or_texts_are_keys_by_value(name, m, s):
    def result(run):
        try:
            return run(G.ones(1), m, s).tolist()
        except KeyError as e:
            return repr(e)

    G._dynamo.reset()
    assert result(G.compile(KEYS[name], backend="eager", fullgraph=name not in RAISES)) == result(
        KEYS[name]
    )


@undisturbed
def test_values_under_such_keys_are_guarded():
    graphs = G.testing.CompileCounter()
    scale = {M.A: 2.0, M.B: 3.0}
    f = G.compile(lambda x, m: x * scale[m] * len(scale), backend=graphs)
    assert (
        f(G.ones(1), M.A).tolist() == f(G.ones(1), M.A).tolist() == [4.0]
        and graphs.frame_count == 1
    )
    assert f(G.ones(1), M.B).tolist() == [6.0]
    scale[M.A] = 5.0
    assert f(G.ones(1), M.A).tolist() == [10.0]
    del scale[M.A]
    with pytest.raises(KeyError):
        f(G.ones(1), M.A)
    scale[0] = 7.0  # equal to the member
    assert f(G.ones(1), M.A).tolist() == [14.0]
    scale[S.A] = 1.0
    assert f(G.ones(1), M.A).tolist() == [21.0]


@undisturbed
def test_members_in_items_are_guarded_to_be_those():
    d = {M.A: 2.0}
    f = G.compile(
        lambda x, d: sum(x * v * (2 if k is M.A else 3) for k, v in d.items()), backend="eager"
    )
    assert (
        f(G.ones(1), d).tolist() == [4.0]
        and f(G.ones(1), {0: 2.0}).tolist() == [6.0]
        and f(G.ones(1), {M.A: 3.0}).tolist() == [6.0]
    )
