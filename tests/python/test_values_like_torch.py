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


def test_lerp_ends_at_its_end():
    # From a weight of 0.5 on it is end - (1 - weight) (end - start): the other form gave 0.
    start, end = gramme.tensor([1e8, -INF, INF]), gramme.tensor([1.0, 3.0, 3.0])
    for f in forms(lambda x, y, w: x.lerp(y, w)):
        assert same(f(start, end, 0.75)[1:].tolist(), [-INF, INF])
        assert same(f(start, end, 1)[:1].tolist(), [1.0])
        assert same(f(start, end, gramme.tensor(1.0))[:1].tolist(), [1.0])
        got = f(start[:1], end[:1], gramme.tensor([0.0, 0.25, 0.5, 1.0, -2.0])).tolist()
        assert same(got, [1e8, 75000000.0, 50000000.0, 1.0, 3e8])


@pytest.mark.parametrize("dtype", [gramme.float32, gramme.float64, gramme.float16, gramme.bfloat16])
def test_lerp_by_a_number_is_lerp_by_a_tensor_of_it(dtype):
    x = gramme.tensor([1.0, -2.0, 3.5], dtype=dtype)
    y = gramme.tensor([0.3, 9.0, -1.25], dtype=dtype)
    for f in forms(lambda x, y, w: x.lerp(y, w)):
        for w in (0.0, 0.3125, 0.5, 0.75, 1.0, -0.25, 2.0):
            assert f(x, y, w).tolist() == x.lerp(y, gramme.tensor(w, dtype=dtype)).tolist()


@pytest.mark.parametrize("dtype", [gramme.float32, gramme.float64, gramme.float16])
@pytest.mark.parametrize("weight", [0.4999999999999, -0.49999999999, 0.5, 0.49999998])
def test_a_number_of_lerp_picks_the_formula_as_its_element_does(dtype, weight):
    x, y = gramme.randn(300).to(dtype), gramme.randn(300).to(dtype)
    fn = lambda x, y, w: gramme.lerp(x, y, w)
    for f in forms(fn):
        for w in (0.3, 0.31, 0.32, weight):  # from the second on the number is an element
            assert gramme.equal(f(x, y, w), fn(x, y, w))


def test_slopes_of_lerp():
    for weight, start, end in ((0.25, 0.75, 0.25), (0.75, 0.25, 0.75)):
        for f in forms(lambda x, y, w: x.lerp(y, w)):
            x, y = (gramme.tensor([v], requires_grad=True) for v in (1.0, 5.0))
            w = gramme.tensor([weight], requires_grad=True)
            f(x, y, w).backward()
            assert [x.grad.item(), y.grad.item(), w.grad.item()] == [start, end, 4.0]


@pytest.mark.parametrize("dtype, tiny", [(gramme.float32, 2.0**-149), (gramme.float64, 5e-324)])
def test_functions_that_are_the_operand_near_0_are_so_for_subnormals(dtype, tiny):
    at = [tiny, -tiny, 3 * tiny, -7 * tiny, 0.0, -0.0]
    for name in ("log1p", "asinh", "atanh", "expm1", "asin", "atan", "sinh", "tanh"):
        for f in forms(getattr(gramme, name)):
            assert same(f(gramme.tensor(at, dtype=dtype)).tolist(), at), name


def test_lgamma_of_a_negative_subnormal():
    x = gramme.tensor([-5e-324, -1e-310], dtype=gramme.float64, requires_grad=True)
    for f in forms(gramme.lgamma):
        x.grad = None
        y = f(x)
        y.sum().backward()
        assert y.tolist() == pytest.approx([744.44, 713.80], abs=0.1)
        assert x.grad.tolist() == [INF, INF]


HALVES = {
    gramme.float16: {65519.0: 65504.0, 65520.0: INF, -1e6: -INF},
    gramme.bfloat16: {3.39e38: 3.3895313892515355e38, 1e39: INF},
}
FILLS = {
    "full": lambda n, v, d: gramme.full((n,), v, dtype=d),
    "full_like": lambda n, v, d: gramme.full_like(gramme.ones(n, dtype=d), v),
    "new_full": lambda n, v, d: gramme.ones(3, dtype=d).new_full((1, n), v)[0],
    "fill_": lambda n, v, d: gramme.ones(n, dtype=d).fill_(v),
}


@pytest.mark.parametrize("name", FILLS)
def test_one_element_of_a_16_bit_dtype_takes_any_number_and_two_do_not(name):
    for f in forms(FILLS[name]):
        for dtype, numbers in HALVES.items():
            for number, want in numbers.items():
                assert f(1, number, dtype).tolist() == [want]
                with pytest.raises(RuntimeError, match="without overflow"):
                    f(2, number, dtype)
    assert gramme.scalar_tensor(1e6, dtype=gramme.float16).item() == INF
    with pytest.raises(RuntimeError, match="without overflow"):
        gramme.full((1,), 1e39)


def test_special_functions():
    half = gramme.tensor([0.5, 2.0], dtype=gramme.float16)
    for f in forms(lambda x: gramme.special.xlog1py(x, 1.0)):
        assert f(half).dtype == gramme.float16 and f(half).tolist() == [0.3466796875, 1.38671875]
    assert gramme.special.spherical_bessel_j0(gramme.tensor([-INF, INF, 0.0])).tolist() == [0, 0, 1]
    assert math.isnan(gramme.polygamma(1, gramme.tensor(-INF)).item())
    assert gramme.polygamma(1, gramme.tensor(INF)).item() == 0


def test_weights_of_cov_are_checked():
    x = gramme.arange(6.0).reshape(2, 3)
    for wrong, message in (
        ({"fweights": [1, -1, 1]}, "fweights cannot be negative"),
        ({"aweights": [1.0, -1.0, 1.0]}, "aweights cannot be negative"),
        ({"fweights": [0, 0, 0]}, "weights sum to zero"),
        ({"aweights": [0.0, 0.0, 0.0]}, "weights sum to zero"),
    ):
        ((name, values),) = wrong.items()
        for f in forms(lambda x, w: gramme.cov(x, **{name: w})):
            with pytest.raises(RuntimeError, match=message):
                f(x, gramme.tensor(values))
    right = gramme.cov(x, fweights=gramme.tensor([1, 0, 2])).reshape(4).tolist()
    assert right == pytest.approx([4 / 3] * 4)
