# SPDX-License-Identifier: Apache-2.0
"""Jacobians, Hessians and products with them, of functions of tensors, by backwards: one for each
element of the results.

inputs and results are a tensor or a tuple of them; what is found is nested like results, then
inputs.  create_graph: it can be differentiated. What a result does not depend on gets zeros, or a
RuntimeError if strict.  gramme.func has the same as transforms of functions.
"""

import gramme
from gramme._core import Tensor
from gramme._core import autograd_grad as grad
from gramme.grad_mode import enable_grad


def _tuple(value, what):
    one = isinstance(value, Tensor)
    values = (value,) if one else tuple(value) if isinstance(value, (tuple, list)) else ()
    if not values or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(
            f"{what} must be a Tensor or a tuple of Tensors, not {type(value).__name__}"
        )
    return one, values


def batched_grad(outputs, inputs, grad_outputs, retain_graph=None, create_graph=False, **options):
    """grad() of outputs once for each row of grad_outputs, which have one dimension more in front
    than the outputs; the gradients stacked."""
    _, outputs = _tuple(outputs, "outputs")
    _, inputs = _tuple(inputs, "inputs")
    starts = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs or ())
    sizes = {v.shape[0] if v.dim() else None for v in starts if v is not None}
    if len(sizes) != 1 or None in sizes:
        raise RuntimeError(
            "is_grads_batched: grad_outputs are tensors with one batch in dimension 0"
        )
    (n,) = sizes
    keep = create_graph if retain_graph is None else retain_graph
    rows = []
    for i in range(n):
        row = [None if v is None else v[i] for v in starts]
        rows.append(
            grad(
                outputs,
                inputs,
                row,
                retain_graph=keep or i + 1 < n,
                create_graph=create_graph,
                **options,
            )
        )
    if not rows:
        return tuple(x.new_zeros((0, *x.shape)) for x in inputs)
    return tuple(None if column[0] is None else gramme.stack(column) for column in zip(*rows))


def _begin(inputs, create_graph):
    """Leaves of their own; with create_graph what leads on to the inputs."""
    one, values = _tuple(inputs, "inputs")
    if create_graph:
        return one, tuple(
            x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in values
        )
    return one, tuple(x.detach().requires_grad_() for x in values)


def _gradients(outputs, inputs, starts, create_graph, strict):
    outputs = [(y, v) for y, v in zip(outputs, starts) if y.requires_grad]
    found = [None] * len(inputs)
    if outputs:
        found = grad(
            [y for y, _ in outputs],
            inputs,
            [v for _, v in outputs],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    if strict and any(g is None for g in found):
        raise RuntimeError("The result does not depend on every input (strict)")
    return tuple(gramme.zeros_like(x) if g is None else g for g, x in zip(found, inputs))


def _end(values, one, create_graph):
    values = values if create_graph else tuple(v.detach() for v in values)
    return values[0] if one else values


def _call(func, inputs):
    with enable_grad():
        return _tuple(func(*inputs), "what the function returns")


def _rows(outputs, inputs, create_graph, strict):
    """For each output and input, the gradients of all elements of the output."""
    for y in outputs:
        rows = []
        for k in range(y.numel()):
            start = gramme.zeros_like(y).reshape(-1)
            start[k] = 1
            rows.append(_gradients((y,), inputs, (start.reshape(y.shape),), create_graph, strict))
        yield tuple(
            gramme.stack([row[i] for row in rows]).reshape(*y.shape, *x.shape)
            if rows
            else x.new_zeros((*y.shape, *x.shape))
            for i, x in enumerate(inputs)
        )


def jacobian(
    func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"
):
    """The derivative of each element of func (*inputs) by each element of inputs.  vectorize and
    strategy change nothing."""
    one, own = _begin(inputs, create_graph)
    with enable_grad():
        one_output, outputs = _call(func, own)
        rows = tuple(
            _end(row, one, create_graph) for row in _rows(outputs, own, create_graph, strict)
        )
    return rows[0] if one_output else rows


def hessian(
    func,
    inputs,
    create_graph=False,
    strict=False,
    vectorize=False,
    outer_jacobian_strategy="reverse-mode",
):
    """The second derivatives of a function that gives one element."""
    one, _ = _tuple(inputs, "inputs")

    def gradient(*own):
        (y,) = _one_element(func, own)
        found = (
            grad(y, own, create_graph=True, allow_unused=True)
            if y.requires_grad
            else [None] * len(own)
        )
        return tuple(gramme.zeros_like(x) if g is None else g for g, x in zip(found, own))

    rows = jacobian(gradient, inputs, create_graph, strict)
    return rows[0] if one else rows


def _one_element(func, own):
    _, outputs = _call(func, own)
    if len(outputs) != 1 or outputs[0].numel() != 1:
        raise RuntimeError("The function must return one Tensor with a single element")
    return outputs


def _starts(v, outputs, one):
    if v is None:
        if len(outputs) != 1 or outputs[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the function returns a single element"
            )
        return (gramme.ones_like(outputs[0]),)
    _, values = _tuple(v, "v")
    if [x.shape for x in values] != [y.shape for y in outputs]:
        raise RuntimeError(
            f"v has the shapes {[list(x.shape) for x in values]}, and should have "
            f"{[list(y.shape) for y in outputs]}"
        )
    return values


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func (*inputs), v times its Jacobian)."""
    one, own = _begin(inputs, create_graph)
    with enable_grad():
        one_output, outputs = _call(func, own)
        found = _gradients(outputs, own, _starts(v, outputs, one_output), create_graph, strict)
    return _end(outputs, one_output, create_graph), _end(found, one, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func (*inputs), its Jacobian times v): the derivative, by u, of u times the Jacobian, which
    is linear in u."""
    one, own = _begin(inputs, create_graph)
    with enable_grad():
        one_output, outputs = _call(func, own)
        starts = _starts(v, own, one)
        along = tuple(gramme.zeros_like(y).requires_grad_() for y in outputs)
        products = _gradients(outputs, own, along, True, strict)
        found = _gradients(products, along, starts, create_graph, False)
    return _end(outputs, one_output, create_graph), _end(found, one_output, create_graph)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func (*inputs), v times its Hessian), of a function that gives one element."""
    one, own = _begin(inputs, create_graph)
    with enable_grad():
        outputs = _one_element(func, own)
        first = _gradients(outputs, own, (gramme.ones_like(outputs[0]),), True, strict)
        found = _gradients(first, own, _starts(v, own, one), create_graph, strict)
    return _end(outputs, True, create_graph), _end(found, one, create_graph)


hvp = vhp  # the Hessian is symmetric
