# SPDX-License-Identifier: Apache-2.0
"""Sequences of unequal lengths: padded to one tensor, or packed step by step without padding."""

from collections import namedtuple

import gramme
from gramme._core import Tensor

_Fields = namedtuple("PackedSequence", "data batch_sizes sorted_indices unsorted_indices")


class PackedSequence(_Fields):
    """Sequences, longest first, step by step: data (sum of lengths, ...) has batch_sizes[0] first
    elements, then batch_sizes[1] second ones ...

    sorted_indices say which sequence is where, unsorted_indices the way back; None: they were
    sorted.  Made by pack_padded_sequence().
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """The sequence with its data converted by Tensor.to()."""
        return type(self)(
            self.data.to(*args, **kwargs),
            self.batch_sizes,
            self.sorted_indices,
            self.unsorted_indices,
        )


def invert_permutation(permutation):
    """The permutation that undoes another one; None stays None."""
    return None if permutation is None else permutation.argsort()


def _lengths(lengths):
    return lengths.tolist() if isinstance(lengths, Tensor) else [int(length) for length in lengths]


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """A PackedSequence of (L, N, ...), or (N, L, ...) with batch_first.  Errors: ValueError for
    lengths that are not positive or, with enforce_sorted, not falling."""
    lengths = _lengths(lengths)
    if batch_first:
        input = input.transpose(0, 1)
    if len(lengths) != input.shape[1]:
        raise ValueError(f"{len(lengths)} lengths for {input.shape[1]} sequences")
    if min(lengths) <= 0 or max(lengths) > input.shape[0]:
        raise ValueError(f"lengths must be between 1 and {input.shape[0]}, and are {lengths}")
    order = None
    if not enforce_sorted:
        order = gramme.tensor(sorted(range(len(lengths)), key=lambda i: -lengths[i]))
        input = input.index_select(1, order)
        lengths = sorted(lengths, reverse=True)
    elif any([a < b for a, b in zip(lengths, lengths[1:])]):
        raise ValueError(
            "lengths must fall from sequence to sequence; or give enforce_sorted=False"
        )
    sizes = [sum([length > t for length in lengths]) for t in range(lengths[0])]
    data = gramme.cat([input[t, :n] for t, n in enumerate(sizes)])
    return PackedSequence(data, gramme.tensor(sizes), order)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded, lengths) of a PackedSequence: (L, N, ...), or (N, L, ...) with batch_first.
    total_length: L, if that is not the longest."""
    sizes = sequence.batch_sizes.tolist()
    length = len(sizes) if total_length is None else total_length
    if length < len(sizes):
        raise ValueError(
            f"total_length is {total_length}, and the longest sequence has {len(sizes)} steps"
        )
    n, rest = sizes[0], list(sequence.data.shape[1:])
    steps = []
    for step in sequence.data.split(sizes):
        if step.shape[0] < n:
            step = gramme.cat(
                [
                    step,
                    gramme.full(
                        [n - step.shape[0]] + rest,
                        padding_value,
                        dtype=step.dtype,
                        device=step.device,
                    ),
                ]
            )
        steps.append(step)
    steps += [
        gramme.full(
            [n] + rest, padding_value, dtype=sequence.data.dtype, device=sequence.data.device
        )
    ] * (length - len(sizes))
    padded = gramme.stack(steps)
    lengths = gramme.tensor([sum([size > i for size in sizes]) for i in range(n)])
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices)
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors (l, ...) as one, (L, N, ...), or (N, L, ...) with batch_first, padded at the end or,
    padding_side "left", at the beginning."""
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side is 'left' or 'right', not {padding_side!r}")
    sequences = list(sequences)
    if not sequences:
        raise ValueError("there are no sequences")
    length = max([sequence.shape[0] for sequence in sequences])
    padded = []
    for sequence in sequences:
        missing = length - sequence.shape[0]
        if missing:
            padding = gramme.full(
                [missing] + list(sequence.shape[1:]),
                padding_value,
                dtype=sequence.dtype,
                device=sequence.device,
            )
            sequence = gramme.cat(
                [sequence, padding] if padding_side == "right" else [padding, sequence]
            )
        padded.append(sequence)
    return gramme.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The list of tensors that pad_sequence() made one."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [
        sequence[:length] for sequence, length in zip(padded_sequences.unbind(0), _lengths(lengths))
    ]


def pack_sequence(sequences, enforce_sorted=True):
    """A PackedSequence of tensors (l, ...)."""
    sequences = list(sequences)
    return pack_padded_sequence(
        pad_sequence(sequences),
        [sequence.shape[0] for sequence in sequences],
        False,
        enforce_sorted,
    )


def unpack_sequence(packed_sequences):
    """The list of tensors that pack_sequence() packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
