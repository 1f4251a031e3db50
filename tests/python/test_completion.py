# SPDX-License-Identifier: Apache-2.0
"""Prompts and editors ask objects for all of their names: rlcompleter, IPython, debuggers."""

import rlcompleter

import pytest

import gramme as G

SHAPES = [(), (3,), (0,), (2, 3), (1, 2, 3)]
OTHERS = {
    "a leaf": lambda: G.ones(3, requires_grad=True),
    "a result": lambda: G.ones(3, requires_grad=True) * 2,
    "a node": lambda: (G.ones(3, requires_grad=True) * 2).grad_fn,
    "a parameter": lambda: G.nn.Parameter(G.ones(2)),
    "a parameter without a shape": lambda: G.nn.LazyLinear(3).weight,
    "a storage": lambda: G.ones(3).untyped_storage(),
    "a module": lambda: G.nn.Linear(2, 3),
    "a compiled module": lambda: G.compile(G.nn.Linear(2, 3)),
    "a compiled function": lambda: G.compile(lambda x: x),
    "an optimizer": lambda: G.optim.SGD(G.nn.Linear(2, 3).parameters(), lr=0.1),
    "a generator": lambda: G.Generator(),
    "a distribution": lambda: G.distributions.Normal(0.0, 1.0),
    "a dtype": lambda: G.float32,
    "a size": lambda: G.Size([1]),
    "the package": lambda: G,
}


def names_that_fail(thing):
    failures = []
    for name in dir(thing):
        try:
            getattr(thing, name, None)
        except Exception as error:
            failures.append((name, repr(error)))
    return failures


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_each_name_of_a_tensor_is_there_or_an_attribute_error(dtype, shape):
    assert names_that_fail(G.zeros(shape, dtype=getattr(G, dtype))) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", OTHERS)
def test_each_name_of_an_object_is_there_or_an_attribute_error(what):
    assert names_that_fail(OTHERS[what]()) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_prompt_completes_the_names_of_a_tensor(shape):
    completer = rlcompleter.Completer({"x": G.ones(shape)})
    assert "x.sqrt()" in {match.rstrip("()") + "()" for match in completer.attr_matches("x.sq")}
    assert len(completer.attr_matches("x.")) > 300


@pytest.mark.parametrize("name", ["mT", "mH"])
def test_what_needs_two_dimensions_is_an_error_of_both_kinds(name):
    for kind in (RuntimeError, AttributeError):
        with pytest.raises(kind, match="at least 2 dimensions, not 1"):
            getattr(G.ones(3), name)
    assert not hasattr(G.ones(3), name) and hasattr(G.ones(2, 3), name)


@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=str)
def test_a_compiled_function_asks_as_plain_python_does(shape):
    def ask(x):
        return x + 1 if hasattr(x, "mT") else getattr(x, "mT", None) or x - 1

    x = G.ones(shape)
    assert G.equal(G.compile(ask, backend="eager")(x), ask(x))
    try:
        want = type(x.mT)
    except Exception as error:
        want = type(error)

    def take(x):
        return x.mT

    try:
        got = type(G.compile(take, backend="eager")(x))
    except Exception as error:
        got = type(error)
    assert got is want
