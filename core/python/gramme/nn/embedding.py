# SPDX-License-Identifier: Apache-2.0
"""Tables of vectors as layers."""

import gramme
from gramme.nn import functional as F
from gramme.nn import init
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class _Table(Module):
    """weight (num_embeddings, embedding_dim); the row padding_idx is zeros and gets no gradient."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, weight, freeze, device, dtype):
        super().__init__()
        if max_norm is not None or scale_grad_by_freq or sparse:
            raise NotImplementedError("max_norm, scale_grad_by_freq and sparse are not supported: scale the weight or its gradient by hand")
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(f"padding_idx {padding_idx} is no row of {num_embeddings}")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        if weight is None:
            self.weight = Parameter(gramme.empty(num_embeddings, embedding_dim, device=device, dtype=dtype), requires_grad=not freeze)
            self.reset_parameters()
        else:
            if tuple(weight.shape) != (num_embeddings, embedding_dim):
                raise ValueError(f"the weight should be {[num_embeddings, embedding_dim]}, and is {list(weight.shape)}")
            self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self):
        """Normal, and zeros in the row padding_idx."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with gramme.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}" + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")


class Embedding(_Table):
    """Rows of a table.  Input: int64 indices of any shape; output: that shape + (embedding_dim,)."""

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False,
        _weight=None, _freeze=False, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, _freeze, device, dtype
        )

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None):
        """The layer whose weight is a given matrix; freeze: it is not trained."""
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, _weight=embeddings, _freeze=freeze)

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx)


class EmbeddingBag(_Table):
    """The sum, mean or largest of the rows in each bag.  Input: (B, n) bags of n indices, or all in one vector with offsets (B,) where
    the bags begin; output: (B, embedding_dim).  per_sample_weights, of the input's shape, weigh the rows of mode "sum"."""

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, _weight=None,
        include_last_offset=False, padding_idx=None, device=None, dtype=None,
    ):  # fmt: skip
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"mode is 'sum', 'mean' or 'max', not {mode!r}")
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, False, device, dtype)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset, padding_idx=self.padding_idx,
        )  # fmt: skip

    def extra_repr(self):
        return super().extra_repr() + f", mode={self.mode!r}"
