# SPDX-License-Identifier: Apache-2.0
"""Arithmetic with sizes and ints alone: no back end is asked, and the numbers are right in each
call."""

import pytest

import gramme as G
from gramme._dynamo.utils import counters
from stress import undisturbed

pytestmark = undisturbed


@pytest.fixture(autouse=True)
def fresh():
    G._dynamo.reset()


@pytest.mark.parametrize("aot", [False, True])
def test_a_function_of_ints_is_handed_to_no_back_end(aot):
    graphs = []

    def keep(graph, example_inputs):
        graphs.append(graph.code)
        return graph

    keep.aot = aot
    f = G.compile(lambda n, m: (n * 2, n + m), backend=keep, dynamic=True)
    for n in (3, 4, 50):
        assert f(n, 7) == (2 * n, n + 7)
    assert graphs == [] and counters["stats"]["unique_graphs"] == 0


def test_numbers_between_two_breaks_are_handed_to_no_back_end():
    graphs = G.testing.CompileCounter()

    def part(n):
        G._dynamo.graph_break()
        return n * 2

    def fn(x):
        n = [part(n) for n in range(3)]
        return x + n[-1]

    f = G.compile(fn, backend=graphs)
    for n in (2, 3, 4):
        assert f(G.ones(n)).tolist() == [5.0] * n
    assert graphs.graphs and all("add" in graph.code for graph in graphs.graphs)


def test_options_of_the_back_end_are_its_own():
    f = G.compile(
        lambda x: x.shape[0] * 2, backend="auto", options={"auto.then": "none"}, dynamic=True
    )
    assert [f(G.ones(n)) for n in (3, 5)] == [6, 10]
    g = G.compile(
        lambda x: (x.shape[0] * 2, x + 1),
        backend="auto",
        options={"auto.then": "none"},
        dynamic=True,
    )
    assert g(G.ones(3))[0] == 6
