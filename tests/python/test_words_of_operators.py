# SPDX-License-Identifier: Apache-2.0
"""The WORD rows of gramme-ops.def, which tell authors of back ends what a value is: each statement,
on values that decide it."""

import math
import os
import pathlib
import re

import pytest

import gramme as G

TOP = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2]))
NAN, INF = math.nan, math.inf
WORDS = dict(
    re.findall(
        r'^WORD \("([^"]+)",\s*"([^"]*)"\)',
        (TOP / "plugin-api/gramme-ops.def").read_text(),
        re.MULTILINE,
    )
)


def f32(*values):
    return G.tensor(values, dtype=G.float32)


def i8(*values):
    return G.tensor(values, dtype=G.int8)


# word: [(function, operands, result)]
FACTS = {
    "+, -, *": [
        (lambda x, y: x * y, (i8(100, -128), i8(3, -1)), [44, -128]),
        (lambda x, y: x + y, (i8(127), i8(1)), [-128]),
    ],
    "f16, bf16": [(lambda x: x * x + 0, (G.tensor([255.9, 256.1]).half(),), [65472.0, INF])],
    "SEL (m, x, y)": [(G.where, (G.tensor([True, False]), f32(1, NAN), f32(NAN, 2)), [1.0, 2.0])],
    "ABS (x)": [(G.abs, (f32(-0.0, -INF),), [0.0, INF]), (G.abs, (i8(-128, -3),), [-128, 3])],
    "SIGN (x)": [(G.sign, (f32(-2, -0.0, 0, 3, NAN),), [-1.0, 0.0, 0.0, 1.0, 0.0])],
    "MAX (x, y)": [
        (G.maximum, (f32(NAN, 1, 0.0, -0.0), f32(1, NAN, -0.0, 0.0)), [NAN, NAN, 0.0, -0.0])
    ],
    "MIN (x, y)": [
        (G.minimum, (f32(NAN, 1, 0.0, -0.0), f32(1, NAN, -0.0, 0.0)), [NAN, NAN, 0.0, -0.0])
    ],
    "FLOOR (x)": [(G.floor, (f32(-0.5, 1.5, -0.0),), [-1.0, 1.0, -0.0])],
    "CEIL (x)": [(G.ceil, (f32(-0.5, 1.5),), [-0.0, 2.0])],
    "TRUNC (x)": [(G.trunc, (f32(-0.5, 1.5),), [-0.0, 1.0])],
    "ROUND (x)": [(G.round, (f32(0.5, 1.5, 2.5, -0.5, -1.5),), [0.0, 2.0, 2.0, -0.0, -2.0])],
    "REM (x, y)": [
        (
            G.remainder,
            (f32(5, -5, 5, -5, 5, -1, INF), f32(3, 3, -3, -3, 0, INF, 2)),
            [2.0, 1.0, -1.0, -2.0, NAN, INF, NAN],
        ),
        (G.remainder, (i8(5, -5, 5, -5), i8(3, 3, -3, -3)), [2, 1, -1, -2]),
    ],
    "FLOORDIV (x, y)": [
        (
            G.floor_divide,
            (f32(5, -5, 5, 0, 1, -1, -0.0), f32(3, 3, -3, 0, 0, 0, 2)),
            [1.0, -2.0, -2.0, NAN, INF, -INF, -0.0],
        ),
        (G.floor_divide, (i8(5, -5, 5, -128), i8(3, 3, -3, -1)), [1, -2, -2, -128]),
    ],
    "POW (x, y)": [
        (
            G.pow,
            (f32(NAN, 1, 0, -8, -2, 0, -0.0), f32(0, NAN, 0, 0.5, 3, -1, -3)),
            [1.0, 1.0, 1.0, NAN, -8.0, INF, -INF],
        ),
        (G.pow, (G.tensor([1, -1, -1, 2, 0]), G.tensor([-3, -3, -2, -1, -1])), [1, -1, 1, 0, 0]),
        (G.pow, (i8(7, -7, -128), i8(3, 3, 2)), [87, -87, 0]),
    ],
    "SQRT (x)": [(G.sqrt, (f32(2, -1, -0.0),), [1.4142135381698608, NAN, -0.0])],
    "EXP (x)": [(G.exp, (f32(-INF, INF, NAN, 0),), [0.0, INF, NAN, 1.0])],
    "TANH (x)": [(G.tanh, (f32(-INF, INF, NAN, -0.0),), [-1.0, 1.0, NAN, -0.0])],
    "ERF (x)": [(G.erf, (f32(-INF, INF, NAN, -0.0),), [-1.0, 1.0, NAN, -0.0])],
    "LOWEST, HIGHEST": [
        (lambda x: x.amax(), (f32(-INF, -INF),), -INF),
        (lambda x: x.amin(), (i8(127, 127),), 127),
    ],
    "cast": [
        (lambda x: x.bool(), (f32(NAN, 0.5, 0.0, -0.0),), [True, True, False, False]),
        (
            lambda x: x.long(),
            (f32(2.7, -2.7, NAN, INF, 1e20),),
            [2, -2, -(2**63), -(2**63), -(2**63)],
        ),
        (
            lambda x: x.int(),
            (f32(2.7, -2.7, NAN, -INF, 3e9),),
            [2, -2, -(2**31), -(2**31), -(2**31)],
        ),
        (lambda x: x.to(G.int8), (f32(300, -1, 70000, NAN, 1e20),), [44, -1, 112, 0, 0]),
        (lambda x: x.to(G.uint8), (f32(300, -1),), [44, 255]),
        (lambda x: x.to(G.int8), (G.tensor([300, -1, 2**40 + 5]),), [44, -1, 5]),
        (lambda x: x.half(), (f32(65520, 65519, 2049, 2051),), [INF, 65504.0, 2048.0, 2052.0]),
    ],
    "sum, cumsum": [
        (lambda x: x.sum(), (G.ones(2**24 + 8),), float(2**24 + 8)),
        (lambda x: x.half().sum(), (f32(2048, 1, 1),), 2050.0),
    ],
    "argmax, argmin, argsort": [
        (G.argmax, (f32(1, NAN, 3, NAN),), 1),
        (G.argmin, (f32(1, NAN, -3, NAN),), 1),
        (G.argsort, (f32(NAN, 2, 1),), [2, 1, 0]),
    ],
}
LATER = {
    "K (x)": "a literal",
    (
        "EXP2, EXPM1, LOG, LOG2, LOG10, LOG1P, SIN, COS, TAN, ATAN, SINH, COSH, ATAN2"
    ): "tests/ops compares each with the C library",
}


@pytest.mark.parametrize("word", FACTS)
def test_values_are_what_the_word_says(word):
    assert word in WORDS
    for function, operands, want in FACTS[word]:
        for backend in (
            (None, "eager", "tcc") if "tcc" in G.compiler.list_backends() else (None, "eager")
        ):
            got = (G.compile(function, backend=backend) if backend else function)(
                *operands
            ).tolist()
            assert repr(got) == repr(want), (word, backend)


def test_each_word_is_tried():
    assert set(WORDS) == set(FACTS) | set(LATER)
