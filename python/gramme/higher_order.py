# SPDX-License-Identifier: Apache-2.0
"""Control flow that stays in the graph: cond, while_loop, scan, map, associative_scan,
invoke_subgraph.

A Python `if` or loop over a tensor's value breaks a graph; these do not.  They take functions,
which become graphs of their own and are run as the data says, forward and backward.  Such a
function may read whatever is around it, parameters too.  What it changes outside of itself has to
be the same in all branches and happens once; a loop's function changes nothing.

Values are tensors, in tuples, lists, named tuples and dicts, with None and constants between them.
Outside of a compiled function these functions compile themselves, for the back end "eager", and
raise gramme.compiler.Unsupported where that cannot be.
"""

from gramme import _core

__all__ = [
    "associative_scan",
    "cond",
    "invoke_subgraph",
    "map",
    "nested_compile_region",
    "scan",
    "while_loop",
]


# -- Trees: a value as its tensors, and a spec, made of constants, that says how they make it up


def _flatten(value, leaves):
    """Appends the tensors of value to leaves; the spec is "*" for a tensor."""
    if isinstance(value, _core.Tensor):
        leaves.append(value)
        return "*"
    kind = type(value)
    if kind is tuple or kind is list:
        return (kind.__name__,) + tuple([_flatten(v, leaves) for v in value])
    if kind is dict:
        return ("dict", tuple(value)) + tuple([_flatten(v, leaves) for v in value.values()])
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return ("namedtuple", kind.__name__) + tuple([_flatten(v, leaves) for v in value])
    if value is None or kind in (bool, int, float, str):
        return ("=", value)
    raise TypeError(
        "functions of cond, while_loop and scan take and return tensors in tuples, lists and "
        f"dicts, not {kind.__name__}"
    )


def _unflatten(spec, leaves, like=None):
    """The value again.  leaves: an iterator over its tensors; like: a value with the named tuples
    that it should have."""
    if spec == "*":
        return next(leaves)
    kind = spec[0]
    if kind == "=":
        return spec[1]
    if kind == "dict":
        return {k: _unflatten(s, leaves, like and like[k]) for k, s in zip(spec[1], spec[2:])}
    if kind == "list":
        return [_unflatten(s, leaves, like and like[i]) for i, s in enumerate(spec[1:])]
    if kind == "tuple":
        return tuple([_unflatten(s, leaves, like and like[i]) for i, s in enumerate(spec[1:])])
    items = [_unflatten(s, leaves, like and like[i]) for i, s in enumerate(spec[2:])]
    return type(like)(*items) if like is not None else tuple(items)


def _pack(value):
    leaves = []
    spec = _flatten(value, leaves)
    return spec, tuple(leaves)


def _leaves(value, what):
    leaves = []
    spec = _flatten(value, leaves)
    if not leaves:
        raise ValueError(f"{what} has no tensor in it")
    return spec, leaves


# -- Outside of compiled functions

_compiled = {}  # the code of the user's functions -> a function compiled for them
_N_COMPILED = 256
_N_KINDS = 8  # of calls, until they are forgotten


def _call(op, functions, operands, n_carried, n_mapped, reverse):
    return _core.higher_order(op, functions, operands, n_carried, n_mapped, reverse)


def _users(body):
    """The code of what the user gave, which is what a body calls."""
    fn = body.__closure__[body.__code__.co_freevars.index("fn")].cell_contents
    return getattr(fn, "__code__", type(fn))


def _eagerly(op, functions, operands, n_carried, n_mapped, reverse):
    """What _core.higher_order does when Python calls it."""
    from gramme import compile

    key = (op, tuple([_users(f) for f in functions]))
    compiled = _compiled.pop(key, None)
    if (
        compiled is None or compiled.status()["graphs"] >= _N_KINDS
    ):  # the recompile limit is for loops that nobody sees
        own = type(_call)(
            _call.__code__.replace(), _call.__globals__, _call.__name__
        )  # entries live on code
        compiled = compile(own, backend="eager", fullgraph=True)
        while len(_compiled) >= _N_COMPILED:
            del _compiled[next(iter(_compiled))]
    _compiled[key] = compiled
    return _core.call_always(compiled, op, functions, operands, n_carried, n_mapped, reverse)


# -- The operators


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) if pred else false_fn(*operands); both are captured, one is run, as pred
    says when it is called.

    pred: a tensor with one element, or a Python bool, which chooses while the function is recorded.
    Both functions return values of one structure, whose tensors have the same shapes, strides,
    dtypes and requires_grad; results are new tensors.  Gradients flow to operands and to whatever
    else the functions read.
    """
    if not callable(true_fn) or not callable(false_fn):
        raise TypeError("cond: true_fn and false_fn must be callable")
    if not isinstance(operands, (tuple, list)):
        raise TypeError(f"cond: operands must be a tuple or list, not {type(operands).__name__}")
    if not isinstance(pred, _core.Tensor):
        if not isinstance(pred, (bool, int, float)):
            raise TypeError(
                f"cond: pred must be a tensor with one element or a bool, not {type(pred).__name__}"
            )
        return true_fn(*operands) if pred else false_fn(*operands)
    if pred.numel() != 1:
        raise ValueError(f"cond: pred must have one element, but has the shape {tuple(pred.shape)}")

    def body_of(fn):
        def body():
            return _pack(fn(*operands))

        return body

    spec, results = _core.higher_order(
        "cond", (body_of(true_fn), body_of(false_fn)), (pred,), 0, 0, False
    )
    return _unflatten(spec, iter(results))


def while_loop(cond_fn, body_fn, carried_inputs, additional_inputs=()):
    """carried = body_fn(*carried) as long as cond_fn(*carried) is true; returns what is carried in
    the end.

    carried_inputs: a tuple of tensors, or of trees of them; body_fn returns a tuple like it, of the
    same shapes and dtypes. cond_fn returns a bool tensor with one element.  additional_inputs are
    passed behind, unchanged. The gradient runs the loop once more and keeps what each step began
    with, so its memory grows with the number of steps.
    """
    if not isinstance(carried_inputs, (tuple, list)):
        raise TypeError(
            f"while_loop: carried_inputs must be a tuple, not {type(carried_inputs).__name__}"
        )
    carried, additional = tuple(carried_inputs), tuple(additional_inputs)
    spec, leaves = _leaves(carried, "while_loop: carried_inputs")

    def test_of(fn):
        def test(*flat):
            result = fn(*_unflatten(spec, iter(flat), carried), *additional)
            if not isinstance(result, _core.Tensor):
                raise TypeError(
                    "while_loop: cond_fn must return a tensor of dtype bool, not "
                    f"{type(result).__name__}"
                )
            return _pack(result.reshape(()) if result.numel() == 1 else result)

        return test

    def body_of(fn):
        def body(*flat):
            result = fn(*_unflatten(spec, iter(flat), carried), *additional)
            result_spec, results = _pack(
                tuple(result) if isinstance(result, (tuple, list)) else (result,)
            )
            if result_spec != spec:
                raise TypeError(
                    f"while_loop: body_fn returns {result_spec}, but is given {spec} (* is a "
                    "tensor)"
                )
            return result_spec, results

        return body

    results = _core.higher_order(
        "while_loop", (test_of(cond_fn), body_of(body_fn)), tuple(leaves), len(leaves), 0, False
    )[1]
    return _unflatten(spec, iter(results), carried)


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """carry, y = combine_fn(carry, x) for each slice x of xs along dim; returns (carry, ys) with
    the ys stacked along dimension 0.

    init, xs: trees of tensors; those of xs have one length in dim.  combine_fn returns a carry of
    the same structure, shapes and dtypes, and a tree of tensors.  reverse: from the last slice to
    the first; ys stay in the order of xs.
    """
    carried = []
    init_spec = _flatten(init, carried)
    xs_spec, mapped = _leaves(xs, "scan: xs")
    mapped = [x.movedim(dim, 0) if dim else x for x in mapped]
    n = len(carried)

    def body_of(fn):
        def body(*flat):
            result = fn(
                _unflatten(init_spec, iter(flat[:n]), init), _unflatten(xs_spec, iter(flat[n:]), xs)
            )
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError("scan: combine_fn must return (carry, y)")
            carry_spec, carry = _pack(result[0])
            if carry_spec != init_spec:
                raise TypeError(
                    f"scan: combine_fn carries {carry_spec} on, but is given {init_spec} (* is a "
                    "tensor)"
                )
            y_spec, y = _pack(result[1])
            return y_spec, carry + y

        return body

    y_spec, results = _core.higher_order(
        "scan", (body_of(combine_fn),), tuple(carried + mapped), n, len(mapped), reverse
    )
    return _unflatten(init_spec, iter(results[:n]), init), _unflatten(y_spec, iter(results[n:]))


def map(f, xs, *args):
    """f(x, *args) for each slice x of xs along dimension 0, the results stacked there.  xs: a tree
    of tensors of one length."""

    def step(carry, x):
        return (), f(x, *args)

    return scan(step, (), xs)[1]


def associative_scan(combine_fn, xs, dim=0, reverse=False, combine_mode="pointwise"):
    """All prefixes of xs along dim, combined: y[0] = x[0], y[i] = combine_fn(y[i - 1], x[i]), in
    log2(n) steps.

    xs: a tree of tensors of one shape in dim; combine_fn is associative and works element by
    element, so that it can be given many slices at once.  The order in which elements are combined
    is a tree's (Blelloch, "Prefix sums and their applications", 1990), so floating point results
    may differ in rounding from a loop's.
    """
    if combine_mode != "pointwise":
        raise ValueError(
            f"associative_scan: combine_mode {combine_mode!r} is not supported, only 'pointwise'"
        )
    spec, leaves = _leaves(xs, "associative_scan: xs")
    leaves = [x.movedim(dim, 0) if dim else x for x in leaves]
    if reverse:
        leaves = [x.flip(0) for x in leaves]

    n = len(leaves)

    def body_of(fn):
        def body(*flat):
            result_spec, result = _pack(
                fn(_unflatten(spec, iter(flat[:n]), xs), _unflatten(spec, iter(flat[n:]), xs))
            )
            if result_spec != spec:
                raise TypeError(
                    f"associative_scan: combine_fn returns {result_spec}, but is given {spec} (* "
                    "is a tensor)"
                )
            return result_spec, result

        return body

    body = body_of(combine_fn)
    if _core.is_symbolic(leaves[0].shape[0]):  # the levels below would fix it
        results = _core.higher_order("associative_scan", (body,), tuple(leaves), 0, n, False)[1]
    elif leaves[0].shape[0] < 2:
        from gramme import cat

        none = [
            x[:0] for x in leaves
        ]  # combined for what the results depend on, which is the same for all lengths
        results = [cat([x, y]) for x, y in zip(leaves, body(*none, *none)[1])]
    else:
        results = _prefixes(lambda a, b: body(*a, *b)[1], [_apart(x) for x in leaves])
    if reverse:
        results = [x.flip(0) for x in results]
    return _unflatten(spec, iter([x.movedim(0, dim) if dim else x for x in results]), xs)


def _apart(x):
    """x as a value of its own: the gradients of its uses are added up before they join those of x,
    as they are where a body has it."""
    return x.unsqueeze(0)[0]


def _prefixes(combine, xs):
    """As core/graph/prefixes.c does it for all lengths."""
    n = xs[0].shape[0]
    if n < 2:
        return xs
    pairs = combine([x[0 : n - 1 : 2] for x in xs], [x[1::2] for x in xs])
    odd = _prefixes(combine, pairs)  # y[1], y[3] ...
    from gramme import cat, stack

    even = [x[:1] for x in xs]
    if n > 2:
        k = (n + 1) // 2 - 1
        rest = combine([_apart(y)[:k] for y in odd], [x[2::2] for x in xs])
        even = [cat([a, b]) for a, b in zip(even, rest)]
    result = []
    for a, b in zip(even, odd):
        m = b.shape[0]
        both = stack([a[:m], b], 1).reshape(2 * m, *b.shape[1:])
        result.append(both if n == 2 * m else cat([both, a[m:]]))
    return result


def invoke_subgraph(fn, *operands):
    """fn(*operands) as a graph of its own, which back ends compile by itself."""

    def body_of(fn):
        def body():
            return _pack(fn(*operands))

        return body

    spec, results = _core.higher_order("invoke_subgraph", (body_of(fn),), (), 0, 0, False)
    return _unflatten(spec, iter(results))


def nested_compile_region(fn):
    """Decorator: calls of fn in compiled functions go through invoke_subgraph."""

    def region(*args):
        return invoke_subgraph(fn, *args)

    region.__name__, region.__doc__ = getattr(fn, "__name__", "region"), fn.__doc__
    return region
