# SPDX-License-Identifier: Apache-2.0
"""Subclasses of dict and OrderedDict with an __iter__, a __getitem__ or keys of their own: all ways
to copy and merge them ask the same methods as in plain Python, which differ between dict,
OrderedDict and displays."""

import collections
import warnings

import pytest

import gramme as G


class Iterated(dict):
    def __iter__(self):
        return iter(["a"])


class Both(Iterated):
    def __getitem__(self, key):
        return 8


class Items(dict):
    def __getitem__(self, key):
        return 8


class Keys(dict):
    def keys(self):
        return ["a"]


class Kept(dict):
    def __setitem__(self, key, value):
        dict.__setitem__(self, key, ("set", value))


class Defaults(collections.defaultdict):
    def __init__(self, **named):
        super().__init__(None, **named)

    def __iter__(self):
        return iter(["a"])

    def __getitem__(self, key):
        return 8


class OrderedIterated(collections.OrderedDict):
    def __iter__(self):
        return iter(["a"])


class OrderedItems(collections.OrderedDict):
    def __getitem__(self, key):
        return 8


class OrderedKeys(collections.OrderedDict):
    def keys(self):
        return ["a"]


class Simple(dict):
    pass


class OrderedSimple(collections.OrderedDict):
    pass


CLASSES = (
    Iterated,
    Both,
    Items,
    Keys,
    Kept,
    Defaults,
    OrderedIterated,
    OrderedItems,
    OrderedKeys,
    Simple,
    OrderedSimple,
)


def named(**values):
    return values


def updated(one, other):
    one.update(other)
    return one


def merged(one, other):
    one |= other
    return one


WAYS = (
    "k | {'c': 3}",
    "{'c': 3} | k",
    "k | k",
    "Simple(c=1) | k",
    "collections.OrderedDict(c=3) | k",
    "dict.__or__(k, {})",
    "merged({'c': 3}, k)",
    "merged(k, {'c': 3})",
    "merged(Kept(), k)",
    "k.copy()",
    "dict.copy(k)",
    "dict(k)",
    "dict(k, d=4)",
    "{**k}",
    "{'z': 0, **k}",
    "named(**k)",
    "named(z=1, **k)",
    "updated({'c': 3}, k)",
    "updated(k, {'c': 3})",
    "updated(Kept(), k)",
    "updated(OrderedSimple(), k)",
    "collections.OrderedDict(k)",
    "OrderedSimple(k)",
    "Simple(k)",
    "collections.defaultdict(None, k)",
    "collections.Counter(k)",
)


def shown(fn, *args):
    try:
        value = fn(G.ones(1), *args)[1]
        return type(value), list(dict.items(value))
    except (TypeError, KeyError) as e:
        return type(e), str(e)


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_or_merge_asks_the_methods_that_plain_python_asks(way):
    for cls in CLASSES:
        space = {**globals(), "cls": cls}
        exec(
            (
                f"def made(x):\n    y, k = x + 1, cls(a=1, b=2)\n    return y, {way}\ndef given(x, "
                f"k):\n    y = x + 1\n    return y, {way}\n"
            ),
            space,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for fn, args in (
                (space["made"], lambda: ()),
                (space["given"], lambda: (cls(a=1, b=2),)),
            ):
                compiled = G.compile(fn, backend="eager")
                want = shown(fn, *args())
                assert [shown(compiled, *args()), shown(compiled, *args())] == [want, want], (
                    cls,
                    fn,
                )


def test_subclasses_without_methods_of_their_own_are_merged_without_a_break():
    def merges(x, k):
        return x + len(k | Simple(e=1)) + len(k.copy())

    def reads(x, k):
        return x + len({**k, **collections.OrderedDict(k)}) + len(Kept(k))

    for fn, k in (
        (merges, Simple(a=1)),
        (merges, Kept(a=1)),
        (reads, Simple(a=1)),
        (reads, OrderedSimple(a=1)),
    ):
        assert (
            G.compile(fn, backend="eager", fullgraph=True)(G.ones(1), k).tolist()
            == fn(G.ones(1), k).tolist()
        )
