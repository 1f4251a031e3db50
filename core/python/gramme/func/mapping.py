# SPDX-License-Identifier: Apache-2.0
"""vmap: a function of one example as a function of a batch.

The function is called for each example, and the results are stacked.  That is sound for every function, inside and outside of grad(), jacrev() and
gramme.compile, and it costs what the calls cost: a batch of n is n calls, and compiled n copies of the function in one graph.  Rejected for
now: running the function once on tensors that hide a dimension, which needs a rule for each operator.
"""

import gramme
from gramme._core import Tensor, get_rng_state, set_rng_state
from gramme.higher_order import _flatten, _unflatten


def _dims_of(value, dims, name):
    """(leaves, spec, the batch dimension or None of each leaf); dims: one for all, or in the structure of value."""
    leaves = []
    spec = _flatten(value, leaves)
    found = []

    def walk(part, dim):
        if isinstance(part, Tensor):
            if dim is not None and not (isinstance(dim, int) and -part.dim() <= dim < part.dim()):
                raise ValueError(f"vmap(): {name} has {dim!r} for a tensor of {part.dim()} dimensions")
            found.append(None if dim is None else dim % part.dim())
        elif isinstance(part, (tuple, list, dict)):
            items = list(part.values()) if isinstance(part, dict) else list(part)
            each = list(dim.values()) if isinstance(dim, dict) else list(dim) if isinstance(dim, (tuple, list)) else [dim] * len(items)
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
        raise RuntimeError("vmap(): the function returns values of different structure for different examples")
    if isinstance(results[0], Tensor):
        dims = [out_dims]
    elif isinstance(out_dims, (tuple, list)):
        parts = list(results[0])
        if len(out_dims) != len(parts):
            raise ValueError(f"vmap(): out_dims has {len(out_dims)} entries for {len(parts)} results")
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
            raise ValueError("vmap(): out_dims may not be None: what is computed has the batch's dimension")
        joined.append(gramme.stack(values, dim if dim >= 0 else dim + values[0].dim() + 1))
    return _unflatten(specs[0], iter(joined), results[0])


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function of batches that calls func for each example and stacks what it returns.

    in_dims: the batch's dimension in each argument, None for one that all examples share; a number for all, or in the arguments' structure.
    out_dims: where it is in the results.  randomness: "different" draws anew for each example, "same" gives all the same numbers, "error"
    refuses to draw (which plain Python sees; in a compiled function "same" is a graph break).  chunk_size is taken, and has no effect: examples are computed one after the other.  Arguments by keyword have the
    batch in dimension 0.  The time is that of the calls.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap(): randomness is 'error', 'different' or 'same', not {randomness!r}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap(): chunk_size is None or positive, not {chunk_size}")

    def wrapper(*args, **kwargs):
        if isinstance(in_dims, (tuple, list)) and len(in_dims) != len(args):
            raise ValueError(f"vmap(): in_dims has {len(in_dims)} entries, and the function got {len(args)} arguments")
        leaves, spec, dims = _dims_of(args, tuple(in_dims) if isinstance(in_dims, (tuple, list)) else in_dims, "in_dims")
        named, named_spec, named_dims = _dims_of(kwargs, 0, "a keyword")
        sizes = {x.shape[d] for x, d in zip(leaves + named, dims + named_dims) if d is not None}
        if len(sizes) != 1:
            raise ValueError("vmap(): no argument has a batch" if not sizes else f"vmap(): batches of different sizes: {sorted(sizes)}")
        (n,) = sizes
        if n == 0:
            raise RuntimeError("vmap(): a batch without examples does not tell what the function returns")
        watched = randomness == "same" or (randomness == "error" and not gramme.compiler.is_compiling())
        start = get_rng_state() if watched else None
        results = []
        for i in range(n):
            one = _unflatten(spec, iter([x if d is None else x.select(d, i) for x, d in zip(leaves, dims)]), args)
            keys = _unflatten(named_spec, iter([x if d is None else x.select(d, i) for x, d in zip(named, named_dims)]), kwargs)
            if watched and i and randomness == "same":
                set_rng_state(start)
            results.append(func(*one, **keys))
            if watched and randomness == "error" and get_rng_state().tolist() != start.tolist():
                set_rng_state(start)
                raise RuntimeError("vmap(): the function draws random numbers: say with randomness= whether they are the 'same' or 'different'")
        return _stacked(results, out_dims)

    return wrapper
