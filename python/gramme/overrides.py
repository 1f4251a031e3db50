# SPDX-License-Identifier: Apache-2.0
"""__torch_function__: classes and modes that take part in calls of gramme's functions.

A subclass of Tensor, or any other class, may define

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None)

which is called in the place of func(*args, **kwargs) whenever one of the arguments is of the class.
func is a function of gramme, a method of Tensor, or Tensor.NAME.__get__ for an attribute.
NotImplemented passes the call on.  Tensor has one, for super(): it computes as with plain tensors,
and what comes out is of the subclass.  A compiled function that meets such an object, or runs under
a mode, runs that part as plain Python.  A __torch_dispatch__ would never be called: making a
subclass of Tensor that has one raises NotImplementedError.
"""

import functools
import warnings

from gramme import _core
from gramme._core import Tensor, handle_torch_function, has_torch_function

__all__ = [
    "TorchFunctionMode", "get_default_nowrap_functions", "get_ignored_functions",
    "handle_torch_function", "has_torch_function", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip


class DisableTorchFunctionSubclass:
    """A context: no class's __torch_function__ is asked inside of it.  Modes are."""

    def __enter__(self):
        self._before = _core.disable_overrides(True)

    def __exit__(self, *exception):
        _core.disable_overrides(self._before)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A context: neither classes nor modes are asked inside of it."""

    def __enter__(self):
        super().__enter__()
        self._modes = [_core.pop_function_mode() for _ in _core.function_modes()]

    def __exit__(self, *exception):
        for mode in reversed(self._modes):
            _core.push_function_mode(mode)
        super().__exit__(*exception)


class TorchFunctionMode:
    """A context whose __torch_function__(func, types, args, kwargs) sees each call of a function or
    method of gramme in it, and returns what the call gives.  What it calls itself, it does not
    see."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__} defines no __torch_function__()")

    def __enter__(self):
        _core.push_function_mode(self)
        return self

    def __exit__(self, *exception):
        _core.pop_function_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        """The older way to make one."""
        warnings.warn("Mode.push() is no longer necessary: write Mode()", stacklevel=2)
        return cls(*args, **kwargs)


BaseTorchFunctionMode = TorchFunctionMode


def _as_class(value, cls):
    """Tensors of what a function gave as objects of the class."""
    if cls is Tensor:
        return value
    if isinstance(value, Tensor):
        return value if isinstance(value, cls) else _core.rewrap(value, cls)
    if isinstance(value, (tuple, list)) and not isinstance(value, _core.Size):
        return type(value)([_as_class(item, cls) for item in value])
    return value


def _tensor_function(cls, func, types, args=(), kwargs=None):
    """Tensor.__torch_function__: func of the arguments as plain tensors; tensors in the result are
    of the class."""
    if not all([issubclass(cls, kind) for kind in types]):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return result if func in get_default_nowrap_functions() else _as_class(result, cls)


@functools.cache
def get_default_nowrap_functions():
    """Functions whose results stay what they are under Tensor.__torch_function__."""
    return {Tensor._base.__get__, Tensor.grad.__get__}


def as_subclass(input, cls):
    """The tensor as an object of a subclass: a view with the tensor's history."""
    return _core.rewrap(input, cls)


def has_torch_function_unary(value):
    """has_torch_function() of one argument."""
    return has_torch_function((value,))


def has_torch_function_variadic(*args):
    """has_torch_function() of all arguments."""
    return has_torch_function(args)


def is_tensor_like(inp):
    """Whether it is a Tensor, or an object with a __torch_function__."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func):
    """Whether func is a method of Tensor or the __get__ of one of its attributes."""
    return func in _names_of_methods() or getattr(func, "__name__", None) == "__get__"


@functools.cache
def _names_of_methods():
    return {value: name for name, value in vars(Tensor).items() if callable(value)}


def resolve_name(func):
    """The name of a function, as a program would write it; None for what is no function of
    gramme."""
    if func in _names_of_methods():
        return "gramme.Tensor." + _names_of_methods()[func]
    if getattr(func, "__name__", None) == "__get__":
        return f"gramme.Tensor.{func.__self__.__name__}.__get__"
    module = getattr(func, "__module__", None) or ""
    return f"{module}.{func.__name__}" if module.split(".")[0] == "gramme" else None


def get_ignored_functions():
    """Functions that ask no __torch_function__: those that make tensors of what is none."""
    import gramme

    return {
        gramme.tensor,
        gramme.as_tensor,
        gramme.asarray,
        gramme.from_numpy,
        gramme.frombuffer,
        gramme.is_tensor,
        Tensor._make_subclass,
    }


def wrap_torch_function(dispatcher):
    """A decorator for functions of one's own: dispatcher(*args, **kwargs) returns the arguments
    whose __torch_function__ is asked."""

    def decorate(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapper, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapper

    return decorate
