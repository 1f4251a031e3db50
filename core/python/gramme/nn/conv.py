# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools as layers."""

import math

import gramme
from gramme.nn import functional as F
from gramme.nn import init
from gramme.nn.module import Module
from gramme.nn.parameter import Parameter


def _each(value, n):
    """One number for each dimension."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


class _Conv(Module):
    _space = 0

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"{in_channels} and {out_channels} channels cannot be divided into {groups} groups")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(f"padding_mode is 'zeros', 'reflect', 'replicate' or 'circular', not {padding_mode!r}")
        if padding_mode != "zeros" and isinstance(padding, str):
            raise ValueError(f"padding_mode={padding_mode!r} takes numbers as padding")
        n = self._space
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = _each(kernel_size, n), _each(stride, n), _each(dilation, n)
        self.padding = padding if isinstance(padding, str) else _each(padding, n)
        self.padding_mode = padding_mode
        self.weight = Parameter(gramme.empty(out_channels, in_channels // groups, *self.kernel_size, dtype=dtype))
        self.bias = Parameter(gramme.empty(out_channels, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self):
        """Both uniform in +-1/sqrt(products that are summed), as torch's."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.in_channels // self.groups * math.prod(self.kernel_size)
            bound = 1 / math.sqrt(fan_in) if fan_in else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, [p for n in reversed(padding) for p in (n, n)], mode=self.padding_mode)
            padding = 0
        return self._convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self):
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        for name, plain in (("padding", (0,)), ("dilation", (1,)), ("groups", 1), ("padding_mode", "zeros")):
            value = getattr(self, name)
            if value != (plain * self._space if isinstance(plain, tuple) else plain):
                text += f", {name}={value!r}"
        return text + ("" if self.bias is not None else ", bias=False")


class Conv1d(_Conv):
    """(N, in, L) to (N, out, L'): see nn.functional.conv1d."""

    _space = 1
    _convolve = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """(N, in, H, W) to (N, out, H', W'): see nn.functional.conv2d."""

    _space = 2
    _convolve = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """(N, in, D, H, W) to (N, out, D', H', W'): see nn.functional.conv3d."""

    _space = 3
    _convolve = staticmethod(F.conv3d)


class _MaxPool(Module):
    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input):
        return self._pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}"


class MaxPool1d(_MaxPool):
    """The largest element of each window of (N, C, L)."""

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest element of each window of (N, C, H, W)."""

    _pool = staticmethod(F.max_pool2d)


class _AvgPool(Module):
    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad

    def forward(self, input):
        return self._pool(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window of (N, C, L)."""

    _pool = staticmethod(F.avg_pool1d)


class AvgPool2d(_AvgPool):
    """The mean of each window of (N, C, H, W)."""

    _pool = staticmethod(F.avg_pool2d)


class AdaptiveAvgPool2d(Module):
    """(N, C, H, W) to (N, C, *output_size): means of cells as equal as they can be."""

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return F.adaptive_avg_pool2d(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"
