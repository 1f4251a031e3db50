# SPDX-License-Identifier: Apache-2.0
"""Convolutions and transposed convolutions as layers."""

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
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
        bias=True,
        padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{in_channels} and {out_channels} channels cannot be divided into {groups} groups"
            )
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                "padding_mode is 'zeros', 'reflect', 'replicate' or 'circular', not "
                f"{padding_mode!r}"
            )
        if padding_mode != "zeros" and isinstance(padding, str):
            raise ValueError(f"padding_mode={padding_mode!r} takes numbers as padding")
        n = self._space
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (
            _each(kernel_size, n),
            _each(stride, n),
            _each(dilation, n),
        )
        self.padding = padding if isinstance(padding, str) else _each(padding, n)
        self.padding_mode = padding_mode
        self.weight = Parameter(
            gramme.empty(
                out_channels, in_channels // groups, *self.kernel_size, device=device, dtype=dtype
            )
        )
        if bias:
            self.bias = Parameter(gramme.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
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
            input = F.pad(
                input, [p for n in reversed(padding) for p in (n, n)], mode=self.padding_mode
            )
            padding = 0
        return self._convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def extra_repr(self):
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        for name, plain in (
            ("padding", (0,)),
            ("dilation", (1,)),
            ("groups", 1),
            ("padding_mode", "zeros"),
        ):
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


class _ConvTranspose(Module):
    """The gradient of a convolution with respect to its input, as a layer: weight (in, out /
    groups, *kernel_size)."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0,
        groups=1, bias=True, dilation=1,
        padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{in_channels} and {out_channels} channels cannot be divided into {groups} groups"
            )
        if padding_mode != "zeros":
            raise ValueError(
                f"a transposed convolution has no padding_mode but 'zeros', not {padding_mode!r}"
            )
        n = self._space
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (
            _each(kernel_size, n),
            _each(stride, n),
            _each(dilation, n),
        )
        self.padding, self.output_padding, self.padding_mode = (
            _each(padding, n),
            _each(output_padding, n),
            padding_mode,
        )
        self.weight = Parameter(
            gramme.empty(
                in_channels, out_channels // groups, *self.kernel_size, device=device, dtype=dtype
            )
        )
        if bias:
            self.bias = Parameter(gramme.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Both uniform in +-1/sqrt(out / groups * size of the kernel), as torch's."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.out_channels // self.groups * math.prod(self.kernel_size)
            bound = 1 / math.sqrt(fan_in) if fan_in else 0
            init.uniform_(self.bias, -bound, bound)

    def _output_padding(self, input, output_size):
        """What makes the result output_size, of which the places (the last sizes) count."""
        if output_size is None:
            return self.output_padding
        n = self._space
        wanted, places = tuple(output_size)[-n:], input.shape[-n:]
        least = [
            (places[i] - 1) * self.stride[i]
            - 2 * self.padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(n)
        ]
        if len(wanted) != n or not all(
            0 <= wanted[i] - least[i] < max(self.stride[i], self.dilation[i]) for i in range(n)
        ):
            raise ValueError(
                f"output_size {list(output_size)} cannot be had: the least is {least}, each less "
                "than a stride below the most"
            )
        return tuple([wanted[i] - least[i] for i in range(n)])

    def forward(self, input, output_size=None):
        """output_size chooses one of the sizes that a convolution makes equal."""
        extra = self._output_padding(input, output_size)
        return self._convolve(input, extra)

    def extra_repr(self):
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        for name, plain in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            if getattr(self, name) != (plain,) * self._space:
                text += f", {name}={getattr(self, name)!r}"
        return (
            text
            + (f", groups={self.groups}" if self.groups != 1 else "")
            + ("" if self.bias is not None else ", bias=False")
        )

    def _arguments(self, input, extra):
        return (
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTranspose):
    """(N, in, L) to (N, out, (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) +
    output_padding + 1)."""

    _space = 1

    def _convolve(self, input, extra):
        return F.conv_transpose1d(*self._arguments(input, extra))


class ConvTranspose2d(_ConvTranspose):
    """(N, in, H, W) to (N, out, H', W'), each as ConvTranspose1d."""

    _space = 2

    def _convolve(self, input, extra):
        return F.conv_transpose2d(*self._arguments(input, extra))


class ConvTranspose3d(_ConvTranspose):
    """(N, in, D, H, W) to (N, out, D', H', W'), each as ConvTranspose1d."""

    _space = 3

    def _convolve(self, input, extra):
        return F.conv_transpose3d(*self._arguments(input, extra))
