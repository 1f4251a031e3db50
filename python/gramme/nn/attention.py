# SPDX-License-Identifier: Apache-2.0
"""Attention over several heads (Vaswani et al. 2017); torch's choice between kernels of it, of
which there is one here."""

import contextlib
import enum

import gramme
from gramme.nn import functional as F
from gramme.nn import init
from gramme.nn.attention_function import as_bias
from gramme.nn.layers import Linear
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class SDPBackend(enum.IntEnum):
    """torch's kernels of scaled_dot_product_attention().  Here there is one, for every choice."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """A context for the kernels that may be taken, an SDPBackend or several; results are the same
    in it, as there is one kernel.

    Errors: TypeError for what is no SDPBackend.
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not chosen or not all([isinstance(backend, SDPBackend) for backend in chosen]):
        raise TypeError(f"sdpa_kernel() takes an SDPBackend or several, not {backends!r}")
    yield


class MultiheadAttention(Module):
    """softmax(q k^T / sqrt(d)) v in `num_heads` parts of the embedding; parameters are named as
    torch's.

    query: (L, N, E), key: (S, N, kdim), value: (S, N, vdim); N comes first with batch_first, or is
    not there.  add_bias_kv: one more key and value, which are learned; add_zero_attn: one of zeros.
    Errors: ValueError unless num_heads divides embed_dim.
    """

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False,
        kdim=None, vdim=None, batch_first=False,
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
            self.in_proj_weight = Parameter(
                gramme.empty(3 * embed_dim, embed_dim, device=device, dtype=dtype)
            )
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.register_parameter("in_proj_weight", None)
            self.q_proj_weight = Parameter(
                gramme.empty(embed_dim, embed_dim, device=device, dtype=dtype)
            )
            self.k_proj_weight = Parameter(
                gramme.empty(embed_dim, self.kdim, device=device, dtype=dtype)
            )
            self.v_proj_weight = Parameter(
                gramme.empty(embed_dim, self.vdim, device=device, dtype=dtype)
            )
        self.register_parameter(
            "in_proj_bias",
            Parameter(gramme.zeros(3 * embed_dim, device=device, dtype=dtype)) if bias else None,
        )
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.register_parameter(
            "bias_k",
            Parameter(gramme.empty(1, 1, embed_dim, device=device, dtype=dtype))
            if add_bias_kv
            else None,
        )
        self.register_parameter(
            "bias_v",
            Parameter(gramme.empty(1, 1, embed_dim, device=device, dtype=dtype))
            if add_bias_kv
            else None,
        )
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (
            self.in_proj_weight,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
        ):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        """(output, weights).  output is as query; weights (N, L, S), or (N, heads, L, S) unless
        averaged, or None unless needed.

        key_padding_mask (N, S) and attn_mask (L, S) or (N * heads, L, S): bool, True where not to
        look, or added to the products. is_causal says that attn_mask is the causal one, which then
        need not be given.  Without weights and with no mask but that, nothing of size L * S is
        kept.
        """
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v,
            self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            self.training, key_padding_mask, need_weights, attn_mask,
            self.in_proj_weight is None, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return (output.transpose(0, 1) if turned else output), weights

    def extra_repr(self):
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
