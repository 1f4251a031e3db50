# SPDX-License-Identifier: Apache-2.0
"""Derivatives of functions as functions: grad, grad_and_value, vjp, jvp, linearize, jacrev, jacfwd,
hessian; vmap, functional_call and stack_module_state.

Arguments are tensors, in tuples, lists and dicts.  A derivative can be differentiated again: by
another of these around it, or by backward() if an argument requires grad.  What a function reads
beside its arguments counts as constant, unless an argument requires grad.
"""

import gramme
from gramme._core import Tensor, autograd_grad
from gramme.grad_mode import enable_grad
from gramme.higher_order import _flatten, _unflatten
from gramme.func.mapping import vmap
from gramme.nn.normalization import _BatchNorm
from gramme.nn.utils.stateless import functional_call

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip

_depth = [0]  # how many of these functions are running, one inside the other


class _Inside:
    """While one of these functions calls the user's: the ones inside keep the history of what they
    compute."""

    def __enter__(self):
        _depth[0] += 1

    def __exit__(self, *exception):
        _depth[0] -= 1


def _leaves_of(value):
    leaves = []
    return leaves, _flatten(value, leaves)


def _tracked(leaves):
    """The tensors as new ones of which gradients can be asked, still connected to what they were
    computed from."""
    return [
        leaf.view_as(leaf) if leaf.requires_grad else leaf.detach().requires_grad_()
        for leaf in leaves
    ]


def _keeps(leaves):
    """Whether derivatives by these tensors may be differentiated again."""
    return _depth[0] > 0 or any([leaf.requires_grad for leaf in leaves])


def _split_aux(result, has_aux):
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"with has_aux=True the function returns (output, aux), not {type(result).__name__}"
        )
    return result


def _let_go(value, keep):
    """Without history, unless it is to be kept."""
    if keep:
        return value
    leaves, spec = _leaves_of(value)
    return _unflatten(spec, iter([leaf.detach() for leaf in leaves]), value)


def _let_go_inside(value, keep):
    """The same of aux: what is in tuples, lists and dicts, beside values of any kind."""
    if keep:
        return value
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, dict):
        return type(value)([(key, _let_go_inside(v, keep)) for key, v in value.items()])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_let_go_inside(v, keep) for v in value])
    return (
        type(value)([_let_go_inside(v, keep) for v in value])
        if type(value) in (tuple, list)
        else value
    )


def _places(argnums, n):
    """(whether several, the places) of the arguments to differentiate by, of n."""
    several = isinstance(argnums, (tuple, list))
    places = tuple(argnums) if several else (argnums,)
    for place in places:
        if not isinstance(place, int) or not -n <= place < n:
            raise RuntimeError(
                f"argnums has {place!r}, and the function got {n} positional arguments"
            )
    return several, tuple([place % n for place in places])


def _of_places(func, places, args, kwargs):
    """func of the arguments at the places alone."""

    def wrapper(*chosen):
        arguments = list(args)
        for place, value in zip(places, chosen):
            arguments[place] = value
        return func(*arguments, **kwargs)

    return wrapper


def _gradients(outputs, inputs, cotangents, keep):
    """The gradient by each input, zeros where nothing flows."""
    pairs = [(o, c) for o, c in zip(outputs, cotangents) if o.requires_grad]
    if not pairs:
        return [gramme.zeros_like(x) for x in inputs]
    found = autograd_grad(
        [o for o, _ in pairs],
        inputs,
        [c for _, c in pairs],
        retain_graph=True,
        create_graph=keep,
        allow_unused=True,
    )
    return [gramme.zeros_like(x) if g is None else g for x, g in zip(inputs, found)]


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradient, value) of func, whose value is one number; with has_aux
    (gradient, (value, aux)).

    argnums: of which argument the gradient is taken, in whose structure it comes; a tuple: a tuple
    of gradients.
    """

    def wrapper(*args, **kwargs):
        several, chosen = _places(argnums, len(args))
        leaves, spec = _leaves_of(tuple([args[i] for i in chosen]))
        keep = _keeps(leaves)
        with enable_grad(), _Inside():
            inputs = _tracked(leaves)
            values = _unflatten(spec, iter(inputs), tuple([args[i] for i in chosen]))
            value, aux = _split_aux(_of_places(func, chosen, args, kwargs)(*values), has_aux)
            if not isinstance(value, Tensor) or value.numel() != 1 or value.dim():
                raise RuntimeError(
                    "grad() needs a function whose value is a tensor without dimensions: sum it, "
                    "or use vjp() or jacrev()"
                )
            found = _gradients([value], inputs, [gramme.ones_like(value)], keep)
        found = _unflatten(spec, iter(found if keep else [g.detach() for g in found]))
        value = value if keep else value.detach()
        return (found if several else found[0]), (
            (value, _let_go_inside(aux, keep)) if has_aux else value
        )

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func, whose value is one number; with has_aux
    (gradient, aux).  See grad_and_value()."""
    both = grad_and_value(func, argnums, has_aux)

    def wrapper(*args, **kwargs):
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapper


def vjp(func, *primals, has_aux=False):
    """(output, pull), with has_aux (output, pull, aux): pull(cotangents) returns, for cotangents
    like the output, a tuple with the gradient by each argument."""
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
        return _unflatten(
            spec, iter(found if again else [g.detach() for g in found]), tuple(primals)
        )

    output = _let_go(output, keep)
    return (output, pull, _let_go_inside(aux, keep)) if has_aux else (output, pull)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(output, derivative of the output along the tangents), with has_aux and aux.  primals and
    tangents: tuples of equal structure.  strict: RuntimeError for an output that does not depend on
    the primals, whose derivative is zeros else.

    The gradient of the gradient: the function's vjp is linear in the cotangents, and its own
    gradient by them is the derivative.
    """
    if (
        not isinstance(primals, tuple)
        or not isinstance(tangents, tuple)
        or len(primals) != len(tangents)
    ):
        raise RuntimeError("jvp() takes two tuples of the same length")
    along, along_spec = _leaves_of(tangents)
    output, push, aux = _linearized(func, primals, has_aux, along, strict)
    derivative = push(along, along_spec)
    return (output, derivative, aux) if has_aux else (output, derivative)


def linearize(func, *primals):
    """(output, push): push(*tangents) returns the derivative of the output along tangents like the
    primals, as often as it is called, without running func again."""
    output, push, _ = _linearized(func, primals, False, [])
    return output, lambda *tangents: push(*_leaves_of(tangents))


def _linearized(func, primals, has_aux, along, strict=False):
    """(output, push, aux): push(leaves, spec) is the derivative along tangents.  along: tensors of
    which derivatives may be asked, too."""
    leaves, spec = _leaves_of(primals)
    keep = _keeps(leaves + along)
    with enable_grad(), _Inside():
        inputs = _tracked(leaves)
        output, aux = _split_aux(func(*_unflatten(spec, iter(inputs), primals)), has_aux)
        outputs, output_spec = _leaves_of(output)
        if strict and not all([o.requires_grad for o in outputs]):
            raise RuntimeError("jvp(strict=True): an output does not depend on the primals")
        cotangents = [gramme.zeros_like(o).requires_grad_() for o in outputs]
        gradients = _gradients(outputs, inputs, cotangents, True)

    def push(tangents, tangents_spec):
        if spec != tangents_spec:
            raise RuntimeError("the tangents should be tensors in the structure of the primals")
        with enable_grad():
            found = _gradients(gradients, cotangents, tangents, keep)
        return _unflatten(output_spec, iter(found if keep else [d.detach() for d in found]), output)

    return _let_go(output, keep), push, _let_go_inside(aux, keep)


def _nested(output, output_spec, primals, spec, several, jacobians):
    """Jacobians, for each leaf of the output one by each leaf of the primals, in the output's
    structure and then the primals'."""
    rows = [_unflatten(spec, iter(row), primals) for row in jacobians]
    return _unflatten(output_spec, iter(rows if several else [row[0] for row in rows]), output)


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """A function that returns all derivatives of func by the argument at argnums, by several if it
    is a tuple: a tensor of the output's shape and then the argument's, for each tensor of the
    output and of the argument, in their structures; with has_aux (derivatives, aux).  One backward
    for each element of the output; chunk_size changes nothing."""

    def wrapper(*args, **kwargs):
        several, places = _places(argnums, len(args))
        primals = tuple([args[i] for i in places])
        output, pull, *aux = vjp(_of_places(func, places, args, kwargs), *primals, has_aux=has_aux)
        outputs, output_spec = _leaves_of(output)
        inputs, spec = _leaves_of(primals)
        jacobians = []
        for j, y in enumerate(outputs):
            columns = [[] for _ in inputs]
            for row in gramme.eye(y.numel(), dtype=y.dtype, device=y.device).unbind(0):
                starts = [
                    row.reshape(y.shape) if i == j else gramme.zeros_like(other)
                    for i, other in enumerate(outputs)
                ]
                for column, gradient in zip(
                    columns, _leaves_of(pull(_unflatten(output_spec, iter(starts), output)))[0]
                ):
                    column.append(gradient)
            jacobians.append(
                [
                    gramme.stack(column).reshape([*y.shape, *x.shape])
                    if column
                    else x.new_zeros([*y.shape, *x.shape])
                    for column, x in zip(columns, inputs)
                ]
            )
        found = _nested(output, output_spec, primals, spec, several, jacobians)
        return (found, aux[0]) if has_aux else found

    return wrapper


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """As jacrev, with one derivative for each element of the argument: better where the output has
    more elements.  randomness changes nothing:
    func is called once."""

    def wrapper(*args, **kwargs):
        several, places = _places(argnums, len(args))
        primals = tuple([args[i] for i in places])
        output, push, aux = _linearized(
            _of_places(func, places, args, kwargs), primals, has_aux, []
        )
        outputs, output_spec = _leaves_of(output)
        inputs, spec = _leaves_of(primals)
        jacobians = [[] for _ in outputs]
        for k, x in enumerate(inputs):
            rows = [[] for _ in outputs]
            for column in gramme.eye(x.numel(), dtype=x.dtype, device=x.device).unbind(0):
                tangents = [
                    column.reshape(x.shape) if i == k else gramme.zeros_like(other)
                    for i, other in enumerate(inputs)
                ]
                for row, derivative in zip(rows, _leaves_of(push(tangents, spec))[0]):
                    row.append(derivative)
            for jacobian, row, y in zip(jacobians, rows, outputs):
                jacobian.append(
                    gramme.stack(row, y.dim()).reshape([*y.shape, *x.shape])
                    if row
                    else y.new_zeros([*y.shape, *x.shape])
                )
        found = _nested(output, output_spec, primals, spec, several, jacobians)
        return (found, aux) if has_aux else found

    return wrapper


def hessian(func, argnums=0):
    """A function that returns the second derivatives of func by the argument at argnums: the
    output's shape, and twice the argument's; of a tuple of arguments a tuple of tuples."""
    return jacrev(jacrev(func, argnums), argnums)


def replace_all_batch_norm_modules_(root):
    """Every BatchNorm in the module, in place, without running values: it takes the batch's, as
    vmap() needs it.  Returns the module."""
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def stack_module_state(models):
    """(parameters, buffers) of modules of one class, stacked: name -> tensor with a dimension for
    the modules in front, as vmap() takes them beside functional_call().  What is stacked of
    parameters that require grad are new leaves that do.  Errors: RuntimeError.
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state(): there is no module")
    if any(
        [
            type(model) is not type(models[0]) or model.training != models[0].training
            for model in models
        ]
    ):
        raise RuntimeError(
            "stack_module_state(): the modules are of one class, and all train or none does"
        )
    states = []
    for named in ("named_parameters", "named_buffers"):
        tables = [dict(getattr(model, named)()) for model in models]
        states.append(
            {name: _stack_leaves(name, [table[name] for table in tables]) for name in tables[0]}
        )
    return tuple(states)


def _stack_leaves(name, tensors):
    if any([x.requires_grad != tensors[0].requires_grad for x in tensors]):
        raise RuntimeError(
            f"stack_module_state(): {name} requires grad in some of the modules, and in others it "
            "does not"
        )
    stacked = gramme.stack([x.detach() for x in tensors])
    return stacked.requires_grad_() if tensors[0].requires_grad else stacked


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
