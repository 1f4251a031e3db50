# SPDX-License-Identifier: Apache-2.0
"""gramme.compiler: look at and control compilation."""

import atexit
import os
import types

from gramme import _core
from gramme.compiler import config
from gramme._compile import backend_of, compile_module, compiled_form, copy_names
from gramme._compile import registered as _registered
from gramme._core import (
    BackendCompilerFailed,
    BackendError,
    GraphBreakWarning,
    Unsupported,
    is_compiling,
)

__all__ = [
    "BackendCompilerFailed",
    "BackendError",
    "GraphBreakWarning",
    "Unsupported",
    "allow_in_graph",
    "assume_constant_result",
    "builds",
    "cache_counts",
    "config",
    "disable",
    "explain",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "register_backend",
    "reset",
    "set_stance",
    "substitute_in_graph",
    "wait",
]


# -- Back ends


def list_backends(exclude_tags=("debug",)):
    """Names of the back ends that can be used, sorted.  Found through the plugins' manifests: loads
    nothing.

    Those of register_backend() are among them, unless they have one of exclude_tags.
    """
    own = [
        name
        for name, fn in _registered.items()
        if not set(getattr(fn, "tags", ())) & set(exclude_tags or ())
    ]
    return sorted(set(_core.list_backends()) | set(own))


def register_backend(fn=None, name=None, tags=(), aot=None):
    """Makes a callable a back end that can be named; also a decorator.

    fn(graph, example_inputs) gets a gramme.fx.GraphModule and tensors like those of the call, and
    returns a callable of the
    inputs that returns a tuple of tensors: `graph` itself is one.  Plainly, fn gets the graph as it
    was recorded, and what it returns may be differentiated.  With aot=True (or an attribute `aot`
    on fn) it gets graphs without in-place writes, forward and, where gradients are needed,
    backward, each by itself.
    """
    if fn is None:
        return lambda fn: register_backend(fn, name=name, tags=tags, aot=aot)
    if not callable(fn):
        raise TypeError(f"a back end must be callable, not {type(fn).__name__}")
    if tags:
        fn.tags = tuple(tags)
    if aot is not None:
        fn.aot = aot
    name = name or fn.__name__
    if name in _core.list_backends() or _registered.get(name, fn) is not fn:
        raise ValueError(f"there is a back end named {name!r} already")
    _registered[name] = fn
    return fn


def aot_eager(graph, example_inputs):
    """Forward and backward graphs, run by eager."""
    return graph


aot_eager.tags, aot_eager.aot = ("debug",), True
_registered["aot_eager"] = aot_eager  # register_backend() would look for plugins, at import


# -- Control


def reset(fn=None):
    """Forgets everything compiled: of one compiled function or module, or of all."""
    if fn is None:
        _core.reset_all()
    else:
        compiled_form(fn)[0].reset()


def disable(fn=None, recursive=True, *, reason=None, wrapping=True):
    """The function is never recorded: a compiled function that calls it breaks its graph there.
    Also a decorator.

    recursive: compiled functions that it calls run as plain Python too.  An nn.Module is changed in
    place.  wrapping changes nothing.
    """
    if fn is None:
        return lambda fn: disable(fn, recursive, reason=reason)
    from gramme.nn.module import Module

    kind = "disable" if recursive else "disable_one"
    if isinstance(fn, Module) or isinstance(fn, type) and issubclass(fn, Module):
        return compile_module(fn, lambda plain: _core.Marked(plain, kind, reason or ""))
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(disable(fn.__func__, recursive, reason=reason))
    fn = fn.__wrapped__ if isinstance(fn, _core.CompiledFunction) else fn
    return copy_names(_core.Marked(fn, kind, reason or ""), fn)


def forbid_in_graph(fn):
    """A call of the function in a compiled function is an error, Unsupported, where a break would
    be allowed, too.  Also a decorator."""
    return copy_names(_core.Marked(fn, "forbid"), fn)


def run(fn=None):
    """The function, compiled functions in it use the entries that they have and compile nothing
    new.  Also a decorator."""
    return run if fn is None else set_stance("eager_on_recompile")(fn)


class error_on_graph_break:
    """error_on_graph_break(True): in a `with` block or a decorated function, compiled or around
    compiled functions, a graph break raises Unsupported; error_on_graph_break(False) inside of it
    allows them again.  fullgraph=True is stronger: it allows none.
    """

    def __init__(self, error_on_graph_break):
        self.error = bool(error_on_graph_break)

    def __enter__(self):
        self.previous = _core.error_on_break(self.error)
        return self

    def __exit__(self, *exception):
        _core.error_on_break(self.previous)

    def __call__(self, function):
        import functools

        error = self.error

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with error_on_graph_break(error):
                return function(*args, **kwargs)

        return wrapper


def assume_constant_result(fn):
    """The function is called while a call of it is recorded, and its result becomes a constant of
    the graph.

    Nothing guards that it would be the same in a later call: that is the promise.  Its arguments
    must be known while recording.
    """
    return copy_names(_core.Marked(fn, "constant"), fn)


def _apply_of(function):
    def apply(*args, **kwargs):
        return function.apply(*args, **kwargs)

    apply.__qualname__ = f"{function.__qualname__}.apply"
    apply.__code__ = apply.__code__.replace(co_name=function.__name__)
    return apply


def allow_in_graph(fn):
    """Returns fn, or a list or tuple of functions, as it is.  From now on a call of it is one node
    of a compiled function's graph, whatever is in it. Of an autograd.Function, a class, it is
    apply() that is such a call; of a class derived from it, it is not.

    While a call is recorded, fn is called once more, on stand-ins: tensors of ones (integers:
    zeros) with the shapes, dtypes and requires_grad of its arguments.  What it gives then says what
    the node gives, and each call of the compiled function is compared with that: another dtype,
    shape or number of results is a RuntimeError that names fn.  A compiled call runs fn as plain
    Python, once, in the program's order; its gradient is the one that plain Python records inside
    of it.  No back end sees it.

    fn takes tensors, at least one, and constants, and gives a tensor, or a tuple or list of them,
    that are new.  It must not change its arguments, give them back, draw random numbers, or read a
    tensor that requires grad and is no argument; and what it changes elsewhere must not be what the
    compiled function reads.  Where that is seen not to hold, fn is called as plain Python between
    two graphs, a break with a reason (KEPT_WHOLE), which fullgraph=True refuses. What it adds up to
    the gradient of one argument is summed inside of the node, and then added to what comes from
    elsewhere, as from behind a break.  Plain Python adds all terms in the order in which its
    backward meets them, so where an argument's gradient has terms from inside and from outside the
    last bits may differ.  That is so for each gradient of a gradient (create_graph=True): what the
    first one was made of are such terms.  Values and first gradients with terms of one kind are
    plain Python's to the bit. It holds for all functions of the same code.  gramme's own functions
    are operations already.
    """
    from gramme.autograd import Function

    for one in fn if isinstance(fn, (list, tuple)) else (fn,):
        if not callable(one):
            raise TypeError(f"allow_in_graph takes functions, not {type(one).__name__}")
        plain = one.__wrapped__ if isinstance(one, _core.CompiledFunction) else one
        if isinstance(plain, types.FunctionType):
            _core.keep_whole(plain)
        elif isinstance(plain, type) and issubclass(plain, Function):
            plain._gramme_whole = staticmethod(
                _apply_of(plain)
            )  # core/models/autograd_function.c looks for it in the class itself
    return fn


def substitute_in_graph(
    original_fn,
    *,
    can_constant_fold_through=False,
    skip_signature_check=False,
    is_embedded_type=False,
):
    """Decorator: calls of original_fn, a function of C that cannot be recorded, are recorded as
    calls of the Python function.

    Both must give the same results.  Plain Python goes on calling original_fn.
    """
    import inspect

    def decorator(stand_in):
        if not skip_signature_check:
            try:
                wanted = inspect.signature(original_fn)
            except (TypeError, ValueError):
                wanted = None
            if wanted is not None and list(wanted.parameters) != list(
                inspect.signature(stand_in).parameters
            ):
                raise TypeError(
                    f"{stand_in.__qualname__}{inspect.signature(stand_in)} has other parameters "
                    f"than the original: {wanted}"
                )
        _core.substitute(original_fn, stand_in)
        return stand_in

    return decorator


class set_stance:
    """What this thread wants of compiled functions: at once, inside a `with` block, or inside a
    decorated function.

    "default": compile what has no entry.  "force_eager": run everything as plain Python.
    "eager_on_recompile": use the entries that fit, run other calls as plain Python.
    "fail_on_recompile": use the entries that fit, RuntimeError for other calls.
    "eager_then_compile": run the first call of each function as plain Python, compile what has no
    entry from the second on.

    skip_guard_eval_unsafe: for a steady state.  Entries are told apart by the arguments; what is in
    objects that they were compiled with (the layers of a model) is not looked at again.  A call
    without an entry is a RuntimeError.  If such an object was changed since, the result is wrong,
    and the process may crash where a tensor that was replaced is gone.

    force_backend: a name or a callable, the back end of all compiled functions instead of their
    own, options included; with the stance "default" alone.
    """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if force_backend is not None and stance != "default":
            raise RuntimeError(
                f'force_backend goes with the stance "default" alone, not with {stance!r}'
            )
        if force_backend is not None:
            force_backend = backend_of(force_backend)  # an error here, not at some later call
        self.wanted = stance, skip_guard_eval_unsafe, force_backend
        self.previous = self._set(*self.wanted)

    @staticmethod
    def _set(stance, steady, backend):
        return _core.set_stance(stance), _core.set_steady(steady), _core.set_forced(backend)

    def _restore(self):
        self._set(*self.previous)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._restore()

    def __call__(self, function):
        import functools

        self._restore()  # as a decorator it acts inside calls alone
        stance, steady, backend = self.wanted

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with set_stance(stance, skip_guard_eval_unsafe=steady, force_backend=backend):
                return function(*args, **kwargs)

        return wrapper


def _mark(name, tensor, index, mark):
    """Notes on the tensor how its sizes are to be recorded: {dim: (kind, min, max)}, which
    core/trace/traced_size.c reads."""
    if not isinstance(tensor, _core.Tensor):
        raise TypeError(f"{name} takes a tensor, not {type(tensor).__name__}")
    dims = (
        range(tensor.dim())
        if index is None
        else index
        if isinstance(index, (list, tuple))
        else (index,)
    )
    for dim in dims:
        if not -tensor.dim() <= dim < tensor.dim():
            raise IndexError(f"dimension {dim} of a tensor with {tensor.dim()} dimensions")
    marked = dict(getattr(tensor, "_gramme_sizes", {}))
    marked.update({dim % tensor.dim(): mark for dim in dims})
    tensor._gramme_sizes = marked


_STATIC, _MAYBE, _DYNAMIC = 1, 2, 3


def mark_static(t, index=None):
    """The sizes of a tensor (or one, or those of a list of dimensions) are never to become
    symbolic: they are fixed in each entry."""
    _mark("mark_static", t, index, (_STATIC, None, None))


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """A size (or several) of this tensor is a symbol from the first compilation on, between min and
    max.  ValueError, when the function is
    compiled, if it needs the size to be one number: the message names the line.  Sizes of 0 and 1
    are such numbers.
    hint_override and specialize_on: NotImplementedError, as code is not made for some sizes beside
    that for all.
    """
    if hint_override is not None or specialize_on:
        raise NotImplementedError(
            "mark_dynamic(): hint_override and specialize_on are not there, as code is made for "
            "all sizes: leave them out"
        )
    _mark("mark_dynamic", t, index, (_DYNAMIC, min, max))


def maybe_mark_dynamic(t, index):
    """The same without a promise: where the function needs the number, it is compiled for that."""
    _mark("maybe_mark_dynamic", t, index, (_MAYBE, None, None))


# -- The background


def wait(timeout=None):
    """Waits until nothing compiles in the background (back end "auto").  False if that takes more
    than `timeout` seconds."""
    return _core.wait_builds(timeout)


def builds():
    """What compiles in the background, and what became of it: a dict of counts, "waiting" and
    "running" now, "made", "failed" and "dropped" (nobody wanted the result any more) since the
    process began."""
    return _core.build_counts()


def cache_counts():
    """What came of looking for compiled code on disk, a dict of counts since the process began:
    "hits", "misses", "stored", "refused" (damaged, or somebody else's; compiled again), "bypassed"
    (a compilation that must not be cached).  GRAMME_LOGS=cache tells each.
    """
    return _core.cache_counts()


# -- Looking


_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def _plural(n, noun):
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


class Explanation:
    """What explain() found.  str() of it is the report; full() lists all guards; to_html() is the
    same as a page."""

    def __init__(self, name, result, status, entries):
        self.name = name
        self.result = result
        self.status = status
        self.entries = entries
        self.graph_count = len(entries)
        self.graph_break_count = len(status["breaks"])
        self.break_reasons = status["breaks"]

    def _summary(self):
        return (
            f"{self.name}: {_plural(self.graph_count, 'graph')}, "
            f"{_plural(self.graph_break_count, 'break')}, "
            f"back end {self.status['backend']}, {self.status['compile_ms']:.2f} ms compiled, "
            f"{self.status['hits']} hits, {self.status['misses']} misses"
        )

    @staticmethod
    def _guards(entry, full):
        """The lines about an entry's guards.  Of those that gramme's own Python lines ask for, as
        in a layer's forward(), the ones about arguments are told, and the others counted; so are
        those about how names are found, where such lines take part.
        """
        rows = entry["guard_rows"]
        ours = [file is not None and file.startswith(_OURS) for _, _, _, file, *_ in rows]
        lines, counts = [], {}
        for (kind, text, _, file, line, is_lookup, of_argument), own in zip(rows, ours):
            if not full and any(ours) and (is_lookup or own and not of_argument):
                counts[kind] = counts.get(kind, 0) + 1
            else:
                lines.append(text + (f"  # {file}:{line}" if file else ""))
        if counts:
            kinds = ", ".join(
                f"{kind} {n}"
                for kind, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            )
            lines.append(
                f"and {sum(counts.values())} about layers and how names are found: {kinds}; full() "
                "and `gramme explain --full` list them"
            )
        return lines

    def _parts(self, full):
        """(title, lines, guards, lines) of each graph, the oldest first."""
        for i, entry in enumerate(reversed(self.entries)):
            before, after = [], []
            title = (
                f"graph {i}: {entry['nodes']} nodes, {entry['n_guards']} guards "
                f"({entry['guard_ns']:.0f} ns a check, "
                f"{entry['guard_cold_ns']:.0f} ns the first), {entry['hits']} hits, "
                f"{entry['effects']} side effects, {entry['frames_inlined']} calls inlined"
            )
            if entry["reason"]:
                before.append(f"compiled because: {entry['reason']}")
            if entry["fallback"]:
                before.append(f"run by the host: {entry['fallback']}")
            before += (entry["places"] or "").splitlines()
            before += (entry["graph"] or "").splitlines()
            after += ["fixed: " + line for line in (entry["fixed"] or "").splitlines()]
            after += ["only where " + line for line in (entry["forms"] or "").splitlines() if line]
            after.append(
                "ms by stage: "
                + "  ".join(f"{letter} {ms:.3f}" for letter, ms in entry["stages"].items())
            )
            yield title, before, self._guards(entry, full), after

    def _text(self, full):
        lines = [self._summary()]
        for title, before, guards, after in self._parts(full):
            lines += [title, *("  " + line for line in before), "  guards:"]
            lines += ["    " + line for line in guards] + ["  " + line for line in after]
        return "\n".join(lines + ["break: " + reason for reason in self.break_reasons])

    def full(self):
        """The report with all guards, also those that gramme's own Python code asked for."""
        return self._text(True)

    def to_html(self):
        """The report as a page that needs no other file: graphs and guards fold.  A str."""
        from html import escape

        def pre(lines):
            return f"<pre>{escape(chr(10).join(lines))}</pre>"

        body = [f"<h1>{escape(self.name)}</h1>", f"<p>{escape(self._summary())}</p>"]
        body += [f"<h2>break</h2>{pre([reason])}" for reason in self.break_reasons]
        for (title, before, guards, after), (_, _, every, _) in zip(
            self._parts(False), self._parts(True)
        ):
            body.append(
                f"<h2>{escape(title)}</h2>{pre(before)}<details><summary>guards</summary>{pre(guards)}"
            )
            if len(every) > len(guards):
                body.append(f"<details><summary>all guards</summary>{pre(every)}</details>")
            body.append(f"</details>{pre(after)}")
        style = "body{font-family:sans-serif;margin:2em}pre{background:#f4f4f4;padding:.7em;overflow-x:auto}h2{font-size:1em}"
        head = (
            "<!DOCTYPE html>\n<html><head><meta "
            f'charset="utf-8"><title>{escape(self.name)}</title><style>{style}</style></head>'
        )
        return "\n".join([f"{head}<body>", *body, "</body></html>\n"])

    def __str__(self):
        return self._text(False)

    __repr__ = __str__


is_dynamo_compiling = is_compiling


def is_exporting():
    """False: nothing is exported."""
    return False


def cudagraph_mark_step_begin():
    """Nothing: launches are not recorded."""


def explain(f, *, backend=None):
    """explain(f)(*args) calls f compiled, and returns an Explanation: graphs, guards, breaks with
    reasons and hints.

    f: a function or module, or one that is compiled already (then its own entries are shown, those
    of earlier calls included).
    """
    compiled, before = compiled_form(f, backend=backend)

    def run(*args, **kwargs):
        result = compiled(*before, *args, **kwargs)
        return Explanation(
            getattr(f, "__name__", compiled.__name__), result, compiled.status(), compiled.entries()
        )

    return run


def _report_at_exit(how):
    found = [
        Explanation(name, None, status, entries)
        for name, status, entries in sorted(_core.live_functions(), key=lambda row: row[0])
    ]
    if len(found) > 1:
        print("\n".join(["compiled functions:", *("  " + one._summary() for one in found), ""]))
    for one in found:
        print(one.full() if how == "full" else one)


if os.environ.get("GRAMME_EXPLAIN") in ("1", "full"):
    atexit.register(_report_at_exit, os.environ["GRAMME_EXPLAIN"])
