# SPDX-License-Identifier: Apache-2.0
"""Layers that learn their sizes from the first input, in functions that are compiled as a whole:
what plain Python makes of them, to the bit."""

import pytest

import gramme as G
from gramme import nn
from stress import counted


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LazyLinear(5)
        self.second = nn.Sequential(nn.LazyLinear(4, bias=False), nn.Tanh(), nn.LazyLinear(2))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.second(self.first(x).relu()) * self.calls


X = G.arange(24.0).reshape(4, 6) / 7
SIGNAL = G.arange(40.0).reshape(2, 4, 5) / 9
MODULES = {
    "LazyLinear": (lambda: nn.LazyLinear(3), X),
    "without bias": (lambda: nn.LazyLinear(3, bias=False), X),
    "in a row": (lambda: nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2)), X),
    "LazyBatchNorm1d": (lambda: nn.LazyBatchNorm1d(), SIGNAL),
    "behind a norm": (lambda: nn.Sequential(nn.LazyBatchNorm1d(), nn.LazyConv1d(3, 2)), SIGNAL),
    "LazyConv1d": (lambda: nn.LazyConv1d(3, 2), SIGNAL),
    "LazyConvTranspose1d": (lambda: nn.LazyConvTranspose1d(3, 2), SIGNAL),
    "dropout behind it": (lambda: nn.Sequential(nn.LazyLinear(3), nn.Dropout(0.5)), X),
    "in a module": (Wrapped, X),
}


def outcome(make, x, **options):
    G.manual_seed(5)
    module = make()
    run = G.compile(module, backend="eager", **options) if options else module
    said = [run(x).tolist(), run(x).tolist()]
    run(x).sum().backward()
    state = {name: t.tolist() for name, t in module.state_dict().items()}
    grads = [p.grad is None or p.grad.tolist() for p in module.parameters()]
    return (
        said,
        state,
        grads,
        type(module),
        [type(m) for m in module.modules()],
        G.get_rng_state().tolist(),
    )


@pytest.mark.parametrize("name", MODULES)
def test_a_lazy_layer_in_a_whole_graph_is_what_it_is_in_plain_python(name):
    make, x = MODULES[name]
    assert outcome(make, x, fullgraph=True) == outcome(make, x)


@pytest.mark.parametrize("name", MODULES)
def test_a_graph_that_may_break_has_the_same(name):
    make, x = MODULES[name]
    assert outcome(make, x, fullgraph=False) == outcome(make, x)


def test_one_graph_is_compiled_and_stays_in_use():
    module = nn.Sequential(nn.LazyLinear(3), nn.LazyLinear(2))
    run = G.compile(lambda x: module(x), backend="eager", fullgraph=True)
    run(X), run(X)
    assert counted(len(run.entries())) == 1


def test_what_draws_before_a_lazy_layer_is_refused_with_a_hint():
    G._dynamo.reset()
    layer = nn.LazyLinear(3)
    run = G.compile(lambda x: layer(nn.functional.dropout(x)), backend="eager", fullgraph=True)
    with pytest.raises(G.compiler.Unsupported, match="call the layer once before"):
        run(X)
    assert type(layer) is nn.LazyLinear and layer.has_uninitialized_params()
    layer(X)
    assert run(X).shape == (4, 3)


def test_an_input_that_does_not_fit_raises_what_plain_python_raises():
    G._dynamo.reset()
    layer = nn.LazyConv1d(4, 2, groups=2)
    with pytest.raises(ValueError, match="cannot be divided into 2 groups"):
        G.compile(layer, backend="eager", fullgraph=True)(G.ones(2, 3, 5))
    assert isinstance(layer, nn.LazyConv1d)
