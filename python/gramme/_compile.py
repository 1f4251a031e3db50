# SPDX-License-Identifier: Apache-2.0
"""gramme.compile: chooses a back end and wraps a function.  Everything that happens per call is in
C."""

import os

from gramme import _core, _ready


registered = {}  # name -> callable: gramme.compiler.register_backend


def default_backend():
    """The back end used when none is named: GRAMME_BACKEND, else auto."""
    return os.environ.get("GRAMME_BACKEND") or "auto"


def backend_of(backend):
    """What a user names as a back end: the name of an installed one, or a callable.  ValueError or
    TypeError if it is neither."""
    backend = default_backend() if backend is None else backend
    if isinstance(backend, str):
        backend = registered.get(backend, backend)
    if isinstance(backend, str):
        _core.check_backend(backend)
    elif not callable(backend):
        raise TypeError(
            "backend must be the name of an installed back end or a callable, not "
            f"{type(backend).__name__}"
        )
    return backend


_NAMES = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__")


def copy_names(to, fn):
    """Gives a compiled or marked function the names of the one that it stands for."""
    for attribute in _NAMES:
        value = getattr(fn, attribute, None)
        if value is not None:
            setattr(to, attribute, value)
    return to


def _module_call(name, compile_function):
    """Module._call_impl compiled, or disabled, for one module.  It has a code object of its own:
    compiled entries live on the code, and those of one model are no business of another's, and
    warnings and explain() call it by the model's class.
    """
    plain = _ready.module("gramme.nn.module").Module._call_impl
    own = type(plain)(plain.__code__.replace(co_qualname=name), plain.__globals__, plain.__name__)
    made = compile_function(own)
    made.__name__ = made.__qualname__ = name
    made.__reduced__ = (type(None), ())  # where a class's own __getstate__ lets it into a pickle
    return made


def compile_module(model, compile_function):
    """In place.  model: an nn.Module, or a class of such: then all its instances."""
    if isinstance(model, type):
        model._compiled_call = staticmethod(_module_call(model.__qualname__, compile_function))
    else:
        model._compiled_call = None  # the old one goes first
        model._compiled_call = _module_call(type(model).__qualname__, compile_function)
    return model


def compiled_form(fn, **options):
    """A CompiledFunction of a function or module, and the arguments that stand before the caller's:
    (compiled, (model,)).  That of fn if it is compiled already; else one of its own, and fn stays
    as it is."""
    Module = _ready.module("gramme.nn.module").Module
    if isinstance(fn, _core.CompiledFunction):
        return fn, ()
    if not isinstance(fn, Module):
        return compile(fn, disable=None, **options), ()
    compiled = fn._compiled_call
    if not isinstance(compiled, _core.CompiledFunction):
        compiled = _module_call(
            type(fn).__qualname__, lambda plain: compile(plain, disable=None, **options)
        )
    return compiled, (fn,)


def _function_of(model):
    """The Python function or method that is compiled for a callable."""
    if isinstance(model, _core.CompiledFunction):
        return model.__wrapped__
    call = getattr(type(model), "__call__", None)
    from types import FunctionType, MethodType

    if isinstance(call, FunctionType) and not isinstance(model, (FunctionType, MethodType, type)):
        return model.__call__  # an object that is called like a function
    if (
        isinstance(model, (FunctionType, MethodType))
        and isinstance(getattr(model, "__func__", model), FunctionType)
        or not callable(model)
    ):
        return model

    def function(
        *args, **kwargs
    ):  # it has no bytecodes that could be read: a class, a functools.partial, a function of C
        return model(*args, **kwargs)

    copy_names(function, model)
    name = getattr(model, "__name__", type(model).__name__)
    function.__name__ = name
    function.__code__ = function.__code__.replace(
        co_name=name
    )  # one for each: entries belong to a code object
    function.__wrapped__ = model  # whose signature it has
    return function


_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def _options_of_mode(mode, backend, options):
    """Of the modes only reduce-overhead and max-autotune mean something here: launches become CUDA
    graphs, where there is a GPU."""
    if mode is None:
        return options
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, _MODES))}, not {mode!r}")
    if options:
        raise RuntimeError(
            "give mode or options, not both: mode='reduce-overhead' is options={'replay': True} of "
            "the back end nvrtc"
        )
    names = ["nvrtc"] if backend == "auto" else [backend] if isinstance(backend, str) else []
    known = _core.list_backends()
    if mode in ("reduce-overhead", "max-autotune") and any(
        name in known and "replay" in _core.backend_options(name) for name in names
    ):
        return {"replay": True}
    return None


def _words(options, backend, dynamic, recompile_limit):
    """The options of a compilation as the core has them, ["key=value"], or None."""
    words = [
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in (options or {}).items()
    ]
    if getattr(backend, "aot_partition", None):
        words.append(f"partition={backend.aot_partition}")  # of aot_autograd
    if dynamic is not None:
        words.append(f"dynamic={'true' if dynamic else 'false'}")
    if recompile_limit is not None:
        words.append(f"recompile-limit={recompile_limit}")
    return words or None


def _check_details(name, recompile_limit, shapes_spec):
    """The arguments of compile() that most programs leave out."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a string, not {type(name).__name__}")
    if recompile_limit is not None and (type(recompile_limit) is not int or recompile_limit < 1):
        raise ValueError(
            "recompile_limit must be an int from 1, or None for "
            f"gramme._dynamo.config.recompile_limit, not {recompile_limit!r}"
        )
    if shapes_spec is not None:
        raise NotImplementedError(
            "compile(shapes_spec=...): say of each tensor which sizes change, with "
            "gramme._dynamo.mark_dynamic (tensor, dim, min=, max=), "
            "or of all, with dynamic=True"
        )


def _own_entries(function):
    """A copy of a Python function or method whose code object, to which compiled entries belong, is
    its own."""
    from types import FunctionType, MethodType

    if isinstance(function, MethodType):
        return MethodType(_own_entries(function.__func__), function.__self__)
    if not isinstance(function, FunctionType):
        return function  # which is refused
    copy = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    return copy_names(copy, function)


def compile(
    model=None, *, backend=None, mode=None, options=None, fullgraph=False, dynamic=None,
    disable=False, name=None, recompile_limit=None,
    isolate_recompiles=False, shapes_spec=None
):  # fmt: skip
    """Compiles a function, method or nn.Module; also a decorator.

    The result is called like the function and gives the same results, bit for bit on the CPU.  The
    first call records the function into a graph, differentiates it if an argument requires grad,
    and hands it to the back end; later calls check guards and run.  What cannot be traced is a
    graph break: that step runs as plain Python, what stands before and behind it is compiled.
    GRAMME_LOGS=graph_breaks shows them; where nothing can be kept, the function runs as plain
    Python, with one warning that says why.

    model: a Python function or method, also inside of a staticmethod, classmethod or property, or
    anything else that is called: an object with
        a method __call__, a class, a functools.partial, a function of gramme or of C.  An
        nn.Module is compiled in place and returned: see nn.Module.compile.  A class of modules
            likewise, for all its instances. Or a gramme.fx.GraphModule that was not edited: its
            graph is compiled as it is, and the result takes its inputs and returns a tuple.
    backend: a name of gramme.compiler.list_backends(); default GRAMME_BACKEND, else "auto": tcc's
        code at once, cc's code between two calls when it is ready, the same bits; nvrtc for graphs
        with tensors on device cuda.  Or a callable that gets a
    gramme.fx.GraphModule and example inputs, and returns a callable of the inputs that returns a
    tuple of tensors; see gramme.compiler.register_backend.
    options: dict of the back end's options (`gramme inspect NAME` lists them) and of these:
    "partition": "min-cut" saves
        less for the backward and computes the rest again, "memory-budget": 0 to 1 saves that part
        of it; "backward": "at-once" compiles the backward with the forward, not when it is first
        called for.  A callable gets it as the argument `options`.
    mode: "default", or "reduce-overhead" ("max-autotune" means the same): on device cuda, what a
    graph launches becomes a CUDA graph, which is
        launched again for calls that have the same addresses and sizes.  Back ends without such an
        option take no notice of it.
    fullgraph: raise gramme.compiler.Unsupported where a graph breaks.
    dynamic: None: the first call compiles for its sizes alone; a size (stride, int or float) that a
    later call finds changed becomes a symbol,
        and one entry serves all its values.  True: all sizes are symbols from the start, False:
            none ever is.  See mark_dynamic.
    disable: True: return `model` as it is, which the variable GRAMME_COMPILE_DISABLE=1 and the
    switch gramme._dynamo.config.disable say of
        all; None: not even then.
    name: a string for tools; it changes nothing.
    recompile_limit: how many entries this function may have; None:
    gramme._dynamo.config.recompile_limit.
    isolate_recompiles: True: the entries of this call of compile() are its own, where several
    compile one function with equal options; they
        are shared, and counted together, else.  A module, or a class of modules, always has its
        own.
    shapes_spec: None; anything else is a NotImplementedError that says what to use.
    Raises ValueError for a back end that is not installed (the message lists names) or a mode that
    there is not, TypeError for what is no function, RuntimeError for both mode and options.
    """
    if model is None:
        return lambda fn: compile(
            fn, backend=backend, mode=mode, options=options, fullgraph=fullgraph, dynamic=dynamic,
            disable=disable, name=name,
            recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles,
            shapes_spec=shapes_spec
        )  # fmt: skip
    config = _ready.module("gramme._dynamo.config")
    if disable or disable is not None and config.disable:
        return model
    _check_details(name, recompile_limit, shapes_spec)
    _ready.load()
    if isinstance(model, _core.Marked) and model.disables and (model.recursive or fullgraph):
        return model
    backend = backend_of(backend)
    options = _options_of_mode(mode, backend, options)
    if config.verify_correctness:
        backend = _ready.module("gramme._dynamo.backends.verify").verified(backend)
    extra = {"options": dict(options)} if options and not isinstance(backend, str) else None
    words = _words(options, backend, dynamic, recompile_limit)
    from gramme.nn.module import Module

    from gramme.fx import GraphModule

    if isinstance(model, GraphModule) and not model.edited:
        return _ready.module("gramme._dynamo.backends.common").plan(model, backend, words)
    if isinstance(model, Module) or isinstance(model, type) and issubclass(model, Module):
        return compile_module(
            model, lambda fn: _core.CompiledFunction(fn, backend, words, fullgraph, extra)
        )
    again = lambda fn: fn and compile(
        fn,
        backend=backend,
        options=options,
        fullgraph=fullgraph,
        dynamic=dynamic,
        recompile_limit=recompile_limit,
        isolate_recompiles=isolate_recompiles,
    )
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(again(model.__func__))
    if isinstance(model, property):
        return property(again(model.fget), again(model.fset), again(model.fdel), model.__doc__)
    model = _function_of(model)
    if isolate_recompiles:
        model = _own_entries(model)
    return copy_names(_core.CompiledFunction(model, backend, words, fullgraph, extra), model)
