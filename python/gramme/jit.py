# SPDX-License-Identifier: Apache-2.0
"""torch.jit's names, as they are in torch with PYTORCH_JIT=0: script() and trace() give back what
they get, which stays plain Python.

gramme.compile() is what compiles here.  What would store or transform a scripted module raises
NotImplementedError.
"""

import contextlib
from typing import Any, Final, Iterator  # noqa: F401

from gramme import _absent
from gramme.nn.module import Module

__all__ = [
    "Attribute", "Final", "ScriptFunction", "ScriptModule", "TracerWarning", "annotate",
    "enable_onednn_fusion", "export", "ignore", "interface",
    "is_scripting", "is_tracing", "isinstance", "onednn_fusion_enabled", "optimized_execution",
    "script", "script_if_tracing", "script_method",
    "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused",
]  # fmt: skip


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """obj itself: a function, a module or a class, which runs as Python."""
    return obj


def script_method(fn):
    """fn itself."""
    return fn


def script_if_tracing(fn):
    """fn itself: nothing is traced."""
    return fn


def trace(func, example_inputs=None, *args, **kwargs):
    """func itself, a function or a module.  It is not called with the example inputs, and what it
    does may go on depending on its arguments."""
    return func


def trace_module(mod, inputs, *args, **kwargs):
    """mod itself."""
    return mod


def is_scripting():
    """False: no function is run by an interpreter of scripts."""
    return False


def is_tracing():
    """False; gramme.compiler.is_compiling() says whether a function is being recorded."""
    return False


def _marked(fn):
    return fn


def ignore(drop=False, **kwargs):
    """A decorator, @ignore or @ignore(drop=...), that changes nothing: the function is Python
    anyway."""
    return drop if callable(drop) else _marked


def unused(fn):
    """fn itself: a decorator that changes nothing."""
    return fn


def export(fn):
    """fn itself: a decorator that changes nothing."""
    return fn


def interface(obj):
    """obj itself: a decorator of classes that changes nothing."""
    return obj


def annotate(the_type, the_value):
    """the_value."""
    return the_value


def Attribute(value, type):
    """value."""
    return value


def isinstance(obj, target_type):
    """True if obj is of the type; of list[int], Optional[int] and the like, of its elements' types
    too."""
    return _is_of(obj, target_type)


def _is_of(obj, kind):
    import builtins
    import types
    import typing

    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if builtins.isinstance(kind, tuple):
        return any(_is_of(obj, one) for one in kind)
    if kind is None or kind is type(None):
        return obj is None
    if origin in (typing.Union, types.UnionType):
        return any(_is_of(obj, one) for one in parts)
    if origin is None:
        return kind is Any or builtins.isinstance(obj, kind)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is dict:
        return all(_is_of(key, parts[0]) and _is_of(value, parts[1]) for key, value in obj.items())
    if origin is tuple and Ellipsis not in parts:
        return len(obj) == len(parts) and all(_is_of(item, one) for item, one in zip(obj, parts))
    return all(_is_of(item, parts[0]) for item in obj)


class ScriptModule(Module):
    """A Module: a base class for programs that have script methods.  No plain module is an instance
    of it."""


class RecursiveScriptModule(ScriptModule):
    """Nothing that script() gives is of this class."""


class TopLevelTracedModule(ScriptModule):
    """Nothing that trace() gives is of this class."""


class ScriptFunction:
    """Nothing that script() gives is of this class: it gives functions back as they are."""

    def __init__(self):
        raise NotImplementedError(
            "gramme has no jit.ScriptFunction: script() gives back the function itself"
        )


class TracerWarning(Warning):
    """A category that programs filter; no such warning is given."""


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """A context that changes nothing: there is no interpreter of scripts to optimize for."""
    yield


class strict_fusion(contextlib.nullcontext):
    """A context that changes nothing."""


def set_fusion_strategy(strategy):
    """Returns the strategy before, an empty list: scripts are not fused."""
    return []


def enable_onednn_fusion(enabled):
    """Changes nothing; RuntimeError if it is to be on."""
    if enabled:
        raise RuntimeError(
            "jit.enable_onednn_fusion(True): there are no scripts to fuse; gramme.compile() fuses "
            "operations"
        )


def onednn_fusion_enabled():
    """False."""
    return False


def __getattr__(name):
    return _absent.find(__name__, name)
