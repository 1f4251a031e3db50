# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: products in a smaller dtype, losses in float32, all else as it comes."""

from gramme import _core, bfloat16, float16

__all__ = ["autocast", "get_autocast_dtype", "is_autocast_available", "is_autocast_enabled"]


class autocast:
    """A context, and a decorator, in which functions cast their arguments (core/ops/autocast.def says which).

    device_type: "cpu"; another one is accepted and does nothing, since there is no such device.  dtype: bfloat16 (the default) or
    float16.  Matrix products, linear and attention run in it, losses in float32, cat and stack in the widest dtype of theirs;
    float64 tensors and in-place forms are left alone.  Gradients go through the casts.  cache_enabled is there for torch's sake:
    casts are not kept.  This thread only.
    """

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise TypeError(f"autocast() takes the type of a device first, a str such as 'cpu', not {type(device_type).__name__}")
        dtype = bfloat16 if dtype is None else dtype
        if dtype not in (bfloat16, float16):
            raise TypeError(f"autocast casts to gramme.bfloat16 or gramme.float16, not to {dtype}")
        self.dtype = dtype if enabled and device_type == "cpu" else None

    def __enter__(self):
        self.previous = _core.set_autocast(self.dtype)
        return self

    def __exit__(self, *exception):
        _core.set_autocast(self.previous)

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            previous = _core.set_autocast(self.dtype)
            try:
                return function(*args, **kwargs)
            finally:
                _core.set_autocast(previous)

        return wrapper


def is_autocast_enabled(device_type="cpu"):
    """Whether functions cast now, on this thread."""
    return device_type == "cpu" and _core.get_autocast() is not None


def get_autocast_dtype(device_type="cpu"):
    """What they cast to; bfloat16 while none is set."""
    return _core.get_autocast() or bfloat16


def is_autocast_available(device_type):
    return device_type == "cpu"
