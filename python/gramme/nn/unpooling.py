# SPDX-License-Identifier: Apache-2.0
"""Pools that are compositions: their inverses, power averages, and pools of windows that are
drawn."""

import gramme
from gramme.python_functions import need_floats
from gramme.nn import functional as F
from gramme.nn.conv import _each


def _unpool(name, space, input, indices, kernel_size, stride, padding, output_size):
    if (
        indices.dtype != gramme.int64
        or indices.shape != input.shape
        or input.dim() not in (space + 1, space + 2)
    ):
        raise RuntimeError(
            f"{name}(): takes an input with {space + 1} or {space + 2} dimensions, and indices "
            "(int64) of its shape"
        )
    need_floats(name, input)
    kernel, padding = _each(kernel_size, space), _each(padding, space)
    stride = kernel if stride is None else _each(stride, space)
    places = input.shape[-space:]
    plain = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(places, stride, padding, kernel)]
    size = plain if output_size is None else list(output_size)[-space:]
    if len(size) != space or not all([d - s < n < d + s for n, d, s in zip(size, plain, stride)]):
        raise ValueError(
            f"{name}(): output_size {list(output_size)} cannot be had: {plain}, each by less than "
            "a stride more or less"
        )
    numel = 1
    for n in size:
        numel *= n
    lead = list(input.shape[:-space])
    flat = gramme.zeros(*lead, numel, dtype=input.dtype, device=input.device).scatter(
        -1, indices.reshape(*lead, -1), input.reshape(*lead, -1)
    )
    return flat.reshape(*lead, *size)


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros, with the elements of input at the indices that max_pool1d(return_indices=True) gave.
    output_size: of the sizes that pool to input's the one that is meant."""
    return _unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """max_unpool1d over two dimensions."""
    return _unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """max_unpool1d over three dimensions."""
    return _unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


def _rooted(mean, count, norm_type):
    """(count * mean) ** (1 / norm_type), of what is positive; the slope at 0 is 0."""
    return (mean.sign() * mean.abs().relu() * count).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm_type-th root of the sum of powers in each window."""
    return _rooted(
        F.avg_pool1d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode),
        kernel_size,
        norm_type,
    )


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """lp_pool1d over two dimensions."""
    height, width = _each(kernel_size, 2)
    return _rooted(
        F.avg_pool2d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode),
        height * width,
        norm_type,
    )


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """lp_pool1d over three dimensions."""
    depth, height, width = _each(kernel_size, 3)
    return _rooted(
        F.avg_pool3d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode),
        depth * height * width,
        norm_type,
    )


def _starts(sample, length, window, n):
    """Where n windows begin, (..., n), for numbers drawn in [0, 1): Graham, "Fractional
    Max-Pooling" (2014)."""
    if n == 1:
        return gramme.full(
            (*sample.shape, 1), length - window, dtype=gramme.int64, device=sample.device
        )
    alpha = (length - window) / (n - 1)
    sample = sample.unsqueeze(-1)
    begin = ((gramme.arange(n - 1, dtype=sample.dtype, device=sample.device) + sample) * alpha).to(
        gramme.int64
    ) - (sample * alpha).to(gramme.int64)
    return gramme.cat(
        [
            begin,
            gramme.full(
                (*sample.shape[:-1], 1), length - window, dtype=gramme.int64, device=sample.device
            ),
        ],
        -1,
    )


def _fractional(
    name, space, input, kernel_size, output_size, output_ratio, return_indices, samples
):
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name}(): takes one of output_size and output_ratio")
    single = input.dim() == space + 1
    x = input.unsqueeze(0) if single else input
    sizes, kernel = list(x.shape[2:]), _each(kernel_size, space)
    if output_size is None:
        out = [int(n * ratio) for n, ratio in zip(sizes, _each(output_ratio, space))]
    else:
        out = _each(output_size, space)
    if not all([0 < o and o + k - 1 <= n for o, k, n in zip(out, kernel, sizes)]):
        raise RuntimeError(f"{name}(): windows of {kernel} at {out} places do not fit {sizes}")
    if samples is None:
        samples = gramme.rand(x.shape[0], x.shape[1], space, dtype=x.dtype, device=x.device)
    order = (
        [1, 0] if space == 2 else [0, 1, 2]
    )  # torch draws the width's number first for two dimensions
    index = gramme.zeros(*x.shape[:2], *[1] * (2 * space), dtype=gramme.int64, device=x.device)
    for d in range(space):
        inside = _starts(samples[..., order[d]], sizes[d], kernel[d], out[d]).unsqueeze(
            -1
        ) + gramme.arange(kernel[d], device=x.device)
        shape = [1] * (2 * space)
        shape[d], shape[space + d] = out[d], kernel[d]
        index = index * sizes[d] + inside.reshape(*x.shape[:2], *shape)
    index = index.reshape(*x.shape[:2], *out, -1)
    windows = x.flatten(2).gather(2, index.flatten(2)).reshape(index.shape)
    values, best = windows.max(-1)
    places = index.gather(-1, best.unsqueeze(-1)).squeeze(-1)
    values, places = (values[0], places[0]) if single else (values, places)
    return (values, places) if return_indices else values


def fractional_max_pool2d(
    input,
    kernel_size,
    output_size=None,
    output_ratio=None,
    return_indices=False,
    _random_samples=None,
):
    """The largest elements of windows whose places are drawn so that output_size (or output_ratio
    times the input's size) come out."""
    return _fractional(
        "fractional_max_pool2d",
        2,
        input,
        kernel_size,
        output_size,
        output_ratio,
        return_indices,
        _random_samples,
    )


def fractional_max_pool3d(
    input,
    kernel_size,
    output_size=None,
    output_ratio=None,
    return_indices=False,
    _random_samples=None,
):
    """fractional_max_pool2d over three dimensions."""
    return _fractional(
        "fractional_max_pool3d",
        3,
        input,
        kernel_size,
        output_size,
        output_ratio,
        return_indices,
        _random_samples,
    )
