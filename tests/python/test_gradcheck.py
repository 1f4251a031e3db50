# SPDX-License-Identifier: Apache-2.0
"""gradcheck, gradgradcheck, and hooks on several tensors' gradients."""

import pytest

import gramme as G
from gramme.autograd import Function, GradcheckError, gradcheck, gradgradcheck
from gramme.autograd.graph import register_multi_grad_hook


def leaf(*shape):
    return G.randn(*shape, dtype=G.float64).requires_grad_()


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] * 3


class WrongTwice(Function):
    """Its gradient is right, and has no gradient of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].detach() * 2


def test_what_is_right_passes():
    assert gradcheck(lambda x, w: G.tanh(x @ w), (leaf(3, 4), leaf(4, 2)))
    assert gradcheck(lambda x, k, w: (x.sin() * k, (w * x).sum()), (leaf(3), 2.0, leaf(3)))
    assert gradgradcheck(lambda x, w: G.tanh(x @ w), (leaf(2, 3), leaf(3, 2)))
    assert gradgradcheck(G.erfc, leaf(4)) and gradcheck(
        G.lgamma, (leaf(5) ** 2 + 0.5).detach().requires_grad_()
    )


def test_what_is_wrong_is_told():
    with pytest.raises(
        GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"
    ):
        gradcheck(Wrong.apply, (leaf(3),))
    assert gradcheck(Wrong.apply, (leaf(3),), raise_exception=False) is False
    assert gradcheck(WrongTwice.apply, (leaf(3),))
    with pytest.raises(GradcheckError, match="mismatch"):
        gradgradcheck(WrongTwice.apply, (leaf(3),))
    with pytest.raises(ValueError, match="require gradient"):
        gradcheck(G.sin, (G.ones(2),))


def test_a_compiled_function_is_checked():
    assert gradcheck(G.compile(lambda x: (x.exp() * x).sum(0), backend="eager"), (leaf(3, 2),))


def test_a_hook_on_several_gradients():
    seen = []
    x, y, z = leaf(2), leaf(2), leaf(2)
    a = x * 2
    handle = register_multi_grad_hook(
        (a, y, z), lambda grads: seen.append([g if g is None else g.tolist() for g in grads])
    )
    (a * 3 + y * 4).sum().backward(retain_graph=True)
    assert seen == [[[3.0, 3.0], [4.0, 4.0], None]]
    (a * y * z).sum().backward()
    assert len(seen) == 2 and None not in seen[1] and seen[1][2] == (x * 2 * y).tolist()
    handle.remove()
    (x * 2 + y + z).sum().backward()
    assert len(seen) == 2


def test_the_first_of_several_gradients():
    seen = []
    x, y = leaf(2), leaf(2)
    with register_multi_grad_hook((x, y), seen.append, mode="any"):
        (x * 3 + y * 4).sum().backward()
        (x * 3).sum().backward()
    assert len(seen) == 2 and seen[1].tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="mode"):
        register_multi_grad_hook((x,), print, mode="some")


# -- gramme.autograd.functional

fn = G.autograd.functional


def cube(x, w):
    return (x**3 * w).sum()


def test_jacobians_and_hessians_are_those_of_formulas():
    x, w = leaf(3).detach(), leaf(3).detach()
    jx, jw = fn.jacobian(lambda x, w: x * x * w, (x, w))
    assert (
        G.allclose(jx, G.diag(2 * x * w)) and G.allclose(jw, G.diag(x * x)) and not jx.requires_grad
    )
    assert fn.jacobian(lambda x: (x.sum(), x[:2] * 2), x)[1].tolist() == [
        [2.0, 0.0, 0.0],
        [0.0, 2.0, 0.0],
    ]
    (hxx, hxw), (hwx, hww) = fn.hessian(cube, (x, w))
    assert (
        G.allclose(hxx, G.diag(6 * x * w))
        and G.allclose(hxw, G.diag(3 * x * x))
        and G.equal(hxw, hwx.T)
        and not hww.any()
    )
    assert (
        fn.hessian(lambda x: (x * x).sum(), x).tolist() == (G.eye(3, dtype=G.float64) * 2).tolist()
    )
    assert G.allclose(
        fn.jacobian(lambda x: G.outer(x, x), x), G.func.jacrev(lambda x: G.outer(x, x))(x)
    )


def test_products_with_them():
    x, w, v = leaf(3).detach(), leaf(3).detach(), leaf(3).detach()
    y, found = fn.vjp(lambda x: x * x * w, x, v)
    assert G.allclose(y, x * x * w) and G.allclose(found, 2 * x * w * v)
    assert G.allclose(fn.jvp(lambda x: G.outer(x, w), x, v)[1], G.outer(v, w))
    assert G.allclose(fn.vhp(lambda x: cube(x, w), x, v)[1], 6 * x * w * v) and fn.hvp is fn.vhp
    assert G.allclose(fn.vjp(cube, (x, w))[1][1], x**3)
    with pytest.raises(RuntimeError, match="single element"):
        fn.vjp(lambda x: x * 2, x)
    with pytest.raises(RuntimeError, match="should have"):
        fn.vjp(lambda x: x * 2, x, v[:2])


def test_they_can_be_differentiated():
    x = leaf(3)
    j = fn.jacobian(lambda x: x**3, x, create_graph=True)
    (g,) = G.autograd.grad(j.sum(), x)
    assert G.allclose(g, 6 * x)
    with pytest.raises(RuntimeError, match="strict"):
        fn.jacobian(lambda x, y: x * 2, (x, x.detach().clone()), strict=True)
