# SPDX-License-Identifier: Apache-2.0
"""Each operator that takes functions inside each other one: values and gradients of plain Python,
in eager and on each back end.

An operator is written here twice: with the operator, and as the Python that it stands for.  Both
take a function from tensors to tensors of the same shape, so they can be put into each other in any
order, and nothing in them knows how many dimensions there are.
GM_NESTED: how many random towers of three to five operators are tried for each back end.
"""

import itertools
import os
import random
import warnings

import pytest

import gramme as G
from gramme.higher_order import associative_scan, cond, invoke_subgraph, map, scan, while_loop
from gramme.utils.checkpoint import checkpoint
from stress import FORCED

N = int(os.environ.get("GM_NESTED", "6"))
FIRST = int(os.environ.get("GM_NESTED_FROM", "0"))
BACKENDS = [name for name in ("eager", "tcc", "cc") if name in G.compiler.list_backends()]

# What the functions read around them: found anew in each call of program().
W = [None]


def cond_op(inner):
    return lambda x: cond(
        x.sum() > 0.1, lambda x: inner(x) * W[0], lambda x: {"y": inner(x + 0.5)}["y"].sin(), (x,)
    )


def cond_py(inner):
    return lambda x: inner(x) * W[0] if x.sum() > 0.1 else inner(x + 0.5).sin()


def while_op(inner):
    return lambda x: while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, inner(x).tanh() * 0.75 + W[0]), (G.tensor(0), x)
    )[1]


def while_py(inner):
    def f(x):
        for _ in range(3):
            x = inner(x).tanh() * 0.75 + W[0]
        return x

    return f


def scan_op(inner):
    def f(x):
        carry, ys = scan(
            lambda c, s: ({"a": inner(c["a"]).sin() * s}, [c["a"] - s]),
            {"a": x},
            G.stack([x, x * 0.5]),
        )
        return carry["a"] + ys[0].sum(0)

    return f


def scan_py(inner):
    def f(x):
        c, ys = x, []
        for s in (x, x * 0.5):
            c, y = inner(c).sin() * s, c - s
            ys.append(y)
        return c + G.stack(ys).sum(0)

    return f


def map_op(inner):
    return lambda x: map(lambda s: inner(s) + W[0], G.stack([x, x.cos()])).sum(0)


def map_py(inner):
    return lambda x: G.stack([inner(s) + W[0] for s in (x, x.cos())]).sum(0)


def prefix_op(inner):
    return lambda x: associative_scan(lambda a, b: inner(a) * 0.5 + b, G.stack([x, x * 0.25])).sum(
        0
    )


def prefix_py(inner):
    return lambda x: G.stack([x, inner(x) * 0.5 + x * 0.25]).sum(0)


def checkpoint_op(inner):
    return lambda x: checkpoint(lambda x: inner(x).tanh() * W[0], x, use_reentrant=False)


def checkpoint_py(inner):
    return lambda x: inner(x).tanh() * W[0]


def subgraph_op(inner):
    return lambda x: invoke_subgraph(lambda x: inner(x * 0.5) + W[0], x)


def subgraph_py(inner):
    return lambda x: inner(x * 0.5) + W[0]


OPERATORS = {
    "cond": (cond_op, cond_py),
    "while_loop": (while_op, while_py),
    "scan": (scan_op, scan_py),
    "map": (map_op, map_py),
    "associative_scan": (prefix_op, prefix_py),
    "checkpoint": (checkpoint_op, checkpoint_py),
    "invoke_subgraph": (subgraph_op, subgraph_py),
}


class Clipped(G.autograd.Function):
    """sin, with a gradient that is not its own: who differentiates forward instead is found out."""

    @staticmethod
    def forward(ctx, x, w):
        y = x.sin() * w
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return (grad * x.cos()).clamp(-0.5, 0.5) + y * 0.125, (grad * 0.75).reshape(
            -1, x.shape[-1]
        ).sum(0)


def drawing(x):
    return (
        G.nn.functional.dropout(x.tanh() * W[0], 0.25)
        + x * G.rand(x.shape[-1:])
        + G.randn_like(x) * 0.125
    )


LEAVES = {
    "plain": lambda x: x.tanh() * W[0] + x,
    "drawing": drawing,
    "function": lambda x: Clipped.apply(x, W[0]) + x,
    "both": lambda x: Clipped.apply(drawing(x), W[0]),
}


def tower(names, which, leaf):
    """The operators around a leaf, the first one outside.  which: 0 the operators, 1 plain
    Python."""
    f = LEAVES[leaf]
    for name in reversed(names):
        f = OPERATORS[name][which](f)
    return f


def outcome(f, start):
    """The value, where the generator stands, and the gradients of the input and of what was read
    around, as lists."""
    x, w = G.tensor(start, requires_grad=True), G.tensor([0.5, -1.25, 0.75], requires_grad=True)
    W[0] = w
    G.manual_seed(7)
    y = f(x)
    (y * y).sum().backward()
    return [y.detach().numpy(), G.get_rng_state().numpy(), x.grad.numpy(), w.grad.numpy()]


# Both branches of a cond; then a size that changes, so that the last two are served by one entry.
STARTS = (
    [0.5, 0.25, 1.5],
    [-0.75, 0.5, -1.0],
    *([[0.5 - 0.25 * i, 0.125 * i, -1.0] for i in range(n)] for n in (2, 5, 4)),
)


def compare(names, leaf, backend):
    G.compiler.reset()  # the functions of all programs share their code
    program, python = tower(names, 0, leaf), tower(names, 1, leaf)
    compiled = G.compile(program, backend=backend, fullgraph=True)
    for start in STARTS:
        want, eager, have = (
            outcome(python, start),
            outcome(program, start),
            outcome(compiled, start),
        )
        assert [v.tobytes() for v in want[:2]] == [v.tobytes() for v in have[:2]], (
            names,
            leaf,
            start,
            want,
            have,
        )
        for a, b, c in zip(want, eager, have):
            assert abs(a - c).max() <= 1e-3 * max(1, abs(a).max()), (
                names,
                leaf,
                start,
                want,
                have,
            )  # gradients are summed in another order
            assert b.tobytes() == c.tobytes(), (names, leaf, start, eager, have)
    assert FORCED or compiled.status()["graphs"] <= 3, (
        names,
        leaf,
    )  # one dimension, two, and two of any size


# The C compiler takes most of the time: it gets each operator in itself and in the next one.
SHORT = [
    (a, b)
    for a, b in itertools.product(OPERATORS, OPERATORS)
    if (list(OPERATORS).index(b) - list(OPERATORS).index(a)) % len(OPERATORS) < 2
]


@pytest.mark.parametrize(
    "names, backend",
    [
        (names, b)
        for b in BACKENDS
        for names in (SHORT if b == "cc" else itertools.product(OPERATORS, OPERATORS))
    ],
    ids=lambda v: v if isinstance(v, str) else " in ".join(v),
)
def test_each_operator_in_each_other_one(names, backend):
    warnings.simplefilter("error")
    leaf = sum(list(OPERATORS).index(name) for name in names) % len(LEAVES)
    compare(names[::-1], list(LEAVES)[leaf], backend)


@pytest.mark.parametrize("leaf", ["drawing", "function"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_draws_and_brings_gradients(name, backend, leaf):
    warnings.simplefilter("error")
    compare((name,), leaf, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_towers_of_operators(backend):
    warnings.simplefilter("error")
    for seed in range(FIRST, FIRST + (N // 4 + 1 if backend == "cc" else N)):
        dice = random.Random(seed)
        names = tuple(dice.choice(list(OPERATORS)) for _ in range(dice.randint(3, 5)))
        compare(names, dice.choice(list(LEAVES)), backend)
