# SPDX-License-Identifier: Apache-2.0
"""Attention over several heads and the transformer: against numpy, masks against what they hide,
compiled against plain."""

import math

import numpy as np
import pytest

import gramme
from gramme import nn
from gramme.testing import assert_bits_equal, assert_close


def attention_in_numpy(layer, q, k, v, bias=0.0):
    """(output, weights for each head) of (L, E), (S, E), (S, E)."""
    e, heads = layer.embed_dim, layer.num_heads
    w, b = (
        layer.in_proj_weight.detach().numpy().astype(np.float64),
        layer.in_proj_bias.detach().numpy(),
    )
    q, k, v = (
        x.numpy() @ w[i * e : (i + 1) * e].T + b[i * e : (i + 1) * e]
        for i, x in enumerate((q, k, v))
    )
    outputs, weights = [], []
    for h in range(heads):
        part = slice(h * e // heads, (h + 1) * e // heads)
        scores = q[:, part] @ k[:, part].T / math.sqrt(e // heads) + bias
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        outputs.append(p @ v[:, part])
        weights.append(p)
    out = (
        np.concatenate(outputs, 1) @ layer.out_proj.weight.detach().numpy().T
        + layer.out_proj.bias.detach().numpy()
    )
    return out, np.stack(weights)


def test_attention_agrees_with_numpy():
    layer = nn.MultiheadAttention(6, 2)
    nn.init.normal_(layer.in_proj_bias)
    q, k, v = gramme.randn(4, 6), gramme.randn(5, 6), gramme.randn(5, 6)
    want, weights = attention_in_numpy(layer, q, k, v)
    output, mean = layer(q, k, v)
    np.testing.assert_allclose(output.detach().numpy(), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mean.detach().numpy(), weights.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        layer(q, k, v, average_attn_weights=False)[1].detach().numpy(),
        weights,
        rtol=1e-5,
        atol=1e-6,
    )
    output, none = layer(q, k, v, need_weights=False)
    assert none is None
    np.testing.assert_allclose(output.detach().numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("need_weights", [True, False])
def test_masks_hide_keys(need_weights):
    layer = nn.MultiheadAttention(6, 2, batch_first=True)
    q, k = gramme.randn(2, 4, 6), gramme.randn(2, 5, 6)
    hidden = gramme.tensor([[False] * 5, [False, False, False, True, True]])
    masked, _ = layer(q, k, k, key_padding_mask=hidden, need_weights=need_weights)
    assert_close(masked[1], layer(q[1:], k[1:, :3], k[1:, :3])[0][0], rtol=1e-5, atol=1e-6)
    assert_close(masked[0], layer(q, k, k)[0][0], rtol=1e-5, atol=1e-6)
    causal = gramme.ones(4, 5, dtype=gramme.bool).triu(1)
    first, _ = layer(q, k, k, attn_mask=causal, need_weights=need_weights)
    assert_close(first[:, 1], layer(q[:, 1:2], k[:, :2], k[:, :2])[0][:, 0], rtol=1e-5, atol=1e-6)
    as_numbers = gramme.zeros(4, 5).masked_fill(causal, -math.inf)
    assert_close(layer(q, k, k, attn_mask=as_numbers, need_weights=need_weights)[0], first)
    for_each_head = causal.expand(4, 4, 5)
    assert_close(layer(q, k, k, attn_mask=for_each_head, need_weights=need_weights)[0], first)
    assert_close(
        layer(q, k, k, is_causal=True, need_weights=need_weights)[0], first, rtol=1e-5, atol=1e-6
    )


def test_other_widths_of_keys_and_values_and_learned_ones():
    layer = nn.MultiheadAttention(6, 2, kdim=3, vdim=4)
    assert layer(gramme.randn(4, 2, 6), gramme.randn(5, 2, 3), gramme.randn(5, 2, 4))[0].shape == (
        4,
        2,
        6,
    )
    assert "q_proj_weight" in layer.state_dict() and "in_proj_weight" not in layer.state_dict()
    more = nn.MultiheadAttention(6, 2, add_bias_kv=True, add_zero_attn=True)
    x = gramme.randn(4, 2, 6)
    output, weights = more(x, x, x, key_padding_mask=gramme.ones(2, 4, dtype=gramme.bool))
    assert (
        weights.shape == (2, 4, 6) and (weights[:, :, :4] == 0).all() and not output.isnan().any()
    )
    with pytest.raises(ValueError, match="multiple"):
        nn.MultiheadAttention(6, 4)


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_is_its_formula(norm_first):
    layer = nn.TransformerEncoderLayer(
        6, 2, 12, dropout=0.0, norm_first=norm_first, batch_first=True
    )
    x = gramme.randn(2, 4, 6)

    def attend(y):
        return layer.self_attn(y, y, y)[0]

    def feed(y):
        return layer.linear2(gramme.relu(layer.linear1(y)))

    if norm_first:
        want = x + attend(layer.norm1(x))
        want = want + feed(layer.norm2(want))
    else:
        want = layer.norm1(x + attend(x))
        want = layer.norm2(want + feed(want))
    assert_close(layer(x), want, rtol=1e-5, atol=1e-5)


def test_a_decoder_sees_no_later_tokens_and_no_padding():
    gramme.manual_seed(0)
    model = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True)
    src, tgt = gramme.randn(1, 5, 8), gramme.randn(1, 4, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    assert mask[1].tolist() == [0.0, 0.0, -math.inf, -math.inf]
    whole = model(src, tgt, tgt_mask=mask)
    for t in (1, 3):
        assert_close(
            model(src, tgt[:, :t], tgt_mask=mask[:t, :t])[:, -1],
            whole[:, t - 1],
            rtol=1e-4,
            atol=1e-5,
        )
    padding = gramme.tensor([[False, False, False, True, True]])
    hidden = model(
        src, tgt, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding
    )
    assert_close(hidden, model(src[:, :3], tgt, tgt_mask=mask), rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="8 features"):
        model(src, gramme.randn(1, 4, 7))


def test_layers_of_an_encoder_are_copies():
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    encoder = nn.TransformerEncoder(layer, 3, nn.LayerNorm(8))
    assert len(list(encoder.parameters())) == 3 * len(list(layer.parameters())) + 2
    assert_bits_equal(encoder.layers[0].linear1.weight.detach(), layer.linear1.weight.detach())
    names = set(layer.state_dict())
    assert {
        "self_attn.in_proj_weight",
        "self_attn.out_proj.bias",
        "linear1.weight",
        "norm2.bias",
    } <= names
    with pytest.raises(RuntimeError, match="'relu', 'gelu'"):
        nn.TransformerEncoderLayer(8, 2, activation="swish")


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_compiled_transformers_give_the_same_bits_and_gradients(backend):
    def run(compiled):
        gramme.manual_seed(3)
        model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, activation="gelu")
        src, tgt = gramme.randn(5, 2, 8, requires_grad=True), gramme.randn(4, 2, 8)
        mask = nn.Transformer.generate_square_subsequent_mask(4)
        f = gramme.compile(model, backend=backend, fullgraph=True) if compiled else model
        out = f(src, tgt, tgt_mask=mask, tgt_is_causal=True)
        (out * out).sum().backward()
        return [out.detach(), src.grad] + [p.grad for p in model.parameters()]

    for a, b in zip(run(True), run(False)):
        assert_bits_equal(a, b)
