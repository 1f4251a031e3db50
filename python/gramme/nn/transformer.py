# SPDX-License-Identifier: Apache-2.0
"""The transformer (Vaswani et al. 2017), its norms behind the sublayers, or with norm_first before
them (Xiong et al. 2020).

src: (S, N, E), tgt: (T, N, E); N comes first with batch_first, or is not there.  Masks are
MultiheadAttention's.
"""

import copy
import math

import gramme
from gramme.nn import functional as F
from gramme.nn import init
from gramme.nn.attention import MultiheadAttention
from gramme.nn.containers import ModuleList
from gramme.nn.dropout import Dropout
from gramme.nn.layers import Linear
from gramme.nn.module import Module
from gramme.nn.normalization import LayerNorm


def _activation(activation):
    """The function of a name, or the function itself."""
    if isinstance(activation, str):
        if activation not in ("relu", "gelu"):
            raise RuntimeError(f"activation is 'relu', 'gelu' or a function, not {activation!r}")
        return getattr(F, activation)
    return activation


class _Layer(Module):
    """What layers of encoder and decoder share: self-attention and two linear layers, each added to
    its input and normalised."""

    _sublayers = 2

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu",
        layer_norm_eps=1e-5, batch_first=False, norm_first=False,
        bias=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self._add_attention(d_model, nhead, dropout, bias, batch_first, device, dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, device=device, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device=device, dtype=dtype)
        self.norm_first = norm_first
        for i in range(1, self._sublayers + 1):
            setattr(
                self,
                f"norm{i}",
                LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype),
            )
        for i in range(1, self._sublayers + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def _add_attention(self, d_model, nhead, dropout, bias, batch_first, device, dtype):
        """The decoder's attention to the encoder stands between the others."""

    def _feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _self_attention(self, x, mask, padding, is_causal):
        return self.self_attn(
            x,
            x,
            x,
            key_padding_mask=padding,
            need_weights=False,
            attn_mask=mask,
            is_causal=is_causal,
        )[0]


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network.  src to the same shape."""

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = src
        if self.norm_first:
            x = x + self.dropout1(
                self._self_attention(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            )
            return x + self.dropout2(self._feed_forward(self.norm2(x)))
        x = self.norm1(
            x + self.dropout1(self._self_attention(x, src_mask, src_key_padding_mask, is_causal))
        )
        return self.norm2(x + self.dropout2(self._feed_forward(x)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output (memory), and a feed-forward network.  tgt
    to the same shape."""

    _sublayers = 3

    def _add_attention(self, d_model, nhead, dropout, bias, batch_first, device, dtype):
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )

    def _memory_attention(self, x, memory, mask, padding, is_causal):
        return self.multihead_attn(
            x, memory, memory, key_padding_mask=padding, need_weights=False, attn_mask=mask,
            is_causal=is_causal
        )[0]  # fmt: skip

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
        memory_key_padding_mask=None, tgt_is_causal=False,
        memory_is_causal=False,
    ):  # fmt: skip
        x, own = tgt, (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self.dropout1(self._self_attention(self.norm1(x), *own))
            x = x + self.dropout2(self._memory_attention(self.norm2(x), memory, *other))
            return x + self.dropout3(self._feed_forward(self.norm3(x)))
        x = self.norm1(x + self.dropout1(self._self_attention(x, *own)))
        x = self.norm2(x + self.dropout2(self._memory_attention(x, memory, *other)))
        return self.norm3(x + self.dropout3(self._feed_forward(x)))


class TransformerEncoder(Module):
    """num_layers copies of a layer, and a norm (or None) behind them."""

    def __init__(
        self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True
    ):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        x = src
        for layer in self.layers:
            x = layer(
                x,
                src_mask=mask,
                src_key_padding_mask=src_key_padding_mask,
                is_causal=bool(is_causal),
            )
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """num_layers copies of a layer, and a norm (or None) behind them."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
        memory_key_padding_mask=None, tgt_is_causal=None,
        memory_is_causal=False,
    ):  # fmt: skip
        x = tgt
        for layer in self.layers:
            x = layer(
                x, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """Encoder and decoder: (src, tgt) to the shape of tgt.  Errors: RuntimeError for other features
    than d_model, or unequal batches."""

    def __init__(
        self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6,
        dim_feedforward=2048, dropout=0.1, activation="relu",
        custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5, batch_first=False,
        norm_first=False, bias=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        options = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
        )

        def norm():
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(
                TransformerEncoderLayer(*options), num_encoder_layers, norm()
            )
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(
                TransformerDecoderLayer(*options), num_decoder_layers, norm()
            )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """(sz, sz): -inf above the diagonal, 0 elsewhere."""
        return gramme.full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)

    def forward(
        self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
        memory_is_causal=False,
    ):  # fmt: skip
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(f"src has {src.shape[batch]} examples, and tgt {tgt.shape[batch]}")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"src and tgt should have {self.d_model} features, not {src.shape[-1]} and "
                f"{tgt.shape[-1]}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip
