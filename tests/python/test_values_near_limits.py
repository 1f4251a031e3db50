# SPDX-License-Identifier: Apache-2.0
"""Values and slopes next to the ends of what a dtype holds and of where a function is defined:
subnormals, the largest numbers, probabilities next to 1, exponents and counts out of range."""

import math

import pytest

import gramme

INF, NAN = math.inf, math.nan
F32, F64, I64 = gramme.float32, gramme.float64, gramme.int64
BACK_ENDS = [n for n in ("eager", "tcc") if n in gramme.compiler.list_backends()]
TINY, LEAST = 5e-324, 744.4400719213812  # a number, and the logarithm of its reciprocal
END, STEEP = 5.8635847487551676, 757347920544974.0  # of erfinv, and its slope


def forms(fn):
    return [fn, *(gramme.compile(fn, backend=name) for name in BACK_ENDS)]


# name: function, dtype, operands, values to `rel`, slopes (None: not asked)
VALUES = {
    "tan of subnormals": (
        gramme.tan, F64,
        [TINY, -TINY, 7 * TINY, 1e-310, 3e-308, -1e-300],
        [TINY, -TINY, 7 * TINY, 1e-310, 3e-308, -1e-300],
        [1] * 6,
    ),
    "sinh, f32": (
        gramme.sinh, F32,
        [88.5, -89.0, 89.41, 89.42, INF],
        [1.361543959e38, -2.2448064e38, 3.3825265e38, INF, INF],
        None,
    ),
    "cosh, f32": (
        gramme.cosh, F32,
        [88.5, -89.0, 89.41, 89.42, -INF],
        [1.361543959e38, 2.2448064e38, 3.3825265e38, INF, INF],
        None,
    ),
    "sinh, f64": (
        gramme.sinh, F64,
        [709.5, -709.8, 710.47, 710.48, -INF],
        [6.774931596573164e307, -9.145201086358822e307, 1.787189326768405e308, INF, -INF],
        [6.774931596573164e307, 9.145201086358822e307, 1.787189326768405e308, INF, INF],
    ),
    "cosh, f64": (
        gramme.cosh, F64,
        [710.47, 710.48],
        [1.787189326768405e308, INF],
        [1.787189326768405e308, INF],
    ),
    "erfinv next to 1": (
        gramme.erfinv, F64,
        [0.999, 0.99999999, 0.999999999999, 1 - 2.0**-53, 2.0**-53 - 1],
        [2.3267537655135246, 4.052237243268763, 5.042031898572696, END, -END],
        [198.93951776442475, 11993128.732177582, 97323218788.39923, STEEP, STEEP],
    ),
    "lgamma next to 0": (
        gramme.lgamma, F64,
        [TINY, -TINY, -1e-310, -1e-300, -1e-290, 1e-310],
        [LEAST, LEAST, 713.8013788281542, 690.7755278982137, 667.7496769682733, 713.8013788281542],
        [-INF, INF, INF, 1e300, 1e290, -INF],
    ),
    "erfcx below": (
        gramme.special.erfcx, F64,
        [-26.6, -26.6288, -26.64, -27.0, -30.0, -INF],
        [3.894337719605585e307, INF, INF, INF, INF, INF],
        [-INF] * 6,
    ),
    "erfcx, its largest value": (
        gramme.special.erfcx, F64,
        [-26.62873571375149],
        [1.7976931348622484e308],
        None,
    ),
    "erfcx, f32": (
        gramme.special.erfcx, F32,
        [-9.2, -26.64, -27.0, -30.0],
        [1.1473962e37, INF, INF, INF],
        [-2.11120902e38, -INF, -INF, -INF],
    ),
    "erfcx above": (
        gramme.special.erfcx, F64,
        [100.0, 1e10, 1e200, INF],
        [5.641613782989433e-3, 5.641895835477563e-11, 5.641895835477563e-201, 0],
        [-5.6410497625993184e-5, -5.6418958354775626e-21, 0, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_and_slopes(name):
    fn, dtype, at, values, slopes = VALUES[name]
    rel = 1e-6 if dtype == F32 else 1e-13
    for f in forms(fn):
        x = gramme.tensor(at, dtype=dtype, requires_grad=True)
        y = f(x)
        assert y.tolist() == pytest.approx(values, rel=rel, abs=0)
        if slopes:
            y.sum().backward()
            assert x.grad.tolist() == pytest.approx(slopes, rel=100 * rel, abs=0)


def test_erfinv_has_second_slopes_next_to_1():
    x = gramme.tensor([0.99999, -0.9999999999], dtype=F64, requires_grad=True)
    (first,) = gramme.autograd.grad(gramme.erfinv(x).sum(), x, create_graph=True)
    (second,) = gramme.autograd.grad(first.sum(), x)
    want = 2 * gramme.erfinv(x.detach()) * first.detach() ** 2  # from y' = sqrt (pi) / 2 exp (y^2)
    assert second.tolist() == pytest.approx(want.tolist(), rel=1e-9)


def test_zeta_of_a_large_exponent_is_its_first_term():
    s = gramme.tensor([301.0, 1e4, 1e30, 1e30, 1e30, 400.0], dtype=F64)
    q = gramme.tensor([1.0, 1.0, 1.0, 0.5, 2.0, 0.5], dtype=F64)
    for f in forms(gramme.special.zeta):
        assert f(s, q).tolist() == [1, 1, 1, INF, 0, 2.0**400]


SHIFTS = [1, 63, 64, 70, -1, -5]


@pytest.mark.parametrize("dtype", [I64, gramme.int8])
def test_a_shift_by_a_negative_count_is_one_past_the_last_bit(dtype):
    last = dtype.itemsize * 8 - 1
    for count in (*SHIFTS, last, last + 1):
        count = gramme.tensor(count, dtype=dtype)
        n = count.item()
        inside = 0 <= n <= last
        for f in forms(lambda x, n: (x >> n, x << n)):
            right, left = f(gramme.tensor([-1, -5, 7], dtype=dtype), count)
            assert right.tolist() == ([v >> n for v in (-1, -5, 7)] if inside else [-1, -1, 0])
            assert left.tolist() == [0] * 3 or inside


def test_repeats_alone_give_the_number_of_each():
    for f in forms(gramme.repeat_interleave):
        assert f(gramme.tensor([1, 0, 3])).tolist() == [0, 2, 2, 2]
        assert f(gramme.tensor([2], dtype=gramme.int32)).tolist() == [0, 0]
        assert f(gramme.tensor([2, 1]), output_size=3).tolist() == [0, 0, 1]
    for dtype in (I64, gramme.int32):
        assert gramme.repeat_interleave(gramme.tensor([1, 0], dtype=dtype)).dtype is dtype
    for wrong in (gramme.tensor([1, -2]), gramme.tensor([1.0, 2.0]), gramme.ones(2, 2, dtype=I64)):
        with pytest.raises(RuntimeError, match="repeat_interleave|repeats can not be negative"):
            gramme.repeat_interleave(wrong)


def test_a_hinge_of_integers_has_the_margins_fraction():
    # torch computes it in integers, and refuses their mean.
    x, y = gramme.tensor([1, 2, 3]), gramme.tensor([1, -1, 1])
    f = gramme.nn.functional.hinge_embedding_loss
    assert f(x, y, margin=2.5, reduction="none").tolist() == [1.0, 0.5, 3.0]
    assert f(x, y, margin=2.5).item() == 1.5
