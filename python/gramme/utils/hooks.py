# SPDX-License-Identifier: Apache-2.0
"""Lists of callbacks: what register_*_hook() of modules and optimizers keeps, and returns.

Invariant: a list holds the handles themselves, in the order in which their hooks run; a handle that
was removed is in no list.
"""


class RemovableHandle:
    """What register_*_hook() returns; remove() takes the hook off.  Also a context, which removes
    it at its end."""

    def __init__(self, hooks, hook, with_kwargs=False, always_call=False):
        self.hooks = hooks
        self.hook = hook
        self.with_kwargs = with_kwargs
        self.always_call = always_call

    def remove(self):
        self.hooks[:] = [entry for entry in self.hooks if entry is not self]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def add_hook(hooks, hook, prepend=False, with_kwargs=False, always_call=False):
    """Puts a hook at the end of a list, or at its beginning, and returns its handle."""
    handle = RemovableHandle(hooks, hook, with_kwargs, always_call)
    hooks.insert(0 if prepend else len(hooks), handle)
    return handle
