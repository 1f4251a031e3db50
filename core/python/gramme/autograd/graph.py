# SPDX-License-Identifier: Apache-2.0
"""What happens to tensors between the forward, which saves them, and the backward, which reads them."""

from gramme import _core

__all__ = ["disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks:
    """A context in which every tensor that is saved for a backward goes through a pair of hooks.

    pack_hook(tensor) is called once per saved tensor, when it is saved, and returns any object; it must not change the
    tensor in place.  unpack_hook(object) is called when the backward reads it, and returns the tensor: for compiled
    functions with the shape and dtype that pack_hook saw.  Both run without recording.  Of nested contexts the innermost
    one counts.  Tensors saved by a function that is checkpointed inside go to the checkpoint.  This thread only.
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self):
        _core.saved_hooks_push(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exception):
        _core.saved_hooks_pop()


class save_on_cpu(saved_tensors_hooks):
    """Keeps a copy of what is saved in the host's memory.  All memory is the host's so far: a copy is what there is to it."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda tensor: tensor.clone(), lambda packed: packed)


class disable_saved_tensors_hooks:
    """A context in which entering saved_tensors_hooks raises RuntimeError(error_message)."""

    def __init__(self, error_message):
        self.error_message = error_message

    def __enter__(self):
        self.previous = _core.saved_hooks_refuse(self.error_message)

    def __exit__(self, *exception):
        _core.saved_hooks_refuse(self.previous)
