# SPDX-License-Identifier: Apache-2.0
"""Operations whose backward is written by hand."""

from gramme import _core
from gramme._core import FunctionCtx

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class Function:
    """Subclass it with static methods, and call it through apply().

    forward(ctx, *args) computes the result, a tensor or a tuple, without recording; or
    forward(*args) without ctx, and then setup_context(ctx, inputs, output).  backward(ctx, *grads)
    gets a gradient per result and returns one (or None) per argument of apply().
    ctx.save_for_backward(*tensors) keeps tensors for ctx.saved_tensors.
    """

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError(
            "a Function whose forward does not take ctx needs a static method setup_context(ctx, "
            "inputs, output)"
        )

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(
            "a Function needs a static method backward(ctx, *grads) to be differentiated"
        )

    @classmethod
    def apply(cls, *args):
        setup = cls.setup_context
        return _core.function_apply(cls, None if setup is Function.setup_context else setup, args)


class _Refuse(Function):
    """Hands a gradient through, and refuses to be differentiated itself."""

    @staticmethod
    def forward(ctx, *tensors):
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(
            "a backward that is marked @once_differentiable cannot be differentiated again"
        )


def once_differentiable(backward):
    """A decorator for backward: its result cannot be differentiated again; trying to raises
    RuntimeError."""

    import functools

    @functools.wraps(backward)
    def wrapper(ctx, *grads):
        if not _core.is_grad_enabled():
            return backward(ctx, *grads)
        previous = _core.set_grad_enabled(False)
        try:
            results = backward(ctx, *grads)
        finally:
            _core.set_grad_enabled(previous)
        several = isinstance(results, tuple)
        results = results if several else (results,)
        tensors = [r.detach().requires_grad_() for r in results if r is not None]
        marked = iter(_Refuse.apply(*tensors))
        results = tuple(None if r is None else next(marked) for r in results)
        return results if several else results[0]

    wrapper._once_differentiable = True
    return wrapper
