# SPDX-License-Identifier: Apache-2.0
"""gramme.autograd.Function: operations whose backward is Python code."""

import gc
import weakref

import pytest

import gramme as G
from gramme.autograd import Function
from gramme.autograd.function import once_differentiable


def bits(t):
    return b"".join([t.detach().contiguous()])


class Square(Function):
    @staticmethod
    def forward(ctx, x, scale=1.0):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * (2 * ctx.scale), None


def test_gradient_is_the_one_that_backward_returns():
    x = G.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y = Square.apply(x, 3.0)
    assert y.requires_grad and y.grad_fn.name() == "SquareBackward"
    y.sum().backward()
    assert x.grad.tolist() == [6.0, -12.0, 18.0]


def test_without_a_tensor_that_requires_grad_there_is_no_history():
    x = G.tensor([1.0, 2.0])
    assert not Square.apply(x, 1.0).requires_grad
    x.requires_grad_()
    with G.no_grad():
        assert not Square.apply(x, 1.0).requires_grad


def test_second_derivative_goes_through_backward():
    x = G.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = G.autograd.grad(Square.apply(x, 1.0).sum(), x, create_graph=True)
    assert g.requires_grad
    g.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


def test_a_saved_result_has_the_history_of_the_function():
    x = G.tensor([0.5, 1.0], requires_grad=True)
    (g,) = G.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
    (h,) = G.autograd.grad(g.sum(), x)
    assert bits(h) == bits(x.detach().exp())


def test_a_saved_result_is_freed_with_the_result():
    x = G.tensor([0.5, 1.0], requires_grad=True)
    gc.disable()
    try:
        before = G._core.live_bytes()
        y = Exp.apply(x)
        assert G._core.live_bytes() > before
        del y
        assert G._core.live_bytes() == before
    finally:
        gc.enable()


class TwoResults(Function):
    seen = []

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, None, b)
        return a + b, a * b, "text"

    @staticmethod
    def backward(ctx, ga, gb, text):
        a, none, b = ctx.saved_tensors
        assert none is None
        TwoResults.seen.append((ga, gb, text, ctx.needs_input_grad))
        return ga + gb * b, ga + gb * a


def test_gradients_that_did_not_arrive_are_zeros_unless_told_otherwise():
    TwoResults.seen.clear()
    a, b = G.tensor([2.0], requires_grad=True), G.tensor([3.0])
    s, p, text = TwoResults.apply(a, b)
    assert text == "text"
    p.backward()
    ga, gb, text, needs = TwoResults.seen[0]
    assert ga.tolist() == [0.0] and gb.tolist() == [1.0] and text is None and needs == (True, False)
    assert a.grad.tolist() == [3.0] and b.grad is None

    class NoZeros(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.set_materialize_grads(False)
            return a + 1, a * 2

        @staticmethod
        def backward(ctx, ga, gb):
            assert ga is None
            return gb * 2

    a = G.tensor([2.0], requires_grad=True)
    NoZeros.apply(a)[1].backward()
    assert a.grad.tolist() == [2.0]


def test_results_marked_non_differentiable_have_no_gradient():
    class Sort(Function):
        @staticmethod
        def forward(ctx, x):
            order = x * 2
            ctx.mark_non_differentiable(order)
            return x + 1, order

        @staticmethod
        def backward(ctx, grad, unused):
            assert unused.tolist() == [0.0]
            return grad

    x = G.tensor([1.0], requires_grad=True)
    y, order = Sort.apply(x)
    assert y.requires_grad and not order.requires_grad
    y.backward()
    assert x.grad.tolist() == [1.0]


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_an_argument_changed_in_place_gets_the_functions_history():
    leaf = G.tensor([1.0, 2.0], requires_grad=True)
    x = leaf * 3
    version = x._version
    y = Twice.apply(x)
    assert (
        y is x
        and x._version > version
        and x.grad_fn.name() == "TwiceBackward"
        and x.tolist() == [6.0, 12.0]
    )
    x.sum().backward()
    assert leaf.grad.tolist() == [6.0, 6.0]
    with pytest.raises(RuntimeError, match="leaf"):
        Twice.apply(leaf)


def test_an_argument_that_comes_back_is_a_view_of_itself():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

    x = G.tensor([1.0], requires_grad=True)
    y = Same.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr() and not y.is_leaf
    y.backward()
    assert x.grad.tolist() == [5.0]


def test_setup_context_gets_inputs_and_output():
    class Mul(Function):
        @staticmethod
        def forward(a, b):
            return a * b

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad * b, grad * a

    a, b = G.tensor([2.0], requires_grad=True), G.tensor([3.0], requires_grad=True)
    Mul.apply(a, b).backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([3.0], [2.0])


def test_wrong_backwards_are_refused_with_what_was_expected():
    def function(result):
        class F(Function):
            @staticmethod
            def forward(ctx, x, y):
                return x + y

            @staticmethod
            def backward(ctx, grad):
                return result

        return F

    for result, kind, text in [
        (None, RuntimeError, "1 gradients for 2 arguments"),
        ((None, None, 3), RuntimeError, "3 gradients for 2 arguments"),
        ((G.ones(3), None), RuntimeError, "gradient of"),
        ((1.0, None), TypeError, "float"),
    ]:
        x = G.tensor([1.0, 2.0], requires_grad=True)
        y = function(result).apply(x, x.detach())
        with pytest.raises(kind, match=text):
            y.sum().backward()


def test_what_backward_raises_comes_out_of_backward():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Bad.apply(G.tensor([1.0], requires_grad=True)).backward()


def test_a_saved_tensor_changed_in_place_is_noticed():
    leaf = G.tensor([1.0], requires_grad=True)
    x = leaf * 1
    y = Square.apply(x, 1.0)
    x.add_(1)
    with pytest.raises(RuntimeError, match="in-place"):
        y.backward()


def test_second_backward_needs_retain_graph():
    x = G.tensor([1.0], requires_grad=True)
    y = Square.apply(x, 1.0)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_once_differentiable_refuses_a_second_derivative():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            assert not G.is_grad_enabled()
            return grad * ctx.saved_tensors[0] * 2

    x = G.tensor([3.0], requires_grad=True)
    Once.apply(x).backward()
    assert x.grad.tolist() == [6.0]
    (g,) = G.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.backward()


def test_the_context_dies_with_the_history():
    class Keep(Function):
        contexts = []

        @staticmethod
        def forward(ctx, x):
            Keep.contexts.append(weakref.ref(ctx))
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = G.tensor([1.0], requires_grad=True)
    y = Keep.apply(x)
    assert Keep.contexts[0]() is not None
    y.backward()
    assert Keep.contexts[0]() is None


def test_save_for_backward_takes_tensors_only():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3)
            return x

    with pytest.raises(TypeError, match="argument 1 is of type int"):
        Wrong.apply(G.ones(1))


class Scaled(Function):
    """A function of two, whose backward does what it is told."""

    inside = None

    @staticmethod
    def forward(ctx, a, b):
        return a * 1.0 + b

    @staticmethod
    def backward(ctx, grad):
        if Scaled.inside:
            Scaled.inside()
        return grad * 0.3, grad * 0.7


def thirds(n, seed):
    G.manual_seed(seed)
    return (G.rand(n) - 0.4).bfloat16()


def gradients_of(function, beside):
    """Alone the function is all there is to walk; with something beside it, it is one node of
    many."""
    log = []
    a, b = (thirds(64, seed).requires_grad_() for seed in (1, 2))
    a.grad, b.grad = thirds(64, 3), thirds(64, 4)
    for leaf, name in ((a, "a"), (b, "b")):
        leaf.register_post_accumulate_grad_hook(
            lambda t, name=name: log.append((name, t.grad.tolist()))
        )
    y = function(a, b)
    other = (G.ones(1, requires_grad=True) * 2).sum()
    roots, tangents = [y, other][: 1 + beside], [thirds(64, 5), None][: 1 + beside]
    G.autograd.backward(roots, tangents, retain_graph=True)
    G.autograd.backward(roots, tangents)
    with pytest.raises(RuntimeError, match="second time"):
        G.autograd.backward(roots, tangents)
    return a.grad.tolist(), b.grad.tolist(), log


@pytest.mark.parametrize(
    "function", [Scaled.apply, lambda a, b: Scaled.apply(a, a), lambda a, b: Scaled.apply(b, a)]
)
def test_a_function_alone_gives_its_leaves_what_it_gives_them_among_others(function):
    assert gradients_of(function, False) == gradients_of(function, True)


def test_a_backward_within_that_of_a_function_alone():
    def run(beside):
        a, w = thirds(64, 1).requires_grad_(), thirds(64, 2).requires_grad_()

        def inside():
            Scaled.inside = None
            with G.enable_grad():
                G.autograd.backward([Scaled.apply(w, a)], [thirds(64, 6)])

        y, other = Scaled.apply(a, w), (G.ones(1, requires_grad=True) * 2).sum()
        Scaled.inside = inside
        G.autograd.backward([y, other][: 1 + beside], [thirds(64, 5), None][: 1 + beside])
        return a.grad.tolist(), w.grad.tolist()

    assert run(False) == run(True)
