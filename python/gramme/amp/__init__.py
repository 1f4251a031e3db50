# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: products in a smaller dtype, losses in float32, all else as it comes."""

import functools

from gramme import _core, bfloat16, float16

__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_enabled",
]

_DTYPES = {"cpu": bfloat16, "cuda": float16}  # where none is said
_OTHERS = (
    "mps",
    "xpu",
    "hpu",
    "xla",
    "mtia",
    "ipu",
    "maia",
)  # kinds of device that torch knows, of which there is none here


def _device(device_type, who="autocast()"):
    if not isinstance(device_type, str):
        raise TypeError(
            f"{who} takes the type of a device, a str such as 'cpu', not "
            f"{type(device_type).__name__}"
        )
    if device_type not in _DTYPES:
        raise RuntimeError(
            f"{who}: there is no device of type {device_type!r}, but "
            f"{' and '.join(map(repr, _DTYPES))}"
        )
    return device_type


class autocast:
    """A context, and a decorator, in which functions cast their arguments (core/api/autocast.def
    says which).

    device_type: "cpu" or "cuda", whose tensors it is about; those of the other are left alone.
    dtype: bfloat16 or float16; None is bfloat16 for "cpu" and float16 for "cuda".  Matrix products,
    linear and attention run in it, losses in float32, cat and stack in the widest dtype of theirs;
    float64 tensors and in-place forms are left alone.  Gradients go through the casts.
    cache_enabled is there for torch's sake: casts are not kept.  This thread only.

    enabled=False of a kind of device that torch knows and gramme does not have, such as "mps",
    changes nothing.  Errors: TypeError for another dtype, RuntimeError for another device.
    """

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=None):
        if device_type in _OTHERS and not enabled:
            self.device_type, self.dtype = device_type, None
            return
        self.device_type = _device(device_type)
        dtype = _DTYPES[device_type] if dtype is None else dtype
        if dtype not in (bfloat16, float16):
            raise TypeError(f"autocast casts to gramme.bfloat16 or gramme.float16, not to {dtype}")
        self.dtype = dtype if enabled else None

    def __enter__(self):
        if self.device_type in _DTYPES:
            self.previous = _core.set_autocast(self.dtype, self.device_type)
        return self

    def __exit__(self, *exception):
        if self.device_type in _DTYPES:
            _core.set_autocast(self.previous, self.device_type)

    def __call__(self, function):
        if self.device_type not in _DTYPES:
            return function

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            previous = _core.set_autocast(self.dtype, self.device_type)
            try:
                return function(*args, **kwargs)
            finally:
                _core.set_autocast(previous, self.device_type)

        return wrapper


def is_autocast_enabled(device_type="cpu"):
    """True if functions of tensors of that device cast now, on this thread; of a kind of device
    that there is not, they do not."""
    if device_type in _OTHERS:
        return False
    return _core.get_autocast(_device(device_type, "is_autocast_enabled()")) is not None


def get_autocast_dtype(device_type="cpu"):
    """What they cast to; while nothing is set, what autocast() would set."""
    return _core.get_autocast(_device(device_type, "get_autocast_dtype()")) or _DTYPES[device_type]


def is_autocast_available(device_type):
    """Whether there is such a type of device; gramme.cuda.is_available() says whether there is a
    GPU."""
    return device_type in _DTYPES


def __getattr__(name):
    if name in ("GradScaler", "custom_bwd", "custom_fwd"):
        from gramme.amp import scaling

        return getattr(scaling, name)
    raise AttributeError(f"module 'gramme.amp' has no attribute {name!r}")
