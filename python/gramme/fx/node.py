# SPDX-License-Identifier: Apache-2.0
"""Node: a value of a graph.  Who uses a node is kept in step with the arguments: setting args or
kwargs updates `users` on both sides."""

import collections
import math
import operator

import gramme


class Target(str):
    """The name of an operation of a recorded graph.  It equals that name, and also the function of
    gramme, of Tensor or of `operator` that is called so, so that `node.target == gramme.relu` and
    `node.target == operator.mul` hold."""

    __slots__ = ()

    def __eq__(self, other):
        if callable(other):
            name = getattr(other, "__name__", None)
            if name not in (self, _OPERATORS.get(self)):
                return False
            return any(
                getattr(where, name, None) is other for where in (gramme, gramme.Tensor, operator)
            )
        return str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__

    def __call__(self, *args, **kwargs):
        return getattr(gramme, self)(*args, **kwargs)


_OPERATORS = {
    "div": "truediv",
    "remainder": "mod",
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
    "bitwise_not": "invert",
}


class SymInt:
    """A size of a graph that serves all sizes, as shapes, strides and attributes have it.  str() is
    its expression ("s0 * 4").  It is a number
    while the graph runs: in what a back end returned, in module(...), in Interpreter.run(); before
    that, to ask for the number is a TypeError, and a back end that lets it pass is given a graph of
    numbers instead."""

    __slots__ = ("_core", "_size", "_text")

    def __init__(self, core, size, text):
        self._core, self._size, self._text = core, size, text

    def __index__(self):
        return self._core.size(self._size)

    __int__ = __index__

    def __float__(self):
        return float(int(self))

    def __eq__(self, other):
        if isinstance(other, SymInt):
            return (self._core, self._size) == (other._core, other._size)
        return int(self) == other if isinstance(other, (int, float)) else NotImplemented

    def __hash__(self):
        return hash(self._text)

    def __repr__(self):
        return self._text


TensorMetadata = collections.namedtuple(
    "TensorMetadata",
    ("shape", "dtype", "requires_grad", "stride", "memory_format", "is_quantized", "qparams"),
)


class TensorValue:
    """What is known of a tensor while there is none: shape, dtype, requires_grad, strides.  A size
    that may differ is a SymInt."""

    def __init__(self, shape, stride, dtype, requires_grad):
        self.shape, self.dtype, self.requires_grad = shape, dtype, requires_grad
        self._stride = stride

    @property
    def ndim(self):
        return len(self.shape)

    dim = lambda self: self.ndim

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim=None):
        return self._stride if dim is None else self._stride[dim]

    def numel(self):
        """The number of elements; TypeError where a size of them is a SymInt, while it is none
        yet."""
        return math.prod(map(int, self.shape))

    def __repr__(self):
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def _describe(meta):
    """meta with what it says of a tensor under torch's names, too."""
    if "shape" in meta:
        about = [meta[key] for key in ("shape", "dtype", "requires_grad", "stride")]
        meta["tensor_meta"] = TensorMetadata(*about, None, False, {})
        meta["val"] = meta["example_value"] = TensorValue(
            meta["shape"], meta["stride"], meta["dtype"], meta["requires_grad"]
        )
    if meta.get("where"):
        file, _, line = meta["where"].rpartition(":")
        meta["stack_trace"] = f'  File "{file}", line {line}' if file else f"  {meta['where']}"
    return meta


def map_arg(arg, fn):
    """arg, a structure of tuples, lists, dicts and slices, with fn(node) in the place of each
    node."""
    if isinstance(arg, Node):
        return fn(arg)
    if isinstance(arg, (tuple, list)):
        items = [map_arg(item, fn) for item in arg]
        return type(arg)(*items) if hasattr(arg, "_fields") else type(arg)(items)
    if isinstance(arg, dict):
        return {key: map_arg(value, fn) for key, value in arg.items()}
    if isinstance(arg, slice):
        return slice(map_arg(arg.start, fn), map_arg(arg.stop, fn), map_arg(arg.step, fn))
    return arg


class Node:
    """A value of a graph and how it comes about.

    op: "placeholder" (an input), "call_function", "call_method" or "output".
    name: unique in the graph.
    target: of a recorded operation its name, as in gramme-ops.def (see Target); of one that a pass
    made, the function; an input's name.
    args: what it is made from, other Nodes and constants; of the output a tuple of the results,
    alone: ((a, b),).  kwargs: of a recorded operation
        its attributes ({"dims": (1,), "keepdim": True}).
    meta: shape, stride, dtype, requires_grad, and where: the user's line ("train.py:12").  The same
    under torch's names: tensor_meta, a
        TensorMetadata; val and example_value, a TensorValue, which has no elements; stack_trace.  A
        node that a pass makes has an empty one.
    users: the nodes that have it among their arguments, as the keys of a dict.
    """

    def __init__(self, graph, op, name, target, args, kwargs, meta, index=None):
        self.graph, self.op, self.name, self.meta = graph, op, name, _describe(meta)
        self.users = {}
        self._index = (
            index  # of the recorded operation that it runs, unless a pass changed what it is
        )
        self._target, self._args, self._kwargs = target, (), {}
        self._set(args, kwargs)

    # -- What it is

    @property
    def target(self):
        return self._target

    @target.setter
    def target(self, target):
        self._target, self._index = target, None

    @property
    def stack_trace(self):
        """The user's line, as a traceback has it; None for a node that a pass made."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, text):
        self.meta["stack_trace"] = text

    @property
    def args(self):
        return self._args

    @args.setter
    def args(self, args):
        self._set(args, self._kwargs)

    @property
    def kwargs(self):
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs):
        if self._index is not None and kwargs != self._kwargs:
            self._index = None
        self._set(self._args, kwargs)

    attrs = kwargs

    def _set(self, args, kwargs):
        for node in self.all_input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs = tuple(args), dict(kwargs)
        for node in self.all_input_nodes:
            node.users[self] = None

    def update_arg(self, idx, arg):
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def update_kwarg(self, key, arg):
        self.kwargs = {**self._kwargs, key: arg}

    @property
    def all_input_nodes(self):
        """The nodes among its arguments, each once, in order."""
        found = {}
        map_arg((self._args, self._kwargs), lambda node: found.setdefault(node, None))
        return list(found)

    # -- Its place

    def _beside(self, step):
        at = self.graph.nodes.index(self) + step
        return self.graph.nodes[at] if 0 <= at < len(self.graph.nodes) else None

    @property
    def next(self):
        return self._beside(1)

    @property
    def prev(self):
        return self._beside(-1)

    def prepend(self, node):
        """Moves `node` before this one."""
        self.graph.nodes.remove(node)
        self.graph.nodes.insert(self.graph.nodes.index(self), node)

    def append(self, node):
        """Moves `node` behind this one."""
        self.graph.nodes.remove(node)
        self.graph.nodes.insert(self.graph.nodes.index(self) + 1, node)

    # -- Its users

    def replace_all_uses_with(
        self, replacement, delete_user_cb=lambda user: True, propagate_meta=False
    ):
        """Every user (that delete_user_cb accepts) takes `replacement` instead.  Returns those
        users."""
        if propagate_meta:
            replacement.meta.update(self.meta)
        changed = [user for user in self.users if user is not replacement and delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replacement)
        return changed

    def replace_input_with(self, old_input, new_input):
        """The node takes new_input wherever it took old_input."""
        swap = lambda node: new_input if node is old_input else node
        self._set(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def is_impure(self):
        """Whether it does something beside making its value: inputs, the output, operations that
        write, and Python functions of a pass."""
        return (
            self.op in ("placeholder", "output")
            or str(self._target).endswith("_")
            or not isinstance(self._target, Target)
        )

    # -- Running and text

    def run(self, core, args, kwargs):
        """Its value, from values in the place of nodes."""
        if self.op == "call_method":
            return getattr(args[0], self._target)(*args[1:], **kwargs)
        if self._index is not None and all(isinstance(arg, Node) for arg in self._args):
            return core.run_node(self._index, *args)
        return self._target(*args, **kwargs)

    def __repr__(self):
        return self.name

    def format_node(self):
        """The node as one line of text."""
        if self.op == "output":
            results = (
                self._args[0]
                if len(self._args) == 1 and isinstance(self._args[0], (tuple, list))
                else self._args
            )
            return f"return ({', '.join(map(str, results))})"
        name = (
            self._target
            if isinstance(self._target, str)
            else getattr(self._target, "__name__", repr(self._target))
        )
        parts = [repr(arg) for arg in self._args] + [
            f"{key}={value!r}" for key, value in self._kwargs.items()
        ]
        what = "input" if self.op == "placeholder" else f"{name}({', '.join(parts)})"
        shape = (
            f" : {self.meta['dtype']}[{', '.join(map(str, self.meta['shape']))}]"
            if "shape" in self.meta
            else ""
        )
        where = f"  # {self.meta['where']}" if self.meta.get("where") else ""
        return f"{self.name} = {what}{shape}{where}"
