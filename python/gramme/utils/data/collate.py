# SPDX-License-Identifier: Apache-2.0
"""How samples become a batch."""

from collections.abc import Mapping, Sequence

import gramme
from gramme._core import Tensor


def _is_array(value):
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def default_convert(data):
    """Arrays of numpy's become tensors, within tuples, lists and dicts, too."""
    if _is_array(data) and data.dtype.kind in "biuf":
        return gramme.as_tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        made = [default_convert(value) for value in data]
        return (
            type(data)(*made)
            if hasattr(data, "_fields")
            else tuple(made)
            if isinstance(data, tuple)
            else made
        )
    return data


def default_collate(batch):
    """A batch of samples: tensors and arrays are stacked, numbers become a tensor, tuples, lists
    and dicts are collated place by place (tuples without names become lists), strings and bytes
    stay a list.  Errors: TypeError for other samples, RuntimeError if shapes or lengths differ.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return gramme.stack(list(batch), 0)
    if _is_array(first):
        if first.dtype.kind not in "biuf":
            raise TypeError(f"there is no tensor of numpy's {first.dtype}")
        return gramme.stack([gramme.as_tensor(one) for one in batch], 0)
    if isinstance(first, float):
        return gramme.tensor(batch, dtype=gramme.float64)
    if isinstance(first, int):
        return gramme.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([one[key] for one in batch]) for key in first}
    if isinstance(first, Sequence):
        if any(len(one) != len(first) for one in batch):
            raise RuntimeError(
                "the samples of a batch are of one length: these are "
                + ", ".join([str(len(one)) for one in batch])
            )
        made = [default_collate(list(values)) for values in zip(*batch)]
        return type(first)(*made) if hasattr(first, "_fields") else made
    raise TypeError(
        "samples are tensors, arrays, numbers, strings, or tuples, lists and dicts of them, not "
        f"{type(first).__name__}: give a collate_fn"
    )
