# SPDX-License-Identifier: Apache-2.0
"""Second derivatives of an autograd.Function whose backward reads its own results, or what only
looks like one."""

import pytest

import gramme
from gramme import _dynamo, func
from gramme.autograd import Function
from gramme.testing import assert_bits_equal


class Both(Function):
    """(z * z, z) with z = exp (x); backward reads z, a result, which has a history."""

    @staticmethod
    def forward(ctx, x):
        z = x.exp()
        ctx.save_for_backward(z)
        return z * z, z

    @staticmethod
    def backward(ctx, d, d_z):
        (z,) = ctx.saved_tensors
        return (2 * d * z + d_z) * z


class Inner(Function):
    """The same value, of which backward reads one that is no result: a constant to second
    derivatives."""

    @staticmethod
    def forward(ctx, x):
        z, inner = x.exp(), x.exp()
        ctx.save_for_backward(inner)
        return z * z, z

    backward = Both.backward


class Half(Function):
    """One of the results has no gradient."""

    @staticmethod
    def forward(ctx, x):
        sign, z, y = x.sign(), x.exp(), x.sin()
        ctx.mark_non_differentiable(sign)
        ctx.save_for_backward(sign, y, x, z)
        return sign, z, y

    @staticmethod
    def backward(ctx, _, d_z, d_y):
        sign, y, x, z = ctx.saved_tensors
        return d_z * z * sign * sign + d_y * x.cos() * (1 + y - y)


USES = {
    "the first": lambda results: (results[0] ** 2).sum()
    if results[0].requires_grad
    else results[2].sum() * 2,
    "the second": lambda results: (results[1] ** 3).sum(),
    "the last": lambda results: (results[-1] ** 3).sum(),
    "all": lambda results: sum((k + 1) * (result**2).sum() for k, result in enumerate(results)),
}


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("function", [Both, Inner, Half])
def test_second_derivatives_are_those_of_plain_python(function, use, backend):
    f = lambda x: USES[use](function.apply(x * 1.5))
    found = []
    for g in (f, gramme.compile(f, backend=backend, fullgraph=True)):
        x = gramme.tensor([1.0, 0.5, -0.25], requires_grad=True)
        (first,) = gramme.autograd.grad(g(x), x, create_graph=True)
        found.append(
            (
                first.detach(),
                *(gramme.autograd.grad((first * first).sum(), x) if first.requires_grad else ()),
            )
        )
    assert len(found[0]) == len(found[1])
    for a, b in zip(*found):
        assert_bits_equal(a, b)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("function", [Both, Inner, Half])
def test_second_derivatives_inside_of_a_compiled_function(function, use):
    _dynamo.reset()
    f = lambda x: USES[use](function.apply(x * 1.5))

    def twice(x):
        (first,) = gramme.autograd.grad(f(x), x, create_graph=True)
        return gramme.autograd.grad((first * first).sum(), x)[0]

    x = gramme.tensor([1.0, 0.5, -0.25], requires_grad=True)
    transformed = lambda x: func.grad(lambda y: (func.grad(f)(y) ** 2).sum())(x)
    for g in (twice, transformed):
        try:
            want = g(x)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                gramme.compile(g, backend="eager")(x)
        else:
            assert_bits_equal(gramme.compile(g, backend="eager")(x), want)
