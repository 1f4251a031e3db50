# SPDX-License-Identifier: Apache-2.0
"""Views of dicts beside views, sets and other containers, with values that have no hash: what each
operator gives or raises, and in which order it asks, plain and compiled."""

import collections
import itertools
import types

import pytest

import gramme as G

LEFT = {
    "a dict": lambda: {"k": 1, 2: "v"},
    "a dict of a list": lambda: {"m": [1]},
    "a filled defaultdict": lambda: fill(collections.defaultdict(list)),
    "an OrderedDict": lambda: collections.OrderedDict([("k", 1), ("m", (1, 2))]),
}
RIGHT = {
    "an empty dict": lambda: {},
    **LEFT,
    "a Counter": lambda: collections.Counter("kkv"),
    "a set": lambda: {"k", 2, ("k", 1)},
    "a list": lambda: ["k", ("k", 1), ("m", [1])],
    "a text": lambda: "kv",
    "a number": lambda: 3,
}
OPERATIONS = {
    "<=": lambda a, b: a <= b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&": lambda a, b: sorted(map(repr, a & b)),
    "|": lambda a, b: sorted(map(repr, a | b)),
    "-": lambda a, b: sorted(map(repr, a - b)),
    "^": lambda a, b: sorted(map(repr, a ^ b)),
    "isdisjoint": lambda a, b: a.isdisjoint(b),
    "in": lambda a, b: b in a,
    "items in": lambda a, b: [x in a for x in b],
}
VIEWS = {"keys": lambda d: d.keys(), "items": lambda d: d.items()}


def fill(d):
    d["m"].append(1)
    d["k"]
    return d


def view_of(thing, view):
    return view(thing) if isinstance(thing, dict) else thing


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:  # what is compared
        return type(error).__name__, str(error)


def as_new(function):
    """The function with a code object of its own, which was never compiled."""
    code, closure = function.__code__.replace(), function.__closure__
    made = types.FunctionType(code, function.__globals__, function.__name__, None, closure)
    return G.compile(made, backend="eager")


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_beside_another_container(kind, name):
    operation, view = OPERATIONS[name], VIEWS[kind]
    for left, right in itertools.product(LEFT, RIGHT):
        first, second = LEFT[left], RIGHT[right]

        def inside(x):
            a, b = view_of(first(), view), view_of(second(), view)
            return outcome(operation, a, b), x + 1

        def given(x, a, b):
            return outcome(operation, view_of(a, view), view_of(b, view)), x + 1

        x = G.ones(1)
        plain = inside(x)[0]
        assert as_new(inside)(x)[0] == plain, (left, right)
        assert as_new(given)(x, first(), second())[0] == plain, (left, right)


def test_a_failing_comparison_of_views_raises_with_its_own_message():
    def f(x, seen):
        try:
            if not collections.defaultdict(list, m=[1]).items() <= {"k": 1}.items():
                raise AssertionError(f"{[v for v in seen]!s}")
        except AssertionError as error:
            return str(error), x + 1

    for seen in ({3}, {1, 2}):
        assert as_new(f)(G.ones(1), seen)[0] == f(G.ones(1), seen)[0] == str(list(seen))
