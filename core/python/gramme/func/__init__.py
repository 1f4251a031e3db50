# SPDX-License-Identifier: Apache-2.0
"""Derivatives of functions as functions: grad, grad_and_value, vjp, jvp, jacrev, jacfwd, hessian; vmap and functional_call.

Arguments are tensors, in tuples, lists and dicts.  A derivative can be differentiated again: by another of these around it, or by backward()
if an argument requires grad.  What a function reads beside its arguments counts as constant, unless an argument requires grad.
"""

import gramme
from gramme._core import Tensor, autograd_grad
from gramme.grad_mode import enable_grad
from gramme.higher_order import _flatten, _unflatten
from gramme.func.mapping import vmap
from gramme.nn.utils.stateless import functional_call

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap"]

_depth = [0]  # how many of these functions are running, one inside the other


class _Inside:
    """While one of these functions calls the user's: the ones inside keep the history of what they compute."""

    def __enter__(self):
        _depth[0] += 1

    def __exit__(self, *exception):
        _depth[0] -= 1


def _leaves_of(value):
    leaves = []
    return leaves, _flatten(value, leaves)


def _tracked(leaves):
    """The tensors as new ones of which gradients can be asked, still connected to what they were computed from."""
    return [leaf.view_as(leaf) if leaf.requires_grad else leaf.detach().requires_grad_() for leaf in leaves]


def _keeps(leaves):
    """Whether derivatives by these tensors may be differentiated again."""
    return _depth[0] > 0 or any([leaf.requires_grad for leaf in leaves])


def _split_aux(result, has_aux):
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"with has_aux=True the function returns (output, aux), not {type(result).__name__}")
    return result


def _let_go(value, keep):
    """Without history, unless it is to be kept."""
    if keep:
        return value
    leaves, spec = _leaves_of(value)
    return _unflatten(spec, iter([leaf.detach() for leaf in leaves]), value)


def _gradients(outputs, inputs, cotangents, keep):
    """The gradient by each input, zeros where nothing flows."""
    pairs = [(o, c) for o, c in zip(outputs, cotangents) if o.requires_grad]
    if not pairs:
        return [gramme.zeros_like(x) for x in inputs]
    found = autograd_grad([o for o, _ in pairs], inputs, [c for _, c in pairs], retain_graph=True, create_graph=keep, allow_unused=True)
    return [gramme.zeros_like(x) if g is None else g for x, g in zip(inputs, found)]


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradient, value) of func, whose value is one number; with has_aux (gradient, (value, aux)).

    argnums: of which argument the gradient is taken, in whose structure it comes; a tuple: a tuple of gradients.
    """
    several = isinstance(argnums, (tuple, list))
    chosen = tuple(argnums) if several else (argnums,)

    def wrapper(*args, **kwargs):
        leaves, spec = _leaves_of(tuple([args[i] for i in chosen]))
        keep = _keeps(leaves)
        with enable_grad(), _Inside():
            inputs = _tracked(leaves)
            arguments = list(args)
            for i, value in zip(chosen, _unflatten(spec, iter(inputs), tuple([args[i] for i in chosen]))):
                arguments[i] = value
            value, aux = _split_aux(func(*arguments, **kwargs), has_aux)
            if not isinstance(value, Tensor) or value.numel() != 1 or value.dim():
                raise RuntimeError("grad() needs a function whose value is a tensor without dimensions: sum it, or use vjp() or jacrev()")
            found = _gradients([value], inputs, [gramme.ones_like(value)], keep)
        found = _unflatten(spec, iter(found if keep else [g.detach() for g in found]))
        value = value if keep else value.detach()
        return (found if several else found[0]), ((value, aux) if has_aux else value)

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func, whose value is one number; with has_aux (gradient, aux).  See grad_and_value()."""
    both = grad_and_value(func, argnums, has_aux)

    def wrapper(*args, **kwargs):
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapper


def vjp(func, *primals, has_aux=False):
    """(output, pull), with has_aux (output, pull, aux): pull(cotangents) returns, for cotangents like the output, a tuple with the gradient
    by each argument (one argument: the gradient itself)."""
    leaves, spec = _leaves_of(tuple(primals))
    keep = _keeps(leaves)
    with enable_grad(), _Inside():
        inputs = _tracked(leaves)
        output, aux = _split_aux(func(*_unflatten(spec, iter(inputs), tuple(primals))), has_aux)
    outputs, output_spec = _leaves_of(output)

    def pull(*cotangents):
        given, given_spec = _leaves_of(cotangents[0] if len(cotangents) == 1 else cotangents)
        if given_spec != output_spec:
            raise RuntimeError("the cotangents should be tensors in the structure of the output")
        again = keep or _keeps(given)
        with enable_grad():
            found = _gradients(outputs, inputs, given, again)
        found = _unflatten(spec, iter(found if again else [g.detach() for g in found]), tuple(primals))
        return found[0] if len(primals) == 1 else found

    output = _let_go(output, keep)
    return (output, pull, aux) if has_aux else (output, pull)


def jvp(func, primals, tangents, *, has_aux=False):
    """(output, derivative of the output along the tangents), with has_aux and aux.  primals and tangents: tuples of equal structure.

    The gradient of the gradient: the function's vjp is linear in the cotangents, and its own gradient by them is the derivative.
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple) or len(primals) != len(tangents):
        raise RuntimeError("jvp() takes two tuples of the same length")
    leaves, spec = _leaves_of(primals)
    along, along_spec = _leaves_of(tangents)
    if spec != along_spec:
        raise RuntimeError("the tangents should be tensors in the structure of the primals")
    keep = _keeps(leaves + along)
    with enable_grad(), _Inside():
        inputs = _tracked(leaves)
        output, aux = _split_aux(func(*_unflatten(spec, iter(inputs), primals)), has_aux)
        outputs, output_spec = _leaves_of(output)
        cotangents = [gramme.zeros_like(o).requires_grad_() for o in outputs]
        gradients = _gradients(outputs, inputs, cotangents, True)
        derivatives = _gradients(gradients, cotangents, along, keep)
    derivative = _unflatten(output_spec, iter(derivatives if keep else [d.detach() for d in derivatives]), output)
    output = _let_go(output, keep)
    return (output, derivative, aux) if has_aux else (output, derivative)


def jacrev(func, argnums=0):
    """A function that returns all derivatives of func, from a tensor to a tensor, by one argument: a tensor of the output's shape and then the
    argument's.  One backward for each element of the output."""

    def wrapper(*args, **kwargs):
        def of_one(x):
            return func(*args[:argnums], x, *args[argnums + 1 :], **kwargs)

        output, pull = vjp(of_one, args[argnums])
        if not isinstance(output, Tensor):
            raise TypeError(f"jacrev() needs a function that returns a tensor, not a {type(output).__name__}")
        rows = gramme.eye(output.numel(), dtype=output.dtype, device=output.device)
        found = [pull(row.reshape(output.shape)) for row in rows.unbind(0)]
        x = args[argnums]
        return gramme.stack(found).reshape(list(output.shape) + list(x.shape)) if found else gramme.zeros(list(output.shape) + list(x.shape), device=output.device)

    return wrapper


def jacfwd(func, argnums=0):
    """As jacrev, with one derivative for each element of the argument: better where the output has more elements."""

    def wrapper(*args, **kwargs):
        def of_one(x):
            return func(*args[:argnums], x, *args[argnums + 1 :], **kwargs)

        x = args[argnums]
        columns = gramme.eye(x.numel(), dtype=x.dtype, device=x.device)
        found = [jvp(of_one, (x,), (column.reshape(x.shape),))[1] for column in columns.unbind(0)]
        if not found:
            output = of_one(x)
            return gramme.zeros(list(output.shape) + list(x.shape), dtype=output.dtype, device=output.device)
        if not isinstance(found[0], Tensor):
            raise TypeError(f"jacfwd() needs a function that returns a tensor, not a {type(found[0]).__name__}")
        return gramme.stack(found, found[0].dim()).reshape(list(found[0].shape) + list(x.shape))

    return wrapper


def hessian(func, argnums=0):
    """A function that returns the second derivatives of func by one argument: the output's shape, and twice the argument's."""
    return jacrev(jacrev(func, argnums), argnums)
