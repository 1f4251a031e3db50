# SPDX-License-Identifier: Apache-2.0
"""Functions under allow_in_graph that give views of their arguments, or parts of what they make:
they are recorded as any function, without a break."""

import pytest

import gramme as G
from stress import FORCED, undisturbed

node = G.compiler.allow_in_graph
CALLS = []


@node
def split(x):
    return x.reshape(2, -1)


@node
def halves(x):
    return x[:2], x[2:]


@node
def itself(x):
    return x


@node
def column(x):
    return x.reshape(2, 2).exp()[:, :1]


@node
def reads_a_value(x):
    CALLS.append(float(x.sum()))
    return x.reshape(2, -1)


class Sum(G.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(2, 2)

    @staticmethod
    def backward(ctx, g):
        return g.reshape(4) * 3


G._dynamo.allow_in_graph(Sum)

PROGRAMS = {
    "a view": lambda x: split(x * 2).sum(1),
    "a view that is written to": lambda x: (lambda y: (split(y).mul_(3), y)[1])(x * 2),
    "a view of an argument of the whole": lambda x: split(x),
    "two parts": lambda x: sum(halves(x * 2)),
    "the argument": lambda x: itself(x * 2) + 1,
    "a part of what it makes": lambda x: column(x * 2) + 1,
    "one after another": lambda x: split(split(x).reshape(-1)),
    "a Function": lambda x: Sum.apply(x * 2) + 1,
}


def outcome(f, backward):
    x = G.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=backward)
    y = f(x)
    if backward:
        y.sum().backward()
    return (
        y.tolist(),
        y.stride(),
        y.data_ptr() == x.data_ptr(),
        x.grad if x.grad is None else x.grad.tolist(),
    )


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backward", [False, True])
def test_one_graph_and_the_values_of_plain_python(name, backward):
    f = PROGRAMS[name]
    compiled = G.compile(f, backend="eager", fullgraph=True)
    assert [outcome(compiled, backward) for _ in range(2)] == [outcome(f, backward)] * 2
    if not FORCED:
        assert G.compiler.explain(G.compile(f, backend="eager"))(G.ones(4)).graph_break_count == 0


@undisturbed
def test_one_that_cannot_be_recorded_either_is_called_as_a_whole():
    def f(x):
        return reads_a_value(x * 2).sum(1) + 1

    compiled = G.compile(f, backend="eager")
    for start in (1.0, 2.0):
        x = G.full((4,), start)
        del CALLS[:]
        want = f(x).tolist()
        assert compiled(x).tolist() == want and CALLS[-1] == CALLS[0]
    assert CALLS == [16.0, 16.0]  # no trial any more
