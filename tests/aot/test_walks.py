# SPDX-License-Identifier: Apache-2.0
"""Several walks through one compiled function: what a backward uses up, and what a walk for some
gradients comes to.

In plain Python a backward that keeps no graph uses up the nodes that it runs, if they keep
something, and a walk that asks for some gradients runs those nodes alone that lie on the way to
them.  A compiled function is one node, and is seen as the many that it stands for.
"""

import os

import pytest
from same import bits
from stress import undisturbed

import gramme as G
from gramme._dynamo.utils import counters
from gramme.autograd.graph import get_gradient_edge


def numbers(scale=0.37):
    return G.arange(6).float() * scale - 1.0


def two():
    x, w = numbers().requires_grad_(), numbers(0.5).requires_grad_()
    return [x, w], [x, w]


def tried(lines, ask, *args, **how):
    """What `ask` gives, or that it is refused."""
    try:
        grads = ask(*args, **how)
    except RuntimeError as error:
        lines.append("refused " + str("second time" in str(error)))
    else:
        lines += ["none" if g is None else bits(g) for g in grads or ()]


def grad(lines, results, wanted, **how):
    tried(
        lines,
        G.autograd.grad,
        results,
        wanted,
        [G.ones_like(t) for t in results],
        allow_unused=True,
        **how,
    )


def backward(lines, *results, **how):
    tried(lines, G.autograd.backward, list(results), [G.ones_like(t) for t in results], **how)


def walk(f, after, make=two, backends=("eager", "tcc")):
    """`after` gets a list to write to, the results and the inputs."""
    for backend in backends:
        lines = []
        for g in (f, G.compile(f, backend=backend, fullgraph=True)):
            inputs, leaves = make()
            lines.append([])
            after(lines[-1], g(*inputs), inputs)
            lines[-1] += ["none" if t.grad is None else bits(t.grad) for t in leaves]
        assert lines[0] == lines[1]


# -- Second backwards ------------------------------------------------------------------------------


def kept_and_not(x, w):
    return x.sin() * 2, -x - w


@pytest.mark.parametrize("order", [(1, 1, 0), (0, 1, 1), (1, 0, 1)])
def test_a_second_backward_goes_through_what_keeps_nothing(order):
    def after(lines, results, inputs):
        backward(lines, *results)
        for k in order:
            backward(lines, results[k])

    walk(kept_and_not, after)


def test_a_result_of_the_same_function_is_asked_for_after_a_backward():
    def f(x, w):
        y = x.sin() * w
        return y.clone(), y + x

    def after(lines, results, inputs):
        y, z = results
        backward(lines, y, z)
        grad(lines, [z, y], [y, z])
        grad(lines, [z], [inputs[0]])

    walk(f, after)


def test_a_write_to_a_slice_is_used_up_whatever_it_keeps():
    def f(x, w):
        y = -x
        y[1:] = -w[1:]
        return y, -w

    def after(lines, results, inputs):
        backward(lines, *results)
        backward(lines, results[1])
        backward(lines, results[0])

    walk(f, after)


def test_what_was_overwritten_whole_can_be_walked_twice():
    def f(x, w):
        y = -x
        y.zero_()
        return y, w.exp()

    def after(lines, results, inputs):
        for _ in range(2):
            backward(lines, results[0])
        backward(lines, *results)
        backward(lines, results[0])

    walk(f, after)


def test_a_view_with_a_new_history_can_be_walked_twice():
    """What it keeps are places: no operation that takes a view is used up in plain Python
    either."""
    x = numbers().requires_grad_()
    base = -x
    view = base[2:]
    base.neg_()
    for k in range(1, 3):
        view.sum().backward()
        assert x.grad.tolist() == [0, 0] + [1.0 * k] * 4


def test_hooks_run_in_a_second_backward():
    def after(lines, results, inputs):
        results[1].register_hook(lambda g: lines.append("hook " + bits(g)))
        backward(lines, *results)
        backward(lines, results[1])

    walk(kept_and_not, after)


def test_who_has_looked_at_the_node_may_walk_twice():
    def after(lines, results, inputs):
        assert results[1].grad_fn is not None
        backward(lines, *results)
        for k in (1, 0):
            backward(lines, results[k])

    walk(kept_and_not, after)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_who_holds_the_node_does_not_change_what_hooks_see(backend):
    """Only a walk that comes to a result runs its hooks: one to another result of the same call,
    which it asks for, does not."""

    def f(x):
        return x * x, x.sin()

    def seen(f):
        lines, x = [], numbers().requires_grad_()
        square, wave = f(x)
        node = square.grad_fn
        square.register_hook(lambda g: lines.append("square " + bits(g)))
        wave.register_hook(lambda g: lines.append("wave " + bits(g)))
        x.register_hook(lambda g: lines.append("x " + bits(g)))
        for _ in range(2):
            asked = G.autograd.grad(square.sum(), [wave], allow_unused=True, retain_graph=True)
            lines += [str(asked)]
            assert square.grad_fn is node and get_gradient_edge(square).output_nr == 0
        (square.sum() + wave.sum()).backward()
        return lines + [bits(x.grad)]

    assert seen(G.compile(f, backend=backend, fullgraph=True)) == seen(f)


def test_a_hook_on_the_node_of_what_was_taken_apart_is_refused():
    square, wave = G.compile(lambda x: (x * x, x.sin()), backend="eager", fullgraph=True)(
        numbers().requires_grad_()
    )
    node = square.grad_fn
    wave.register_hook(lambda g: None)
    G.autograd.grad(square.sum(), [wave], allow_unused=True, retain_graph=True)
    with pytest.raises(RuntimeError, match="taken this compiled function apart"):
        node.register_hook(lambda inputs, outputs: None)
    del node
    assert square.grad_fn.name() == "MulBackward0"


def test_a_checkpoint_and_a_function_of_the_users_are_used_up():
    class Double(G.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + ctx.saved_tensors[0] * 0

    def f(x, w):
        y = Double.apply(x) + G.utils.checkpoint.checkpoint(lambda t: t.sin() * t, x)
        return y + w, w + y

    def after(lines, results, inputs):
        backward(lines, *results)
        for t in reversed(results):
            backward(lines, t)

    walk(f, after)


# -- Walks for some gradients ----------------------------------------------------------------------


def sides(x, w):
    return x.sin() + w.cos()


@pytest.mark.parametrize("create", [False, True])
def test_what_lies_beside_the_way_is_not_used_up(create):
    def after(lines, y, inputs):
        for k in (0, 0, 1, 1):
            grad(lines, [y], [inputs[k]], create_graph=create, retain_graph=False)

    walk(sides, after)


def test_what_lies_beside_the_way_is_not_used_up_by_a_backward_to_some_inputs():
    def after(lines, y, inputs):
        for k in (0, 0, 1, 1):
            backward(lines, y, inputs=[inputs[k]])

    walk(sides, after)


def test_hooks_on_results_that_lead_to_nothing_asked_for_do_not_run():
    def f(x, w):
        return x.sin(), w.cos()

    def after(lines, results, inputs):
        for i, t in enumerate(results):
            t.register_hook(lambda g, i=i: lines.append(f"hook {i} {bits(g)}"))
        grad(lines, list(results), [inputs[0]], retain_graph=True)
        grad(lines, list(results), [inputs[1]], retain_graph=True)
        backward(lines, *results, inputs=[inputs[0]])

    walk(f, after)


def test_a_gradient_is_kept_where_the_walk_comes_alone():
    def f(x, w):
        return x.sin(), w.cos()

    def after(lines, results, inputs):
        for t in results:
            t.retain_grad()
        backward(lines, *results, inputs=[inputs[0]])
        lines += ["none" if t.grad is None else bits(t.grad) for t in results]

    walk(f, after)


def test_one_result_leads_where_another_does_not():
    """The sine after the function is asked for, and goes on to a result that leads nowhere: it is
    not run."""

    def f(x, w):
        return x * 2, w * w

    def after(lines, results, inputs):
        a, b = results
        r = b.sin()
        grad(lines, [r, a], [a, r])
        grad(lines, [r], [inputs[1], a])
        grad(lines, [r], [inputs[1], a])

    walk(f, after)


def test_who_waits_for_a_function_that_is_not_come_to_goes_on():
    def make():
        x, w = numbers().requires_grad_(), numbers(0.5).requires_grad_()
        return [x.sin(), w], [x, w]

    def f(x, w):
        return x * 2, w * w

    def after(lines, results, inputs):
        grad(lines, [results[1].exp(), inputs[0].cos()], [inputs[0]])

    walk(f, after, make)


def test_what_was_changed_beside_the_way_is_nobodys_trouble():
    def make():
        x, w = numbers().requires_grad_(), numbers(0.5).requires_grad_()
        return [x, w * 1], [x, w]

    def f(x, w):
        return x.relu(), w.tanh() * w

    def after(lines, results, inputs):
        with G.no_grad():
            inputs[1].zero_()
        grad(lines, list(results), [inputs[0]])

    walk(f, after, make)


def squares(x, w):
    y = x * x
    return y, (y * w).sin() * y


def written():
    x, w = numbers().requires_grad_(), numbers(0.5).requires_grad_()
    return [x * 1, w * 1], [x, w]


def test_what_was_changed_behind_what_is_asked_for_is_nobodys_trouble():
    def after(lines, results, inputs):
        y, z = results
        with G.no_grad():
            inputs[0].zero_()
        grad(lines, [z], [y], retain_graph=True)
        grad(lines, [z], [y, inputs[1]], retain_graph=True)
        grad(lines, [z], [y], retain_graph=True, create_graph=True)
        grad(lines, [z], [inputs[0]], retain_graph=True)
        grad(lines, [z], [y])
        grad(lines, [y], [inputs[0]])

    walk(squares, after, written)


def test_what_was_changed_behind_what_is_asked_for_before_it_is_looked_at():
    def after(lines, results, inputs):
        y, z = results
        with G.no_grad():
            inputs[0].zero_()
        lines.append(str(len(z.grad_fn.next_functions)))
        grad(lines, [z], [y], retain_graph=True)
        grad(lines, [z], [inputs[0]], retain_graph=True)
        grad(lines, [z], [y])

    walk(squares, after, written)


class Square(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


def chosen(x, w):
    return G.cond(w.sum() > 0, lambda x: x * x, lambda x: x.sin() * x, (x,))


@pytest.mark.parametrize(
    "function", [lambda x, w: Square.apply(x), chosen], ids=["Function", "cond"]
)
def test_what_was_changed_after_a_first_walk_is_refused(function):
    def after(lines, y, inputs):
        grad(lines, [y], [inputs[0]], create_graph=True)
        with G.no_grad():
            inputs[0].zero_()
        grad(lines, [y], [inputs[0]])

    walk(function, after, written)


def test_results_of_a_function_that_lead_to_each_other():
    def f(x, w):
        y = x * w
        z = y.sin()
        return y, z, (z + w).exp()

    def after(lines, results, inputs):
        y, z, e = results
        grad(lines, [e], [z], retain_graph=True)
        grad(lines, [e, y], [z, y], retain_graph=True)
        grad(lines, [z], [y])
        grad(lines, [z], [y])
        grad(lines, [e], [z])
        grad(lines, [y], [inputs[1]])

    walk(f, after)


@undisturbed
@pytest.mark.skipif("tape" in os.environ.get("GM_STRESS", ""), reason="compiles each backward")
def test_the_compiled_backward_runs_where_some_gradients_are_asked_for():
    G._dynamo.reset()
    f, (inputs, _), before = (
        G.compile(sides, backend="eager", fullgraph=True),
        two(),
        counters["backend"]["compiles"],
    )
    G.autograd.grad(f(*inputs).sum(), [inputs[0]])
    assert counters["backend"]["compiles"] == before + 2
