# SPDX-License-Identifier: Apache-2.0
"""gramme.fx: recorded graphs as objects, for back ends written in Python: read, printed, run, interpreted and edited.

A pass edits `module.graph` (replace_all_uses_with, inserting_before, call_function, erase_node ...) and calls module.recompile():
from then on module(*inputs) runs the edited program.  The names are torch.fx's.
"""

from gramme.fx.graph import Graph, GraphModule, Interpreter
from gramme.fx.node import Node, SymInt, map_arg

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "SymInt", "map_arg", "wrap"]


def wrap(fn, user_cache_hash=None):
    """Says that what a function does depends on more than its text; also a decorator.  It is recorded through like any other; but compiled code
    of graphs with saved-tensor hooks that call it is kept on disk only if it has a string, user_cache_hash, that stands for what it does."""
    fn._gramme_wrapped = True
    if user_cache_hash is not None:
        fn.user_cache_hash = str(user_cache_hash)
    return fn
