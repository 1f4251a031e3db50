# SPDX-License-Identifier: Apache-2.0
"""Gradients that arrive with other strides than the results: what a compiled backward gives has
plain Python's elements and strides, and the backward of an autograd.Function sees what it sees
there."""

import pytest

import gramme as G
from gramme.autograd import Function

G.manual_seed(0)
N = 6

FUNCTIONS = {
    "a product": lambda a, b: a * 2,
    "exp": lambda a, b: a.exp(),
    "a sum of two": lambda a, b: a + b,
    "a product of two": lambda a, b: a * b,
    "used twice": lambda a, b: a.sin() + a,
    "a matrix product": lambda a, b: a @ b + a,
    "addmm": lambda a, b: G.addmm(a, b, b),
    "softmax": lambda a, b: a.softmax(-1),
    "cat of columns": lambda a, b: G.cat([a, b], 1)[:, :N],
    "a transpose": lambda a, b: a.t() * 1,
    "a view": lambda a, b: a.view(-1, N).t(),
    "where": lambda a, b: G.where(a > 0, a, b),
    "a sum of all": lambda a, b: (a * b).sum() + b.sum(),
    "a mean of rows": lambda a, b: a.mean(0) - b.sum(1),
    "a slice": lambda a, b: a[1:, :2] * 1 + b[1:, 1:3],
    "two results": lambda a, b: (a * b, a + b.t()),
    "one of two results": lambda a, b: (a.t() + b, b * 2)[:1],
}

LAID_OUT = {
    "as the result": lambda s: G.randn(*s),
    "transposed": lambda s: G.randn(*reversed(s)).permute(*reversed(range(len(s)))),
    "with gaps": lambda s: G.randn(*s, 2)[..., 0],
    "one element": lambda s: G.randn(1).reshape([1] * len(s)).expand(*s) if s else G.randn(()),
    "a row": lambda s: G.randn(*s[-1:]).expand(*s),
    "a column": lambda s: G.randn(*s[:1], *[1] * (len(s) - 1)).expand(*s),
}


def gradients(f, make, seed, only=None):
    G.manual_seed(seed)
    a, b = G.randn(N, N).requires_grad_(), G.randn(N, N).requires_grad_()
    y = f(a, b)
    y = y if isinstance(y, tuple) else (y,)
    found = G.autograd.grad(
        y, (a, b)[only] if only else (a, b), [make(tuple(v.shape)) for v in y], allow_unused=True
    )
    return [None if t is None else (t.tolist(), t.stride()) for t in found]


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_have_the_strides_of_plain_python(name, backend):
    if backend not in G.compiler.list_backends():
        pytest.skip("no back end " + backend)
    f = FUNCTIONS[name]
    c = G.compile(f, backend=backend)
    for seed in range(2):  # worked out, and found again
        for layout, make in LAID_OUT.items():
            assert gradients(c, make, seed) == gradients(f, make, seed), layout
            for only in (slice(0, 1), slice(1, 2)):
                assert gradients(c, make, seed, only) == gradients(f, make, seed, only), layout


def test_sizes_that_vary_have_strides_of_their_own():
    def f(a):
        return (a + 1).t(), a.sum(0)

    c = G.compile(f, backend="eager", dynamic=True)
    for n, m in ((3, 4), (5, 2), (7, 8)):
        said = []
        for run in (f, c):
            a = G.ones(n, m, requires_grad=True)
            (grad,) = G.autograd.grad(run(a), a, (G.ones(n, m).t(), G.ones(()).expand(m)))
            said.append((grad.stride(), grad.tolist()))
        assert said[0] == said[1]


def test_a_gradient_that_is_passed_on_is_the_one_that_arrived():
    def f(a, b):
        return a + b

    for run in (f, G.compile(f, backend="eager")):
        a, b = G.ones(3, 3, requires_grad=True), G.ones(3, 3, requires_grad=True)
        arrives = G.arange(9.0).reshape(3, 3).t()
        for grad in G.autograd.grad(run(a, b), (a, b), arrives):
            assert (
                grad.data_ptr() == arrives.data_ptr()
                and grad.stride() == (1, 3)
                and not grad.requires_grad
            )


def test_many_layouts_are_told_apart():
    c = G.compile(lambda a: a + 0, backend="eager")
    for _ in range(2):
        for k in range(1, 13):
            a = G.ones(2, 3, requires_grad=True)
            (grad,) = G.autograd.grad(c(a), a, G.ones(2, 3, k)[..., 0])
            assert grad.stride() == (3 * k, k)


def test_leaves_accumulate_as_in_plain_python():
    def f(a, b):
        return a + b * 2

    said = []
    for run in (f, G.compile(f, backend="eager")):
        a, b = G.ones(3, 2, requires_grad=True), G.ones(3, 2, requires_grad=True)
        for make in LAID_OUT.values():
            G.manual_seed(3)
            run(a, b).backward(make((3, 2)))
            said.append([(t.grad.tolist(), t.grad.stride()) for t in (a, b)])
    half = len(said) // 2
    assert said[:half] == said[half:]


# -- Functions that bring their gradient


class Own(Function):
    """A function whose backward does what `how` says."""

    how = None

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, d):
        return Own.how(d, *ctx.saved_tensors)


BACKWARDS = {
    "asks whether it is contiguous": lambda d, x: d * (2.0 if d.is_contiguous() else 3.0),
    "asks for a stride": lambda d, x: d * float(d.stride(0)),
    "asks for the strides of a sum": lambda d, x: d * float((d + 1).stride(-1)),
    "asks for a saved tensor's stride": lambda d, x: d * float(x.stride(0)),
    "views": lambda d, x: d.view(-1).view(4, 4) * 1.0,
    "views and multiplies": lambda d, x: (d.view(16) * G.arange(16.0)).view(4, 4),
    "reshapes": lambda d, x: (d.reshape(-1) * G.arange(16.0)).reshape(4, 4),
    "makes it contiguous and views": lambda d, x: (d.contiguous().view(-1) * G.arange(16.0)).view(
        4, 4
    ),
    "makes it contiguous": lambda d, x: d.contiguous(),
    "clones": lambda d, x: d.clone(),
    "passes it on": lambda d, x: d,
    "multiplies": lambda d, x: d * 2,
    "multiplies matrices": lambda d, x: (d @ x).view(-1).view(4, 4),
    "writes to a copy": lambda d, x: d.contiguous().mul_(2) if d.dim() else d,
    "flattens": lambda d, x: d.flatten().cumsum(0).unflatten(0, (4, 4)),
}

AROUND = {
    "alone": lambda x: Own.apply(x),
    "transposed": lambda x: Own.apply(x).t(),
    "transposed and multiplied": lambda x: Own.apply(x).t() * 1,
    "summed": lambda x: Own.apply(x).sum(),
    "summed by columns": lambda x: Own.apply(x).sum(0),
    "cut": lambda x: Own.apply(x)[:, :2],
    "a factor": lambda x: Own.apply(x).t() @ x,
    "a part of a whole": lambda x: G.cat([Own.apply(x), x], 1),
}


def own_outcome(f, make):
    x = G.arange(16.0).reshape(4, 4).requires_grad_()
    y = f(x)
    G.manual_seed(1)
    try:
        (grad,) = G.autograd.grad(y, x, make(tuple(y.shape)))
    except RuntimeError as error:
        return type(error)
    return grad.tolist(), grad.stride()


@pytest.mark.filterwarnings("ignore::gramme.compiler.GraphBreakWarning")
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("how", BACKWARDS)
def test_a_backward_of_ones_own_sees_the_strides_that_it_sees_in_plain_python(how, around):
    Own.how = BACKWARDS[how]
    G._dynamo.reset()
    f = AROUND[around]
    c = G.compile(f, backend="eager")
    for layout, make in LAID_OUT.items():
        assert own_outcome(c, make) == own_outcome(f, make), layout


@pytest.mark.parametrize(
    "how",
    ["reshapes", "makes it contiguous and views", "views", "asks for a saved tensor's stride"],
)
def test_a_backward_that_does_not_ask_for_strides_is_in_the_whole_graph(how):
    Own.how = BACKWARDS[how]
    G._dynamo.reset()
    x = G.arange(16.0).reshape(4, 4).requires_grad_()
    f = AROUND["alone"]
    c = G.compile(f, backend="eager", fullgraph=True)
    assert own_outcome(c, LAID_OUT["transposed"]) == own_outcome(f, LAID_OUT["transposed"])
    assert c(x).tolist() == f(x).tolist()


def test_a_whole_graph_refuses_a_backward_that_asks_for_strides():
    Own.how = BACKWARDS["asks for a stride"]
    G._dynamo.reset()
    with pytest.raises(Exception, match="backward asks how a gradient lies in memory"):
        G.compile(AROUND["alone"], backend="eager", fullgraph=True)(
            G.ones(4, 4, requires_grad=True)
        )
