# SPDX-License-Identifier: Apache-2.0
"""When code is made: a function's by its first call, its backward's by the first backward, a tape's
by the backward that runs it."""

import os
import threading

import pytest
from stress import undisturbed

import gramme as G
from gramme._dynamo import compiled_autograd
from gramme._dynamo.utils import counters


def compiles():
    return counters["backend"]["compiles"]


def wave(x):
    return (x.sin() * x).tanh()


pytestmark = [
    undisturbed,
    pytest.mark.skipif("tape" in os.environ.get("GM_STRESS", ""), reason="compiles each backward"),
]


@pytest.mark.parametrize("backend", ["eager", "tcc", "auto"])
def test_a_backward_is_compiled_once_by_the_first_that_is_called(backend):
    G._dynamo.reset()
    f, x, before = (
        G.compile(wave, backend=backend, fullgraph=True),
        G.arange(6).float().requires_grad_(),
        compiles(),
    )
    y = f(x)
    for _ in range(3):
        assert f(x).requires_grad
    assert (
        compiles() == before + 1
        and "backward: 9 nodes, compiled when it is first called for" in f.entries()[0]["places"]
    )
    y.sum().backward()
    f(x).sum().backward()
    assert compiles() == before + 2 and "backward: 9 of 9 nodes" in f.entries()[0]["places"]


def test_a_backward_is_compiled_with_its_forward_where_the_user_wants_that():
    G._dynamo.reset()
    f, x, before = (
        G.compile(wave, backend="tcc", fullgraph=True, options={"backward": "at-once"}),
        G.arange(6).float().requires_grad_(),
        compiles(),
    )
    y = f(x)
    assert compiles() == before + 1 and "backward: 9 of 9 nodes" in f.entries()[0]["places"]
    y.sum().backward()
    assert compiles() == before + 1
    want, grad = wave(z := G.arange(6).float().requires_grad_()).sum(), x.grad
    want.backward()
    G.testing.assert_bits_equal(grad, z.grad)


def test_all_sizes_have_one_backward():
    G._dynamo.reset()
    f, before = G.compile(wave, backend="tcc", fullgraph=True, dynamic=True), compiles()
    for n in range(3, 9):
        x, z = G.arange(n).float().requires_grad_(), G.arange(n).float().requires_grad_()
        f(x).sum().backward()
        wave(z).sum().backward()
        G.testing.assert_bits_equal(x.grad, z.grad)
    assert compiles() == before + 2


def test_of_a_size_that_data_says_the_backward_waits_too():
    def chosen(x, w):
        return (w[x > 0] * 2).sin().sum()

    G._dynamo.reset()
    f, w, before = (
        G.compile(chosen, backend="tcc", fullgraph=True),
        G.arange(6).float().requires_grad_(),
        compiles(),
    )
    y = f(G.tensor([1.0, -1, 2, 3, -4, 5]), w)
    made = compiles()
    y.backward()
    assert made > before and compiles() == made + 1
    f(G.tensor([1.0, -1, -2, 3, -4, -5]), w).backward()
    assert compiles() == made + 1


def test_threads_that_come_to_it_together_compile_one_backward():
    G._dynamo.reset()
    f, leaves = G.compile(wave, backend="tcc", fullgraph=True), [
        G.arange(6).float().requires_grad_() for _ in range(8)
    ]
    results, together = [f(x).sum() for x in leaves], threading.Barrier(8)
    before = compiles()

    def step(result):
        together.wait()
        result.backward()

    threads = [threading.Thread(target=step, args=(r,)) for r in results]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert compiles() == before + 1
    for x in leaves[1:]:
        G.testing.assert_bits_equal(x.grad, leaves[0].grad)


def test_without_gradients_there_is_no_backward():
    G._dynamo.reset()
    f, x = G.compile(wave, backend="tcc", fullgraph=True), G.arange(6).float().requires_grad_()
    with G.no_grad():
        assert not f(x).requires_grad
    before = compiles()
    f(x).sum().backward()
    assert compiles() == before + 2  # another entry, and its backward


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
    assert (
        compiles() == made
        and second.tolist()
        == G.autograd.grad(G.autograd.grad(wave(x).sum(), [x], create_graph=True)[0].sum(), [x])[
            0
        ].tolist()
    )
