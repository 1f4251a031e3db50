# SPDX-License-Identifier: Apache-2.0
"""Second and third derivatives through an autograd.Function that a compiled function recorded:
those of eager, bit for bit."""

import gc

import pytest

import gramme as G
from gramme.autograd.function import once_differentiable
from stress import counted


class Square(G.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g * ctx.k, None


class Exp(G.autograd.Function):
    """Saves its result: a second derivative goes through the function once more."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * g


class Pair(G.autograd.Function):
    """Two results, and a saved intermediate, which is a constant for the second derivative."""

    @staticmethod
    def forward(ctx, x, w):
        a = x.sin()
        ctx.save_for_backward(x, w, a)
        return a * w, x + w.exp()

    @staticmethod
    def backward(ctx, g, h):
        x, w, a = ctx.saved_tensors
        return g * w * x.cos() + h, g * a + h * w.exp()


class Once(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Passes(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g


class Quiet(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with G.no_grad():
            twice = 2 * x
        return twice * g


class Asks(Quiet):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (2 if G.is_grad_enabled() else 3) * x * g


class Reads(G.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.w = w[0]
        return x * w[0].detach()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.w, None


def product(x, w):
    return (Square.apply(x, 3.0) * w).sum()


def around(x, w):
    return Exp.apply(x * w).sin().sum()


def nested(x, w):
    return Exp.apply(Exp.apply(x) * w).sum()


def both(x, w):
    a, b = Pair.apply(x, w)
    return (a * b).sum()


def one_of_two(x, w):
    return Pair.apply(x.exp(), w)[0].sum()


def passes(x, w):
    return (Passes.apply(x).exp() * w).sum()


def twice_the_same(x, w):
    y = Exp.apply(x)
    return (y * Square.apply(y, 2.0) * w).sum()


def once(x, w):
    return (Once.apply(x) * w).sum()


def bits(tensors):
    return [None if t is None else b"".join([t.detach().contiguous()]) for t in tensors]


def derivatives(f):
    """Of three orders."""
    x, w = G.tensor([0.5, 0.25, -1.0], requires_grad=True), G.tensor(
        [1.5, -0.75, 2.0], requires_grad=True
    )
    found, y = [], f(x, w)
    for order in (1, 2, 3):
        grads = G.autograd.grad(y, [x, w], create_graph=order < 3, allow_unused=True)
        found += bits(grads)
        y = sum((g * g).sum() for g in grads if g is not None)
    return found


@pytest.mark.parametrize("partition", ["default", "min-cut"])
@pytest.mark.parametrize(
    "f",
    [product, around, nested, both, one_of_two, passes, twice_the_same],
    ids=lambda f: f.__name__,
)
def test_three_derivatives_are_those_of_eager(f, partition):
    compiled = G.compile(f, backend="eager", fullgraph=True, options={"partition": partition})
    assert derivatives(compiled) == derivatives(f)
    assert derivatives(compiled) == derivatives(f)


def test_with_hooks_that_are_called():
    log = []
    compiled = G.compile(around, backend="eager", fullgraph=True)
    with G.autograd.graph.saved_tensors_hooks(
        lambda t: (log.append("pack"), t * 1)[1], lambda t: t
    ):
        found = derivatives(compiled)
    assert found == derivatives(around) and log


def test_once_differentiable_raises_as_in_eager():
    for f in (once, G.compile(once, backend="eager", fullgraph=True)):
        x, w = G.ones(2, requires_grad=True), G.ones(2, requires_grad=True)
        (g,) = G.autograd.grad(f(x, w), [x], create_graph=True)
        assert g.tolist() == [2.0, 2.0] and g.requires_grad
        with pytest.raises(RuntimeError, match="once_differentiable"):
            g.sum().backward()


@pytest.mark.parametrize("cls", [Quiet, Asks])
def test_a_backward_that_asks_for_the_grad_mode_is_refused_not_guessed(cls):
    f = G.compile(lambda x: cls.apply(x).sum(), backend="eager", fullgraph=True)
    x = G.ones(2, requires_grad=True)
    assert bits(G.autograd.grad(f(x), [x])) == bits(G.autograd.grad(cls.apply(x).sum(), [x]))
    with pytest.raises(
        RuntimeError, match="asks for the grad mode or sets it; call the function without compile"
    ):
        G.autograd.grad(f(x), [x], create_graph=True)


def test_a_tensor_from_elsewhere_is_refused_not_lost():
    f = G.compile(lambda x, w: Reads.apply(x, [w]).sum(), backend="eager", fullgraph=True)
    x, w = G.ones(2, requires_grad=True), G.full((2,), 3.0, requires_grad=True)
    assert G.autograd.grad(f(x, w), [x])[0].tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="none of its arguments"):
        G.autograd.grad(f(x, w), [x], create_graph=True)


def test_a_gradient_that_is_summed_outside_keeps_eagers_order():
    """x gets terms from both sides of the compiled function: the function is taken apart, its nodes
    in eager's places."""

    def step(f):
        G.manual_seed(3)
        x, w = G.randn(64, requires_grad=True), G.randn(64, requires_grad=True)
        loss = f(x, w) + (x * 0.1).sin().sum() + f(x, w) * 3
        return bits(G.autograd.grad(loss, [x, w]))

    assert step(G.compile(nested, backend="eager", fullgraph=True)) == step(nested)


def test_nothing_is_left_behind():
    compiled = G.compile(nested, backend="eager", fullgraph=True)
    derivatives(compiled)
    gc.collect()
    before = G._core.live_bytes()
    for _ in range(3):
        derivatives(compiled)
    gc.collect()
    assert counted(G._core.live_bytes()) == before
