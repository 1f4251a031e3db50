# SPDX-License-Identifier: Apache-2.0
"""embedding_bag: sums, means or maxima of the rows of a table, one for each bag of indices."""

import math

import gramme
from gramme.nn import functional as F


def _bags_of_vector(input, offsets, include_last_offset):
    """(how many bags, which bag each index is in)."""
    if offsets.shape[0] > 0:
        offsets = gramme._require(offsets, offsets[0] == 0, "FIRST_OFFSET")
        in_order = gramme.cat(
            [offsets[1:] >= offsets[:-1], (offsets[-1] <= input.shape[0]).reshape(1)]
        )
        offsets = gramme._require(offsets, in_order, "OFFSET_ORDER")
    starts = offsets[:-1] if include_last_offset else offsets
    places = gramme.arange(input.shape[0], dtype=starts.dtype, device=starts.device)
    return starts.shape[0], gramme.searchsorted(starts, places, right=True) - 1


def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
    sparse=False, per_sample_weights=None,
    include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """The sum, mean or max of weight's rows in each bag; a bag without rows gives zeros.

    input: (B, n), a bag in each row; or (N,), with offsets (B,), where the bags begin
    (include_last_offset: and where the last one ends). per_sample_weights, of input's shape, weigh
    the rows of a sum.  Indices padding_idx do not count.  Result (B, embedding_dim).
    max_norm, norm_type, scale_grad_by_freq, sparse: as of embedding(); scale_grad_by_freq is not
    for mode "max".
    Errors: RuntimeError for an index that is no row of weight.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag(): mode is 'sum', 'mean' or 'max', not {mode!r}")
    if per_sample_weights is not None and (
        mode != "sum" or per_sample_weights.shape != input.shape
    ):
        raise ValueError(
            "embedding_bag(): per_sample_weights are of the input's shape, and for mode 'sum' only"
        )
    if input.dim() == 2 and offsets is not None:
        raise ValueError("embedding_bag(): offsets go with an input of one dimension")
    if input.dim() not in (1, 2) or (input.dim() == 1 and (offsets is None or offsets.dim() != 1)):
        raise ValueError("embedding_bag(): input has 2 dimensions, or 1 and offsets with 1")
    if weight.dim() != 2 or input.dtype.is_floating_point or input.dtype == gramme.bool:
        raise RuntimeError(
            "embedding_bag(): weight has 2 dimensions and indices are integers, not "
            f"{weight.dim()} and {input.dtype}"
        )
    if scale_grad_by_freq and mode == "max":
        raise ValueError(
            "embedding_bag(): max mode does not support scaling the gradient by the frequency"
        )
    if max_norm is None and not scale_grad_by_freq and not sparse:
        rows = weight.index_select(0, input.reshape(-1)).reshape(*input.shape, weight.shape[1])
    else:
        rows = F.embedding(input, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    counts = None
    if padding_idx is not None:
        counts = input != padding_idx % weight.shape[0]
        rows = gramme.where(counts.unsqueeze(-1), rows, -math.inf if mode == "max" else 0.0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if input.dim() == 2:
        return _of_rows(rows, counts, mode)
    n, bag = _bags_of_vector(input, offsets, include_last_offset)
    ones = (
        gramme.ones(input.shape, dtype=rows.dtype, device=rows.device)
        if counts is None
        else counts.to(rows.dtype)
    )
    if mode == "max":
        lowest = gramme.full((n, rows.shape[1]), -math.inf, dtype=rows.dtype, device=rows.device)
        largest = lowest.scatter_reduce(0, bag.unsqueeze(1).expand(rows.shape), rows, "amax")
        return gramme.where(largest == -math.inf, 0.0, largest)
    total = gramme.zeros(n, rows.shape[1], dtype=rows.dtype, device=rows.device).index_add(
        0, bag, rows
    )
    if mode == "sum":
        return total
    return total / gramme.zeros(n, dtype=rows.dtype, device=rows.device).index_add(
        0, bag, ones
    ).clamp(min=1).unsqueeze(1)


def _of_rows(rows, counts, mode):
    """rows (B, n, d); counts (B, n) or None: which of them count."""
    if rows.shape[1] == 0:
        return rows.sum(1)
    if mode == "max":
        largest = rows.max(1).values
        return largest if counts is None else gramme.where(largest == -math.inf, 0.0, largest)
    if mode == "mean" and counts is None:
        return rows.mean(1)
    total = rows.sum(1)
    return (
        total if mode == "sum" else total / counts.to(rows.dtype).sum(1, keepdim=True).clamp(min=1)
    )
