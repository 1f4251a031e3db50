# SPDX-License-Identifier: Apache-2.0
"""comptime: code inside a compiled function that runs while the function is being recorded.

    def f(x):
        y = x * 2
        comptime.print_locals()          # what the recorder knows here
        @comptime
        def _(ctx):                      # any code; ctx is a ComptimeContext
            print(ctx.get_local("y").size())
        return y

It runs once per compilation that reaches it, and not at all when a compiled entry is used.  In
plain Python the fallback runs instead.
"""

import builtins
import time
import types

from gramme import _core


class _Number:
    """An integer that only the run knows.  gramme._check(number >= 2) makes the recorder take that
    for granted, and the run check it."""

    def __init__(self, value):
        self._value = value

    def __lt__(self, other):
        return self._value.fact(0, other)

    def __le__(self, other):
        return self._value.fact(1, other)

    def __eq__(self, other):
        return self._value.fact(2, other)

    def __ne__(self, other):
        return self._value.fact(3, other)

    def __gt__(self, other):
        return self._value.fact(4, other)

    def __ge__(self, other):
        return self._value.fact(5, other)

    def __repr__(self):
        return repr(self._value)


class ComptimeVar:
    """A variable as the recorder knows it."""

    def __init__(self, value, context):
        self.__value = value
        self.__context = context

    def as_proxy(self):
        """The gramme.fx.Node of a tensor in the graph.  TypeError for others."""
        place = self.__value.place()
        if place is None:
            raise TypeError(f"{self!r} is not in the graph")
        is_input, number = place
        kind = "placeholder" if is_input else "call_function"
        return [node for node in self.__context.graph().nodes if node.op == kind][number]

    def is_proxy(self):
        """Whether it is a tensor that is in the graph."""
        return self.__value.place() is not None

    def as_fake(self):
        """shape, stride, dtype and requires_grad of a tensor, where a size that may differ is a
        ComptimeVar; of an integer that only the run knows, something that can be compared with
        integers, for gramme._check().  TypeError for others."""
        if self.__value.is_number():
            return _Number(self.__value)
        meta = self.__value.meta()
        if meta is None:
            raise TypeError(f"{self!r} is no tensor")
        shape, stride, dtype, requires_grad = meta
        known = lambda sizes: tuple(
            ComptimeVar(n, self.__context) if type(n) is _core.ComptimeValue else n for n in sizes
        )
        shape, stride = known(shape), known(stride)
        return types.SimpleNamespace(
            shape=shape, stride=stride, dtype=dtype, requires_grad=requires_grad
        )

    def size(self, dim=None):
        """A tensor's shape, or one of its sizes."""
        shape = self.as_fake().shape
        return shape if dim is None else shape[dim]

    def python_type(self):
        """The type that the value has, or will have."""
        return self.__value.python_type()

    def as_python_constant(self):
        """The value, if it is known while recording.  TypeError if it is not."""
        constant = self.__value.constant()
        if not constant:
            raise TypeError(f"{self!r} is not known while recording")
        return constant[0]

    def is_python_constant(self):
        return bool(self.__value.constant())

    def is_dynamic(self):
        """True if the number, or a size of the tensor, may differ in the next call of the entry."""
        return self.__value.is_dynamic()

    def force_static(self):
        """Fixes a size, or the sizes of a tensor, at those of this call.  TypeError for an integer
        that only the run knows."""
        if self.__value.is_number():
            raise TypeError(f"{self!r} cannot be fixed: only the run knows it")
        self.__value.fix()

    def __repr__(self):
        return repr(self.__value)


class ComptimeContext:
    """The recording as it stands where a comptime function was called.  It is of no use after that
    function has returned."""

    def __init__(self, session, level=0):
        self.__session = session
        self.__level = level

    def get_local(self, name, *, stacklevel=0):
        """The variable of this name, be it a local, an argument, a cell or a free variable.
        KeyError if it has no value."""
        return ComptimeVar(self.__session.local(self.__level + stacklevel, name), self)

    def graph_break(self, msg=""):
        """Ends the graph here."""
        self.__session.graph_break(msg)

    def graph(self):
        """A gramme.fx.GraphModule of what has been recorded so far."""
        return self.__session.graph()

    def parent(self):
        """The context of the function that called this one, or None."""
        inside = self.__level + 1 < self.__session.depth()
        return ComptimeContext(self.__session, self.__level + 1) if inside else None

    def assert_static(self, value):
        """AssertionError if a variable of get_local() is dynamic."""
        if value.is_dynamic():
            raise AssertionError(f"{value!r} is dynamic")

    def force_static(self, value):
        value.force_static()

    def __print(self, what, file, stacklevel=0):
        builtins.print(self.__session.text(what, self.__level + stacklevel), end="", file=file)

    def print_graph(self, *, verbose=True, file=None):
        """The graph as far as it has been recorded."""
        self.__print("graph", file)

    def print_disas(self, *, file=None, stacklevel=0):
        """The instructions of the function, and where it is."""
        self.__print("disas", file, stacklevel)

    def print_value_stack(self, *, file=None, stacklevel=0):
        self.__print("stack", file, stacklevel)

    def print_locals(self, *, file=None, stacklevel=0):
        """Each variable that has a value, and what is known of it."""
        self.__print("locals", file, stacklevel)

    def print_bt(self, *, file=None, stacklevel=0):
        """The frames that are being recorded, outermost first."""
        self.__print("bt", file, stacklevel)

    def print_guards(self, *, file=None):
        """What has been assumed about the call so far."""
        self.__print("guards", file)


def _run(fn, session, values):
    """Called by the recorder."""
    context = ComptimeContext(session)
    for cell in getattr(fn, "__closure__", None) or ():
        if type(getattr(cell, "cell_contents", None)) is _core.ComptimeValue:
            cell.cell_contents = ComptimeVar(cell.cell_contents, context)
    fn(context, *[ComptimeVar(value, context) for value in values])


def _nothing(*values):
    return None


class _Comptime:
    """comptime(fn, fallback_fn): fn(ctx) while recording, fallback_fn() in plain Python.  Its
    methods are ready-made functions."""

    def __call__(self, fn, fallback_fn=_nothing):
        _core.comptime(fn, fallback_fn)

    @staticmethod
    def print(e):
        """Prints what is known of e; in plain Python, e."""
        _core.comptime(_print, builtins.print, e)

    @staticmethod
    def print_graph():
        _core.comptime(ComptimeContext.print_graph, _nothing)

    @staticmethod
    def print_disas(*, stacklevel=0):
        _core.comptime(lambda ctx: ctx.print_disas(stacklevel=stacklevel), _nothing)

    @staticmethod
    def print_value_stack(*, stacklevel=0):
        _core.comptime(lambda ctx: ctx.print_value_stack(stacklevel=stacklevel), _nothing)

    @staticmethod
    def print_value_stack_and_return(e, *, stacklevel=0):
        """Prints the stack, in the middle of an expression, and gives e."""
        _core.comptime(lambda ctx: ctx.print_value_stack(stacklevel=stacklevel), _nothing)
        return e

    @staticmethod
    def graph_break(msg=""):
        """Ends the graph here."""
        _core.comptime(lambda ctx: ctx.graph_break(msg), _nothing)

    @staticmethod
    def print_locals(*, stacklevel=0):
        _core.comptime(lambda ctx: ctx.print_locals(stacklevel=stacklevel), _nothing)

    @staticmethod
    def print_bt(*, stacklevel=0):
        _core.comptime(lambda ctx: ctx.print_bt(stacklevel=stacklevel), _nothing)

    @staticmethod
    def print_guards():
        _core.comptime(ComptimeContext.print_guards, _nothing)

    @staticmethod
    def assert_static(value):
        _core.comptime(ComptimeContext.assert_static, _nothing, value)

    @staticmethod
    def force_static(value):
        _core.comptime(ComptimeContext.force_static, _nothing, value)

    @staticmethod
    def breakpoint():
        """Stops in the debugger while the line is being recorded; `ctx` is the context there."""
        _core.comptime(_breakpoint, _nothing)

    @staticmethod
    def sleep(seconds):
        _core.comptime(lambda ctx: time.sleep(seconds), _nothing)


def _print(ctx, value):
    builtins.print(value)


def _breakpoint(ctx):
    builtins.breakpoint()


comptime = _Comptime()
