# SPDX-License-Identifier: Apache-2.0
"""gramme._dynamo: torch's names for the recorder's own switches.  What users need every day is in gramme.compiler."""

from gramme import _core
from gramme._dynamo import config
from gramme._dynamo.comptime import comptime
from gramme.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    error_on_graph_break,
    explain,
    forbid_in_graph,
    is_compiling,
    mark_static,
    reset,
    run,
    set_stance,
    substitute_in_graph,
)

graph_break = _core.graph_break

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "comptime",
    "config",
    "disable",
    "error_on_graph_break",
    "explain",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "mark_static",
    "reset",
    "run",
    "set_stance",
    "substitute_in_graph",
]
