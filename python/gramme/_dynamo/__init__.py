# SPDX-License-Identifier: Apache-2.0
"""gramme._dynamo: torch's names for the recorder's own switches.  What users need every day is in
gramme.compiler."""

from gramme import _core
from gramme._compile import backend_of
from gramme._dynamo import compiled_autograd, config, exc, utils
from gramme._dynamo.backends.registry import lookup_backend
from gramme._dynamo.comptime import comptime
from gramme._dynamo.eval_frame import OptimizedModule
from gramme.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    error_on_graph_break,
    explain,
    forbid_in_graph,
    is_compiling,
    list_backends,
    mark_dynamic,
    mark_static,
    maybe_mark_dynamic,
    register_backend,
    reset,
    run,
    set_stance,
    substitute_in_graph,
)

graph_break = _core.graph_break


def optimize(backend=None, *, nopython=False, dynamic=None, disable=False, **details):
    """torch's older name: optimize(backend)(fn) is gramme.compile(fn, backend=backend,
    fullgraph=nopython, ...).  details: of gramme.compile."""
    import gramme

    return lambda fn: gramme.compile(
        fn, backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable, **details
    )


def is_dynamo_supported():
    """True: functions can be recorded wherever the package can be imported."""
    return True


def capture_all(backend="eager"):
    """Context manager: every Python function that this thread calls inside is captured as if it
    were compiled, with tensors or without.

    Left alone: generators, coroutines, class bodies, code given to exec, what the import system
    runs, and gramme itself.  For checking the recorder on programs that have nothing to do with
    tensors; gramme._dynamo.utils.counters tells what came of it.
    """
    return _core.CaptureAll(backend_of(backend))


__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "capture_all",
    "compiled_autograd",
    "comptime",
    "config",
    "disable",
    "error_on_graph_break",
    "exc",
    "explain",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "optimize",
    "register_backend",
    "reset",
    "run",
    "set_stance",
    "substitute_in_graph",
    "utils",
]


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
