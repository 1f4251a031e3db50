# SPDX-License-Identifier: Apache-2.0
"""Padding as layers: elements before and after the last one, two or three dimensions.

padding: one number, or (before last, after last, before the one before ...); negative widths cut
off.  Inputs with and without N.
"""

from gramme.nn import functional as F
from gramme.nn.module import Module


class _Pad(Module):
    """`_space` dimensions are padded by `_mode`."""

    def __init__(self, padding):
        super().__init__()
        padding = (
            tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * (2 * self._space)
        )
        if len(padding) != 2 * self._space:
            raise ValueError(
                f"{type(self).__name__} takes one number or {2 * self._space}, not {len(padding)}"
            )
        self.padding = padding

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class _ReflectionPad(_Pad):
    _mode = "reflect"


class _ReplicationPad(_Pad):
    _mode = "replicate"


class _CircularPad(_Pad):
    _mode = "circular"


class ConstantPad1d(_ConstantPad):
    """A value around (..., L)."""

    _space = 1


class ConstantPad2d(_ConstantPad):
    """A value around (..., H, W)."""

    _space = 2


class ConstantPad3d(_ConstantPad):
    """A value around (..., D, H, W)."""

    _space = 3


class ZeroPad1d(_ZeroPad):
    """Zeros around (..., L)."""

    _space = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around (..., H, W)."""

    _space = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around (..., D, H, W)."""

    _space = 3


class ReflectionPad1d(_ReflectionPad):
    """(C, L) mirrored at its first and last element, which are not repeated."""

    _space = 1


class ReflectionPad2d(_ReflectionPad):
    """(C, H, W) mirrored at its border, which is not repeated."""

    _space = 2


class ReflectionPad3d(_ReflectionPad):
    """(C, D, H, W) mirrored at its border, which is not repeated."""

    _space = 3


class ReplicationPad1d(_ReplicationPad):
    """(C, L) with its first and last element repeated."""

    _space = 1


class ReplicationPad2d(_ReplicationPad):
    """(C, H, W) with its border repeated."""

    _space = 2


class ReplicationPad3d(_ReplicationPad):
    """(C, D, H, W) with its border repeated."""

    _space = 3


class CircularPad1d(_CircularPad):
    """(C, L) as if it went on with its other end."""

    _space = 1


class CircularPad2d(_CircularPad):
    """(C, H, W) as if it went on with its other sides."""

    _space = 2


class CircularPad3d(_CircularPad):
    """(C, D, H, W) as if it went on with its other sides."""

    _space = 3
