# SPDX-License-Identifier: Apache-2.0
"""Constants of one list or tuple are checked together: whatever stands there instead is seen, and
what is equal is as good."""

import functools
import math
import struct

import pytest

import gramme as G
from gramme._dynamo import config
from stress import undisturbed

pytestmark = undisturbed

BIG = 10**30


def things():
    """Made anew at each call, as far as Python makes new ones."""
    return [
        float("1.5"),
        int("1000"),
        "".join(["a", "b"]),
        None,
        True,
        int(str(BIG)),
        2.0,
        3,
        "c",
        float("-0.0"),
        complex(1, 2),
        b"".join([b"x", b"y"]),
        len,
        math,
    ]


def shape(kind):
    return {"list": list, "tuple": tuple}[kind]


def seen(values):
    """Each is read, and what it is has a part in the result."""
    text = ""
    for value in values:
        text += repr(value) if isinstance(value, (int, float, str, bytes, complex)) else "?"
    return text, values[3] is None, values[12] is len, values[13] is math


@pytest.fixture(autouse=True)
def no_entries():
    G.compiler.reset()


def compiled(box):
    def root(x):
        return x + 1, seen(box[0])

    return G.compile(root, backend="eager"), root


OTHERS = [
    2.5,
    1001,
    "ax",
    False,
    1,
    BIG + 1,
    -2.0,
    4,
    "d",
    0.0,
    complex(1, -2),
    b"xz",
    print,
    struct,
]
SAME_VALUE = [3, 2.0, None, 0, 1.0, float(BIG), 2, 3.0, b"c", 0, 1, "xy", None, functools]


@pytest.mark.parametrize("kind", ["list", "tuple"])
@pytest.mark.parametrize("i", range(len(OTHERS)))
@pytest.mark.parametrize("others", [OTHERS, SAME_VALUE])
def test_another_item_is_seen(kind, i, others):
    box = [shape(kind)(things())]
    f, root = compiled(box)
    f(G.ones(1))
    assert len(f.entries()) == 1
    changed = things()
    changed[i] = others[i]
    box[0] = shape(kind)(changed)
    for _ in range(2):
        assert f(G.ones(1))[1] == root(G.ones(1))[1]
    assert len(f.entries()) == 2
    box[0] = shape(kind)(things())
    assert f(G.ones(1))[1] == root(G.ones(1))[1]
    assert len(f.entries()) == 2


@pytest.mark.parametrize("kind", ["list", "tuple"])
def test_equal_items_are_as_good(kind):
    box = [shape(kind)(things())]
    f, root = compiled(box)
    for _ in range(3):
        assert f(G.ones(1))[1] == root(G.ones(1))[1]
        box[0] = shape(kind)(things())
    assert len(f.entries()) == 1


def test_numbers_are_compared_to_the_bit():
    box = [[float("nan"), 0.0, 1.0, 2.0, 3.0, 4.0]]
    f = G.compile(lambda x: (x, [math.copysign(1.0, v) for v in box[0]]), backend="eager")
    want = [1.0] * 6
    assert f(G.ones(1))[1] == want
    box[0] = [float("nan"), 0.0, 1.0, 2.0, 3.0, 4.0]  # another NaN of the same bits
    assert f(G.ones(1))[1] == want and len(f.entries()) == 1
    box[0] = [-float("nan"), 0.0, 1.0, 2.0, 3.0, 4.0]
    assert f(G.ones(1))[1] == [math.copysign(1.0, v) for v in box[0]]
    box[0] = [float("nan"), -0.0, 1.0, 2.0, 3.0, 4.0]
    assert f(G.ones(1))[1] == [math.copysign(1.0, v) for v in box[0]]
    assert len(f.entries()) == 3


def test_lists_that_are_read_by_turns():
    a, b = [float(i) for i in range(20)], [float(-i) for i in range(20)]
    f = G.compile(lambda x: (x, [p * q for p, q in zip(a, b)]), backend="eager")
    for k in range(20):
        assert f(G.ones(1))[1] == [p * q for p, q in zip(a, b)]
        (a if k % 2 else b)[k] += 0.5
    G.compiler.reset()
    assert f(G.ones(1))[1] == [p * q for p, q in zip(a, b)]


def test_a_list_that_loses_an_item_is_another_length():
    items = [float(i) for i in range(20)]
    f = G.compile(lambda x: (x, sum(items)), backend="eager")
    assert f(G.ones(1))[1] == sum(items)
    items.pop()
    assert f(G.ones(1))[1] == sum(items)
    items.clear()
    assert f(G.ones(1))[1] == 0


def test_each_item_has_its_line_and_is_the_reason():
    items = [float(i) for i in range(20)]
    f = G.compile(lambda x: (x, sum(items)), backend="eager")
    f(G.ones(1))
    lines = [line for line in f.entries()[0]["guards"].splitlines() if " == " in line]
    assert [line.split("  #")[0] for line in lines if "items" in line and "LEN" not in line] == [
        f"L['items'][{i}] == {float(i)}" for i in range(20)
    ]
    config.recompile_limit, limit = 1, config.recompile_limit
    try:
        items[7] = 0.25
        with pytest.warns(Warning, match=r"FLOAT L\['items'\]\[7\]: expected 7.0, found 0.25"):
            f(G.ones(1))
    finally:
        config.recompile_limit = limit


def test_an_item_that_is_used_otherwise_is_loaded():
    items = [1.0, 2.0, 3.0, 4.0, G.ones(2), 5.0, 6.0, "a", "b"]

    def root(x, other):
        return (
            x * items[4] + sum(items[:4]) + items[5] * items[6],
            items[7] + items[8],
            items[4] is other,
            items[7] is items[8],
        )

    f = G.compile(root, backend="eager")
    for other in (items[4], G.ones(2)):
        want = root(G.ones(2), other)
        have = f(G.ones(2), other)
        assert have[0].tolist() == want[0].tolist() and have[1:] == want[1:]
        have = f(G.ones(2), other)
        assert have[0].tolist() == want[0].tolist() and have[1:] == want[1:]


def test_a_run_is_looked_at_item_by_item():
    """Not two records each: the count is of what is compared."""
    items = [float(i) for i in range(1000)]
    f = G.compile(lambda x: (x, sum(items)), backend="eager")
    f(G.ones(1))
    assert f.measure_guards(1, False, G.ones(1))[1] <= 1000 + 30
