# SPDX-License-Identifier: Apache-2.0
"""multi_head_attention_forward: attention over several heads, for weights that are given (Vaswani
et al. 2017)."""

import math

import gramme
from gramme.nn import functional as F


def as_bias(mask, dtype):
    """A mask as what is added to the products: -inf where a bool mask is True; None stays None."""
    if mask is None or mask.dtype != gramme.bool:
        return mask
    return gramme.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)


def _joined(attn_mask, key_padding_mask, n, heads, dtype, extra):
    """Both masks as one, which is added to the products; None if there is none."""
    mask, padding = as_bias(attn_mask, dtype), as_bias(key_padding_mask, dtype)
    if mask is not None and mask.dim() == 3:
        mask = mask.reshape(n, heads, mask.shape[1], mask.shape[2])
    if padding is not None:
        padding = padding.reshape(n, 1, 1, padding.shape[-1])
        mask = padding if mask is None else mask + padding
    return F.pad(mask, (0, extra)) if mask is not None and extra else mask


def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
    add_zero_attn, dropout_p, out_proj_weight,
    out_proj_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
    use_separate_proj_weight=False, q_proj_weight=None,
    k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
    is_causal=False,
):  # fmt: skip
    """(output, weights).  query (L, N, E), key and value (S, N, features), or all without N; output
    is as query, weights (N, L, S), or (N, heads, L, S) unless averaged, or None unless needed.

    in_proj_weight (3 E, E) has the projections of all three one below the other; with
    use_separate_proj_weight each has its own.  bias_k and bias_v (1, 1, E): one more key and value;
    add_zero_attn: one of zeros.  static_k and static_v (N * heads, S, E / heads) stand for
    projected ones.  Masks: see nn.MultiheadAttention.
    """
    if query.shape[-1] != embed_dim_to_check:
        raise RuntimeError(
            f"multi_head_attention_forward(): the query has {query.shape[-1]} features, and "
            f"{embed_dim_to_check} are expected"
        )
    embed, single = embed_dim_to_check, query.dim() == 2
    head_dim = embed // num_heads
    if single:
        query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
    else:
        query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
    n, length, keys = query.shape[0], query.shape[1], key.shape[1]

    def project(x, part, own):
        rows = slice(part * embed, (part + 1) * embed)
        return F.linear(
            x,
            own if use_separate_proj_weight else in_proj_weight[rows],
            None if in_proj_bias is None else in_proj_bias[rows],
        )

    def heads_of(x):
        """(N, length, E) to (N, heads, length, E / heads)."""
        return x.reshape(x.shape[0], x.shape[1], num_heads, head_dim).transpose(1, 2)

    q = heads_of(project(query, 0, q_proj_weight))
    k = (
        project(key, 1, k_proj_weight)
        if static_k is None
        else static_k.reshape(n, num_heads, -1, head_dim)
    )
    v = (
        project(value, 2, v_proj_weight)
        if static_v is None
        else static_v.reshape(n, num_heads, -1, head_dim)
    )
    extra = 0
    if bias_k is not None:
        k = gramme.cat([k, bias_k.expand(n, 1, embed)], 1)
        v = gramme.cat([v, bias_v.expand(n, 1, embed)], 1)
        extra += 1
    k, v = k if static_k is not None else heads_of(k), v if static_v is not None else heads_of(v)
    if add_zero_attn:
        zeros = gramme.zeros(n, num_heads, 1, head_dim, dtype=k.dtype, device=k.device)
        k, v = gramme.cat([k, zeros], 2), gramme.cat([v, zeros], 2)
        extra += 1
    plain_causal = is_causal and key_padding_mask is None and not extra and not need_weights
    if plain_causal:
        mask = None
    else:
        if is_causal and attn_mask is None:
            attn_mask = gramme.ones(length, keys, dtype=gramme.bool, device=q.device).triu(1)
        mask = _joined(attn_mask, key_padding_mask, n, num_heads, q.dtype, extra)
    drop = dropout_p if training else 0.0
    weights = None
    if need_weights:
        products = (q * (1 / math.sqrt(head_dim))) @ k.transpose(-2, -1)
        weights = F.softmax(products if mask is None else products + mask, -1)
        weights = F.dropout(weights, drop) if drop else weights
        heads = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        heads = F.scaled_dot_product_attention(q, k, v, mask, drop, plain_causal)
    output = F.linear(
        heads.transpose(1, 2).reshape(n, length, embed), out_proj_weight, out_proj_bias
    )
    if single:
        return output.squeeze(0), None if weights is None else weights.squeeze(0)
    return output.transpose(0, 1), weights
