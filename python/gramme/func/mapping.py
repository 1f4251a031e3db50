# SPDX-License-Identifier: Apache-2.0
"""vmap: a function of one example as a function of a batch.

The function is called for each example, and the results are stacked.  That is sound for every
function, inside and outside of grad(), jacrev() and gramme.compile, and it costs what the calls
cost: a batch of n is n calls, and compiled n copies of the function in one graph.  Rejected for
now: running the function once on tensors that hide a dimension, which needs a rule for each
operator.
"""

import gramme
from gramme._core import (
    Tensor,
    fence_lower,
    fence_raise,
    get_rng_state,
    refuse_draws,
    set_rng_state,
)
from gramme.higher_order import _flatten, _unflatten


def _dims_of(value, dims, name):
    """(leaves, spec, the batch dimension or None of each leaf); dims: one for all, or in the
    structure of value."""
    leaves = []
    spec = _flatten(value, leaves)
    found = []

    def walk(part, dim):
        if isinstance(part, Tensor):
            if dim is not None and not (isinstance(dim, int) and -part.dim() <= dim < part.dim()):
                raise ValueError(
                    f"vmap(): {name} has {dim!r} for a tensor of {part.dim()} dimensions"
                )
            found.append(None if dim is None else dim % part.dim())
        elif isinstance(part, (tuple, list, dict)):
            items = list(part.values()) if isinstance(part, dict) else list(part)
            each = (
                list(dim.values())
                if isinstance(dim, dict)
                else list(dim)
                if isinstance(dim, (tuple, list))
                else [dim] * len(items)
            )
            if len(each) != len(items):
                raise ValueError(f"vmap(): {name} has {len(each)} entries for {len(items)} values")
            for item, d in zip(items, each):
                walk(item, d)

    walk(value, dims)
    return leaves, spec, found


def _stacked(results, out_dims):
    """Results of equal structure as one, stacked."""
    specs, columns = [], []
    for result in results:
        leaves = []
        specs.append(_flatten(result, leaves))
        columns.append(leaves)
    if any([spec != specs[0] for spec in specs]):
        raise RuntimeError(
            "vmap(): the function returns values of different structure for different examples"
        )
    if isinstance(results[0], Tensor):
        dims = [out_dims]
    elif isinstance(out_dims, (tuple, list)):
        parts = list(results[0])
        if len(out_dims) != len(parts):
            raise ValueError(
                f"vmap(): out_dims has {len(out_dims)} entries for {len(parts)} results"
            )
        dims = []
        for part, dim in zip(parts, out_dims):
            inside = []
            _flatten(part, inside)
            dims += [dim] * len(inside)
    else:
        dims = [out_dims] * len(columns[0])
    joined = []
    for dim, *values in zip(dims, *columns):
        if dim is None:
            if not all(
                [value is values[0] or gramme.equal(value, values[0]) for value in values[1:]]
            ):
                raise ValueError(
                    "vmap(): out_dims is None for a result that differs between the examples"
                )
            joined.append(values[0])
        else:
            joined.append(gramme.stack(values, dim if dim >= 0 else dim + values[0].dim() + 1))
    return _unflatten(specs[0], iter(joined), results[0])


def _emptied(result, out_dims):
    """What a batch of no example gives, of the result for one."""
    stacked = _stacked([result], out_dims)
    leaves = []
    spec = _flatten(stacked, leaves)
    dims = _dims_of(
        stacked, tuple(out_dims) if isinstance(out_dims, (tuple, list)) else out_dims, "out_dims"
    )[2]
    return _unflatten(
        spec, iter([x if d is None else x.narrow(d, 0, 0) for x, d in zip(leaves, dims)]), stacked
    )


class _Refusing:
    """With `refuse`, functions that draw random numbers raise RuntimeError inside of the block."""

    def __init__(self, refuse):
        self._refuse = refuse

    def __enter__(self):
        self._before = refuse_draws(True) if self._refuse else None

    def __exit__(self, *exception):
        if self._refuse:
            refuse_draws(self._before)


def _example(leaves, dims, i):
    """Example i: each leaf, and the leaves that are its own, which it may write to in place."""
    one = [x if d is None else x.select(d, i) for x, d in zip(leaves, dims)]
    return one, [x for x, d in zip(one, dims) if d is not None]


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function of batches that calls func for each example and stacks what it returns.

    in_dims: the batch's dimension in each argument, None for one that all examples share; a number
    for all, or in the arguments' structure.
    out_dims: where it is in the results.  randomness: "different" draws anew for each example,
    "same" gives all the same numbers, "error" refuses to draw (in a compiled function "same" is a
    graph break).  chunk_size is taken, and has no effect: examples are computed one after the
    other.  Arguments by keyword have the batch in dimension 0.  The time is that of the calls.  A
    batch of no example runs the function once, on zeros, for the shapes of what it returns.
    Errors: RuntimeError if the function writes in place to a tensor that all examples share: an
    argument whose dimension is None, or a tensor that is older than the call of the function,
    however it is reached; nothing is written then.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"vmap(): randomness is 'error', 'different' or 'same', not {randomness!r}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap(): chunk_size is None or positive, not {chunk_size}")

    def wrapper(*args, **kwargs):
        if isinstance(in_dims, (tuple, list)) and len(in_dims) != len(args):
            raise ValueError(
                f"vmap(): in_dims has {len(in_dims)} entries, and the function got {len(args)} "
                "arguments"
            )
        leaves, spec, dims = _dims_of(
            args, tuple(in_dims) if isinstance(in_dims, (tuple, list)) else in_dims, "in_dims"
        )
        named, named_spec, named_dims = _dims_of(kwargs, 0, "a keyword")
        sizes = {x.shape[d] for x, d in zip(leaves + named, dims + named_dims) if d is not None}
        if len(sizes) != 1:
            raise ValueError(
                "vmap(): no argument has a batch"
                if not sizes
                else f"vmap(): batches of different sizes: {sorted(sizes)}"
            )
        (n,) = sizes
        if n == 0:
            leaves, named = [
                [x if d is None else x.sum(d, keepdim=True) for x, d in zip(*part)]
                for part in ((leaves, dims), (named, named_dims))
            ]
        start = get_rng_state() if randomness == "same" else None
        results = []
        with _Refusing(randomness == "error"):
            for i in range(max(n, 1)):
                one, own = _example(leaves, dims, i)
                keys, own_keys = _example(named, named_dims, i)
                one, keys = _unflatten(spec, iter(one), args), _unflatten(
                    named_spec, iter(keys), kwargs
                )
                if i and randomness == "same":
                    set_rng_state(start)
                fence_raise((*own, *own_keys))
                try:
                    result = func(*one, **keys)
                finally:
                    fence_lower()
                results.append(result)
        return _stacked(results, out_dims) if n else _emptied(results[0], out_dims)

    return wrapper
