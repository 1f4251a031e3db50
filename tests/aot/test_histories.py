# SPDX-License-Identifier: Apache-2.0
"""What compiled functions leave behind in autograd: where hooks wait, what is kept for the backward, and how often, as in plain ones."""

import pytest
from afterwards import lines_of
from same import describe, flatten

import gramme as G

BACKENDS = ["eager", "tcc"]
backends = pytest.mark.parametrize("backend", BACKENDS)


def base(n=12):
    return G.arange(n).float() * 0.37 - 1.5


def loss(results):
    return sum((t * (0.5 + i)).sum() for i, t in enumerate(flatten(results)) if t.requires_grad)


def same(f, run, backend="eager", fullgraph=True):
    """run (f): lines that must be the same of the plain and the compiled function."""
    want = run(f)
    assert run(G.compile(f, backend=backend, fullgraph=fullgraph)) == want
    return want


class Scale(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1.5

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 1.5 + x * 0.125


# -- Who waits at results ---------------------------------------------------------------------------------------------


def scaled_and_read(x):
    y = Scale.apply(x)
    return y, y * y


@backends
def test_a_hook_on_the_result_of_a_function_with_its_own_gradient_sees_all_that_arrives(backend):
    def run(f):
        leaf, seen = base(4).requires_grad_(), []
        y, z = f(leaf * 1.25)
        y.register_hook(lambda g: seen.append(g.tolist()))
        y.retain_grad()
        loss([y, z]).backward()
        return seen + lines_of([leaf.grad, y.grad])

    same(scaled_and_read, run, backend)


def squared_tanh(x):
    y = (x * x).tanh()
    return y


@backends
@pytest.mark.parametrize("act", ["look", "change", "take off"])
def test_a_hook_on_a_result_runs_in_the_second_backward_too(backend, act):
    def run(f):
        leaf, seen = base(4).requires_grad_(), []
        y = f(leaf * 1.25)
        h = y.register_hook((lambda g: g * 2) if act == "change" else lambda g: seen.append(g.tolist()))
        (first,) = G.autograd.grad(loss(y), [leaf], create_graph=True)
        if act == "take off":
            h.remove()
        del y
        (second,) = G.autograd.grad((first * first).sum(), [leaf])
        return seen + lines_of([first, second])

    assert len(same(squared_tanh, run, backend)) == {"look": 4, "change": 2, "take off": 3}[act]


def copied_and_added(v, x):
    v.copy_(x)
    w = v * 2
    return w


@backends
def test_a_hook_on_what_was_copied_into_does_not_see_the_gradient_of_what_was_copied(backend):
    def run(f):
        leaf, seen = base(4).requires_grad_(), []
        x, v = leaf * 1.25, base(4) * 1
        w = f(v, x)
        v.register_hook(lambda g: seen.append(g.tolist()))
        v.register_hook(lambda g: g * 2)
        (loss([w, v]) + (x * 0.3).sum()).backward()
        return seen + lines_of([leaf.grad])

    same(copied_and_added, run, backend)


def copied_back_and_forth(x):
    v = x * 3
    v.copy_(x)
    return v.view(-1), x * x


@backends
def test_the_gradient_of_a_copy_is_summed_before_it_goes_on(backend):
    def run(f):
        leaf = base(4).bfloat16().requires_grad_()
        x = leaf * 1.25
        v, y = f(x)
        (loss([v, y, x, v * v]) + (x * 0.3).sum()).backward()
        return lines_of([leaf.grad])

    same(copied_back_and_forth, run, backend)


def two_results(x):
    return x.sin() * x, (x * x).tanh()


@backends
def test_a_second_derivative_sums_what_comes_through_results_and_through_the_function_in_one_place(backend):
    def run(f):
        leaf = base().requires_grad_()
        y, z = f(leaf * 1.25)
        (first,) = G.autograd.grad((y * z).sum(), [leaf], create_graph=True)
        (second,) = G.autograd.grad((first * first).sum(), [leaf])
        return lines_of([first, second])

    same(two_results, run, backend)


@backends
def test_a_result_that_was_taken_apart_keeps_what_waits_for_it(backend):
    def run(f):
        leaf, seen = base(4).requires_grad_(), []
        y, z = f(leaf * 1.25)
        y.retain_grad()
        y.register_hook(lambda g: seen.append(g.tolist()))
        (y * z).sum().backward(create_graph=True)
        h = z.register_hook(lambda g: seen.append(g.tolist()))
        total = (y * z * 2).sum() + (leaf.grad * leaf.grad).sum()
        h.remove()
        y.grad = leaf.grad = None
        total.backward()
        return seen + lines_of([leaf.grad, y.grad])

    same(two_results, run, backend)


@backends
def test_once_and_no_more_without_retain_graph(backend):
    def run(f):
        leaf = base(4).requires_grad_()
        y, z = f(leaf * 1.25)
        G.autograd.grad((y * z).sum(), [leaf], create_graph=True, retain_graph=False)
        with pytest.raises(RuntimeError, match="second time"):
            G.autograd.grad(y.sum(), [leaf])
        return []

    same(two_results, run, backend)


# -- Views ------------------------------------------------------------------------------------------------------------


def view_and_square(x):
    v = x.view(3, 4)
    return v * v, v, x[0]


@backends
def test_a_hook_on_a_view_that_is_given_out_sees_what_the_function_does_with_it(backend):
    def run(f):
        leaf, seen = base().requires_grad_(), []
        y, v, first = f(leaf * 1.25)
        for t in (v, first):
            t.register_hook(lambda g: seen.append(g.tolist()))
            t.register_hook(lambda g: g * 2)
        v.retain_grad()
        loss([y, v, first, v.sin()]).backward()
        return seen + lines_of([leaf.grad, v.grad])

    same(view_and_square, run, backend)


def written_and_read(x):
    x[1:] *= 2
    return x * x, x.view(-1)


@backends
@pytest.mark.parametrize("where", ["on the base", "between", "on the view"])
def test_hooks_around_a_view_that_is_written_to(backend, where):
    def run(f):
        leaf, seen = base().bfloat16().requires_grad_(), []
        whole = leaf * 1.25
        middle = whole[2:10]
        x = middle.view(2, 4)
        {"on the base": whole, "between": middle, "on the view": x}[where].register_hook(lambda g: g * 2)
        results = f(x)
        whole.register_hook(lambda g: seen.append(g.tolist()))
        (loss(results) + (x * 0.3).sum() + (middle * 0.7).sum() + (whole * 0.1).sum()).backward()
        return seen + describe([x, whole]) + lines_of([leaf.grad])

    same(written_and_read, run, backend, fullgraph=False)


def gains_and_doubles(x, y, w):
    x.add_(w)
    with G.no_grad():
        y.mul_(2)
    return x


def test_a_write_without_gradients_to_what_gained_a_history_through_another_name():
    def run(f):
        w = base(4).requires_grad_()
        x = base(4)
        loss(f(x, x[1], w)).backward()
        return lines_of([w.grad])

    same(gains_and_doubles, run, fullgraph=False)


# -- What is kept for the backward ------------------------------------------------------------------------------------


def clamped_then_zeroed(x):
    v = x.sum()
    v.clamp_(-1, 1)
    v.zero_()
    return v


@backends
def test_an_input_that_eager_does_not_keep_may_be_written_to_afterwards(backend):
    def run(f):
        leaf = base(4).requires_grad_()
        x = leaf * 1.25
        y = f(x)
        x.mul_(2)
        loss([y, x]).backward()
        return lines_of([leaf.grad])

    same(clamped_then_zeroed, run, backend)


def exponential_in_place(x):
    v = x + x
    v.exp_()
    return v


@backends
def test_what_was_written_in_place_may_be_written_to_without_gradients_afterwards(backend):
    def run(f):
        leaf = base(4).requires_grad_()
        y = f(leaf * 1.25)
        with G.no_grad():
            y.add_(y)
        loss(y).backward()
        return describe([y]) + lines_of([leaf.grad])

    same(exponential_in_place, run, backend)


def divided_after_a_write(x):
    x[:, 1].add_(1)
    return x / (x + 4)


@backends
def test_a_second_derivative_of_what_was_made_of_an_overwritten_input(backend):
    def run(f):
        leaf = base().requires_grad_()
        y = f((leaf * 1.25).view(3, 4))
        (first,) = G.autograd.grad(loss(y), [leaf], create_graph=True)
        (second,) = G.autograd.grad((first * first).sum(), [leaf])
        return lines_of([first, second])

    same(divided_after_a_write, run, backend)


# -- Memory that is one, under two names ------------------------------------------------------------------------------


def given_the_memory_it_has(x, y):
    x.view(2, 6).set_(y)
    return x + 1


@pytest.mark.parametrize("shared", [True, False])
def test_a_view_that_is_given_the_memory_it_has_counts_as_a_change(shared):
    def run(f):
        b, other = base(), base()
        x, y = b.view(4, 3), (b if shared else other).view(3, 4)
        return describe([x, y, f(x, y)])

    compiled = G.compile(given_the_memory_it_has, backend="eager")
    for _ in range(2):
        assert run(compiled) == run(given_the_memory_it_has)
        shared = not shared


def written_in_one_place(x):
    x[0].mul_(3)
    return x + 1


def test_a_write_to_an_expanded_input_is_left_to_plain_python():
    def run(f):
        x = base()[1:2].expand(4)
        return describe([x, f(x)])

    same(written_in_one_place, run, fullgraph=False)


# -- Checkpoints ------------------------------------------------------------------------------------------------------


def wave(t):
    return (t.sin() * t).tanh()


def test_an_argument_of_a_checkpoint_that_was_given_other_memory_is_an_error():
    leaf = base(4).requires_grad_()
    x = leaf * 1.25
    y = G.utils.checkpoint.checkpoint(wave, x)
    x.set_(y)
    with pytest.raises(RuntimeError, match="an argument of a checkpointed function .* another shape or memory"):
        y.sum().backward()
