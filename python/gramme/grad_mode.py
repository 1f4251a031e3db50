# SPDX-License-Identifier: Apache-2.0
"""Whether operations are recorded for backward: contexts that are also decorators."""

from gramme import _core


class _Mode:
    """Sets this thread's grad mode to `mode` inside a `with` block or a decorated function."""

    mode = True

    def __new__(cls, orig_func=None):
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)  # @no_grad and @no_grad()

    def __enter__(self):
        self.previous = _core.set_grad_enabled(self.mode)
        return self

    def __exit__(self, *exception):
        _core.set_grad_enabled(self.previous)

    def __call__(self, function):
        import functools

        kind = type(self)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with kind():
                return function(*args, **kwargs)

        return wrapper


class no_grad(_Mode):
    """Nothing is recorded inside: results do not require grad."""

    mode = False


class enable_grad(_Mode):
    """Operations are recorded inside, also within no_grad."""


def inference_mode(mode=True):
    """no_grad(), or with mode=False enable_grad(): tensors here carry nothing that leaving out
    would make a call faster.  Also a decorator, with and without a call."""
    if callable(mode):
        return no_grad(mode)
    return no_grad() if mode else enable_grad()


class set_grad_enabled:
    """set_grad_enabled(mode): sets the mode at once; as a context it puts the old one back at the
    end, as a decorator after each call."""

    def __init__(self, mode):
        self.mode = mode
        self.previous = _core.set_grad_enabled(mode)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        _core.set_grad_enabled(self.previous)

    def __call__(self, function):
        import functools

        _core.set_grad_enabled(self.previous)  # it was meant for the calls
        mode = self.mode

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with set_grad_enabled(mode):
                return function(*args, **kwargs)

        return wrapper


is_grad_enabled = _core.is_grad_enabled
