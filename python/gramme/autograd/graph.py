# SPDX-License-Identifier: Apache-2.0
"""What happens to tensors between the forward, which saves them, and the backward, which reads
them."""

import collections
import types

from gramme import _core

__all__ = ["GradientEdge", "Node", "disable_saved_tensors_hooks", "get_gradient_edge",
"inlineable_saved_tensors_hook", "register_multi_grad_hook",
           "save_on_cpu", "saved_tensors_hooks"]  # fmt: skip


_zeros = _core.functions["zeros"]
Node = _core.GradFn  # what Tensor.grad_fn is, and next_functions lead to


class GradientEdge(
    collections.namedtuple(
        "GradientEdge", ("node", "output_nr", "ownership_token"), defaults=(None,)
    )
):
    """A place that gradients arrive at: an output of a node.

    grad() takes edges among `inputs` and `outputs`, backward() among `tensors`, and edges to leaves
    among `inputs`.  An edge keeps the history alive and no elements.  ownership_token: what the
    tensor was like; an edge without one, GradientEdge(*fn.next_functions[0]), can be an output if
    its gradient is given.
    """


def get_gradient_edge(tensor):
    """The edge of a tensor that requires grad: of a leaf, to the node that adds to its grad."""
    return GradientEdge(*_core.gradient_edge(tensor))


def inlineable_saved_tensors_hook(hook):
    """A decorator for both functions of a pair: compiled functions make them part of their graphs.

    The hook then runs as nodes at the end of the compiled forward, or the beginning of the compiled
    backward, on
    the tensors that are really saved: the ones the backward reads after recomputation was decided,
    and of those only what the caller cannot see (the option saved-tensors-hooks-filtering-mode says
    otherwise: no_static or all).  It is recorded once per such tensor, with that tensor's shape and
    dtype, so its branches may ask for them.  It is called with one argument and changes nothing;
    pack may return any object, of which the tensors that unpack reads are carried, and unpack
    returns a tensor.  What they read of globals and closures is guarded.  Plain execution calls
    them like any other hooks, and so do compiled functions where a hook asks for the elements of a
    tensor, as nonzero() does: it then sees all that the compiled forward saves, and reads and
    changes what it likes.
    """
    hook._inlineable_saved_tensors_hooks = True
    return hook


_inlineable_saved_tensors_hooks = inlineable_saved_tensors_hook  # the name elsewhere


def _pack_and_unpack(t, pack, unpack):
    """The function that is recorded when both become parts of graphs.  The tensor between them is
    where the recording is cut."""
    packed = pack(t)
    between = _zeros(())
    return between, unpack(packed)


def _is_graph(hook):
    from gramme.fx import GraphModule

    return isinstance(hook, GraphModule)


def _traced(pack, unpack):
    """The pair, if compiled functions may make it part of their graphs."""
    if _is_graph(pack) and _is_graph(unpack):
        return None if pack.edited or unpack.edited else (pack, unpack)
    for hook in (pack, unpack):
        if not isinstance(hook, types.FunctionType) or not getattr(
            hook, "_inlineable_saved_tensors_hooks", False
        ):
            return None
    return pack, unpack


class saved_tensors_hooks:
    """A context in which every tensor that is saved for a backward goes through a pair of hooks.

    pack_hook(tensor) is called once per saved tensor, when it is saved, and returns any object; it
    must not change the tensor in place.  unpack_hook(object) is called when the backward reads it,
    and returns the tensor: for compiled functions with the shape and dtype that pack_hook saw.
    Both run without recording.  Of nested contexts the innermost one counts.  Tensors saved by a
    function that is checkpointed inside go to the checkpoint.  This thread only.

    Two gramme.fx.GraphModule are a pair, too: the second takes what the first returns, one by one.
    Compiled functions make such a pair part of their graphs, and functions marked with
    inlineable_saved_tensors_hook.
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self):
        pack, unpack = self.pack_hook, self.unpack_hook
        traced = _traced(pack, unpack)
        if _is_graph(unpack):
            _core.saved_hooks_push(pack, lambda packed: unpack(*packed)[0], traced)
        else:
            _core.saved_hooks_push(pack, unpack, traced)

    def __exit__(self, *exception):
        _core.saved_hooks_pop()


class save_on_cpu(saved_tensors_hooks):
    """Keeps what is saved in the host's memory, and brings it back to its device when the backward
    reads it; of what is there anyway, a copy.

    pin_memory and device_type are there for torch's sake: a copy to the host waits for its stream.
    """

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(
            lambda tensor: (
                tensor.device,
                tensor.clone() if tensor.device.type == "cpu" else tensor.cpu(),
            ),
            lambda kept: kept[1].to(kept[0]),
        )


class disable_saved_tensors_hooks:
    """A context in which entering saved_tensors_hooks raises RuntimeError(error_message)."""

    def __init__(self, error_message):
        self.error_message = error_message

    def __enter__(self):
        self.previous = _core.saved_hooks_refuse(self.error_message)

    def __exit__(self, *exception):
        _core.saved_hooks_refuse(self.previous)


class _MultiGradHook:
    """What register_multi_grad_hook gives: remove() takes the hook off all tensors."""

    def __init__(self, tensors, fn, first_alone):
        self.fn, self.first_alone, self.n = fn, first_alone, len(tensors)
        self.found = None  # of the backward that is running
        self.handles = [t.register_hook(self._hook_of(i)) for i, t in enumerate(tensors)]

    def _hook_of(self, i):
        def hook(grad):
            if (
                self.found is None or i in self.found
            ):  # the same one twice: a backward that failed left it behind
                self.found = found = {}
                _core.queue_callback(lambda: self._finish(found))
                if self.first_alone:
                    self.fn(grad)
            self.found[i] = grad
            if len(self.found) == self.n:
                self._finish(self.found)

        return hook

    def _finish(self, found):
        if self.found is not found:
            return
        self.found = None
        if not self.first_alone:
            self.fn([found.get(i) for i in range(self.n)])

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls fn (gradients), a list with one for each tensor, in each backward that reaches one of
    them: when all have arrived, or at its end, then with None for those that it did not reach.
    mode "any": fn (gradient), with the first one alone.  Gives a handle with remove().
    """
    tensors = tuple(tensors)
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook(): mode is 'all' or 'any', not {mode!r}")
    return _MultiGradHook(tensors, fn, mode == "any")
