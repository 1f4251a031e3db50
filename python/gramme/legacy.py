# SPDX-License-Identifier: Apache-2.0
"""torch's older names of tensors by dtype: FloatTensor, LongTensor ...

FloatTensor(sizes ...), FloatTensor(data) and FloatTensor() make plain tensors of that dtype;
isinstance(x, FloatTensor) asks for it.  Those of gramme.cuda make and ask for tensors of the GPU.
"""

import functools

import gramme
from gramme._core import Tensor, set_default_dtype


class _OfDtype(type):
    def __instancecheck__(cls, value):
        return (
            isinstance(value, Tensor)
            and value.dtype == cls.dtype
            and cls.device in (None, value.device)
        )

    def __call__(cls, *args):
        if not args or all([isinstance(a, int) for a in args]):
            return gramme.empty(*(args or (0,)), dtype=cls.dtype, device=cls.device)
        if len(args) != 1:
            raise TypeError(f"{cls.__name__} takes sizes, or data, not {len(args)} arguments")
        if isinstance(args[0], gramme.Size):
            return gramme.empty(args[0], dtype=cls.dtype, device=cls.device)
        if isinstance(args[0], Tensor) and args[0].dtype != cls.dtype:
            raise TypeError(
                f"{cls.__name__} takes a tensor of {cls.dtype}, not of {args[0].dtype}: cast it "
                "with to()"
            )
        if not isinstance(args[0], Tensor):
            return gramme.tensor(args[0], dtype=cls.dtype, device=cls.device)
        return args[0].view_as(args[0]) if cls.device is None else args[0].to(cls.device)


TYPES = {}  # name -> type


def _make(name, dtype):
    doc = f"Makes tensors of {dtype}: {name}(sizes ...), {name}(data)."
    TYPES[name] = _OfDtype(
        name, (), {"dtype": dtype, "device": None, "__doc__": doc, "__module__": "gramme"}
    )
    return TYPES[name]


@functools.cache
def on_the_gpu(name):
    """gramme.cuda.FloatTensor and its kin: RuntimeError where a tensor is made and there is no
    GPU."""
    doc = f"Makes tensors of {TYPES[name].dtype} on the GPU: {name}(sizes ...), {name}(data)."
    return _OfDtype(
        name,
        (),
        {
            "dtype": TYPES[name].dtype,
            "device": gramme.device("cuda"),
            "__doc__": doc,
            "__module__": "gramme.cuda",
        },
    )


FloatTensor, DoubleTensor = _make("FloatTensor", gramme.float32), _make(
    "DoubleTensor", gramme.float64
)
HalfTensor, BFloat16Tensor = _make("HalfTensor", gramme.float16), _make(
    "BFloat16Tensor", gramme.bfloat16
)
LongTensor, IntTensor, ShortTensor = (
    _make("LongTensor", gramme.int64),
    _make("IntTensor", gramme.int32),
    _make("ShortTensor", gramme.int16),
)
CharTensor, ByteTensor, BoolTensor = (
    _make("CharTensor", gramme.int8),
    _make("ByteTensor", gramme.uint8),
    _make("BoolTensor", gramme.bool),
)


def set_default_tensor_type(t):
    """The dtype of new floating tensors, said as one of these types or its name:
    set_default_dtype() is the newer form."""
    if isinstance(t, str):
        t = globals().get(t.rpartition(".")[2])
    if not isinstance(t, _OfDtype):
        raise TypeError(
            "set_default_tensor_type() takes a type such as gramme.FloatTensor, or its name"
        )
    set_default_dtype(t.dtype)
