# SPDX-License-Identifier: Apache-2.0
"""gradcheck and gradgradcheck: whether a function's gradients are those of differences."""

import gramme
from gramme._core import Tensor
from gramme._core import autograd_grad as grad
from gramme.grad_mode import enable_grad, no_grad


class GradcheckError(RuntimeError):
    """What gradcheck found."""


def _tensors(value):
    return [
        v
        for v in (value if isinstance(value, (tuple, list)) else (value,))
        if isinstance(v, Tensor)
    ]


def _results(fn, inputs):
    """Those of which there are gradients, by their number among all tensors."""
    outputs = _tensors(fn(*inputs))
    return {i: y for i, y in enumerate(outputs) if y.is_floating_point() and y.requires_grad}


def _differences(fn, inputs, x, eps, which):
    """By output: d output / d x, a row for each element of x."""
    flat, rows = x.detach().reshape(-1), {i: [] for i in which}
    for k in range(flat.numel()):
        sides = []
        for step in (eps, -eps):
            moved = flat.clone()
            moved[k] += step
            moved = moved.reshape(x.shape)
            with no_grad():
                at = _tensors(fn(*[moved if v is x else v for v in inputs]))
            sides.append({i: at[i].detach().clone() for i in which})
        for i in which:
            rows[i].append((sides[0][i] - sides[1][i]).reshape(-1) / (2 * eps))
    return {i: gramme.stack(rows[i]) if rows[i] else None for i in which}


def _by_backward(y, x, shape):
    """The same by autograd: a column for each element of y."""
    columns = []
    for k in range(y.numel()):
        one = gramme.zeros_like(y).reshape(-1)
        one[k] = 1
        (g,) = grad(y, x, one.reshape(y.shape), retain_graph=True, allow_unused=True)
        columns.append(
            gramme.zeros(shape[0], dtype=x.dtype) if g is None else g.detach().reshape(-1)
        )
    return gramme.stack(columns, 1) if columns else gramme.zeros(shape[0], 0, dtype=x.dtype)


def _compare(fn, inputs, eps, atol, rtol, nondet_tol):
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    sources = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not sources:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    outputs = _results(fn, inputs)
    if not outputs:
        raise GradcheckError("no result requires grad: there is nothing to check")
    for number, x in enumerate(v for v in inputs if isinstance(v, Tensor)):
        if not x.requires_grad:
            continue
        want = _differences(fn, inputs, x, eps, outputs)
        for i, y in outputs.items():
            have = _by_backward(y, x, (x.numel(),))
            again = _by_backward(y, x, (x.numel(),))
            if not gramme.allclose(have, again, rtol=0.0, atol=nondet_tol):
                raise GradcheckError(
                    f"Backward is not reentrant: twice, the gradient of output {i} with respect to "
                    f"input {number} is\n{have}\n{again}"
                )
            if want[i] is not None and not gramme.allclose(
                have, want[i].to(have.dtype), rtol=rtol, atol=atol
            ):
                raise GradcheckError(
                    f"Jacobian mismatch for output {i} with respect to input "
                    f"{number},\nnumerical:{want[i]}\nanalytical:{have}\n"
                )
    return True


def _or_false(check, raise_exception):
    try:
        return check()
    except GradcheckError:
        if raise_exception:
            raise
        return False


def _only_backwards(**modes):
    asked = [name for name, on in modes.items() if on]
    if asked:
        raise NotImplementedError(
            f"{asked[0]}=True is not there: gradients are checked by backward(), one after the "
            "other; leave it out"
        )


def gradcheck(
    func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
    check_undefined_grad=True, check_grad_dtypes=False,
    check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
    check_backward_ad=True, fast_mode=False, masked=None,
):  # fmt: skip
    """True if the gradients of func (*inputs), by autograd, are those of differences; else
    GradcheckError, or False.

    inputs: those that require grad should be of float64.  eps: the step; atol, rtol: how far apart
    the two may be; nondet_tol: and two backwards.  check_undefined_grad, check_grad_dtypes, masked
    and fast_mode are accepted, and change nothing: all is checked, element by element.  Errors:
    NotImplementedError for check_batched_grad, check_batched_forward_grad and check_forward_ad;
    check_backward_ad=False leaves nothing to check.
    """
    _only_backwards(
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad,
        check_forward_ad=check_forward_ad,
    )
    if not check_backward_ad:
        return True
    return _or_false(lambda: _compare(func, inputs, eps, atol, rtol, nondet_tol), raise_exception)


def gradgradcheck(
    func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3,
    gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0,
    check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
    check_fwd_over_rev=False, check_rev_over_rev=True,
    fast_mode=False, masked=False,
):  # fmt: skip
    """gradcheck of the gradients themselves.  grad_outputs: what they are begun with; None: numbers
    of a generator of its own."""
    _only_backwards(check_batched_grad=check_batched_grad, check_fwd_over_rev=check_fwd_over_rev)
    if not check_rev_over_rev:
        return True
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = list(_results(func, inputs).values())
    if grad_outputs is None:
        dice = gramme.Generator().manual_seed(0)
        grad_outputs = [
            gramme.randn(y.shape, dtype=y.dtype, generator=dice).requires_grad_() for y in outputs
        ]
    starts = _tensors(grad_outputs)
    n = len(inputs)

    def start_of(x, like):
        """x itself where it has a history; moved by a step it has none."""
        moved = isinstance(x, Tensor) and like.requires_grad and not x.requires_grad
        return x.detach().requires_grad_() if moved else x

    def gradients(*args):
        with enable_grad():
            own = tuple(start_of(x, like) for x, like in zip(args[:n], inputs))
            sources = [x for x in own if isinstance(x, Tensor) and x.requires_grad]
            results = list(_results(func, own).values())
            found = grad(results, sources, list(args[n:]), create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return _or_false(
        lambda: _compare(gradients, inputs + tuple(starts), eps, atol, rtol, nondet_tol),
        raise_exception,
    )
