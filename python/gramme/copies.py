# SPDX-License-Identifier: Apache-2.0
"""Views as copies, tensors of given strides, and functions that write into their first argument:
torch's names of what methods do."""

import gramme
from gramme._core import Tensor


def _copy(name):
    def copied(input, *args, **kwargs):
        views = getattr(input, name)(*args, **kwargs)
        copies = [
            v.clone(memory_format=gramme.contiguous_format)
            for v in (views if isinstance(views, (tuple, list)) else [views])
        ]
        return tuple(copies) if isinstance(views, (tuple, list)) else copies[0]

    copied.__name__ = copied.__qualname__ = f"{name}_copy"
    copied.__doc__ = f"Tensor.{name}() as a copy, or a tuple of copies."
    return copied


detach_copy = _copy("detach")
as_strided_copy, diagonal_copy, expand_copy, permute_copy = [
    _copy(n) for n in ("as_strided", "diagonal", "expand", "permute")
]
select_copy, split_copy, split_with_sizes_copy, squeeze_copy = [
    _copy(n) for n in ("select", "split", "split_with_sizes", "squeeze")
]
t_copy, transpose_copy, unbind_copy, unfold_copy = [
    _copy(n) for n in ("t", "transpose", "unbind", "unfold")
]
unsqueeze_copy, view_copy = _copy("unsqueeze"), _copy("view")
unsafe_chunk, unsafe_split, unsafe_split_with_sizes = Tensor.chunk, Tensor.split, Tensor.split


def alias_copy(input):
    """A copy."""
    return input.clone()


def slice_copy(input, dim=0, start=None, end=None, step=1):
    """Elements start to end of dim, step apart, as a copy."""
    return input[(slice(None),) * (dim % input.dim()) + (slice(start, end, step),)].clone()


def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """A copy of input with src where as_strided(size, stride, storage_offset) of it looks.  Errors:
    RuntimeError where elements of that are one."""
    out = input.clone()
    out.as_strided(size, stride, storage_offset).copy_(src)
    return out


def empty_strided(size, stride, *, dtype=None, device=None, requires_grad=False):
    """A tensor of these sizes and strides, with whatever its memory holds."""
    size, stride = list(size), list(stride)
    extent = 0 if 0 in size else 1 + sum([(n - 1) * s for n, s in zip(size, stride)])
    return (
        gramme.empty(extent, dtype=dtype, device=device)
        .as_strided(size, stride)
        .detach()
        .requires_grad_(requires_grad)
    )


def empty_permuted(size, physical_layout, *, dtype=None, device=None, requires_grad=False):
    """A tensor whose dimensions lie in memory in the order of physical_layout, the outermost
    first."""
    order = [d % len(size) for d in physical_layout]
    made = gramme.empty([size[d] for d in order], dtype=dtype, device=device)
    return (
        made.permute([order.index(d) for d in range(len(size))])
        .detach()
        .requires_grad_(requires_grad)
    )


def new_empty_strided(input, size, stride, dtype=None, device=None, requires_grad=False):
    """empty_strided() of input's dtype, on its device."""
    return empty_strided(
        size,
        stride,
        dtype=dtype or input.dtype,
        device=device or input.device,
        requires_grad=requires_grad,
    )


def _written(name):
    def write(input, *args, **kwargs):
        return getattr(input, name)(*args, **kwargs)

    write.__name__ = write.__qualname__ = name
    write.__doc__ = f"Tensor.{name}()."
    return write


fill_, zero_, detach_, resize_as_, as_strided_ = [
    _written(n) for n in ("fill_", "zero_", "detach_", "resize_as_", "as_strided_")
]
