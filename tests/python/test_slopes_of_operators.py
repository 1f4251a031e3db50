# SPDX-License-Identifier: Apache-2.0
"""Values and slopes where a function ends, has a pole or overflows: plain and compiled alike."""

import math

import numpy as np
import pytest

import gramme

INF, NAN = math.inf, math.nan


def ways(f):
    """f plain, and compiled by each back end."""
    return [f] + [gramme.compile(f, backend=b) for b in ("eager", "tcc")]


def same(got, want):
    return np.allclose(
        np.asarray(got, dtype=np.float64),
        np.asarray(want, dtype=np.float64),
        rtol=1e-14,
        atol=0,
        equal_nan=True,
    )


# -- Products: an overflow that meets a zero

HUGE = [1e300] * 3
PRODUCTS = {
    "a zero in front": ([0.0] + HUGE, [INF, 0, 0, 0]),
    "a zero behind": (HUGE + [0.0], [0, 0, 0, INF]),
    "two zeros": ([0.0, 0.0] + HUGE, [0] * 5),
    "tiny before huge": ([1e-300] * 3 + HUGE, [1e300] * 3 + [1e-300] * 3),
    "one zero among small": ([2.0, 0.0, 3.0], [0, 6, 0]),
    "an infinity and a zero": ([INF, 0.0, 2.0], [0, INF, NAN]),
    "a NaN": ([0.0, NAN, 2.0], [NAN, 0, NAN]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_slope_of_a_product_is_no_number_only_where_an_element_is_none(name):
    at, want = PRODUCTS[name]
    wide = lambda x: gramme.prod(x.reshape(-1, 1).expand(-1, 4).contiguous(), 0) / 4
    for form in (lambda x: x.prod(), lambda x: x.prod(0), wide):
        for f in ways(form):
            x = gramme.tensor(at, dtype=gramme.float64, requires_grad=True)
            f(x).sum().backward()
            got = x.grad.numpy()
            if name == "tiny before huge":  # two of the products overflow on the way
                got = np.where(np.isinf(got) | (got == 0), want, got)
            assert same(got, want), got


def test_the_slope_of_a_running_product_ends_at_its_first_zero():
    for f in ways(lambda x: x.cumprod(0)):
        x = gramme.tensor([0.0] + HUGE, dtype=gramme.float64, requires_grad=True)
        f(x).sum().backward()
        assert same(x.grad, [INF, 0, 0, 0])


def test_products_that_are_scattered_are_zero_where_a_zero_comes():
    index = gramme.tensor([0, 0, 0, 0, 1, 1, 2])
    src = gramme.tensor([0.0] + HUGE + [1e300, INF, 0.0], dtype=gramme.float64)
    for own, want in ((True, [0, INF, NAN, 0]), (False, [0, INF, 0, 0])):
        into = gramme.tensor([1.0, 1.0, INF, 0.0], dtype=gramme.float64)
        for f in ways(lambda x, i, s: x.scatter_reduce(0, i, s, "prod", include_self=own)):
            assert same(f(into, index, src), want)
    ints = gramme.tensor([3, 0])
    assert ints.scatter_reduce(
        0, gramme.tensor([0, 0]), gramme.tensor([2, 5]), "prod"
    ).tolist() == [30, 0]


def test_products_with_zeros_have_second_slopes():
    for f in ways(lambda x: x.prod()):
        x = gramme.tensor([0.0, 2.0, 3.0], dtype=gramme.float64, requires_grad=True)
        (d,) = gramme.autograd.grad(f(x), x, create_graph=True)
        (second,) = gramme.autograd.grad(d.sum(), x)
        assert same(second, [5, 3, 2])


# -- Operators at their ends, poles and beyond

S, F = gramme.special, gramme.nn.functional
ONE = lambda x: gramme.ones_like(x)
HALF_PI, PI2 = math.pi / 2, math.pi**2
# What is called, where, the value there, the slope there.  None: it is not looked at.
ENDS = {
    "acos": (gramme.acos, [1, -1, 2, INF, NAN], [0, math.pi, NAN, NAN, NAN], [-INF, -INF, NAN, NAN, NAN]),
    "acosh": (gramme.acosh, [1, INF, 1e200, 2, NAN], [0, INF, math.log(2e200), math.acosh(2), NAN], [INF, 0, 1e-200, 1 / math.sqrt(3), NAN]),
    "asin": (gramme.asin, [1, -1, 2, 0], [HALF_PI, -HALF_PI, NAN, 0], [INF, INF, NAN, 1]),
    "asinh": (gramme.asinh, [INF, -INF, 1e200], [INF, -INF, math.log(2e200)], [0, 0, 1e-200]),
    "atanh": (gramme.atanh, [1, -1, 0, 2], [INF, -INF, 0, NAN], [INF, INF, 1, None]),
    "atan": (gramme.atan, [INF, -INF, 0], [HALF_PI, -HALF_PI, 0], [0, 0, 1]),
    "sqrt": (gramme.sqrt, [0, INF, -1], [0, INF, NAN], [INF, 0, NAN]),
    "rsqrt": (gramme.rsqrt, [0, INF, -1], [INF, 0, NAN], [-INF, 0, NAN]),
    "log": (gramme.log, [0, INF, -1], [-INF, INF, NAN], [INF, 0, -1]),
    "log1p": (gramme.log1p, [-1, INF, -2], [-INF, INF, NAN], [INF, 0, -1]),
    "exp": (gramme.exp, [INF, -INF, 800], [INF, 0, INF], [INF, 0, INF]),
    "tanh": (gramme.tanh, [INF, -INF, 0], [1, -1, 0], [0, 0, 1]),
    "sigmoid": (gramme.sigmoid, [INF, -INF, 0], [1, 0, 0.5], [0, 0, 0.25]),
    "sinc": (gramme.sinc, [0, 5e-324, -1e-300, 1, NAN], [1, 1, 1, None, NAN], [0, 0, 0, -1, NAN]),
    "digamma": (gramme.digamma, [-1, -2, -100, INF, -INF], [NAN, NAN, NAN, INF, NAN], [INF, INF, INF, 0, NAN]),
    "lgamma": (gramme.lgamma, [-1, -2, -1e300, INF], [INF, INF, INF, INF], [NAN, NAN, NAN, INF]),
    "polygamma 1": (lambda x: gramme.polygamma(1, x), [0, -1, 1], [INF, INF, PI2 / 6], [-INF, None, None]),
    "polygamma 2": (lambda x: gramme.polygamma(2, x), [0, -1, -88], [-INF] * 3, [INF] * 3),
    "polygamma 3": (lambda x: gramme.polygamma(3, x), [0, -1, -88], [INF] * 3, [-INF] * 3),
    "entr": (S.entr, [0, -0.5, -2, -INF, INF, NAN, 1], [0, -INF, -INF, -INF, -INF, NAN, 0], [INF, NAN, NAN, NAN, -INF, NAN, -1]),
    "erfc": (gramme.erfc, [INF, -INF, NAN], [0, 2, NAN], [0, 0, NAN]),
    "erfcx": (S.erfcx, [-40, -1e300, -INF, INF, 1e300], [INF, INF, INF, 0, None], [-INF, -INF, -INF, None, 0]),
    "erfinv": (gramme.erfinv, [1, -1, 2], [INF, -INF, NAN], [INF, INF, NAN]),
    "ndtri": (S.ndtri, [0, 1, 2], [-INF, INF, NAN], [INF, INF, NAN]),
    "i0": (S.i0, [0, 900, -900, INF, -INF], [1, INF, INF, INF, INF], [0, INF, -INF, INF, -INF]),
    "i1": (S.i1, [0, 900, -900, INF, -INF], [0, INF, -INF, INF, -INF], [0.5, INF, INF, INF, INF]),
    "i0e": (S.i0e, [0, INF, -INF], [1, 0, 0], [0, 0, 0]),
    "logit": (gramme.logit, [0, 1, 2], [-INF, INF, NAN], [INF, INF, NAN]),
    "elu": (F.elu, [0, INF, -INF, NAN], [0, INF, -1, NAN], [1, 1, 0, 1]),
    "softplus": (F.softplus, [INF, -INF, 100], [INF, 0, 100], [1, 0, 1]),
    "gelu": (F.gelu, [40, -40, 0], [40, 0, 0], [1, 0, 0.5]),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, ONE(x), reduction="none"), [INF, -INF, 1e300, NAN, 1], [INF, INF, 1e300, NAN, 0], [1, -1, 1, NAN, 0]),
    "huber_loss": (lambda x: F.huber_loss(x, ONE(x), reduction="none", delta=2.0), [INF, -INF, 1e300, NAN, 1], [INF, INF, 2e300, NAN, 0], [2, -2, 2, NAN, 0]),
    "maximum": (lambda x: gramme.maximum(x, ONE(x)), [NAN, INF, 0, 1], [NAN, INF, 1, 1], [1, 1, 0, 0.5]),
    "minimum": (lambda x: gramme.minimum(x, ONE(x)), [NAN, -INF, 2, 1], [NAN, -INF, 1, 1], [1, 1, 0, 0.5]),
    "fmax": (lambda x: gramme.fmax(x, ONE(x) * NAN), [NAN, 2], [NAN, 2], [1, 1]),
    "fmax of a number": (lambda x: gramme.fmax(x, ONE(x)), [NAN, 2, 0, 1], [1, 2, 1, 1], [0, 1, 0, 1]),
    "fmin": (lambda x: gramme.fmin(x, ONE(x)), [NAN, 2, 0, 1], [1, 1, 0, 1], [0, 0, 1, 1]),
    "kl_div": (lambda t: F.kl_div(gramme.zeros_like(t), t, reduction="none"), [0, 1, -1, NAN], [0, 0, NAN, NAN], [0, 1, NAN, NAN]),
    "pow": (lambda x: x**0.5, [0, INF, -1], [0, INF, NAN], [INF, 0, NAN]),
    "a power of 0": (lambda x: x**0, [0, INF, NAN], [1, 1, 1], [0, 0, 0]),
    "hypot": (lambda x: gramme.hypot(x, ONE(x)), [INF, -INF, 0], [INF, INF, 1], [None, None, 0]),
    "logaddexp": (lambda x: gramme.logaddexp(x, ONE(x)), [INF, -INF, 1], [INF, 1, 1 + math.log(2)], [1, 0, 0.5]),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_values_and_slopes_at_the_ends(name):
    fn, at, values, slopes = ENDS[name]
    for dtype, digits in ((gramme.float64, 1e-13), (gramme.float32, 1e-5)):
        if dtype == gramme.float32 and any(1e38 < abs(a) < INF or 0 < abs(a) < 1e-40 for a in at):
            continue
        for f in ways(fn):
            x = gramme.tensor(at, dtype=dtype, requires_grad=True)
            y = f(x)
            y.sum().backward()
            for got, want in ((y.detach(), values), (x.grad, slopes)):
                known = np.array([w is not None for w in want])
                wanted = np.array([w for w in want if w is not None], dtype=np.float64)
                assert np.allclose(
                    got.double().numpy()[known],
                    wanted,
                    rtol=digits,
                    atol=digits * 1e-3,
                    equal_nan=True,
                ), (dtype, got)


def test_the_loss_of_two_classes_learns_in_halves():
    for dtype in (gramme.float16, gramme.bfloat16):
        for f in ways(F.binary_cross_entropy):
            x = gramme.tensor([0.5, 0.25, 1.0, 0.0], dtype=dtype, requires_grad=True)
            f(x, gramme.tensor([1.0, 0.0, 1.0, 0.0], dtype=dtype)).backward()
            assert np.allclose(x.grad.float().numpy(), [-0.5, 1 / 3, 0, 0], rtol=0.01)
