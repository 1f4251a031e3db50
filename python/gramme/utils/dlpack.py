# SPDX-License-Identifier: Apache-2.0
"""Tensors of other libraries, by DLPack's capsules."""

from gramme._core import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """A capsule of the tensor's memory, for from_dlpack() of another library; it can be taken
    once."""
    return tensor.__dlpack__()
