# SPDX-License-Identifier: Apache-2.0
"""gramme.func against closed forms and finite differences, and inside one another."""

import numpy as np
import pytest

import gramme
from gramme import func, nn
from gramme.testing import assert_bits_equal, assert_close

X = gramme.tensor([0.5, -1.0, 2.0], dtype=gramme.float64)


def cube(x):
    return (x**3).sum()


def test_gradients_and_gradients_of_gradients():
    assert_close(func.grad(cube)(X), 3 * X**2)
    assert_close(func.grad(lambda x: func.grad(cube)(x).sum())(X), 6 * X)
    gradient, value = func.grad_and_value(cube)(X)
    assert_close(value, cube(X))
    assert not gradient.requires_grad and not value.requires_grad and X.grad is None


def test_gradients_of_structures_by_several_arguments_with_aux():
    def loss(parameters, x, scale):
        y = parameters["w"] * x + parameters["b"]
        return (y * scale).sum(), y

    parameters = {
        "w": gramme.ones(3, dtype=gramme.float64),
        "b": gramme.zeros(3, dtype=gramme.float64),
    }
    (by_parameters, by_x), aux = func.grad(loss, argnums=(0, 1), has_aux=True)(parameters, X, 2.0)
    assert_close(by_parameters["w"], 2 * X)
    assert by_parameters["b"].tolist() == [2.0] * 3 and by_x.tolist() == [2.0] * 3
    assert_close(aux, X, check_dtype=False)
    with pytest.raises(RuntimeError, match="without dimensions"):
        func.grad(lambda x: x * 2)(X)


def test_an_argument_that_requires_grad_stays_connected():
    x = X.clone().requires_grad_()
    func.grad(cube)(x).sum().backward()
    assert_close(x.grad, 6 * X)


def test_vjp_and_jvp_are_transposes():
    matrix = gramme.tensor(np.random.default_rng(0).normal(size=(4, 3)))

    def f(x, y):
        return gramme.tanh(matrix @ x) * y, x.sum()

    y = gramme.full((4,), 2.0, dtype=gramme.float64)
    tangents = (
        gramme.tensor([1.0, 2.0, -1.0], dtype=gramme.float64),
        gramme.arange(4, dtype=gramme.float64),
    )
    cotangents = (
        gramme.tensor([0.5, 1.0, 2.0, -1.0], dtype=gramme.float64),
        gramme.tensor(3.0, dtype=gramme.float64),
    )
    output, pull = func.vjp(f, X, y)
    by_x, by_y = pull(cotangents)
    again, derivative = func.jvp(f, (X, y), tangents)
    for a, b in zip(output, again):
        assert_bits_equal(a, b)
    forth = sum((d * c).sum() for d, c in zip(derivative, cotangents)).item()
    back = (by_x * tangents[0]).sum().item() + (by_y * tangents[1]).sum().item()
    assert forth == pytest.approx(back, rel=1e-12)
    h = 1e-6
    moved = f(X + h * tangents[0], y + h * tangents[1])
    for a, b, d in zip(moved, output, derivative):
        assert_close((a - b) / h, d, rtol=1e-4, atol=1e-4)


def test_jacobians_and_hessians():
    def f(x):
        return gramme.stack([x[0] * x[1], x[2] ** 2, x.sum(), gramme.sin(x[0])])

    want = [[X[1], X[0], 0], [0, 0, 2 * X[2]], [1, 1, 1], [np.cos(0.5), 0, 0]]
    np.testing.assert_allclose(
        func.jacrev(f)(X).numpy(), [[float(v) for v in row] for row in want], rtol=1e-12
    )
    np.testing.assert_allclose(
        func.hessian(cube)(X).numpy(), np.diag(6 * X.numpy()), rtol=1e-12, atol=1e-14
    )


def test_functional_call_takes_other_parameters():
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    own = [p for p in net.parameters()]
    others = {
        name: gramme.full(p.shape, 0.5).requires_grad_() for name, p in net.named_parameters()
    }
    out = func.functional_call(net, others, gramme.ones(1, 3))
    assert out.item() == 2.5
    out.backward()
    assert all(p.grad is not None for p in others.values()) and all(p.grad is None for p in own)
    assert all(a is b for a, b in zip(net.parameters(), own))
    with pytest.raises(RuntimeError, match="nothing"):
        func.functional_call(net, {"nothing": gramme.ones(1)}, gramme.ones(1, 3))
    with pytest.raises(RuntimeError, match="1.bias"):
        func.functional_call(net, {"0.weight": net[0].weight}, gramme.ones(1, 3), strict=True)


def test_functional_call_puts_all_back_after_an_error_and_ties_weights():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    weight = net[0].weight
    with pytest.raises(RuntimeError):
        func.functional_call(net, {"0.weight": gramme.ones(2, 2)}, gramme.ones(1, 7))
    assert net[0].weight is weight and net[1].weight is weight
    zeros = {"0.bias": gramme.zeros(2), "1.bias": gramme.zeros(2)}
    assert func.functional_call(
        net, {"0.weight": gramme.ones(2, 2), **zeros}, gramme.ones(1, 2)
    ).tolist() == [[4.0, 4.0]]


def test_gradients_of_a_module_by_its_parameters():
    net = nn.Linear(3, 2)
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    x = gramme.randn(4, 3)
    found = func.grad(lambda p: (func.functional_call(net, p, x) ** 2).sum())(parameters)
    (net(x) ** 2).sum().backward()
    assert_close(found["weight"], net.weight.grad)
    assert_close(found["bias"], net.bias.grad)


# -- Over a batch


BATCH = gramme.arange(12, dtype=gramme.float64).reshape(3, 4)


def test_vmap_is_a_loop_over_examples():
    def one(x, y, scale):
        return (x @ y) * scale, {"sum": x + y}

    products, rest = func.vmap(one, in_dims=(0, 1, None))(
        BATCH, BATCH.T * 2, gramme.tensor(3.0, dtype=gramme.float64)
    )
    assert_bits_equal(products, gramme.stack([(row @ (row * 2)) * 3.0 for row in BATCH]))
    assert_bits_equal(rest["sum"], BATCH * 3)
    assert_bits_equal(func.vmap(lambda x: x * 2, in_dims=1, out_dims=1)(BATCH), BATCH * 2)
    assert func.vmap(lambda x: x, in_dims=1, out_dims=-1)(BATCH.reshape(1, 3, 4)).shape == (1, 4, 3)
    assert_bits_equal(
        func.vmap(lambda p, *, x: p["w"] + x, in_dims=({"w": None},))({"w": BATCH[0]}, x=BATCH),
        BATCH[0] + BATCH,
    )
    assert_bits_equal(
        func.vmap(func.vmap(lambda a, b: a * b, (None, 0)), (0, None))(X, BATCH[0]),
        X.unsqueeze(1) * BATCH[0],
    )


def test_vmap_goes_with_derivatives_and_compiles():
    per_example = func.vmap(func.grad(lambda w, x: ((w * x) ** 2).sum()), in_dims=(None, 0))
    assert_close(per_example(X, X.expand(2, 3) + 1), gramme.stack([2 * X * (X + 1) ** 2] * 2))
    assert_close(
        func.jacrev(func.vmap(lambda x: (x**3).sum()))(BATCH[:, :2])[0, 0], 3 * BATCH[0, :2] ** 2
    )
    mapped = func.vmap(lambda x, y: (x * y).sin().sum(), in_dims=(0, None))
    compiled = gramme.compile(lambda x, y: mapped(x, y), backend="eager", fullgraph=True)
    assert_bits_equal(compiled(BATCH, BATCH[1]), mapped(BATCH, BATCH[1]))
    w = BATCH.clone().requires_grad_()
    mapped(w, BATCH[1]).sum().backward()
    assert_close(w.grad, (BATCH * BATCH[1]).cos() * BATCH[1])


def test_vmap_and_random_numbers():
    def noisy(x):
        return x + gramme.rand(4, dtype=gramme.float64)

    zeros = gramme.zeros(3, 4, dtype=gramme.float64)
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(noisy)(zeros)
    same, different = func.vmap(noisy, randomness="same")(zeros), func.vmap(
        noisy, randomness="different"
    )(zeros)
    assert same[0].tolist() == same[2].tolist() and different[0].tolist() != different[2].tolist()


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: func.vmap(lambda x: x, in_dims=None)(X), "no argument has a batch"),
        (lambda: func.vmap(lambda x, y: x)(X, X[:2]), "different sizes"),
        (lambda: func.vmap(lambda x: x, in_dims=(0, 0))(X), "in_dims has 2"),
        (lambda: func.vmap(lambda x: x, in_dims=3)(X), "of 1 dimensions"),
        (lambda: func.vmap(lambda x: x, chunk_size=0), "positive"),
    ],
)
def test_vmap_says_what_is_wrong(call, text):
    with pytest.raises((ValueError, RuntimeError), match=text):
        call()


def test_forward_derivatives_are_the_backward_ones():
    def f(x):
        return gramme.stack([x[0] * x[1], x[1].exp(), x[2] * x[0] ** 2])

    assert_close(func.jacfwd(f)(X), func.jacrev(f)(X))
    assert_close(func.jacfwd(func.jacrev(cube))(X), func.hessian(cube)(X))
    assert func.jacfwd(lambda x: x.sum(0))(BATCH).shape == (4, 3, 4)
