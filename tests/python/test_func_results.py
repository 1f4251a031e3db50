# SPDX-License-Identifier: Apache-2.0
"""gramme.func as torch has it: tuples of gradients, several arguments and results, aux, and what
vmap refuses; plain and compiled."""

import pytest

import gramme
from gramme import func
from gramme.testing import assert_bits_equal

X = gramme.tensor([1.0, 2.0])


def both(f):
    return pytest.mark.parametrize("way", ["plain", "eager", "tcc"])(f)


def run(way, f, *args):
    return f(*args) if way == "plain" else gramme.compile(f, backend=way)(*args)


@both
def test_vjp_gives_a_tuple_for_one_argument_too(way):
    found = run(
        way, lambda x: func.vjp(lambda t: t * gramme.tensor([0.5, 0.25]), x)[1](gramme.ones(2)), X
    )
    assert type(found) is tuple and found[0].tolist() == [0.5, 0.25]
    (table,) = run(way, lambda x: func.vjp(lambda d: d["a"] * 3, {"a": x})[1](gramme.ones(2)), X)
    assert table["a"].tolist() == [3.0, 3.0]
    output, pull, aux = func.vjp(lambda t: (t * 2, {"mean": t.mean(), "n": 7}), X, has_aux=True)
    assert pull(X)[0].tolist() == [2.0, 4.0] and not aux["mean"].requires_grad and aux["n"] == 7


def test_aux_has_no_history():
    def f(x):
        return (x**2).sum(), (x * 2, [x + 1, "word"])

    for aux in (
        func.grad(f, has_aux=True)(X)[1],
        func.grad_and_value(f, has_aux=True)(X)[1][1],
        func.jvp(f, (X,), (X,), has_aux=True)[2],
        func.jacrev(f, has_aux=True)(X)[1],
        func.jacfwd(f, has_aux=True)(X)[1],
    ):
        assert not aux[0].requires_grad and not aux[1][0].requires_grad and aux[1][1] == "word"
    w = X.clone().requires_grad_()
    assert func.grad(f, has_aux=True)(w)[1][0].requires_grad  # the argument's own history goes on


@both
@pytest.mark.parametrize("jacobian", [func.jacrev, func.jacfwd])
def test_jacobians_of_several_arguments_and_results(way, jacobian):
    def f(x, y):
        return {"product": x * y, "sum": x.sum()}

    y = gramme.tensor([3.0, 5.0])
    both_of = run(way, lambda x, y: jacobian(f, argnums=(0, 1))(x, y), X, y)
    assert both_of["product"][0].tolist() == [[3.0, 0.0], [0.0, 5.0]] and both_of["product"][
        1
    ].tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert both_of["sum"][0].tolist() == [1.0, 1.0] and both_of["sum"][1].tolist() == [0.0, 0.0]
    one = run(way, lambda x, y: jacobian(f, argnums=-1)(x, y), X, y)
    assert one["product"].tolist() == [[1.0, 0.0], [0.0, 2.0]]
    found, aux = run(
        way, lambda x, y: jacobian(lambda x, y: (x * y, x + y), has_aux=True)(x, y), X, y
    )
    assert found.tolist() == [[3.0, 0.0], [0.0, 5.0]] and aux.tolist() == [4.0, 7.0]


@both
def test_hessians_of_several_arguments(way):
    def f(x, y):
        return (x * x * y).sum()

    h = run(way, lambda x, y: func.hessian(f, argnums=(0, 1))(x, y), X, gramme.tensor([3.0, 5.0]))
    assert [[block.tolist() for block in row] for row in h] == [
        [[[6.0, 0.0], [0.0, 10.0]], [[2.0, 0.0], [0.0, 4.0]]],
        [[[2.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]],
    ]


def test_bad_places_are_refused():
    for argnums in (2, -3, "x", (0, 5)):
        with pytest.raises(RuntimeError, match="argnums"):
            func.jacrev(lambda x, y: x, argnums=argnums)(X, X)


@both
def test_linearize(way):
    def f(x, y):
        output, push = func.linearize(lambda a, b: (a * b, a.sin()), x, y)
        return output, push(gramme.ones(2), gramme.zeros(2)), push(gramme.zeros(2), gramme.ones(2))

    output, first, second = run(way, f, X, X + 1)
    assert_bits_equal(output[0], X * (X + 1))
    assert (
        first[0].tolist() == [2.0, 3.0]
        and second[0].tolist() == [1.0, 2.0]
        and second[1].tolist() == [0.0, 0.0]
    )
    assert_bits_equal(first[1], X.cos())


# a vmapped function, its in_dims: it writes to what all examples share
WRITES = {
    "the argument": (lambda a, b: b.add_(a), (0, None)),
    "a part": (lambda a, b: b[0:1].copy_(a[0:1]) + a[0:1], (0, None)),
    "by subscript": (lambda a, b: (b.__setitem__(0, 7.0), a + b)[1], (0, None)),
    "in a dict": (lambda a, d: d["b"].mul_(2) + a, (0, None)),
}


@both
@pytest.mark.parametrize("what", WRITES)
def test_vmap_refuses_writes_to_what_examples_share(way, what):
    f, in_dims = WRITES[what]
    shared = gramme.zeros(3)
    with pytest.raises(RuntimeError, match="all examples share"):
        run(
            way,
            lambda m, z: func.vmap(f, in_dims=in_dims)(m, z),
            gramme.arange(6.0).reshape(2, 3),
            {"b": shared} if what == "in a dict" else shared,
        )


@both
def test_vmap_writes_to_what_is_mapped(way):
    m = gramme.arange(6.0).reshape(2, 3)
    found = run(
        way,
        lambda m, z: func.vmap(lambda a, b: a.add_(b), in_dims=(0, None))(m, z),
        m.clone(),
        gramme.ones(3),
    )
    assert_bits_equal(found, m + 1)


@both
def test_vmap_refuses_random_numbers_unless_it_is_told(way):
    x = gramme.zeros(3, 2)
    state = gramme.get_rng_state()
    for draw in (
        lambda t: t + gramme.rand(2),
        lambda t: gramme.nn.functional.dropout(t),
        lambda t: func.vmap(lambda u: u + gramme.randn(()))(t),
    ):
        with pytest.raises(RuntimeError, match="randomness"):
            run(way, lambda x: func.vmap(draw)(x), x)
        assert gramme.get_rng_state().tolist() == state.tolist()
    rows = run(
        way,
        lambda x: func.vmap(lambda t: t + gramme.rand(2), randomness="different")(x)
        + gramme.rand(1),
        x,
    )
    assert len({tuple(row) for row in rows.tolist()}) == 3
    rows = run(way, lambda x: func.vmap(lambda t: t + gramme.rand(2), randomness="same")(x), x)
    assert len({tuple(row) for row in rows.tolist()}) == 1


def test_a_function_compiled_inside_of_vmap_refuses_random_numbers():
    noisy = gramme.compile(lambda t: t + gramme.rand(2), backend="eager")
    noisy(gramme.zeros(2))
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(noisy)(gramme.zeros(3, 2))
    assert noisy(gramme.zeros(2)).shape == (2,)


@both
def test_vmap_of_no_example_and_without_a_dimension(way):
    empty = run(
        way, lambda x: func.vmap(lambda t: (t * 2, t.sum()), out_dims=(1, 0))(x), gramme.zeros(0, 3)
    )
    assert [tuple(e.shape) for e in empty] == [(3, 0), (0,)]
    doubled, shared = func.vmap(lambda t, w: (t * 2, w + 1), in_dims=(0, None), out_dims=(0, None))(
        gramme.ones(2, 3), X
    )
    assert doubled.shape == (2, 3) and shared.tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match="out_dims is None"):
        func.vmap(lambda t: t, out_dims=None)(gramme.arange(2.0))


def test_states_of_modules_stacked():
    gramme.manual_seed(0)
    models = [
        gramme.nn.Sequential(gramme.nn.Linear(2, 3), gramme.nn.BatchNorm1d(3)).eval()
        for _ in range(4)
    ]
    parameters, buffers = func.stack_module_state(models)
    assert (
        parameters["0.weight"].shape == (4, 3, 2)
        and parameters["0.weight"].requires_grad
        and parameters["0.weight"].is_leaf
    )
    assert buffers["1.running_mean"].shape == (4, 3) and not buffers["1.running_mean"].requires_grad
    x = gramme.randn(5, 2)
    found = func.vmap(
        lambda p, b, x: func.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None)
    )(parameters, buffers, x)
    for row, model in zip(found, models):
        assert_bits_equal(row, model(x))
    with pytest.raises(RuntimeError, match="no module"):
        func.stack_module_state([])
    with pytest.raises(RuntimeError, match="one class"):
        func.stack_module_state([models[0], gramme.nn.ReLU()])


def test_gradients_of_a_batch_of_directions():
    x, w = gramme.tensor([1.0, 2.0], requires_grad=True), gramme.tensor(3.0, requires_grad=True)
    y = x * x * w
    by_x, by_w = gramme.autograd.grad(y, (x, w), gramme.eye(2), is_grads_batched=True)
    assert by_x.tolist() == [[6.0, 0.0], [0.0, 12.0]] and by_w.tolist() == [1.0, 4.0]
    with pytest.raises(RuntimeError):  # the history is gone, as after any grad()
        gramme.autograd.grad(y, x, gramme.ones(2))
    y = x * x
    (found,) = gramme.autograd.grad(
        [y], [x], [gramme.eye(2)], create_graph=True, is_grads_batched=True
    )
    found.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    y = x * 2
    unused = gramme.ones(1, requires_grad=True)
    assert (
        gramme.autograd.grad(
            y, (x, unused), gramme.eye(2), allow_unused=True, is_grads_batched=True
        )[1]
        is None
    )
    assert gramme.autograd.grad(x * 2, x, gramme.zeros(0, 2), is_grads_batched=True)[0].shape == (
        0,
        2,
    )
    with pytest.raises(RuntimeError, match="batch in dimension 0"):
        gramme.autograd.grad(x * 2, x, is_grads_batched=True)
