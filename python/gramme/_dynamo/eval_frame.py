# SPDX-License-Identifier: Apache-2.0
"""gramme._dynamo.eval_frame: torch's names for questions about what a function was compiled to."""

import types

from gramme import _core

__all__ = ["OptimizedModule", "_debug_get_cache_entry_list", "innermost_fn"]


class OptimizedModule:
    """Nothing is an instance of it: gramme.compile(module) compiles in place, and the module keeps
    its class.  For isinstance()."""

    def __new__(cls, *args, **kwargs):
        raise NotImplementedError(
            "gramme has no wrapper of compiled modules: gramme.compile(module) returns the module "
            "itself"
        )


def innermost_fn(fn):
    """The function that was given to gramme.compile, or fn if it was not compiled."""
    while isinstance(fn, (_core.CompiledFunction, _core.Marked)):
        fn = fn.__wrapped__
    return fn


class CacheEntry(types.SimpleNamespace):
    """One compiled form of a function: `code`, the code object that was assembled for what its
    graph does not do, or None; `guards` and `graph` as text; and what else gramme.compiler.explain
    tells of it: `backend`, `hits`, `nodes`, `reason` ...
    """


def _debug_get_cache_entry_list(code):
    """The entries of a function, the newest first: of all its back ends, without those of what
    follows its graph breaks.

    code: a function, compiled or not, or its code object.  TypeError for anything else.
    """
    code = getattr(innermost_fn(code), "__code__", code)
    if not isinstance(code, types.CodeType):
        raise TypeError(
            "_debug_get_cache_entry_list() takes a function or its code object, not "
            f"{type(code).__name__}"
        )
    return [CacheEntry(**entry) for entry in _core.code_entries(code)]
