# SPDX-License-Identifier: Apache-2.0
"""Ints that are sizes of no tensor: Python's have no end, and which object one is says little."""

import random

import pytest

import gramme as G
from stress import counted, undisturbed

BIG, FIVE, SIX, SUM = 10**6, 5, 6, "sum"
FAR = 2**40
SMALL_CALLS = [(3, 4), (5, 6), (7, 9)]


def results(f, calls, **options):
    compiled = G.compile(f, backend="eager", **options)
    return [f(*call) for call in calls], [compiled(*call) for call in calls]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: a * b,
        lambda a, b: a * b * b,
        lambda a, b: -(a * b),
        lambda a, b: a * b % 7,
        lambda a, b: a * b // 3,
        lambda a, b: a * b - b * a * 3,
        lambda a, b: (a + b) * (a - b),
        lambda a, b: a * b > 5,
        lambda a, b: a * 2**30 * 2**30,
        lambda a, b: [a * b, a, b],
        lambda a, b: (a << 40) * b,
        lambda a, b: sum([a] * 64) * 4,
        lambda a, b: divmod(a * b, 1000),
    ],
)
def test_arithmetic_beyond_64_bits_is_pythons(f, dynamic):
    plain, got = results(
        f,
        [
            *SMALL_CALLS,
            (FAR, FAR),
            (2**31, 2**31),
            (FAR, FAR + 1),
            (2**60, 3),
            (8, 9),
            (-FAR, FAR),
        ],
        **({"dynamic": dynamic} if dynamic else {}),
    )
    assert got == plain


def test_a_product_beside_a_graph():
    def f(x, a, b):
        return x * 2, a * b

    c, x = G.compile(f, backend="eager"), G.ones(2)
    for a, b in [*SMALL_CALLS, (FAR, FAR), (8, 9)]:
        assert c(x, a, b)[1] == a * b
    assert len(c.entries()) == counted(
        3
    )  # the numbers of the first call, general ones, and those that are too large


@undisturbed
def test_products_of_sizes_cost_no_guard():
    """What an address space has room for has a number of 64 bits."""
    c = G.compile(lambda x: x.reshape(x.shape[0] * x.shape[1]), backend="eager", dynamic=True)
    c(G.ones(3, 4))
    assert "<= 2305843009213693951" not in c.entries()[0]["guards"]


IDENTITY = [
    (lambda n: n is BIG, [(BIG,), (BIG + 1,), (5,), (BIG,)]),
    (lambda n: n is not BIG, [(BIG + 1,), (BIG,), (5,)]),
    (lambda n: (n is FIVE, n is not FIVE, n + 1 is SIX), [(7,), (5,), (6,), (BIG,), (5,)]),
    (lambda n: n is n, [(5,), (BIG,)]),
    (lambda n: (n * 1000000) is (n * 1000000), [(5,), (BIG,)]),
    (lambda n, m: n is m, [(BIG, BIG), (BIG, BIG + 1), (5, 5), (5, 6)]),
    (lambda n, m: n is m, [(5, 6), (5, 5), (BIG, BIG)]),
    (lambda n: n is True, [(1,), (5,)]),
    (lambda n: n is None, [(1,), (5,)]),
    (lambda n: n in (BIG, 7), [(BIG,), (7,), (8,)]),
]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("f, calls", IDENTITY)
def test_which_int_it_is(f, calls, dynamic):
    plain, got = results(f, [*calls, *calls], **({"dynamic": dynamic} if dynamic else {}))
    assert got == plain


@pytest.mark.parametrize(
    "text, calls",
    [
        ("s is t", [("a", "a"), ("a", "b"), ("longer text!", "longer text!")]),
        ("s is 'a'", [("a",), ("b",), ("longer text!",)]),
    ],
)
def test_which_string_it_is(text, calls):
    space = {}
    exec(
        (
            "import warnings\nwith warnings.catch_warnings():\n    "
            f"warnings.simplefilter('ignore')\n    f = eval(\"lambda s, t=None: {text}\")"
        ),
        space,
    )
    plain, got = results(space["f"], calls)
    assert got == plain


@undisturbed
def test_strings_that_differ_are_different_objects_without_a_break():
    c = G.compile(lambda x, mode: x * (2 if mode is SUM else 3), backend="eager", fullgraph=True)
    assert c(G.ones(1), "mean").item() == 3


def test_randrange_by_itself():
    f, g = random.Random(1), random.Random(1)
    c = G.compile(f.randrange, backend="eager")
    for n in (5, 6, 7, BIG, 5):
        assert c(n) == g.randrange(n)
