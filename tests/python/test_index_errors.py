# SPDX-License-Identifier: Apache-2.0
"""An index among a tensor's elements that is out of bounds: RuntimeError or IndexError, as torch
2.13 has it on the CPU for each function."""

import pytest

import gramme as G

F = G.nn.functional
X = G.arange(6.0).reshape(2, 3)


def i(*values):
    return G.tensor(values)


RUNTIME = {
    "gather": lambda x: G.gather(x, 1, i([5])),
    "gather below": lambda x: x.gather(1, i([-1])),
    "gather of int32": lambda x: G.gather(x, 1, i([5]).to(G.int32)),
    "scatter": lambda x: x.scatter(1, i([5]), 1.0),
    "scatter_": lambda x: x.clone().scatter_(1, i([5]), x),
    "scatter with add": lambda x: x.scatter(1, i([5]), x, reduce="add"),
    "scatter_add": lambda x: x.scatter_add(1, i([5]), x),
    "scatter_add_": lambda x: x.clone().scatter_add_(1, i([5]), x),
    "scatter_reduce": lambda x: x.scatter_reduce(1, i([5]), x, "amax"),
    "index_select": lambda x: x.index_select(1, i(5)),
    "index_select below": lambda x: G.index_select(x, 1, i(-1)),
    "index_add": lambda x: x.index_add(1, i(5), x[:, :1]),
    "index_add_": lambda x: x.clone().index_add_(1, i(5), x[:, :1]),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, i(7, 1)),
    "embedding_bag": lambda x: F.embedding_bag(i(7), x, i(0)),
    "embedding_bag below": lambda x: F.embedding_bag(i(-1), x, i(0), mode="sum"),
    "embedding_bag of rows": lambda x: F.embedding_bag(i([0, 7]), x, mode="max"),
    "max_unpool1d": lambda x: F.max_unpool1d(x[:1].reshape(1, 1, 3), i([[0, 2, 99]]), 2),
    "max_unpool2d": lambda x: F.max_unpool2d(
        x.reshape(1, 1, 2, 3), i([[[0, 2, 99], [0, 0, 0]]]), 2
    ),
    "masked_scatter": lambda x: x.masked_scatter(G.ones(2, 3, dtype=G.bool), G.ones(2)),
}

INDEX = {
    "a list of positions": lambda x: x[i(5)],
    "positions below": lambda x: x[:, i(-5)],
    "pairs of positions": lambda x: x[i(0), i(7)],
    "a number": lambda x: x[9],
    "setitem": lambda x: x.clone().__setitem__(i(5), 1.0),
    "index_put": lambda x: x.index_put((i(5),), G.tensor(1.0)),
    "index_copy": lambda x: x.index_copy(1, i(5), x[:, :1]),
    "index_fill": lambda x: x.index_fill(1, i(5), 1.0),
    "take": lambda x: x.take(i(50)),
    "put_": lambda x: x.clone().put_(i(50), G.tensor([1.0])),
    "embedding": lambda x: F.embedding(i(7), x),
    "nll_loss": lambda x: F.nll_loss(x, i(7, 1)),
    "cross_entropy": lambda x: F.cross_entropy(x, i(7, 1)),
    "an index with two dimensions": lambda x: x.index_select(1, i([0], [0])),
    "a dimension that there is not": lambda x: x.gather(7, i([0])),
}


@pytest.mark.parametrize("how", ["plain", "eager", "tcc"])
@pytest.mark.parametrize(
    "want, name",
    [(RuntimeError, name) for name in RUNTIME] + [(IndexError, name) for name in INDEX],
)
def test_an_index_out_of_bounds_is_the_error_that_torch_has_for_the_function(want, name, how):
    fn = {**RUNTIME, **INDEX}[name]
    if how == "tcc" and "tcc" not in G.compiler.list_backends():
        pytest.skip("no back end tcc")
    with pytest.raises((RuntimeError, IndexError)) as caught:
        (fn if how == "plain" else G.compile(fn, backend=how))(X)
    assert caught.type is want


class Fails(G.autograd.Function):
    """A function whose backward does what `how` says."""

    how = None

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, d):
        return d + Fails.how(d).sum() * 0


class FailsUnread(Fails):
    @staticmethod
    def backward(ctx, d):
        Fails.how(d * 1)
        return d * 1


# index_select is behind x[i], embedding and index_select(): the class cannot be the operation's.
@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize(
    "of", [Fails, FailsUnread], ids=["a result that is read", "a result that is not"]
)
@pytest.mark.parametrize(
    "want, name",
    [
        (RuntimeError, name)
        for name in (
            "gather",
            "scatter",
            "scatter_add",
            "index_select",
            "index_add",
            "embedding_bag",
        )
    ]
    + [
        (IndexError, name)
        for name in (
            "a list of positions",
            "pairs of positions",
            "embedding",
            "nll_loss",
            "index_fill",
            "take",
        )
    ],
)
def test_an_index_out_of_bounds_in_a_recorded_backward_is_the_error_of_its_function(
    want, name, of, backend
):
    if backend not in G.compiler.list_backends():
        pytest.skip("no back end " + backend)
    G._dynamo.reset()
    Fails.how = {**RUNTIME, **INDEX}[name]
    said = []
    for run in (of.apply, G.compile(lambda x: of.apply(x), backend=backend)):
        x = G.arange(6.0).reshape(2, 3).requires_grad_()
        y = run(x)
        with pytest.raises((RuntimeError, IndexError)) as caught:
            y.sum().backward()
        assert caught.type is want and x.grad is None
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_equal_operations_of_functions_with_two_classes_stay_apart():
    def both(x):
        return x[G.tensor([9])], x.index_select(0, G.tensor([9]))

    class Ordered(G.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, d):
            a, b = both(d)
            return d + (b if Ordered.second_first else a) * 0

    for Ordered.second_first in (False, True):
        G._dynamo.reset()
        x = G.ones(3, requires_grad=True)
        with pytest.raises(IndexError):  # the first that plain Python computes
            G.compile(lambda x: Ordered.apply(x), backend="eager")(x).sum().backward()


class ByIndex(G.autograd.Function):
    how = None

    @staticmethod
    def forward(ctx, x, index):
        ctx.save_for_backward(x, index)
        return x * 2

    @staticmethod
    def backward(ctx, d):
        return d * 2 + ByIndex.how(*ctx.saved_tensors).sum(), None


BY_INDEX = {
    "gather": (lambda a, j: a.gather(0, j), RuntimeError),
    "index_select": (lambda a, j: a.index_select(0, j), RuntimeError),
    "a subscript": (lambda a, j: a[j], IndexError),
    "scatter": (lambda a, j: a.scatter(0, j, a[:1]), RuntimeError),
    "index_add": (lambda a, j: a.index_add(0, j, a[:1]), RuntimeError),
    "take": (lambda a, j: a.take(j), IndexError),
}


@pytest.mark.filterwarnings("error::gramme.compiler.GraphBreakWarning")
@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("name", BY_INDEX)
def test_an_index_of_the_call_fails_in_the_backward_itself(name, backend):
    G._dynamo.reset()
    ByIndex.how, want = BY_INDEX[name]
    x = G.ones(3, requires_grad=True)
    y = G.compile(lambda x, j: ByIndex.apply(x, j), backend=backend)(x, G.tensor([9]))
    with pytest.raises((RuntimeError, IndexError)) as caught:
        y.sum().backward()
    assert caught.type is want and x.grad is None
