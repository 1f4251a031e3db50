# SPDX-License-Identifier: Apache-2.0
"""ctc_loss: the likelihood of labels whose places in a sequence are not known.

Source: A. Graves et al., "Connectionist Temporal Classification" (ICML 2006), section 4.1: alpha is
summed over the prefixes of the labels with blanks between them, in logarithms.  One step of the
sequence is a few operators over all examples; the loop over steps is unrolled.
"""

import math

import gramme
from gramme.python_functions import need_floats


def _as_list(lengths):
    return lengths.tolist() if isinstance(lengths, gramme.Tensor) else list(lengths)


def _targets_as_rows(targets, target_lengths, blank):
    """The labels of each example in a row, blanks behind them."""
    if targets.dim() == 2:
        return targets.to(gramme.int64)
    lengths = _as_list(target_lengths)
    longest, rows, at = max(lengths, default=0), [], 0
    for length in lengths:
        row = targets[at : at + length].to(gramme.int64)
        rows.append(
            gramme.cat(
                [
                    row,
                    gramme.full((longest - length,), blank, dtype=gramme.int64, device=row.device),
                ]
            )
        )
        at += length
    return gramme.stack(rows)


def _moved(alpha, by):
    """alpha one or two labels on: nothing comes from before the first."""
    nothing = gramme.full((alpha.shape[0], by), -math.inf, dtype=alpha.dtype, device=alpha.device)
    return gramme.cat([nothing, alpha], 1)[:, : alpha.shape[1]]


def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction="mean",
    zero_infinity=False,
):
    """-log of the probability of the labels.  log_probs (T, N, C) or (T, C); targets (N, S), or all
    labels in one vector.

    input_lengths and target_lengths (N,): how many steps and labels of each example count; tensors,
    or lists.  reduction "mean": each is divided by its number of labels first.  zero_infinity:
    labels that are too long for their sequence give 0, not infinity.  Labels in one
    vector are cut by their lengths, so those are read: a list keeps a compiled function whole.
    """
    need_floats("ctc_loss", log_probs)
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.reshape(1, -1)
    steps, n, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss(): blank is one of the {classes} classes, not {blank}")
    as_tensor = [
        x.to(log_probs.device)
        if isinstance(x, gramme.Tensor)
        else gramme.tensor(x, device=log_probs.device)
        for x in (input_lengths, target_lengths)
    ]
    inputs, lengths = [x.to(gramme.int64).reshape(-1).expand(n) for x in as_tensor]
    labels = _targets_as_rows(targets, target_lengths, blank)
    inputs = gramme._require(inputs, (inputs >= 0) & (inputs <= steps), "INPUT_LENGTH")
    lengths = gramme._require(
        lengths, (lengths >= 0) & (lengths <= labels.shape[1]), "TARGET_LENGTH"
    )
    # A blank before, between and behind the labels; a label may follow one that is another without
    # a blank.
    blanks = gramme.full(labels.shape, blank, dtype=gramme.int64, device=labels.device)
    last = gramme.full((n, 1), blank, dtype=gramme.int64, device=labels.device)
    path = gramme.cat([gramme.stack([blanks, labels], 2).reshape(n, 2 * labels.shape[1]), last], 1)
    two_before = gramme.cat(
        [gramme.full((n, 2), blank, dtype=gramme.int64, device=labels.device), path], 1
    )[:, : path.shape[1]]
    may_skip = (path != blank).logical_and(path != two_before)
    emitted = log_probs.gather(2, path.unsqueeze(0).expand(steps, n, path.shape[1]))
    first = gramme.arange(path.shape[1], device=labels.device) < 2
    alpha = gramme.where(first, emitted[0], -math.inf)
    for t in range(1, steps):
        skipped = gramme.where(may_skip, _moved(alpha, 2), -math.inf)
        longer = gramme.logaddexp(gramme.logaddexp(alpha, _moved(alpha, 1)), skipped) + emitted[t]
        alpha = gramme.where((inputs > t).unsqueeze(1), longer, alpha)
    last = (2 * lengths).unsqueeze(1)
    at_blank = alpha.gather(1, last).squeeze(1)
    at_label = alpha.gather(1, (last - 1).clamp(min=0)).squeeze(1)
    loss = -gramme.logaddexp(at_blank, gramme.where(lengths > 0, at_label, -math.inf))
    if zero_infinity:
        loss = gramme.where(loss == math.inf, 0.0, loss)
    if reduction == "mean":
        return (loss / lengths.clamp(min=1).to(loss.dtype)).mean()
    if reduction == "sum":
        return loss.sum()
    if reduction != "none":
        raise ValueError(f"reduction is 'none', 'mean' or 'sum', not {reduction!r}")
    return loss[0] if single else loss
