# SPDX-License-Identifier: Apache-2.0
"""torch's older names of tensors by dtype: FloatTensor, LongTensor ...

FloatTensor(sizes ...), FloatTensor(data) and FloatTensor() make plain tensors of that dtype; isinstance(x, FloatTensor) asks for it.
"""

import gramme
from gramme._core import Tensor, set_default_dtype


class _OfDtype(type):
    def __instancecheck__(cls, value):
        return isinstance(value, Tensor) and value.dtype == cls.dtype

    def __call__(cls, *args):
        if not args or all([isinstance(a, int) for a in args]):
            return gramme.empty(*(args or (0,)), dtype=cls.dtype)
        if len(args) != 1:
            raise TypeError(f"{cls.__name__} takes sizes, or data, not {len(args)} arguments")
        if isinstance(args[0], gramme.Size):
            return gramme.empty(args[0], dtype=cls.dtype)
        if isinstance(args[0], Tensor) and args[0].dtype != cls.dtype:
            raise TypeError(f"{cls.__name__} takes a tensor of {cls.dtype}, not of {args[0].dtype}: cast it with to()")
        return args[0].view_as(args[0]) if isinstance(args[0], Tensor) else gramme.tensor(args[0], dtype=cls.dtype)


def _make(name, dtype):
    doc = f"Makes tensors of {dtype}: {name}(sizes ...), {name}(data)."
    return _OfDtype(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "gramme"})


FloatTensor, DoubleTensor = _make("FloatTensor", gramme.float32), _make("DoubleTensor", gramme.float64)
HalfTensor, BFloat16Tensor = _make("HalfTensor", gramme.float16), _make("BFloat16Tensor", gramme.bfloat16)
LongTensor, IntTensor, ShortTensor = _make("LongTensor", gramme.int64), _make("IntTensor", gramme.int32), _make("ShortTensor", gramme.int16)
CharTensor, ByteTensor, BoolTensor = _make("CharTensor", gramme.int8), _make("ByteTensor", gramme.uint8), _make("BoolTensor", gramme.bool)


def set_default_tensor_type(t):
    """The dtype of new floating tensors, said as one of these types or its name: set_default_dtype() is the newer form."""
    if isinstance(t, str):
        t = globals().get(t.rpartition(".")[2])
    if not isinstance(t, _OfDtype):
        raise TypeError("set_default_tensor_type() takes a type such as gramme.FloatTensor, or its name")
    set_default_dtype(t.dtype)
