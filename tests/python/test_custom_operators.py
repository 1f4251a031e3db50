# SPDX-License-Identifier: Apache-2.0
"""gramme.library.custom_op: operators of one's own, plain, recorded as one node, with gradients and
kernels.  Errors are torch 2.13's."""

import itertools

import pytest

import gramme as G

number = itertools.count()


def operator(fn=None, mutates_args=(), **more):
    """An operator of a new name."""
    make = lambda fn: G.library.custom_op(
        f"tests::op{next(number)}", mutates_args=mutates_args, **more
    )(fn)
    return make if fn is None else make(fn)


def twice(x, n=2):
    """x, n times."""
    return x * n


def with_gradient():
    op = operator(twice)

    def setup(ctx, inputs, output):
        ctx.n = inputs[1]

    op.register_autograd(lambda ctx, g: (g * ctx.n, None), setup_context=setup)
    return op


def test_an_operator_is_called_like_its_function():
    op = operator(twice)
    assert (
        op(G.ones(2)).tolist() == [2.0, 2.0]
        and op(G.ones(2), n=5).tolist() == [5.0, 5.0]
        and op.__doc__ == "x, n times."
    )
    assert (
        getattr(G.ops.tests, op.__name__) is op
        and repr(op) == f"<CustomOpDef(tests::{op.__name__})>"
    )
    with pytest.raises(TypeError):
        op()


def test_without_a_formula_backward_says_so():
    y = operator(twice)(G.ones(2, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(
        RuntimeError,
        match="Trying to backward through tests::op.* but no autograd formula was registered",
    ):
        y.sum().backward()


@pytest.mark.parametrize("backend", [None, "eager", "tcc"])
def test_gradients_are_those_that_were_registered(backend):
    op, x = with_gradient(), G.ones(2, requires_grad=True)
    run = lambda x: (op(x * 2, 3) + 1).sum()
    (run if backend is None else G.compile(run, backend=backend, fullgraph=True))(x).backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_call_is_one_node():
    op, calls = operator(lambda x: (calls.append(1), x.sin() + x.cos())[1]), []
    run = G.compile(lambda x: op(x + 1) * 2, backend="eager", fullgraph=True)
    plain = (G.ones(3) + 1).sin() + (G.ones(3) + 1).cos()
    assert run(G.ones(3)).equal(plain * 2)
    seen = len(calls)
    run(G.ones(3))
    assert len(calls) == seen + 1
    assert G.compiler.explain(run)(G.ones(3)).graph_break_count == 0


def test_two_operators_are_two_nodes():
    once, more = operator(lambda x: x + 1), operator(lambda x: x * 3)
    assert G.compile(lambda x: more(once(x)), backend="eager", fullgraph=True)(
        G.ones(2)
    ).tolist() == [6.0, 6.0]


def test_arguments_by_keyword_alone():
    def scaled(x, *, by):
        return x * by

    op, x = operator(scaled), G.ones(2, requires_grad=True)

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.by = keyword_only_inputs["by"]

    op.register_autograd(lambda ctx, g: g * ctx.by, setup_context=setup)
    op(x, by=4.0).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("compiled", [False, True])
def test_an_operator_may_write_to_its_arguments(compiled):
    def fill(x, v):
        x.fill_(v)

    op, z = operator(fill, mutates_args=("x",)), G.zeros(2)
    run = lambda z: (op(z, 3.0), z + 1)[1]
    assert (G.compile(run, backend="eager") if compiled else run)(z).tolist() == [
        4.0,
        4.0,
    ] and z.tolist() == [3.0, 3.0]


def test_kernels_are_for_devices():
    op = operator(twice, device_types="cuda")
    with pytest.raises(NotImplementedError, match="has no kernel for cpu"):
        op(G.ones(1))
    op.register_kernel("cpu")(lambda x, n: x - n)
    assert op(G.ones(1)).tolist() == [-1.0] and op.register_fake(twice) is twice


def test_functions_register_by_name():
    op, x = operator(lambda x: x * 2), G.ones(1, requires_grad=True)
    name = f"tests::{op.__name__}"
    G.library.register_autograd(name, lambda ctx, g: g * 2)
    G.library.register_kernel(name, "cpu", lambda x: x * 3)
    assert G.library.register_fake(name)(twice) is twice
    op(x).sum().backward()
    assert x.grad.tolist() == [2.0] and op(x).tolist() == [3.0]


ERRORS = [
    (
        lambda: G.library.custom_op("bad", mutates_args=())(twice),
        ValueError,
        "is 'namespace::name', not 'bad'",
    ),
    (
        lambda: G.library.custom_op("a::b", mutates_args="unknown")(twice),
        ValueError,
        "names the arguments that are written to",
    ),
    (
        lambda: operator(twice, mutates_args=("y",)),
        ValueError,
        "mutates_args names 'y', which is no argument of twice",
    ),
    (
        lambda: operator(lambda x: x)(G.ones(1)),
        RuntimeError,
        "none of its arguments: return a clone",
    ),
    (
        lambda: operator(lambda xs: xs[0] * 2)([G.ones(1, requires_grad=True)]),
        NotImplementedError,
        "not to tensors in lists",
    ),
    (
        lambda: G.library.register_autograd("tests::nothing", None),
        RuntimeError,
        "there is no operator 'tests::nothing'",
    ),
    (
        lambda: (operator(twice), G.ops.tests.nothing),
        AttributeError,
        "there is no operator 'nothing' in gramme.ops.tests",
    ),
    (
        lambda: G.ops.aten.add,
        AttributeError,
        "gramme has no ops.aten.add: operators have no overloads",
    ),
    (
        lambda: G.library.Library("x", "DEF"),
        NotImplementedError,
        "without schemas and dispatch keys",
    ),
]


@pytest.mark.parametrize("run, error, text", ERRORS)
def test_what_cannot_be_is_said(run, error, text):
    with pytest.raises(error, match=text):
        run()
