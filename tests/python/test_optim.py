# SPDX-License-Identifier: Apache-2.0
"""Optimizers against their formulas in numpy, in float64."""

import numpy as np
import pytest

import gramme
from gramme import optim

START = np.array([1.0, -2.0, 3.0])


def gradient(w, step):
    return np.sin(w * (step + 1)) + 0.1 * w


def run(optimizer_of, steps=6):
    w = gramme.tensor(START, requires_grad=True)
    optimizer = optimizer_of([w])
    for step in range(steps):
        w.grad = gramme.tensor(gradient(w.detach().numpy().copy(), step))
        optimizer.step()
    return w.detach().numpy()


def sgd(lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False, steps=6):
    w, buffer = START.copy(), None
    for step in range(steps):
        g = gradient(w, step) * (-1 if maximize else 1) + weight_decay * w
        if momentum:
            buffer = g.copy() if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        w = w - lr * g
    return w


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.3},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {"maximize": True},
    ],
)
def test_sgd_follows_its_formula(options):
    np.testing.assert_allclose(
        run(lambda p: optim.SGD(p, lr=0.05, **options)), sgd(0.05, **options), rtol=1e-12
    )


def adam(
    lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False, amsgrad=False, steps=6
):
    w, m, v, top = START.copy(), 0.0, 0.0, 0.0
    for step in range(steps):
        g = gradient(w, step)
        if decoupled:
            w = w * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * w
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        top = np.maximum(top, v) if amsgrad else v
        t = step + 1
        w = w - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(top / (1 - betas[1] ** t)) + eps)
    return w


@pytest.mark.parametrize(
    "options", [{}, {"weight_decay": 0.1}, {"amsgrad": True}, {"betas": (0.5, 0.6), "eps": 1e-3}]
)
def test_adam_follows_its_formula(options):
    np.testing.assert_allclose(
        run(lambda p: optim.Adam(p, lr=0.1, **options)), adam(0.1, **options), rtol=1e-11
    )
    decayed = {"weight_decay": 0.01, **options}
    np.testing.assert_allclose(
        run(lambda p: optim.AdamW(p, lr=0.1, **options)),
        adam(0.1, decoupled=True, **decayed),
        rtol=1e-11,
    )


@pytest.mark.parametrize(
    "make", [lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.AdamW(p, lr=0.1)]
)
def test_state_can_be_saved_and_restored(make):
    a = gramme.tensor(START, requires_grad=True)
    first = make([a])
    for step in range(3):
        a.grad = gramme.tensor(gradient(a.detach().numpy().copy(), step))
        first.step()
    b = a.detach().clone().requires_grad_()
    second = make([b])
    second.load_state_dict(first.state_dict())
    for parameter, optimizer in ((a, first), (b, second)):
        parameter.grad = gramme.tensor([1.0, 2.0, 3.0], dtype=gramme.float64)
        optimizer.step()
    gramme.testing.assert_bits_equal(a, b)
    with pytest.raises(ValueError, match="groups"):
        make([gramme.ones(1, requires_grad=True), gramme.ones(1)]).load_state_dict(
            first.state_dict()
        )


def test_groups_have_options_of_their_own():
    a, b = gramme.ones(1, requires_grad=True), gramme.ones(1, requires_grad=True)
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    (a + b).sum().backward()
    optimizer.step()
    np.testing.assert_allclose([a.item(), b.item()], [0.9, 0.5], rtol=1e-6)
    assert "lr: 0.5" in repr(optimizer)


def test_parameters_without_gradient_are_left_alone_and_zero_grad_forgets():
    a, b = gramme.ones(1, requires_grad=True), gramme.ones(1, requires_grad=True)
    optimizer = optim.Adam([a, b])
    (a * 2).sum().backward()
    optimizer.step()
    assert b.item() == 1 and a.item() != 1 and b not in optimizer.state
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.item() == 0 and b.grad is None
    optimizer.zero_grad()
    assert a.grad is None


def test_step_calls_a_closure_with_gradients_on():
    a = gramme.ones(1, requires_grad=True)
    optimizer = optim.SGD([a], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 1
    np.testing.assert_allclose(a.item(), 0.8, rtol=1e-6)


def test_bad_options_and_parameters():
    a = gramme.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match="lr"):
        optim.SGD([a], lr=-1)
    with pytest.raises(ValueError, match="nesterov"):
        optim.SGD([a], nesterov=True)
    with pytest.raises(ValueError, match="betas"):
        optim.Adam([a], betas=(1.0, 0.9))
    with pytest.raises(ValueError, match="at least one"):
        optim.SGD([])
    with pytest.raises(TypeError, match="one tensor"):
        optim.SGD(a)
    with pytest.raises(ValueError, match="leaf"):
        optim.SGD([a * 2])
    with pytest.raises(ValueError, match="option rate"):
        optim.SGD([{"params": [a], "rate": 1}])


def test_a_small_network_learns():
    gramme.manual_seed(0)
    net = gramme.nn.Sequential(gramme.nn.Linear(2, 16), gramme.nn.Tanh(), gramme.nn.Linear(16, 2))
    x = gramme.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = gramme.tensor([0, 1, 1, 0])
    optimizer = optim.Adam(net.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss = gramme.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01 and net(x).argmax(1).tolist() == y.tolist()
