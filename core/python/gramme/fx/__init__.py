# SPDX-License-Identifier: Apache-2.0
"""gramme.fx: recorded graphs as objects, for back ends written in Python: read, printed, run, interpreted and edited.

A pass edits `module.graph` (replace_all_uses_with, inserting_before, call_function, erase_node ...) and calls module.recompile():
from then on module(*inputs) runs the edited program.  The names are torch.fx's.
"""

from gramme.fx.graph import Graph, GraphModule, Interpreter
from gramme.fx.node import Node, map_arg

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "map_arg"]
