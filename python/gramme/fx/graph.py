# SPDX-License-Identifier: Apache-2.0
"""Graph, GraphModule, Interpreter.

A module that was not edited runs in C.  recompile() makes a program of the edited nodes: recorded
operations still run in C, one by one, and what a pass put in is called as the Python function that
it is.  Gradients flow through both.
"""

import contextlib

from gramme.fx.node import Node, Target, map_arg


class Graph:
    """The nodes of a GraphModule, a list in execution order."""

    def __init__(self, core):
        self.nodes = []
        self._names = set()
        self._insert = None  # (node, behind it?): where new nodes go, else before the output
        named, calls = {}, 0
        for op, name, target, args, kwargs, meta in core.nodes():
            index = calls if op == "call_function" else None
            target = Target(target) if op == "call_function" and isinstance(target, str) else target
            inputs = tuple(named[arg] for arg in args)
            node = Node(
                self, op, name, target, (inputs,) if op == "output" else inputs, kwargs, meta, index
            )
            calls += op == "call_function"
            named[name] = node
            self.nodes.append(node)
            self._names.add(name)

    # -- Looking

    def find(self, name):
        """The node of this name; KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def find_nodes(self, *, op, target=None):
        """The nodes of one kind, and of one target where it is given."""
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]

    def output_node(self):
        return self.nodes[-1]

    def __str__(self):
        return "\n".join(node.format_node() for node in self.nodes)

    def print_tabular(self):
        """Prints op, name, target, args and kwargs of all nodes."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(map(len, column)) for column in zip(*rows)]
        print(
            "\n".join(
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                for row in rows
            )
        )

    # -- Editing

    def _unique(self, stem):
        name, n = stem, 0
        while name in self._names:
            n += 1
            name = f"{stem}_{n}"
        self._names.add(name)
        return name

    @contextlib.contextmanager
    def _inserting(self, node, behind):
        if node.graph is not self:
            raise ValueError(f"{node} is a node of another graph")
        old, self._insert = self._insert, (node, behind)
        try:
            yield
        finally:
            self._insert = old

    def inserting_before(self, node):
        """`with graph.inserting_before(node):` new nodes go before it, in the order in which they
        are made."""
        return self._inserting(node, False)

    def inserting_after(self, node):
        """`with graph.inserting_after(node):` new nodes go behind it, in the order in which they
        are made."""
        return self._inserting(node, True)

    def create_node(self, op, target, args=(), kwargs=None, name=None):
        """A new node, where inserting_before() or inserting_after() say, else before the output."""
        if op not in ("call_function", "call_method"):
            raise ValueError(
                f"a node of kind {op!r} cannot be added: call_function and call_method can, inputs "
                "and output are fixed"
            )
        if op == "call_function" and not callable(target):
            raise TypeError(f"the target of a call_function node must be callable, not {target!r}")
        stem = name or (target if isinstance(target, str) else getattr(target, "__name__", "call"))
        node = Node(self, op, self._unique(stem), target, args, kwargs or {}, {})
        at, behind = self._insert or (self.nodes[-1], False)
        self.nodes.insert(self.nodes.index(at) + behind, node)
        if behind:
            self._insert = (node, True)
        return node

    def call_function(self, the_function, args=(), kwargs=None, name=None):
        return self.create_node("call_function", the_function, args, kwargs, name)

    def call_method(self, method_name, args=(), kwargs=None, name=None):
        return self.create_node("call_method", method_name, args, kwargs, name)

    def node_copy(self, node, arg_transform=lambda node: node):
        """A new node that does what `node`, of this graph, does, with arg_transform(input) in the
        place of each input."""
        copied = self.create_node(
            node.op,
            node.target,
            map_arg(node.args, arg_transform),
            map_arg(node.kwargs, arg_transform),
            node.name,
        )
        copied.meta, copied._index = dict(node.meta), node._index
        return copied

    def erase_node(self, to_erase):
        """Takes a node out.  RuntimeError if another one uses it."""
        if to_erase.op in ("placeholder", "output"):
            raise RuntimeError(
                f"{to_erase} cannot be erased: inputs and output of a graph are fixed"
            )
        if to_erase.users:
            raise RuntimeError(
                f"{to_erase} cannot be erased: {', '.join(user.name for user in to_erase.users)} "
                "use it"
            )
        to_erase._set((), {})
        self.nodes.remove(to_erase)

    def eliminate_dead_code(self):
        """Erases all that nobody uses and that does nothing else.  Whether there was any."""
        before = len(self.nodes)
        for node in reversed(list(self.nodes)):
            if not node.users and not node.is_impure():
                self.erase_node(node)
        return len(self.nodes) != before

    def lint(self):
        """RuntimeError if a node is used before it is made, or is not in the graph, or names are
        not unique."""
        seen, names = set(), set()
        for node in self.nodes:
            for used in node.all_input_nodes:
                if used not in seen:
                    raise RuntimeError(f"{node} uses {used}, which is not made before it")
            if node.name in names:
                raise RuntimeError(f"two nodes are named {node.name}")
            seen.add(node)
            names.add(node.name)
        if not self.nodes or self.nodes[-1].op != "output":
            raise RuntimeError("the last node is not the output")


def _results(args):
    """The results that the output's arguments say, as a tuple: ((a, b),), or the results
    themselves."""
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


class GraphModule:
    """A recorded graph: `module(*inputs)` runs it on eager's kernels and returns a tuple; gradients
    flow through.

    Functions that cond(), while_loop() and scan() run are attributes, GraphModules by the names
    that `code` has for them: module.cond_true_0. They are there to be looked at and called; the
    module itself runs the functions that were recorded, whatever is edited in them.
    """

    def __init__(self, core):
        self._core = core
        self._graph = None
        self._program = (
            None  # of an edited graph: [(node, args, kwargs, those that nobody needs after it)]
        )

    @property
    def graph(self):
        if self._graph is None:
            self._graph = Graph(self._core)
        return self._graph

    @property
    def nodes(self):
        return self.graph.nodes

    @property
    def edited(self):
        """Whether recompile() has made it another program than the one that was recorded."""
        return self._program is not None

    @property
    def code(self):
        """The text that `gramme opt` reads; of an edited graph, its nodes."""
        return self._core.text() if self._program is None else str(self.graph)

    def recompile(self):
        """Makes module(*inputs) what the graph says now.  RuntimeError if the graph makes no
        sense."""
        self.graph.lint()
        last_use = {}
        for node in self.nodes:
            for used in node.all_input_nodes:
                last_use[used] = node
        dead = {}
        for used, node in last_use.items():
            dead.setdefault(node, []).append(used)
        self._program = [(node, node.args, node.kwargs, dead.get(node, ())) for node in self.nodes]

    def _run(self, *inputs):
        wanted = sum(node.op == "placeholder" for node, *_ in self._program)
        if len(inputs) != wanted:
            raise TypeError(f"the graph takes {wanted} tensors, {len(inputs)} were given")
        values, waiting = {}, iter(inputs)
        for node, args, kwargs, dead in self._program:
            if node.op == "placeholder":
                values[node] = next(waiting)
                continue
            args = map_arg(args, values.__getitem__)
            if node.op == "output":
                return _results(args)
            values[node] = node.run(self._core, args, map_arg(kwargs, values.__getitem__))
            for used in dead:
                del values[used]

    def forward(self, *inputs):
        return (
            self._core.run(*inputs)
            if self._program is None
            else self._core.call(self._run, *inputs)
        )

    def __call__(self, *inputs):
        return self.forward(*inputs)

    def run_node(self, node, *inputs):
        """Executes one node on the values of its inputs, in the order of node.all_input_nodes, each
        as often as it occurs in args."""
        waiting = iter(inputs)
        args = map_arg(node.args, lambda used: next(waiting))
        return node.run(self._core, args, map_arg(node.kwargs, lambda used: next(waiting)))

    # -- As a module: its parts are the functions of cond() and its kin; parameters and buffers are

    def named_children(self):
        """(name, GraphModule) of the functions that operators in it run."""
        for name, value in vars(self).items():
            if isinstance(value, GraphModule):
                yield name, value

    def children(self):
        return (child for _, child in self.named_children())

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Itself, named "", and all functions below it, named "cond_true_0.cond_false_0" and so
        on."""
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(
                memo, f"{prefix}.{name}" if prefix else name, remove_duplicate
            )

    def modules(self):
        return (module for _, module in self.named_modules())

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """None: what a module of the program's holds is an input of the graph."""
        return iter(())

    named_buffers = named_parameters

    def parameters(self, recurse=True):
        return iter(())

    buffers = parameters

    def state_dict(self, *, destination=None, prefix="", keep_vars=False):
        """An empty dict, or `destination` as it is, for the same reason."""
        return {} if destination is None else destination

    def train(self, mode=True):
        """Sets `training`, which no operation reads, of all functions below, too; returns it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self):
        return self.train(False)

    training = True

    def print_readable(self, print_output=True):
        """Returns the graph as text, and prints it unless told not to."""
        text = str(self.graph)
        if print_output:
            print(text)
        return text

    def __repr__(self):
        return f"<GraphModule of {sum(node.op.startswith('call_') for node in self.nodes)} nodes>"

    def __str__(self):
        return self.print_readable(print_output=False)


class Interpreter:
    """Runs a GraphModule node by node; override run_node(node, args) to see or change values on the
    way."""

    def __init__(self, module):
        self.module = module

    def run(self, *inputs):
        return self.module._core.call(self._run, *inputs)

    def _run(self, *inputs):
        values, waiting = {}, iter(inputs)
        for node in self.module.nodes:
            if node.op == "placeholder":
                values[node] = next(waiting)
                continue
            args = map_arg(node.args, values.__getitem__)
            if node.op == "output":
                return _results(args)
            values[node] = self.run_node(node, args)

    def run_node(self, node, args):
        return node.run(self.module._core, args, node.kwargs)
