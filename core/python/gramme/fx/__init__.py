# SPDX-License-Identifier: Apache-2.0
"""gramme.fx: recorded graphs as objects, for back ends written in Python.

Graphs are read, printed, run and interpreted here; they are not edited: a back end that wants another program returns one.
"""


class Node:
    """A value of a graph and how it comes about.

    op: "placeholder" (an input), "call_function" (an operation) or "output".
    name: unique in the graph.  target: the operation's name, as in gramme-ops.def; an input's name.
    args: the Nodes it is made from.  kwargs: the operation's attributes ({"dims": (1,), "keepdim": True}).
    meta: shape, stride, dtype, requires_grad, and where: the user's line ("train.py:12").
    """

    __slots__ = ("op", "name", "target", "args", "kwargs", "meta", "index")

    def __init__(self, op, name, target, args, kwargs, meta, index):
        self.op, self.name, self.target = op, name, target
        self.args, self.kwargs, self.meta, self.index = args, kwargs, meta, index

    @property
    def attrs(self):
        return self.kwargs

    def __repr__(self):
        return self.name

    def format_node(self):
        """The node as one line of text."""
        if self.op == "output":
            return f"return ({', '.join(map(str, self.args))})"
        parts = [arg.name for arg in self.args] + [f"{key}={value!r}" for key, value in self.kwargs.items()]
        what = "input" if self.op == "placeholder" else f"{self.target}({', '.join(parts)})"
        shape = ", ".join(map(str, self.meta["shape"]))
        where = f"  # {self.meta['where']}" if self.meta["where"] else ""
        return f"{self.name} = {what} : {self.meta['dtype']}[{shape}]{where}"


class Graph:
    """The nodes of a GraphModule, in execution order."""

    def __init__(self, core):
        self.nodes = []
        named, calls = {}, 0
        for op, name, target, args, kwargs, meta in core.nodes():
            node = Node(op, name, target, tuple(named[arg] for arg in args), kwargs, meta, calls)
            calls += op == "call_function"
            named[name] = node
            self.nodes.append(node)
        self._named = named

    def find(self, name):
        """The node of this name; KeyError if there is none."""
        return self._named[name]

    def __str__(self):
        return "\n".join(node.format_node() for node in self.nodes)


class GraphModule:
    """A recorded graph: `module(*inputs)` runs it on eager's kernels and returns a tuple; gradients flow through."""

    def __init__(self, core):
        self._core = core
        self._graph = None

    @property
    def graph(self):
        if self._graph is None:
            self._graph = Graph(self._core)
        return self._graph

    @property
    def nodes(self):
        return self.graph.nodes

    @property
    def code(self):
        """The text that `gramme opt` reads."""
        return self._core.text()

    def print_readable(self, print_output=True):
        """Returns the graph as text, and prints it unless told not to."""
        text = str(self.graph)
        if print_output:
            print(text)
        return text

    def forward(self, *inputs):
        return self._core.run(*inputs)

    __call__ = forward

    def run_node(self, node, *inputs):
        """Executes one call_function node on tensors."""
        return self._core.run_node(node.index, *inputs)

    def __repr__(self):
        return f"<GraphModule of {sum(node.op == 'call_function' for node in self.nodes)} nodes>"

    def __str__(self):
        return self.print_readable(print_output=False)


class Interpreter:
    """Runs a GraphModule node by node; override run_node(node, args) to see or change values on the way."""

    def __init__(self, module):
        self.module = module

    def run(self, *inputs):
        values, waiting = {}, iter(inputs)
        for node in self.module.nodes:
            if node.op == "placeholder":
                values[node] = next(waiting)
            elif node.op == "output":
                return tuple(values[arg] for arg in node.args)
            else:
                values[node] = self.run_node(node, tuple(values[arg] for arg in node.args))

    def run_node(self, node, args):
        return self.module.run_node(node, *args)
