# SPDX-License-Identifier: Apache-2.0
"""Tables of vectors as layers."""

import gramme
from gramme.nn import functional as F
from gramme.nn import init
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


class _Table(Module):
    """weight (num_embeddings, embedding_dim); the row padding_idx is zeros and gets no gradient.

    max_norm: rows that are looked up and have a larger norm_type-norm are scaled to it, in the
    weight; scale_grad_by_freq: a row's gradient is divided by how often its index is in the input.
    sparse: NotImplementedError, as gradients are dense.
    """

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        padding_idx,
        max_norm,
        norm_type,
        scale_grad_by_freq,
        sparse,
        weight,
        freeze,
        device,
        dtype,
    ):
        super().__init__()
        if sparse:
            raise NotImplementedError(
                "sparse=True is not there, as gradients are dense: leave it out"
            )
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = (
            max_norm,
            norm_type,
            scale_grad_by_freq,
            False,
        )
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(f"padding_idx {padding_idx} is no row of {num_embeddings}")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = (
            num_embeddings,
            embedding_dim,
            padding_idx,
        )
        if weight is None:
            self.weight = Parameter(
                gramme.empty(num_embeddings, embedding_dim, device=device, dtype=dtype),
                requires_grad=not freeze,
            )
            self.reset_parameters()
        else:
            if tuple(weight.shape) != (num_embeddings, embedding_dim):
                raise ValueError(
                    f"the weight should be {[num_embeddings, embedding_dim]}, and is "
                    f"{list(weight.shape)}"
                )
            self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self):
        """Normal, and zeros in the row padding_idx."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with gramme.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def extra_repr(self):
        parts = [str(self.num_embeddings), str(self.embedding_dim)]
        parts += [
            f"{name}={getattr(self, name)}"
            for name in ("padding_idx", "max_norm")
            if getattr(self, name) is not None
        ]
        parts += [f"norm_type={self.norm_type}"] if self.norm_type != 2 else []
        return ", ".join(parts + (["scale_grad_by_freq=True"] if self.scale_grad_by_freq else []))


class Embedding(_Table):
    """Rows of a table.  Input: int64 indices of any shape; output: that shape +
    (embedding_dim,)."""

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False, sparse=False,
        _weight=None, _freeze=False, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            _freeze,
            device,
            dtype,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
    ):
        """The layer whose weight is a given matrix; freeze: it is not trained."""
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def forward(self, input):
        if self.max_norm is None and not self.scale_grad_by_freq:
            return F.embedding(input, self.weight, self.padding_idx)
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
        )


class EmbeddingBag(_Table):
    """The sum, mean or largest of the rows in each bag.  Input: (B, n) bags of n indices, or all in
    one vector with offsets (B,) where the bags begin; output: (B, embedding_dim).
    per_sample_weights, of the input's shape, weigh the rows of mode "sum".
    """

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
        mode="mean", sparse=False, _weight=None,
        include_last_offset=False, padding_idx=None, device=None, dtype=None,
    ):  # fmt: skip
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"mode is 'sum', 'mean' or 'max', not {mode!r}")
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            False,
            device,
            dtype,
        )
        self.mode, self.include_last_offset = mode, include_last_offset

    @classmethod
    def from_pretrained(
        cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
        mode="mean", sparse=False, include_last_offset=False,
        padding_idx=None,
    ):  # fmt: skip
        """The layer whose weight is a given matrix; freeze: it is not trained."""
        rows, columns = embeddings.shape
        made = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        made.weight.requires_grad = not freeze
        return made

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset, padding_idx=self.padding_idx,
        )  # fmt: skip

    def extra_repr(self):
        return super().extra_repr() + f", mode={self.mode!r}"
