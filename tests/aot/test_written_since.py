# SPDX-License-Identifier: Apache-2.0
"""What the caller writes to between a call and its backward: plain Python's gradients, or its
refusal.

A compiled function may keep something else than plain Python does, as long as what that keeps for
itself is nobody's to write to.
"""

import pytest

import gramme as G


def gradient_or_refusal(f, write, dtype=G.bfloat16):
    x, w = G.arange(4).to(dtype), (G.arange(4).float() * 0.3 + 1).requires_grad_()
    results = f(x, w)
    with G.no_grad():
        write(x, *results)
    try:
        results[-1].sum().backward()
    except RuntimeError as error:
        assert "changed by an in-place operation" in str(error)
        return "refused"
    return w.grad.tolist()


def first_result(x, first, *others):
    first.mul_(3)


def input_and_first_result(x, first, *others):
    first.mul_(3)
    x.zero_()


def computed_twice(x, w):
    return w.exp(), w.exp() * 2


def cast_twice(x, w):
    return x.float(), x.float() * w


def viewed_twice(x, w):
    return x.float().view(2, 2), (x.float().view(2, 2) * w.view(2, 2)).sum()


def computed_thrice(x, w):
    return x.exp(), x.exp() * w, (x.exp() + w).sin() * w


def taken_for_the_gradient(x, w):
    y = x.float() / w
    return y, y.sum()


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize(
    "f, write",
    [
        (computed_twice, first_result),
        (cast_twice, first_result),
        (cast_twice, input_and_first_result),
        (viewed_twice, first_result),
        (computed_thrice, first_result),
        (taken_for_the_gradient, first_result),
    ],
)
def test_what_is_equal_to_a_result_is_kept_apart_from_it(f, write, backend):
    want = gradient_or_refusal(f, write)
    assert want != "refused"
    assert gradient_or_refusal(G.compile(f, backend=backend, fullgraph=True), write) == want


def promoted_and_divided(x, w):
    y = x / w
    return y, y.sum()


def quotient_of_a_root(x, w):
    return w.sqrt(), x / w.sqrt()


def mean_of_two(x, w):
    return G.addcdiv(w, x.to(w.dtype), w + 2), (x.to(w.dtype) / (w + 2)).sum()


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("dtype", [G.float16, G.bfloat16, G.int64])
@pytest.mark.parametrize("f", [promoted_and_divided, quotient_of_a_root, mean_of_two])
def test_what_was_computed_of_an_input_outlives_that(f, dtype, backend):
    """The compiled backward reads the quotient, so that alone would be kept; the promoted operand
    is plain Python's own."""
    want = gradient_or_refusal(f, input_and_first_result, dtype)
    assert want != "refused"
    assert (
        gradient_or_refusal(
            G.compile(f, backend=backend, fullgraph=True), input_and_first_result, dtype
        )
        == want
    )


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_one_of_two_waves_that_are_each_others_gradient(backend):
    """Taken apart, since nothing arrives at the other one: both read the product, whose operand was
    written to."""

    def gradient(f):
        leaf = (G.arange(4).float() * 0.3 + 1).requires_grad_()
        x = leaf * 1.25
        up, down = f(x)
        with G.no_grad():
            x.zero_()
        down.sum().backward()
        return leaf.grad.tolist()

    def waves(x):
        product = x * 3
        return product.sin(), product.cos()

    assert gradient(G.compile(waves, backend=backend, fullgraph=True)) == gradient(waves)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_second_gradients_of_what_was_computed_of_an_input_that_was_written_to(backend):
    def gradients(f):
        x, leaf = (G.arange(4).float() * 0.3 + 1).half(), (
            G.arange(4).float() * 0.3 + 1
        ).requires_grad_()
        y = f(x, leaf)
        x.zero_()
        (first,) = G.autograd.grad(y.sum(), [leaf], create_graph=True)
        return first.tolist(), G.autograd.grad(first.square().sum(), [leaf])[0].tolist()

    def f(x, w):
        return x.float() / w

    assert gradients(G.compile(f, backend=backend, fullgraph=True)) == gradients(f)


def test_gradients_with_a_history_read_a_result_whose_origin_was_written_to():
    """The compiled backward reads the quotient; what plain gradients read is the numerator, which
    was given out, too."""

    def f(x):
        total = x[1].sum()
        return total, total / (x + 4)

    def run(f):
        leaf = G.arange(4).double().requires_grad_()
        x = leaf * 1.25
        total, quotient = f(x)
        with G.no_grad():
            x.mul_(3)
        loss = total * 0.5 + quotient.sum()
        (first,) = G.autograd.grad(loss, [leaf], create_graph=True)
        return first.tolist(), G.autograd.grad(first.square().sum(), [leaf])[0].tolist()

    want = run(f)
    for backend in ("eager", "tcc"):
        assert run(G.compile(f, backend=backend, fullgraph=True)) == want


def test_a_checkpoint_computes_a_result_again_that_was_written_to():
    def wave(x):
        return (x.sin() * x).tanh()

    def f(x):
        return G.utils.checkpoint.checkpoint(wave, x)

    def run(f):
        leaf = G.arange(4).float().requires_grad_()
        y = f(leaf * 1.25)
        with G.no_grad():
            y.add_(y)
        (first,) = G.autograd.grad(y.sum(), [leaf], create_graph=True)
        return first.tolist(), G.autograd.grad(first.square().sum(), [leaf])[0].tolist()

    want = run(f)
    for backend in ("eager", "tcc"):
        assert run(G.compile(f, backend=backend, fullgraph=True)) == want
