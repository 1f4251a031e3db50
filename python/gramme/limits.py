# SPDX-License-Identifier: Apache-2.0
"""finfo() and iinfo(): what numbers a dtype holds.

All is worked out at import: inside a compiled function only a dict is read.
"""

from math import floor, log10

from gramme import _core

_FLOATS, _INTS = {}, {}
for _type in _core.dtypes.values():
    if _type.is_floating_point:
        _max, _eps, _normal = _core.float_limits(_type)
        _FLOATS[_type] = (
            _max,
            -_max,
            _eps,
            _normal,
            10.0 ** -floor(-log10(_eps)),
            _type.itemsize * 8,
            _type.name,
        )
    elif _type.name != "bool":
        _max = 2 ** (_type.itemsize * 8 - _type.is_signed) - 1
        _INTS[_type] = (_max, -_max - 1 if _type.is_signed else 0, _type.itemsize * 8, _type.name)


class finfo:
    """The limits of a floating dtype, the default one if none is given.

    bits; max and min (the largest number and its negative); eps (from 1 to the next number);
    smallest_normal and tiny (the same); resolution (10 to minus the decimal digits that always
    survive); dtype, as text.
    """

    def __init__(self, type=None):
        if type is None:
            type = _core.get_default_dtype()
        if type not in _FLOATS:
            raise TypeError(
                f"gramme.finfo() requires a floating point input type, not {type}; gramme.iinfo() "
                "is for integers"
            )
        (
            self.max,
            self.min,
            self.eps,
            self.smallest_normal,
            self.resolution,
            self.bits,
            self.dtype,
        ) = _FLOATS[type]
        self.tiny = self.smallest_normal

    def __repr__(self):
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """The limits of an integer dtype: bits, max, min, and dtype as text."""

    def __init__(self, type):
        if type not in _INTS:
            raise TypeError(
                f"gramme.iinfo() requires an integer input type, not {type}; gramme.finfo() is for "
                "floating dtypes"
            )
        self.max, self.min, self.bits, self.dtype = _INTS[type]

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
