# SPDX-License-Identifier: Apache-2.0
"""Modules of a program's own that learn sizes from their first call: LazyModuleMixin."""

import copy

import pytest

import gramme as G
from gramme import nn
from gramme.nn.modules.lazy import LazyModuleMixin
from gramme.nn.parameter import UninitializedParameter


class Scale(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(G.ones(n))

    def forward(self, x, plus=0.0):
        return x * self.weight + plus


class LazyScale(LazyModuleMixin, Scale):
    cls_to_become = Scale

    def __init__(self):
        super().__init__(0)
        self.weight = UninitializedParameter()

    def initialize_parameters(self, x, plus=0.0):
        if self.has_uninitialized_params():
            self.weight.materialize((x.shape[-1],))
            nn.init.constant_(self.weight, 2.0)


class Staying(LazyScale):
    """It becomes nothing else, and forward() is that of Scale."""

    cls_to_become = None


class WithForward(LazyModuleMixin, nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = UninitializedParameter()

    initialize_parameters = LazyScale.initialize_parameters

    def forward(self, x, plus=0.0):
        return x * self.weight + plus


FORMS = {"plain": None, "breaks": {"fullgraph": False}, "whole": {"fullgraph": True}}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "made, becomes", [(LazyScale, Scale), (Staying, Staying), (WithForward, WithForward)]
)
def test_the_first_call_makes_the_parameters(made, becomes, form):
    module = made()
    assert module.has_uninitialized_params()
    run = module if form == "plain" else G.compile(module, backend="eager", **FORMS[form])
    for _ in range(2):
        assert run(G.ones(2, 3)).tolist() == [[2.0] * 3] * 2
        assert type(module) is becomes and module.weight.shape == (3,)
    assert not hasattr(module, "_load_hook") and not hasattr(module, "_initialize_hook")
    with pytest.raises(RuntimeError, match="size"):
        run(G.ones(2, 4))


@pytest.mark.parametrize("made", [LazyScale, Staying, WithForward])
def test_named_arguments_reach_initialize_parameters(made):
    for run in (made(), G.compile(made(), backend="eager")):
        assert run(G.ones(3), plus=1.0).tolist() == run(G.ones(3), plus=1.0).tolist() == [3.0] * 3


def test_a_state_gives_the_sizes_and_a_copy_is_as_lazy():
    module = LazyScale()
    other = copy.deepcopy(module)
    module.load_state_dict({"weight": G.ones(4) * 3})
    assert module.weight.shape == (4,) and module(G.ones(4)).tolist() == [3.0] * 4
    assert type(module) is Scale and other.has_uninitialized_params()
    assert other(G.ones(5)).tolist() == [2.0] * 5 and type(other) is Scale


def test_what_a_class_leaves_out_is_said():
    class Silent(LazyScale):
        def initialize_parameters(self, x):
            pass

    class Without(LazyModuleMixin, Scale):
        def __init__(self):
            super().__init__(0)
            self.weight = UninitializedParameter()

    with pytest.raises(RuntimeError, match="module Silent has not been fully initialized"):
        Silent()(G.ones(3))
    with pytest.raises(NotImplementedError, match="not implemented for Without"):
        Without()(G.ones(3))


def test_the_layers_here_are_such_modules():
    layer = nn.LazyLinear(2)
    assert isinstance(layer, LazyModuleMixin) and layer.cls_to_become is nn.Linear
    assert nn.modules.lazy.LazyModuleMixin is LazyModuleMixin
