# SPDX-License-Identifier: Apache-2.0
"""When code is made: a back end gets a forward and its backward in one request, what a tape needs is made by the backward that needs it."""

import os

import pytest
from stress import undisturbed

import gramme as G
from gramme._dynamo import compiled_autograd
from gramme._dynamo.utils import counters


def compiles():
    return counters["backend"]["compiles"]


def wave(x):
    return (x.sin() * x).tanh()


pytestmark = [undisturbed, pytest.mark.skipif("tape" in os.environ.get("GM_STRESS", ""), reason="compiles each backward")]


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_a_forward_and_its_backward_are_one_request(backend):
    G._dynamo.reset()
    f, x, before = G.compile(wave, backend=backend, fullgraph=True), G.arange(6).float().requires_grad_(), compiles()
    y = f(x)
    assert compiles() == before + 1
    y.sum().backward()
    f(x).sum().backward()
    assert compiles() == before + 1


def test_without_gradients_there_is_no_backward():
    G._dynamo.reset()
    f, x = G.compile(wave, backend="tcc", fullgraph=True), G.arange(6).float().requires_grad_()
    with G.no_grad():
        assert not f(x).requires_grad
    before = compiles()
    f(x).sum().backward()
    assert compiles() == before + 1  # another entry


def test_a_tape_is_compiled_by_the_first_backward_that_runs_it():
    G._dynamo.reset()
    x = G.arange(6).float().requires_grad_()
    losses, before = [wave(x).sum() for _ in range(2)], compiles()
    with compiled_autograd.enable("tcc"):
        assert compiles() == before
        losses[0].backward()
        made = compiles()
        assert made > before
        losses[1].backward()
    assert compiles() == made


def test_what_a_second_derivative_walks_is_made_when_it_is_asked_for():
    """The compiled backward is taken apart; nothing is compiled for it."""
    G._dynamo.reset()
    f, x = G.compile(wave, backend="tcc", fullgraph=True), G.arange(6).float().requires_grad_()
    y, made = f(x).sum(), compiles()
    (first,) = G.autograd.grad(y, [x], create_graph=True)
    (second,) = G.autograd.grad(first.sum(), [x])
    assert compiles() == made and second.tolist() == G.autograd.grad(G.autograd.grad(wave(x).sum(), [x], create_graph=True)[0].sum(), [x])[0].tolist()
