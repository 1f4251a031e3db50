# SPDX-License-Identifier: Apache-2.0
"""Attention over several heads (Vaswani et al. 2017)."""

import math

import gramme
from gramme.nn import functional as F
from gramme.nn import init
from gramme.nn.layers import Linear
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


def as_bias(mask, dtype):
    """A mask as what is added to the products: -inf where a bool mask is True; None stays None."""
    if mask is None or mask.dtype != gramme.bool:
        return mask
    return gramme.zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)


class MultiheadAttention(Module):
    """softmax(q k^T / sqrt(d)) v in `num_heads` parts of the embedding; parameters are named as torch's.

    query: (L, N, E), key: (S, N, kdim), value: (S, N, vdim); N comes first with batch_first, or is not there.  add_bias_kv: one more key
    and value, which are learned; add_zero_attn: one of zeros.  Errors: ValueError unless num_heads divides embed_dim.
    """

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None, batch_first=False,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} is not a multiple of num_heads {num_heads}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        if self.kdim == embed_dim and self.vdim == embed_dim:
            self.in_proj_weight = Parameter(gramme.empty(3 * embed_dim, embed_dim, dtype=dtype))
            self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        else:
            self.in_proj_weight = None
            self.q_proj_weight = Parameter(gramme.empty(embed_dim, embed_dim, dtype=dtype))
            self.k_proj_weight = Parameter(gramme.empty(embed_dim, self.kdim, dtype=dtype))
            self.v_proj_weight = Parameter(gramme.empty(embed_dim, self.vdim, dtype=dtype))
        self.in_proj_bias = Parameter(gramme.zeros(3 * embed_dim, dtype=dtype)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, dtype=dtype)
        self.bias_k = Parameter(gramme.empty(1, 1, embed_dim, dtype=dtype)) if add_bias_kv else None
        self.bias_v = Parameter(gramme.empty(1, 1, embed_dim, dtype=dtype)) if add_bias_kv else None
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def _project(self, x, part):
        """(N, length, features) to (N, length, E)."""
        rows = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        if self.in_proj_weight is not None:
            weight = self.in_proj_weight[rows]
        else:
            weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[part]
        return F.linear(x, weight, None if self.in_proj_bias is None else self.in_proj_bias[rows])

    def _heads(self, x):
        """(N, length, E) to (N, heads, length, E / heads)."""
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)

    def _bias(self, attn_mask, key_padding_mask, n, dtype, extra):
        """Both masks as one, which is added to the products; None if there is none."""
        mask, padding = as_bias(attn_mask, dtype), as_bias(key_padding_mask, dtype)
        if mask is not None and mask.dim() == 3:
            mask = mask.reshape(n, self.num_heads, mask.shape[1], mask.shape[2])
        if padding is not None:
            padding = padding.reshape(n, 1, 1, padding.shape[-1])
            mask = padding if mask is None else mask + padding
        return F.pad(mask, (0, extra)) if mask is not None and extra else mask

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True, is_causal=False
    ):
        """(output, weights).  output is as query; weights (N, L, S), or (N, heads, L, S) unless averaged, or None unless needed.

        key_padding_mask (N, S) and attn_mask (L, S) or (N * heads, L, S): bool, True where not to look, or added to the products.
        is_causal says that attn_mask is the causal one, which then need not be given.  Without weights and with no mask but
        that, nothing of size L * S is kept.
        """
        single = query.dim() == 2
        if single:
            query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        n, length = query.shape[0], query.shape[1]
        q, k, v = self._project(query, 0), self._project(key, 1), self._project(value, 2)
        extra = 0
        if self.bias_k is not None:
            k = gramme.cat([k, self.bias_k.expand(n, 1, self.embed_dim)], 1)
            v = gramme.cat([v, self.bias_v.expand(n, 1, self.embed_dim)], 1)
            extra += 1
        if self.add_zero_attn:
            zeros = gramme.zeros(n, 1, self.embed_dim, dtype=k.dtype)
            k, v = gramme.cat([k, zeros], 1), gramme.cat([v, zeros], 1)
            extra += 1
        plain_causal = is_causal and key_padding_mask is None and not extra and not need_weights
        if plain_causal:
            mask = None
        else:
            if is_causal and attn_mask is None:
                attn_mask = gramme.ones(length, key.shape[1], dtype=gramme.bool).triu(1)
            mask = self._bias(attn_mask, key_padding_mask, n, q.dtype, extra)
        q, k, v = self._heads(q), self._heads(k), self._heads(v)
        drop = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            products = (q * (1 / math.sqrt(self.head_dim))) @ k.transpose(-2, -1)
            weights = F.softmax(products if mask is None else products + mask, -1)
            weights = F.dropout(weights, drop) if drop else weights
            heads = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            heads = F.scaled_dot_product_attention(q, k, v, mask, drop, plain_causal)
        output = self.out_proj(heads.transpose(1, 2).reshape(n, length, self.embed_dim))
        if single:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return (output if self.batch_first else output.transpose(0, 1)), weights

    def extra_repr(self):
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"
