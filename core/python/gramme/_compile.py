# SPDX-License-Identifier: Apache-2.0
"""gramme.compile: chooses a back end and wraps a function.  Everything that happens per call is in C."""

import os

from gramme import _core


registered = {}  # name -> callable: gramme.compiler.register_backend


def default_backend():
    """The back end used when none is named: GRAMME_BACKEND, else tcc where it is installed, else eager."""
    name = os.environ.get("GRAMME_BACKEND")
    if name:
        return name
    return "tcc" if "tcc" in _core.list_backends() else "eager"


def compile(model=None, *, backend=None, options=None, fullgraph=False, disable=False):
    """Compiles a function, method or nn.Module; also a decorator.

    The result is called like the function and gives the same results, bit for bit on the CPU.  The first call records the
    function into a graph, differentiates it if an argument requires grad, and hands it to the back end; later calls check
    guards and run.  What cannot be traced is a graph break: that step runs as plain Python, what stands before and behind it is
    compiled.  GRAMME_LOGS=graph_breaks shows them; where nothing can be kept, the function runs as plain Python, with one warning
    that says why.

    model: a Python function or method; an nn.Module is compiled in place (its forward) and returned.
    backend: a name of gramme.compiler.list_backends(); default GRAMME_BACKEND, else tcc, else eager.  Or a callable that gets a
    gramme.fx.GraphModule and example inputs, and returns a callable of the inputs that returns a tuple of tensors; see
    gramme.compiler.register_backend.
    options: dict of the back end's options (`gramme inspect NAME` lists them) and of these: "partition": "min-cut" saves
        less for the backward and computes the rest again, "memory-budget": 0 to 1 saves that part of it.  A callable gets it as the argument
        `options`.
    fullgraph: raise gramme.compiler.Unsupported where a graph breaks.
    disable: return `model` as it is.
    Raises ValueError for a back end that is not installed (the message lists names), TypeError for what is no function.
    """
    if model is None:
        return lambda fn: compile(fn, backend=backend, options=options, fullgraph=fullgraph, disable=disable)
    if disable:
        return model
    if isinstance(model, _core.Marked) and model.disables:
        return model
    backend = default_backend() if backend is None else backend
    if isinstance(backend, str):
        backend = registered.get(backend, backend)
    if isinstance(backend, str):
        _core.check_backend(backend)
    elif not callable(backend):
        raise TypeError(f"backend must be the name of an installed back end or a callable, not {type(backend).__name__}")
    extra = {"options": dict(options)} if options and not isinstance(backend, str) else None
    words = [f"{key}={value}" for key, value in options.items()] if options else None
    if hasattr(model, "forward") and not isinstance(model, type):
        if isinstance(model.forward, _core.CompiledFunction):
            model.forward = model.forward.__wrapped__
        model.forward = _core.CompiledFunction(model.forward, backend, words, fullgraph, extra)
        return model
    if isinstance(model, _core.CompiledFunction):
        model = model.__wrapped__
    compiled = _core.CompiledFunction(model, backend, words, fullgraph, extra)
    for attribute in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
        value = getattr(model, attribute, None)
        if value is not None:
            setattr(compiled, attribute, value)
    return compiled
