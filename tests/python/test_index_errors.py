# SPDX-License-Identifier: Apache-2.0
"""An index among a tensor's elements that is out of bounds: RuntimeError or IndexError, as torch 2.13 has it on the CPU for each function."""

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
@pytest.mark.parametrize("want, name", [(RuntimeError, name) for name in RUNTIME] + [(IndexError, name) for name in INDEX])
def test_an_index_out_of_bounds_is_the_error_that_torch_has_for_the_function(want, name, how):
    fn = {**RUNTIME, **INDEX}[name]
    if how == "tcc" and "tcc" not in G.compiler.list_backends():
        pytest.skip("no back end tcc")
    with pytest.raises((RuntimeError, IndexError)) as caught:
        (fn if how == "plain" else G.compile(fn, backend=how))(X)
    assert caught.type is want
