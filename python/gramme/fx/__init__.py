# SPDX-License-Identifier: Apache-2.0
"""gramme.fx: recorded graphs as objects, for back ends written in Python: read, printed, run,
interpreted and edited.

A pass edits `module.graph` (replace_all_uses_with, inserting_before, call_function, erase_node ...)
and calls module.recompile():
from then on module(*inputs) runs the edited program.  The names are torch.fx's.
"""

import builtins
import sys
import types

from gramme.fx.graph import Graph, GraphModule, Interpreter
from gramme.fx.node import Node, SymInt, map_arg

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "SymInt",
    "map_arg",
    "symbolic_trace",
    "wrap",
]


def wrap(fn, user_cache_hash=None):
    """Says that what a function does depends on more than its text; also a decorator.  It is
    recorded through like any other; but compiled code of graphs with saved-tensor hooks that call
    it is kept on disk only if it has a string, user_cache_hash, that stands for what it does.

    fn: a function, or the name of a global function of the module that calls wrap(), at its top
    level; of a built-in function that changes nothing. Returns fn.  NameError for a name that is
    not there yet, NotImplementedError for a name inside a function, TypeError for what is no
    function.
    """
    if isinstance(fn, str):
        _wrap_name(fn, sys._getframe(1), user_cache_hash)
        return fn
    if not callable(fn):
        raise TypeError(f"wrap() takes a function or the name of one, not {type(fn).__name__}")
    fn._gramme_wrapped = True
    if user_cache_hash is not None:
        fn.user_cache_hash = str(user_cache_hash)
    return fn


def _wrap_name(name, frame, user_cache_hash):
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError(
            "wrap() of a name is called at the top level of a module; inside a function, give it "
            "the function"
        )
    found = frame.f_globals.get(name, getattr(builtins, name, None))
    if found is None:
        raise NameError(
            f"wrap({name!r}): {frame.f_globals.get('__name__', 'the module')} has no such function "
            "yet; define or import it first"
        )
    if isinstance(found, types.FunctionType):
        wrap(found, user_cache_hash)
    elif not callable(found):
        raise TypeError(f"wrap({name!r}): it names a {type(found).__name__}, not a function")


def symbolic_trace(root, concrete_args=None):
    """Is here to say what to use: NotImplementedError.  A graph is recorded from a call, with its
    shapes and dtypes."""
    raise NotImplementedError(
        "gramme.fx.symbolic_trace: a graph here has shapes and dtypes, and is recorded from a "
        "call: compile with "
        "backend=lambda graph, example_inputs: ..., which gets the GraphModule, or see "
        "gramme.compiler.explain"
    )


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
