# SPDX-License-Identifier: Apache-2.0
"""Numbers that a dtype does not hold, as factors, bounds and ends: refused where torch 2.13 refuses
them, plain, compiled, and when they are sizes."""

import math

import pytest

import gramme as G

F = G.nn.functional
INF, NAN = math.inf, math.nan

VALUES = {
    "300": 300,
    "-129": -129,
    "2^31": 2**31,
    "2^40": 2**40,
    "7e4": 70000.0,
    "1e39": 1e39,
    "inf": INF,
    "nan": NAN,
    "1.5": 1.5,
    "True": True,
    "2": 2,
}

ints8 = "300 -129 2^31 2^40 7e4 1e39 inf nan"
ints32 = "2^31 2^40 1e39 inf nan"
half = "2^31 2^40 7e4 1e39"


def one(x, *sizes):
    return x[:1].reshape(*sizes)


def written(x, key, v):
    y = x.clone()
    y[key] = v
    return y


# what is called with the number, and which numbers torch refuses for int8, int32, float16 and
# float32; None: all, or it is not said
TABLE = {
    "add, alpha": (
        lambda x, v: G.add(x, x, alpha=v),
        ints8 + " 1.5 True",
        "2^31 2^40 7e4 1e39 inf nan 1.5 True",
        half + " True",
        "1e39 True",
    ),
    "add_, alpha": (
        lambda x, v: x.add_(x, alpha=v),
        ints8 + " 1.5 True",
        "2^31 2^40 7e4 1e39 inf nan 1.5 True",
        half + " True",
        "1e39 True",
    ),
    "sub, alpha": (
        lambda x, v: G.sub(x, x, alpha=v),
        ints8 + " 1.5 True",
        "2^40 7e4 1e39 inf nan 1.5 True",
        half + " True",
        "1e39 True",
    ),
    "rsub, alpha": (
        lambda x, v: G.rsub(x, x, alpha=v),
        ints8 + " 1.5 True",
        "2^40 7e4 1e39 inf nan 1.5 True",
        half + " True",
        "1e39 True",
    ),
    "addcmul, value": (lambda x, v: G.addcmul(x, x, x, value=v), ints8, ints32, "1e39", "1e39"),
    "addcdiv, value": (lambda x, v: G.addcdiv(x, x, x, value=v), None, None, "1e39", "1e39"),
    "addmm, alpha": (
        lambda x, v: G.addmm(one(x, 1, 1), one(x, 1, 1), one(x, 1, 1), alpha=v),
        ints8,
        ints32,
        "1e39",
        "1e39",
    ),
    "addmm, beta": (
        lambda x, v: G.addmm(one(x, 1, 1), one(x, 1, 1), one(x, 1, 1), beta=v),
        ints8,
        ints32,
        "1e39",
        "1e39",
    ),
    "addbmm, alpha": (
        lambda x, v: G.addbmm(one(x, 1, 1), one(x, 1, 1, 1), one(x, 1, 1, 1), alpha=v),
        ints8,
        ints32,
        "1e39",
        "1e39",
    ),
    "baddbmm, beta": (
        lambda x, v: G.baddbmm(one(x, 1, 1, 1), one(x, 1, 1, 1), one(x, 1, 1, 1), beta=v),
        ints8,
        ints32,
        "1e39",
        "1e39",
    ),
    "addmv, alpha": (
        lambda x, v: G.addmv(x[:1], one(x, 1, 1), x[:1], alpha=v),
        ints8,
        ints32,
        half,
        "1e39",
    ),
    "addr, alpha": (
        lambda x, v: G.addr(one(x, 1, 1), x[:1], x[:1], alpha=v),
        ints8 + " 1.5 True",
        "2^31 2^40 7e4 1e39 inf nan 1.5 True",
        half + " True",
        "1e39 True",
    ),
    "index_add, alpha": (
        lambda x, v: x.index_add(0, G.tensor([0]), x[:1], alpha=v),
        ints8,
        ints32,
        half,
        "1e39",
    ),
    "leaky_relu": (lambda x, v: F.leaky_relu(-x, v), None, None, "1e39", "1e39"),
    "elu": (lambda x, v: F.elu(-x, v), None, None, "1e39", "1e39"),
    "celu": (lambda x, v: F.celu(-x, v), None, None, "1e39", "1e39"),
    "softplus": (lambda x, v: F.softplus(x, v), None, None, "1e39", "1e39"),
    "threshold": (lambda x, v: F.threshold(x, v, 1), ints8, ints32, "1e39", "1e39"),
    "softshrink": (
        lambda x, v: F.softshrink(x, v),
        None,
        None,
        "-129 2^31 2^40 7e4 1e39 inf nan",
        "-129 1e39 inf nan",
    ),
    "hardshrink": (lambda x, v: F.hardshrink(x, v), None, None, half, "1e39"),
    "lerp": (lambda x, v: G.lerp(x, x + x, v), None, None, "1e39", "1e39"),
    "pow": (lambda x, v: x**v, "300 -129 2^31 2^40", "-129 2^31 2^40", half, ""),
    "fmod": (lambda x, v: G.fmod(x, v), "2^31 2^40", "2^40", "", ""),
    "remainder": (lambda x, v: x % v, "2^31 2^40", "2^40", "", ""),
    "floor_divide": (lambda x, v: x // v, "2^31 2^40", "2^40", "", ""),
    "linspace, end": (lambda x, v: G.linspace(0, v, 3, dtype=x.dtype), ints8, ints32, half, "1e39"),
    "linspace, start": (
        lambda x, v: G.linspace(v, 0, 3, dtype=x.dtype),
        ints8,
        ints32,
        half,
        "1e39",
    ),
    "logspace, end": (lambda x, v: G.logspace(0, v, 3, dtype=x.dtype), ints8, ints32, half, "1e39"),
    "uniform_": (lambda x, v: x.uniform_(v, v), None, None, half + " inf nan", "1e39 inf nan"),
    "histc, max": (
        lambda x, v: G.histc(x, 3, -1, v),
        None,
        None,
        "-129 " + half + " inf nan",
        "-129 1e39 inf nan",
    ),
    "pad": (lambda x, v: F.pad(x, (1, 1), value=v), ints8, ints32, half, "1e39"),
    "logit, eps": (lambda x, v: G.logit(x / 2, v), None, None, half, "1e39"),
    "nan_to_num": (
        lambda x, v: G.nan_to_num(x * NAN if x.dtype.is_floating_point else x, nan=v),
        "",
        "",
        "",
        "",
    ),
    "full": (lambda x, v: G.full((2,), v, dtype=x.dtype), ints8, ints32, half, "1e39"),
    "x[0] =": (lambda x, v: written(x, 0, v), None, None, "", "1e39"),
    "x[:] =": (lambda x, v: written(x, slice(None), v), None, None, "", "1e39"),
    "x[mask] =": (lambda x, v: written(x, x > 0, v), None, None, "", "1e39"),
    "where": (
        lambda x, v: G.where(x > 0, x, v),
        "300 -129 2^31 2^40 1e39",
        "2^31 2^40 1e39",
        "",
        "1e39",
    ),
}
DTYPES = ("int8", "int32", "float16", "float32")
CASES = [
    (name, dtype, row[1 + k].split())
    for name, row in TABLE.items()
    for k, dtype in enumerate(DTYPES)
    if row[1 + k] is not None
]


def refused(f, dtype, values):
    found = []
    for name in values:
        try:
            f(G.ones(2, dtype=getattr(G, dtype)), VALUES[name])
        except (RuntimeError, TypeError):
            found.append(name)
    return found


@pytest.mark.parametrize("name, dtype, want", CASES, ids=lambda p: p if isinstance(p, str) else "")
def test_what_torch_refuses_is_refused(name, dtype, want):
    assert refused(TABLE[name][0], dtype, VALUES) == [v for v in VALUES if v in want]


WHOLE = ["2", "300", "2^31", "2^40"]


@pytest.mark.filterwarnings("ignore::gramme.compiler.GraphBreakWarning")
@pytest.mark.parametrize("name", [n for n in TABLE if n not in ("uniform_", "logit, eps")])
def test_the_same_when_it_is_a_number_that_varies(name):
    f = TABLE[name][0]
    for dtype in ("int8", "float16"):
        if TABLE[name][1 + DTYPES.index(dtype)] is None:
            continue
        G._dynamo.reset()
        c = G.compile(lambda x, v: f(x, v), backend="eager")
        x = getattr(G, dtype)
        for fits in (3, 2, 5):  # becomes a size
            assert G.equal(c(G.ones(2, dtype=x), fits), f(G.ones(2, dtype=x), fits))
        assert refused(c, dtype, WHOLE) == refused(f, dtype, WHOLE)
        for fits in (7, 9):
            assert G.equal(c(G.ones(2, dtype=x), fits), f(G.ones(2, dtype=x), fits))


def test_values_of_numbers_that_are_cut_or_infinite():
    i, h, b = G.ones(2, dtype=G.int8), G.ones(2, dtype=G.half), G.ones(2, dtype=G.bool)
    assert G.addcmul(i, i, i, value=1.5).tolist() == [2, 2] and G.addmm(
        i[:1, None], i[:1, None], i[:1, None], alpha=1.5
    ).tolist() == [[2]]
    assert i.index_add(0, G.tensor([0]), i[:1], alpha=1.5).tolist() == [2, 1]
    assert G.sub(i, i, alpha=128).tolist() == [-127, -127]  # -128 fits
    assert G.add(b, b, alpha=300).tolist() == [True, True] and G.add(b, b, alpha=0).dtype == G.bool
    assert G.nan_to_num(G.tensor([NAN, INF, 1.0]), nan=INF, posinf=3.0).tolist() == [INF, 3, 1]
    assert G.nan_to_num(G.tensor([NAN, -INF]), nan=-INF, neginf=2.0).tolist() == [-INF, 2]
    assert G.nan_to_num(h * NAN, nan=70000.0).tolist() == [INF, INF] and G.nan_to_num(
        G.tensor([NAN]), nan=-1e300
    ).tolist() == [-INF]
    assert G.where(h < 0, h, 70000.0).tolist() == [INF, INF]
    assert G.logspace(0, 1.5, 3, dtype=G.int8).tolist() == [1, 3, 10]


def test_bools_and_unsigned_numbers():
    b = G.ones(2, dtype=G.bool)
    for wrong in (
        lambda: G.add(b, b, alpha=1.5),
        lambda: G.sub(b, b, alpha=2),
        lambda: G.linspace(0, 1, 3, dtype=G.bool),
        lambda: G.logspace(0, 1, 3, dtype=G.bool),
    ):
        with pytest.raises(RuntimeError):
            wrong()
    with pytest.raises(RuntimeError, match="uint8 without overflow"):
        F.pad(G.ones(2, dtype=G.uint8), (1, 1), value=-1)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_a_divisor_that_is_zero_in_its_dtype_is_zero(backend):
    for divide in (
        lambda x: x // 256,
        lambda x: x % 512,
        lambda x: G.div(x, -256, rounding_mode="trunc"),
        lambda x: G.fmod(x, 2**32),
    ):
        for f in (divide, G.compile(divide, backend=backend)):
            with pytest.raises(RuntimeError, match="ZeroDivision"):
                f(G.tensor([5], dtype=G.int8))
    assert (G.tensor([5], dtype=G.int8) // 258).tolist() == [2]
