# SPDX-License-Identifier: Apache-2.0
"""Compiled autograd: a backward pass becomes graphs, which a back end compiles.

    with gramme._dynamo.compiled_autograd.enable("tcc"):
        loss.backward()

What the forward recorded, in plain Python or in compiled functions, is walked as ever: the same
order of operations, of sums and of hooks, and so the same bits.  But the operations between two
points where Python has to run (a hook, the backward of an autograd.Function) are one graph.  It is
compiled when operations of this kind and these shapes are met for the first time, and found again
later.

A hook on a gradient is called the first time.  If it is no more than arithmetic, without side
effects, it is part of the graph from then on, as long as what it reads is what it was; hooks that
print, count, raise, or look at a grad are called each time, and the graph is cut there.  So are
hooks after accumulation.  A compiled function's backward is one call between two graphs, unless it
has hooks on what the function makes inside: when these are programs, it is part of the graph that
begins there.  Saved tensors are unpacked in the order of use, those of a graph before it runs.
With create_graph=True results have the history of a compiled function (grad_fn says
CompiledBackward), which can be differentiated again, with eager's bits.
GRAMME_LOGS=compiled_autograd shows the graphs, gramme._dynamo.utils.counters["compiled_autograd"]
how often which happened.
"""

import inspect
import weakref

from gramme import _core
from gramme._compile import backend_of, registered

__all__ = ["disable", "enable"]

_installed = (
    set()
)  # names of back ends that were found: looking for them takes longer than a small backward


def _backend_of(backend):
    if isinstance(backend, str) and backend in _installed and backend not in registered:
        return backend
    found = backend_of(backend)
    if isinstance(found, str):
        _installed.add(found)
    return found


_one_argument = (
    weakref.WeakKeyDictionary()
)  # callable -> a back end that calls it with the graph alone


def _takes_graph_alone(backend):
    """True for a callable that cannot be called with a graph and example inputs, but with a graph:
    `lambda gm: gramme.compile(gm)`, or functools.partial(gramme.compile, backend="tcc")."""
    try:
        signature = inspect.signature(backend)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind(None, None)
        return False
    except TypeError:
        pass
    try:
        signature.bind(None)
        return True
    except TypeError:
        return False


def _graph_alone(backend):
    """The back end of a callable that compiles a graph: one object for one callable, as what is
    compiled is kept by it."""
    if backend not in _one_argument:
        alone = weakref.ref(backend)

        def compile_graph(graph, example_inputs, **options):
            return alone()(graph)

        compile_graph.__name__ = getattr(backend, "__name__", type(backend).__name__)
        _one_argument[backend] = compile_graph
    return _one_argument[backend]


class _Keeping:
    """Enters a context, and keeps an object alive meanwhile."""

    def __init__(self, context, kept):
        self._context, self._kept = context, kept

    def __enter__(self):
        return self._context.__enter__()

    def __exit__(self, *raised):
        return self._context.__exit__(*raised)


def enable(backend=None, *, options=None):
    """Context manager: backward() and grad() on this thread go through the back end.

    backend, options: as in gramme.compile; a callable gets functional graphs, one per stretch.  A
    callable of one argument compiles a graph: it gets a gramme.fx.GraphModule, and returns a
    callable of the graph's inputs that returns a tuple, such as gramme.compile(graph).
    """
    if callable(backend) and _takes_graph_alone(backend):
        return _Keeping(_core.CompiledAutograd(_graph_alone(backend), None), backend)
    words = [f"{key}={value}" for key, value in (options or {}).items()]
    return _core.CompiledAutograd(_backend_of(backend), words or None)


def disable():
    """Context manager: inside of enable(), as if it were not there."""
    return _core.CompiledAutograd(None)
