# SPDX-License-Identifier: Apache-2.0
"""Gradients of recurrent layers, which have a backward of their own, against those of the same
steps as plain operations."""

import pytest

import gramme
from gramme import func, nn
from gramme.nn import recurrence
from gramme.nn.utils.rnn import pack_padded_sequence
from gramme.testing import assert_bits_equal, assert_close
from stress import undisturbed

LAYERS = {
    "tanh": lambda **kw: nn.RNN(3, 4, 2, **kw),
    "relu": lambda **kw: nn.RNN(3, 4, 2, nonlinearity="relu", **kw),
    "GRU": lambda **kw: nn.GRU(3, 4, 2, **kw),
    "LSTM": lambda **kw: nn.LSTM(3, 4, 2, **kw),
    "LSTM with a projection": lambda **kw: nn.LSTM(3, 4, 2, proj_size=2, **kw),
}


def made(kind, **kw):
    gramme.manual_seed(3)
    return LAYERS[kind](dtype=gramme.float64, **kw)


def loss_of(layer, packed):
    def loss(x):
        output, state = layer(pack_padded_sequence(x, [5, 3, 2]) if packed else x)
        state = state if isinstance(state, tuple) else (state,)
        return ((output.data if packed else output) ** 2).sum() + sum(
            (part**3).sum() for part in state
        )

    return loss


def gradients(loss, tensors, second):
    """The loss, its gradients, and with second those of the sum of their squares."""
    value = loss()
    first = gramme.autograd.grad(value, tensors, create_graph=second)
    again = gramme.autograd.grad(sum((g * g).sum() for g in first), tensors) if second else ()
    return [value.detach(), *first, *again]


def as_plain_operations(monkeypatch):
    monkeypatch.setattr(
        recurrence,
        "layer",
        lambda cell, reverse, sizes, *args: recurrence.run(
            cell, reverse, sizes, *args[:-1], *args[-1]
        ),
    )


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_gradients_and_their_gradients_are_those_of_the_steps(
    kind, bidirectional, bias, packed, monkeypatch
):
    layer, x = made(kind, bidirectional=bidirectional, bias=bias), gramme.randn(
        5, 3, 3, dtype=gramme.float64, requires_grad=True
    )
    loss, tensors = loss_of(layer, packed), [x, *layer.parameters()]
    got = gradients(lambda: loss(x), tensors, True)
    as_plain_operations(monkeypatch)
    want = gradients(lambda: loss(x), tensors, True)
    assert_bits_equal(got[0], want[0])
    for a, b in zip(got, want):
        assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_compiled_gradients_and_theirs_have_the_same_bits(kind, packed, backend):
    layer, x = made(kind, bidirectional=True), gramme.randn(
        5, 3, 3, dtype=gramme.float64, requires_grad=True
    )
    loss, tensors = loss_of(layer, packed), [x, *layer.parameters()]
    compiled = gramme.compile(loss, backend=backend, fullgraph=not packed)
    for second in (False, True):
        for a, b in zip(
            gradients(lambda: compiled(x), tensors, second),
            gradients(lambda: loss(x), tensors, second),
        ):
            assert_bits_equal(a, b)


@undisturbed
@pytest.mark.parametrize("kind", LAYERS)
def test_one_compilation_for_all_numbers_of_examples(kind):
    layer, seen = made(kind), []
    compiled = gramme.compile(
        lambda x: layer(x)[0].sum(),
        backend=lambda graph, example: seen.append(graph) or graph.forward,
        dynamic=True,
    )
    for n in (2, 3, 5, 7):
        x = gramme.randn(4, n, 3, dtype=gramme.float64)
        got, want = (
            gradients(lambda f=f: f(x), list(layer.parameters()), False)
            for f in (compiled, lambda x: layer(x)[0].sum())
        )
        for a, b in zip(got, want):
            assert_bits_equal(a, b)
    assert len(seen) == 1


@pytest.mark.parametrize("kind", LAYERS)
def test_transforms_go_through_them(kind, monkeypatch):
    layer, xs = made(kind), gramme.randn(2, 3, 2, 3, dtype=gramme.float64)
    loss = lambda x: (layer(x)[0] ** 2).sum()
    found = []
    for plain in (False, True):
        if plain:
            as_plain_operations(monkeypatch)
        found.append(
            (
                func.vmap(func.grad(loss))(xs),
                func.jvp(loss, (xs[0],), (xs[1],))[1],
                func.hessian(loss)(xs[0, :2, :1]),
            )
        )
    for a, b in zip(*found):
        assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_only_what_is_asked_for_gets_a_gradient():
    layer = made("LSTM")
    for name, weight in layer.named_parameters():
        weight.requires_grad_(name == "weight_hh_l1")
    layer(gramme.randn(4, 2, 3, dtype=gramme.float64))[0].sum().backward()
    assert [name for name, weight in layer.named_parameters() if weight.grad is not None] == [
        "weight_hh_l1"
    ]


@undisturbed
def test_the_gradient_of_the_hidden_weights_is_one_product():
    """The sum of one product for each step is what the layer's own backward is there to avoid."""
    layer = nn.LSTM(3, 4)
    seen = []
    compiled = gramme.compile(lambda x: layer(x)[0].sum(), backend=seen_back_end(seen))
    compiled(gramme.randn(6, 2, 3)).backward()
    products = [line for line in seen[-1].splitlines() if "= matmul(" in line]
    assert len(products) == 5 + 2, seen[
        -1
    ]  # one for the state before each step but the first, one for each of the weights


def seen_back_end(seen):
    from gramme._dynamo.backends.common import aot_autograd

    def note(graph, example):
        seen.append(str(graph))
        return graph.forward

    return aot_autograd(fw_compiler=note, bw_compiler=note)
