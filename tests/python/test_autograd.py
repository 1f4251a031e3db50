# SPDX-License-Identifier: Apache-2.0
"""Eager autograd as Python sees it."""

import gc
import weakref

import numpy as np
import pytest

import gramme


def leaf(*values):
    return gramme.tensor(values, dtype=gramme.float64, requires_grad=True)


def numeric_gradient(function, x, eps=1e-6):
    x = x.detach().clone()
    flat = x.reshape(-1)
    result = []
    for i in range(x.numel()):
        old = flat[i].item()
        flat[i] = old + eps
        above = function(x).item()
        flat[i] = old - eps
        below = function(x).item()
        flat[i] = old
        result.append((above - below) / (2 * eps))
    return gramme.tensor(result, dtype=gramme.float64).reshape(x.shape)


def test_backward_accumulates_in_leaves():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x * y).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0] and y.grad.tolist() == [1.0, 2.0]
    (x * 2).sum().backward()
    assert x.grad.tolist() == [5.0, 6.0]
    x.grad = None
    assert x.grad is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.tanh() * x).sum(),
        lambda x: x.exp().sum().log(),
        lambda x: gramme.softmax(x, -1).square().sum(),
        lambda x: (x @ x.T).sum(),
        lambda x: x[0].prod() + x[:, 1].mean(),
        lambda x: gramme.nn.functional.gelu(x).std(),
        lambda x: gramme.cat([x, x * 2]).cumsum(0).amax(),
        lambda x: gramme.where(x > 0, x, x * x).norm(),
    ],
)
def test_gradients_agree_with_finite_differences(function):
    x = gramme.randn(2, 3, dtype=gramme.float64, requires_grad=True)
    (gradient,) = gramme.autograd.grad(function(x), x)
    gramme.testing.assert_close(gradient, numeric_gradient(function, x), rtol=1e-5, atol=1e-7)


def test_broadcast_operands_get_gradients_of_their_shape():
    x, b = gramme.ones(2, 3, requires_grad=True), gramme.ones(3, requires_grad=True)
    (x + b).sum().backward()
    assert b.grad.tolist() == [2.0] * 3 and x.grad.shape == (2, 3)


def test_backward_takes_a_gradient_for_tensors_of_many_elements():
    x = leaf(1.0, 2.0)
    y = x * 3
    with pytest.raises(RuntimeError):
        y.backward()
    y.backward(gramme.tensor([1.0, 10.0], dtype=gramme.float64))
    assert x.grad.tolist() == [3.0, 30.0]
    with pytest.raises(RuntimeError):
        (x * 3).backward(gramme.ones(5, dtype=gramme.float64))


def test_second_backward_needs_retain_graph():
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()


def test_changing_a_saved_tensor_in_place_is_found():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    y += 1
    with pytest.raises(RuntimeError, match="version"):
        z.backward()


def test_a_leaf_that_requires_grad_refuses_in_place_operations():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="leaf"):
        x += 1
    with gramme.no_grad():
        x += 1
    assert x.item() == 2.0


def test_in_place_on_results_and_views_is_differentiated():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    y *= 3
    y[1] = 0
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 0.0, 6.0]


def test_grad_mode_contexts_and_decorators():
    x = leaf(1.0)
    with gramme.no_grad():
        assert not gramme.is_grad_enabled() and not (x * 2).requires_grad
        with gramme.enable_grad():
            assert (x * 2).requires_grad
    with pytest.raises(KeyError):
        with gramme.no_grad():
            raise KeyError
    assert gramme.is_grad_enabled()

    @gramme.no_grad()
    def f():
        """doc"""
        return x * 2

    @gramme.no_grad
    def g(v):
        return v * 2

    assert (
        not f().requires_grad
        and f.__doc__ == "doc"
        and not g(x).requires_grad
        and (x * 2).requires_grad
    )
    with gramme.set_grad_enabled(False):
        assert not gramme.is_grad_enabled()
    gramme.set_grad_enabled(False)
    gramme.set_grad_enabled(True)


def test_grad_returns_gradients_and_touches_no_grad_attribute():
    x, y, z = leaf(1.0), leaf(2.0), leaf(3.0)
    gx, gy = gramme.autograd.grad((x * y).sum(), [x, y])
    assert (gx.item(), gy.item(), x.grad) == (2.0, 1.0, None)
    with pytest.raises(RuntimeError, match="allow_unused"):
        gramme.autograd.grad((x * y).sum(), [x, z])
    assert gramme.autograd.grad((x * y).sum(), [x, z], allow_unused=True)[1] is None


def test_double_backward():
    x = leaf(2.0)
    (g,) = gramme.autograd.grad((x**3).sum(), x, create_graph=True)
    (g2,) = gramme.autograd.grad(g.sum(), x, create_graph=True)
    (g3,) = gramme.autograd.grad(g2.sum(), x)
    np.testing.assert_allclose([g.item(), g2.item(), g3.item()], [12.0, 12.0, 6.0])


def test_autograd_backward_of_many_roots():
    x = leaf(1.0, 2.0)
    gramme.autograd.backward([x.sum(), x * 2], [None, gramme.ones(2, dtype=gramme.float64)])
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(TypeError):
        gramme.autograd.backward([x.sum(), 3])
    with pytest.raises(RuntimeError, match="2 .* for 1"):
        gramme.autograd.backward([x.sum()], [None, None])


def test_hooks_see_and_replace_gradients():
    x = leaf(1.0)
    seen = []
    y = x * 2
    handle = y.register_hook(lambda g: seen.append(g.item()))
    x.register_hook(lambda g: g * 10)
    (y * 3).sum().backward()
    assert seen == [3.0] and x.grad.item() == 60.0
    handle.remove()
    handle.remove()
    (x * 2).sum().backward()
    assert seen == [3.0]


def test_a_hook_that_raises_stops_backward_with_its_own_exception():
    x = leaf(1.0)

    def hook(grad):
        raise LookupError("from the hook")

    x.register_hook(hook)
    with pytest.raises(LookupError, match="from the hook") as caught:
        (x * 2).sum().backward()
    assert caught.traceback[-1].name == "hook" and x.grad is None
    y = leaf(1.0)
    y.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="hook"):
        (y * 2).sum().backward()


def test_hooks_are_dropped_with_their_tensor():
    class Hook:
        def __call__(self, grad):
            return None

    hook = Hook()
    r = weakref.ref(hook)
    x = leaf(1.0)
    x.register_hook(hook)
    del hook, x
    gc.collect()
    assert r() is None


def test_hook_needs_a_tensor_that_requires_grad():
    with pytest.raises(RuntimeError, match="require grad"):
        gramme.ones(1).register_hook(print)
    with pytest.raises(TypeError, match="callable"):
        leaf(1.0).register_hook(3)


def test_retain_grad_keeps_the_gradient_of_a_result():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0] and not y.is_leaf and y.retains_grad


def test_grad_fn_names_what_made_a_tensor():
    x = leaf(1.0)
    assert (
        x.grad_fn is None
        and (x * 2).grad_fn.name() == "MulBackward0"
        and repr((x * 2).grad_fn) == "<MulBackward0>"
    )
    assert (
        x.detach().grad_fn is None
        and not x.detach().requires_grad
        and x.detach().data_ptr() == x.data_ptr()
    )


def test_requires_grad_rules():
    with pytest.raises(RuntimeError):
        gramme.tensor([1], requires_grad=True)
    x = gramme.ones(2)
    assert x.requires_grad_() is x and x.requires_grad
    y = x * 2
    with pytest.raises(RuntimeError):
        y.requires_grad = False
    x.requires_grad = False
    assert not x.requires_grad and gramme.zeros(2, requires_grad=True).requires_grad


def test_grad_can_be_assigned_if_it_fits():
    x = gramme.ones(2, requires_grad=True)
    x.grad = gramme.tensor([5.0, 6.0])
    assert x.grad.tolist() == [5.0, 6.0]
    for wrong in (gramme.ones(3), gramme.ones(2, dtype=gramme.float64), x):
        with pytest.raises(RuntimeError, match="shape and dtype"):
            x.grad = wrong
    with pytest.raises(TypeError):
        x.grad = 3
    del x.grad
    assert x.grad is None


def test_graphs_are_freed(no_leak):
    for _ in range(3):
        x = gramme.randn(100, requires_grad=True)
        y = (x.tanh() * x).sum()
        y.backward()
        z = x * 2  # never walked
        del x, y, z


def test_a_long_chain_is_freed_without_recursion():
    x = gramme.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1
    y = x
    for _ in range(100_000):
        y = y * 1
    del y


def test_gradients_are_added_from_the_youngest_operation_to_the_oldest():
    """The order decides the bits: (-1e8 + 1e8) + 1 is 1, (1 + 1e8) - 1e8 is 0 in float32."""
    x = gramme.ones(1, requires_grad=True)
    a, b, c = x * 1.0, x * 1e8, x * -1e8
    (a + b + c).sum().backward()
    assert x.grad.item() == 1.0


def test_an_expanded_view_of_a_rewritten_base_adds_up():
    w = gramme.ones(3, requires_grad=True)
    base = w * 1
    wide, first = base[1:2].expand(4), base[:1]
    first.mul_(2)  # the views' histories are made anew, from the base's
    (wide * gramme.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert w.grad.tolist() == [0, 10, 0]


def test_a_gradient_is_added_in_the_dtype_of_the_one_that_is_there():
    x = gramme.ones(2, requires_grad=True)
    x.sum().backward()
    x.data = x.data.to(gramme.float64)
    (x * 2).sum().backward()
    assert (
        x.dtype == gramme.float64
        and x.grad.dtype == gramme.float32
        and x.grad.tolist() == [3.0, 3.0]
    )
    (x * x).sum().backward(create_graph=True)
    assert x.grad.dtype == gramme.float32 and x.grad.tolist() == [5.0, 5.0]


def test_backward_adds_to_the_named_leaves_alone():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * y
    h.sum().backward(inputs=[x], retain_graph=True)
    assert x.grad.tolist() == [3.0, 4.0] and y.grad is None
    gramme.autograd.backward(h.sum(), inputs=[y, h])
    assert (
        x.grad.tolist() == [3.0, 4.0]
        and y.grad.tolist() == [1.0, 2.0]
        and h.grad.tolist() == [1.0, 1.0]
    )
    with pytest.raises(RuntimeError, match="empty"):
        (x * y).sum().backward(inputs=[])
    with pytest.raises(RuntimeError, match="input 0 does not require grad"):
        (x * y).sum().backward(inputs=[x.detach()])


def test_final_callbacks_run_when_the_backward_is_over():
    x, y, log = leaf(1.0), leaf(2.0), []
    queue = gramme.autograd.Variable._execution_engine.queue_callback
    x.register_hook(lambda g: queue(lambda: log.append((x.grad.item(), y.grad.item()))))
    y.register_hook(lambda g: queue(lambda: log.append("second")))
    (x * y).backward()
    assert sorted(map(str, log)) == ["(2.0, 1.0)", "second"] and len(log) == 2
    with pytest.raises(RuntimeError, match="while a backward runs"):
        queue(print)

    def fail():
        raise KeyError("late")

    z = leaf(1.0)
    z.register_hook(lambda g: queue(fail))
    with pytest.raises(KeyError, match="late"):
        (z * 2).backward()
    assert z.grad.tolist() == [2.0]


@pytest.mark.parametrize(
    "write", [lambda x: x.mul_(2), lambda x: x[0].mul_(2), lambda x: x.zero_()]
)
def test_a_view_of_a_leaf_that_is_itself_a_view_is_not_written_to(write):
    """Its base requires no gradient, so the history of a write would not lead to the leaf."""
    for f in (write, gramme.compile(write, backend="eager")):
        leaf = gramme.arange(6).float().view(2, 3).requires_grad_()
        with pytest.raises(RuntimeError, match="view of a leaf"):
            f(leaf.t())
        with gramme.no_grad():
            write(leaf.t())
        assert leaf.flatten().tolist() != list(range(6)) and leaf.is_leaf
