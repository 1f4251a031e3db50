# SPDX-License-Identifier: Apache-2.0
"""Hooks of a module's backward: what register_full_backward_hook() and
register_full_backward_pre_hook() need around forward().

The module's inputs and outputs go through two operations that change nothing and whose backwards
see the gradients: the one of the outputs runs first and has the gradients of the outputs, the one
of the inputs last.
"""

import gramme
from gramme._core import Tensor
from gramme.autograd import Function


class _Gate(Function):
    """Hands tensors on, and calls on_gradients(tuple) for what comes back, which may return other
    gradients."""

    @staticmethod
    def forward(ctx, on_gradients, *tensors):
        ctx.on_gradients = on_gradients
        return tuple([tensor.view_as(tensor) for tensor in tensors])

    @staticmethod
    def backward(ctx, *gradients):
        return (None,) + ctx.on_gradients(gradients)


def _through_gate(on_gradients, values):
    """The values of a tuple, those that are tensors behind a gate."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    values = list(values)
    for i, tensor in zip(places, _Gate.apply(on_gradients, *[values[i] for i in places])):
        values[i] = tensor
    return tuple(values)


def _spread(gradients, values):
    """The gradients where the tensors are, None elsewhere."""
    gradients = iter(gradients)
    return tuple([next(gradients) if isinstance(value, Tensor) else None for value in values])


def _checked(changed, gradients, what):
    """What a hook returned in the place of gradients, as a tuple."""
    changed = tuple(changed) if isinstance(changed, (tuple, list)) else (changed,)
    if len(changed) != len(gradients):
        raise RuntimeError(
            f"a backward hook returned {len(changed)} gradients of {what}, and there are "
            f"{len(gradients)}"
        )
    return changed


class Watch:
    """One call of a module with backward hooks: inputs() before forward(), outputs() after it."""

    def __init__(self, module, before, after):
        self.module, self.before, self.after = module, before, after
        self.grad_output = None
        self.n_inputs = 0  # arguments, if gradients of theirs will come

    def inputs(self, args):
        if not gramme.is_grad_enabled() or not any(
            [isinstance(value, Tensor) and value.requires_grad for value in args]
        ):
            return args
        self.n_inputs = len(args)
        return _through_gate(lambda gradients: self._at_inputs(gradients, args), args)

    def outputs(self, result):
        values = result if isinstance(result, tuple) else (result,)
        if not gramme.is_grad_enabled() or not any(
            [isinstance(value, Tensor) and value.requires_grad for value in values]
        ):
            return result
        through = _through_gate(lambda gradients: self._at_outputs(gradients, values), values)
        return through if isinstance(result, tuple) else through[0]

    def _at_outputs(self, gradients, values):
        grad_output = _spread(gradients, values)
        for entry in list(self.before):
            changed = entry.hook(self.module, grad_output)
            if changed is not None:
                grad_output = _checked(changed, grad_output, "outputs")
        self.grad_output = grad_output
        if not self.n_inputs:  # no gradient will come to the inputs: this is the end
            self._call(())
        return tuple([g for g, value in zip(grad_output, values) if isinstance(value, Tensor)])

    def _at_inputs(self, gradients, args):
        grad_input = self._call(_spread(gradients, args))
        return tuple([g for g, value in zip(grad_input, args) if isinstance(value, Tensor)])

    def _call(self, grad_input):
        for entry in list(self.after):
            changed = entry.hook(self.module, grad_input, self.grad_output)
            if changed is not None:
                grad_input = _checked(changed, grad_input, "inputs")
        return grad_input
