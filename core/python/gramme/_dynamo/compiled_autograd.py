# SPDX-License-Identifier: Apache-2.0
"""Compiled autograd: a backward pass becomes graphs, which a back end compiles.

    with gramme._dynamo.compiled_autograd.enable("tcc"):
        loss.backward()

What the forward recorded, in plain Python or in compiled functions, is walked as ever: the same order of operations, of sums and of hooks, and so the
same bits.  But the operations between two points where Python has to run (a hook, the backward of an autograd.Function) are one graph.  It is
compiled when operations of this kind and these shapes are met for the first time, and found again later.

A hook on a gradient is called the first time.  If it is no more than arithmetic, without side effects, it is part of the graph from then on, as long
as what it reads is what it was; hooks that print, count, raise, or look at a grad are called each time, and the graph is cut there.  So
are hooks after accumulation.  A compiled function's backward is one call between two graphs, unless it has hooks on what the function makes inside: when
these are programs, it is part of the graph that begins there.  Saved tensors are unpacked in the order of use, those of a graph before it runs.  With create_graph=True
results have the history of a compiled function (grad_fn says CompiledBackward), which can be differentiated again, with eager's bits.
GRAMME_LOGS=compiled_autograd shows the graphs, gramme._dynamo.utils.counters["compiled_autograd"] how often which happened.
"""

from gramme import _core
from gramme._compile import backend_of, registered

__all__ = ["disable", "enable"]

_installed = set()  # names of back ends that were found: looking for them takes longer than a small backward


def _backend_of(backend):
    if isinstance(backend, str) and backend in _installed and backend not in registered:
        return backend
    found = backend_of(backend)
    if isinstance(found, str):
        _installed.add(found)
    return found


def enable(backend=None, *, options=None):
    """Context manager: backward() and grad() on this thread go through the back end.

    backend, options: as in gramme.compile; a callable gets functional graphs, one per stretch.
    """
    words = [f"{key}={value}" for key, value in (options or {}).items()]
    return _core.CompiledAutograd(_backend_of(backend), words or None)


def disable():
    """Context manager: inside of enable(), as if it were not there."""
    return _core.CompiledAutograd(None)
