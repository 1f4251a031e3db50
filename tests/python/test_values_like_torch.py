# SPDX-License-Identifier: Apache-2.0
"""Values, slopes and refusals that are torch's at the points where formulas differ: NaN,
subnormals, weights beyond the middle, one element of a 16-bit dtype."""

import math

import pytest

import gramme

F = gramme.nn.functional
INF, NAN = math.inf, math.nan
BACK_ENDS = [n for n in ("eager", "tcc") if n in gramme.compiler.list_backends()]


def forms(fn):
    return [fn, *(gramme.compile(fn, backend=name) for name in BACK_ENDS)]


def same(got, want):
    """True for equal numbers of one sign, and for two NaNs."""
    assert len(got) == len(want)
    return all(
        a != a if b != b else a == b and math.copysign(1, a) == math.copysign(1, b)
        for a, b in zip(got, want)
    )


SLOPES_AT_NAN = {
    "elu": (F.elu, 1),
    "elu of another alpha": (lambda x: F.elu(x, 2.0), 1),
    "celu": (F.celu, 1),
    "selu": (F.selu, 1.0507009873554805),
    "hardsigmoid": (F.hardsigmoid, 0),
    "hardswish": (F.hardswish, 1),
    "softshrink": (F.softshrink, 1),
    "hardshrink": (F.hardshrink, 1),
    "hardtanh": (F.hardtanh, 1),  # torch has 1 or 0, by the length of the tensor
    "relu6": (F.relu6, 1),
    "threshold": (lambda x: F.threshold(x, 0.0, -2.0), 1),
    "relu": (F.relu, 1),
    "leaky_relu": (F.leaky_relu, 0.01),
    "clamp": (lambda x: x.clamp(0, 1), 0),
    "clamp by tensors": (lambda x: x.clamp(gramme.zeros(2), gramme.ones(2)), 0),
    "angle": (gramme.angle, 0),
}


@pytest.mark.parametrize("name", SLOPES_AT_NAN)
def test_the_slope_at_a_nan(name):
    fn, slope = SLOPES_AT_NAN[name]
    for f in forms(fn):
        for dtype in (gramme.float32, gramme.float64):
            x = gramme.tensor([NAN, NAN], dtype=dtype, requires_grad=True)
            y = f(x)
            assert all(v != v for v in y.tolist())
            y.sum().backward()
            assert x.grad.tolist() == pytest.approx([slope] * 2, rel=1e-6)


def test_values_of_activations_that_are_zeros_have_torchs_signs():
    for f in forms(F.hardswish):
        got = f(gramme.tensor([-7.0, -3.0, -0.0, 0.0, 3.0, 7.0])).tolist()
        assert same(got, [-0.0, -0.0, -0.0, 0.0, 3.0, 7.0])
    for f in forms(F.softshrink):
        assert same(f(gramme.tensor([-0.5, -0.25, -0.0, 0.5, 1.0])).tolist(), [0, 0, 0, 0, 0.5])
