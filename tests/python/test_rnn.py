# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers against loops over cells, and packed sequences against each sequence alone."""

import numpy as np
import pytest

import gramme
from gramme import nn

from gramme.nn.utils.rnn import (
    PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence,
    unpack_sequence, unpad_sequence,
)  # fmt: skip
from gramme.testing import assert_bits_equal, assert_close

KINDS = {"RNN": (nn.RNN, nn.RNNCell), "LSTM": (nn.LSTM, nn.LSTMCell), "GRU": (nn.GRU, nn.GRUCell)}


def cell_of(kind, layer, k, suffix=""):
    """A cell with the weights of one layer and direction."""
    columns = getattr(layer, f"weight_ih_l{k}{suffix}").shape[1]
    cell = KINDS[kind][1](columns, layer.hidden_size)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cell.load_state_dict({name: getattr(layer, f"{name}_l{k}{suffix}").detach() for name in names})
    return cell


def looped(cell, steps):
    """The outputs of a cell over a list of steps, and its last state."""
    state, outputs = None, []
    for x in steps:
        state = cell(x, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return outputs, state if isinstance(state, tuple) else (state,)


def states(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("kind", KINDS)
def test_two_layers_in_both_directions_are_loops_over_cells(kind):
    layer = KINDS[kind][0](3, 4, num_layers=2, bidirectional=True)
    x = gramme.randn(5, 2, 3)
    output, state = layer(x)
    steps, ends = list(x.unbind(0)), []
    for k in range(2):
        forth, end = looped(cell_of(kind, layer, k), steps)
        back, end_back = looped(cell_of(kind, layer, k, "_reverse"), steps[::-1])
        steps = [gramme.cat(pair, -1) for pair in zip(forth, back[::-1])]
        ends += [end, end_back]
    assert_close(output, gramme.stack(steps), rtol=1e-5, atol=1e-6)
    for i, part in enumerate(states(state)):
        assert_close(part, gramme.stack([end[i] for end in ends]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_batch_first_and_single_sequences(kind):
    layer = KINDS[kind][0](3, 4, bias=False, batch_first=True)
    x = gramme.randn(2, 6, 3)
    whole, end = layer(x)
    first, middle = layer(x[:, :2])
    second, end2 = layer(x[:, 2:], middle)
    assert_close(gramme.cat([first, second], 1), whole, rtol=1e-6, atol=1e-6)
    for a, b in zip(states(end), states(end2)):
        assert_close(a, b, rtol=1e-6, atol=1e-6)
    alone, state = layer(x[1])
    assert alone.shape == (6, 4) and states(state)[0].shape == (1, 4)
    assert_close(alone, whole[1], rtol=1e-6, atol=1e-6)


def test_projections_of_an_lstm():
    layer = nn.LSTM(3, 5, proj_size=2, bidirectional=True)
    x = gramme.randn(4, 2, 3)
    output, (h, c) = layer(x)
    assert (
        output.shape == (4, 2, 4)
        and h.shape == (2, 2, 2)
        and c.shape == (2, 2, 5)
        and layer.weight_hr_l0.shape == (2, 5)
    )
    w, u, b = (
        getattr(layer, n + "_l0").detach().numpy().astype(np.float64)
        for n in ("weight_ih", "weight_hh", "bias_ih")
    )
    b = b + layer.bias_hh_l0.detach().numpy()
    hidden, cell = np.zeros((2, 2)), np.zeros((2, 5))
    for step in x.numpy():
        i, f, g, o = np.split(step @ w.T + hidden @ u.T + b, 4, axis=1)
        sigmoid = lambda v: 1 / (1 + np.exp(-v))
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = (sigmoid(o) * np.tanh(cell)) @ layer.weight_hr_l0.detach().numpy().T
    np.testing.assert_allclose(h[0].detach().numpy(), hidden, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(c[0].detach().numpy(), cell, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_order", [True, False])
def test_a_packed_sequence_is_each_sequence_alone(kind, in_order):
    layer = KINDS[kind][0](3, 4, num_layers=2, bidirectional=True)
    lengths = [5, 3, 3, 1] if in_order else [3, 1, 5, 3]
    x = gramme.randn(5, 4, 3)
    packed, state = layer(pack_padded_sequence(x, lengths, enforce_sorted=in_order))
    assert isinstance(packed, PackedSequence)
    output, got = pad_packed_sequence(packed, padding_value=-1.0)
    assert got.tolist() == lengths
    for n, length in enumerate(lengths):
        alone, end = layer(x[:length, n])
        assert_close(output[:length, n], alone, rtol=1e-5, atol=1e-6)
        assert (output[length:, n] == -1).all()
        for a, b in zip(states(state), states(end)):
            assert_close(a[:, n], b, rtol=1e-5, atol=1e-6)


def test_a_packed_sequence_begins_with_a_given_state():
    layer = nn.GRU(3, 4, bidirectional=True)
    x, h = gramme.randn(5, 4, 3), gramme.randn(2, 4, 4)
    lengths = [3, 1, 5, 3]
    _, end = layer(pack_padded_sequence(x, lengths, enforce_sorted=False), h)
    for n, length in enumerate(lengths):
        assert_close(end[:, n], layer(x[:length, n], h[:, n])[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_layers_give_the_same_bits_and_gradients(kind, backend):
    def run(compiled):
        gramme.manual_seed(2)
        layer = KINDS[kind][0](3, 4, num_layers=2, bidirectional=True)
        x = gramme.randn(4, 2, 3, requires_grad=True)
        f = gramme.compile(layer, backend=backend, fullgraph=True) if compiled else layer
        output, state = f(x)
        (output.sum() + sum((part * part).sum() for part in states(state))).backward()
        return (
            [output.detach(), x.grad]
            + [part.detach() for part in states(state)]
            + [p.grad for p in layer.parameters()]
        )

    for a, b in zip(run(True), run(False)):
        assert_bits_equal(a, b)


def test_dropout_is_between_layers_and_off_in_evaluation():
    layer = nn.GRU(3, 4, num_layers=2, dropout=1.0)
    x = gramme.randn(3, 2, 3)
    trained, evaluated = layer(x)[0], layer.eval()(x)[0]
    only_second = nn.GRU(4, 4)
    only_second.load_state_dict(
        {n.replace("l1", "l0"): p.detach() for n, p in layer.named_parameters() if "l1" in n}
    )
    assert_close(trained, only_second(gramme.zeros(3, 2, 4))[0], rtol=1e-6, atol=1e-6)
    assert (trained != evaluated).any()


def test_what_recurrent_layers_refuse():
    layer = nn.RNN(3, 4)
    with pytest.raises(ValueError, match=r"\(L, N, 3\)"):
        layer(gramme.ones(5, 2, 7))
    with pytest.raises(ValueError, match=r"\[\[1, 2, 4\]\]"):
        layer(gramme.ones(5, 2, 3), gramme.ones(1, 3, 4))
    with pytest.raises(ValueError, match="proj_size"):
        nn.LSTM(3, 4, proj_size=4)
    with pytest.raises(ValueError, match="nonlinearity"):
        nn.RNN(3, 4, nonlinearity="gelu")
    with pytest.raises(ValueError, match="no steps"):
        layer(gramme.ones(0, 2, 3))
    assert [w.shape for w in nn.LSTM(3, 4, bias=False).all_weights[0]] == [(16, 3), (16, 4)]


# -- Sequences


def test_padding_and_packing_go_back():
    sequences = [gramme.arange(3.0), gramme.arange(5.0), gramme.arange(1.0)]
    padded = pad_sequence(sequences, batch_first=True, padding_value=-1.0)
    assert padded.tolist() == [[0, 1, 2, -1, -1], [0, 1, 2, 3, 4], [0, -1, -1, -1, -1]]
    left = pad_sequence(sequences, padding_side="left")
    assert left.T.tolist()[0] == [0, 0, 0, 1, 2]
    for a, b in zip(unpad_sequence(padded, gramme.tensor([3, 5, 1]), batch_first=True), sequences):
        assert_bits_equal(a, b)
    packed = pack_sequence(sequences, enforce_sorted=False)
    assert packed.data.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 4] and packed.batch_sizes.tolist() == [
        3,
        2,
        2,
        1,
        1,
    ]
    assert packed.sorted_indices.tolist() == [1, 0, 2] and packed.unsorted_indices.tolist() == [
        1,
        0,
        2,
    ]
    for a, b in zip(unpack_sequence(packed), sequences):
        assert_bits_equal(a, b)
    assert pad_packed_sequence(packed, total_length=7)[0].shape == (7, 3)
    assert packed.to(gramme.float64).data.dtype is gramme.float64
    with pytest.raises(ValueError, match="enforce_sorted"):
        pack_sequence(sequences)
    with pytest.raises(ValueError, match="between 1 and 5"):
        pack_padded_sequence(padded.T, [3, 6, 1])
