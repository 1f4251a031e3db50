# SPDX-License-Identifier: Apache-2.0
"""Attention over several heads."""

import gramme
from gramme.nn import functional as F
from gramme.nn import init
from gramme.nn.layers import Linear
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class MultiheadAttention(Module):
    """softmax(q k^T / sqrt(d)) v in `num_heads` parts of the embedding; parameters are named as torch's.

    query: (L, N, E), key and value: (S, N, E); N comes first with batch_first.  Result: (output, None): the weights of
    the attention are not computed apart.
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, batch_first=False, device=None, dtype=None):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} is not a multiple of num_heads {num_heads}")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.in_proj_weight = Parameter(gramme.empty(3 * embed_dim, embed_dim, dtype=dtype))
        self.in_proj_bias = Parameter(gramme.zeros(3 * embed_dim, dtype=dtype)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, dtype=dtype)
        init.xavier_uniform_(self.in_proj_weight)
        if bias:
            init.zeros_(self.out_proj.bias)

    def _project(self, x, part):
        rows = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        y = F.linear(x, self.in_proj_weight[rows], None if self.in_proj_bias is None else self.in_proj_bias[rows])
        n, length = y.shape[0], y.shape[1]
        return y.reshape(n, length, self.num_heads, self.embed_dim // self.num_heads).transpose(1, 2)

    def forward(self, query, key, value, attn_mask=None, is_causal=False):
        if not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        heads = F.scaled_dot_product_attention(
            self._project(query, 0),
            self._project(key, 1),
            self._project(value, 2),
            attn_mask,
            self.dropout if self.training else 0.0,
            is_causal,
        )
        n, length = query.shape[0], query.shape[1]
        output = self.out_proj(heads.transpose(1, 2).reshape(n, length, self.embed_dim))
        return (output if self.batch_first else output.transpose(0, 1)), None

    def extra_repr(self):
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"
