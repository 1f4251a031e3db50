# SPDX-License-Identifier: Apache-2.0
"""Optimizers against the formulas of their papers, in numpy and float64; and compiled steps against
plain ones, to the bit."""

import warnings

import numpy as np
import pytest

import gramme
from gramme import optim
from gramme.testing import CompileCounter, assert_bits_equal
from stress import counted

START = np.array([1.0, -2.0, 3.0, 0.25])


@pytest.fixture(autouse=True)
def forget():
    """All optimizers share the code of Optimizer.step(), which is compiled for a few of them
    only."""
    gramme._dynamo.reset()


def gradient(w, step):
    return np.sin(w * (step + 1)) + 0.1 * w


def follow(update, steps=8, sign=1, decay=0.0):
    """w after some steps of update(w, g, t, memory)."""
    w, memory = START.copy(), {}
    for t in range(1, steps + 1):
        w = update(w, sign * gradient(w, t - 1) + decay * w, t, memory)
    return w


def adagrad(lr=0.01, lr_decay=0.0, initial=0.0, eps=1e-10):
    def update(w, g, t, m):
        m["s"] = m.get("s", initial) + g * g
        return w - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(m["s"]) + eps)

    return update


def adadelta(lr=1.0, rho=0.9, eps=1e-6):
    def update(w, g, t, m):
        m["v"] = rho * m.get("v", 0) + (1 - rho) * g * g
        delta = np.sqrt(m.get("u", 0) + eps) / np.sqrt(m["v"] + eps) * g
        m["u"] = rho * m.get("u", 0) + (1 - rho) * delta * delta
        return w - lr * delta

    return update


def rmsprop(lr=0.01, alpha=0.99, eps=1e-8, momentum=0.0, centered=False):
    def update(w, g, t, m):
        m["v"] = alpha * m.get("v", 0) + (1 - alpha) * g * g
        m["g"] = alpha * m.get("g", 0) + (1 - alpha) * g
        step = g / (np.sqrt(m["v"] - (m["g"] ** 2 if centered else 0)) + eps)
        m["b"] = momentum * m.get("b", 0) + step
        return w - lr * m["b"]

    return update


def means(m, g, betas):
    m["m"] = betas[0] * m.get("m", 0) + (1 - betas[0]) * g
    m["v"] = betas[1] * m.get("v", 0) + (1 - betas[1]) * g * g
    return m["m"], m["v"]


def adamax(lr=2e-3, betas=(0.9, 0.999), eps=1e-8):
    def update(w, g, t, m):
        mean, _ = means(m, g, betas)
        m["u"] = np.maximum(betas[1] * m.get("u", 0), abs(g) + eps)
        return w - lr / (1 - betas[0] ** t) * mean / m["u"]

    return update


def nadam(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, psi=4e-3):
    def update(w, g, t, m):
        mean, square = means(m, g, betas)
        mu, after = (betas[0] * (1 - 0.5 * 0.96 ** (k * psi)) for k in (t, t + 1))
        m["p"] = m.get("p", 1) * mu
        estimate = after * mean / (1 - m["p"] * after) + (1 - mu) * g / (1 - m["p"])
        return w - lr * estimate / (np.sqrt(square / (1 - betas[1] ** t)) + eps)

    return update


def radam(lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    def update(w, g, t, m):
        mean, square = means(m, g, betas)
        limit = 2 / (1 - betas[1]) - 1
        length = limit - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        step = mean / (1 - betas[0] ** t)
        if length > 5:
            r = np.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
            step = step * r * np.sqrt(1 - betas[1] ** t) / (np.sqrt(square) + eps)
        return w - lr * step

    return update


def rprop(lr=0.01, etas=(0.5, 1.2), sizes=(1e-6, 50)):
    def update(w, g, t, m):
        sign = np.sign(g * m.get("g", 0 * g))
        m["s"] = np.clip(
            m.get("s", lr) * np.where(sign > 0, etas[1], np.where(sign < 0, etas[0], 1)), *sizes
        )
        m["g"] = np.where(sign < 0, 0, g)
        return w - np.sign(m["g"]) * m["s"]

    return update


def asgd(lr=0.01, lambd=1e-4, alpha=0.75):
    def update(w, g, t, m):
        eta = lr / (1 + lambd * lr * (t - 1)) ** alpha
        return w * (1 - lambd * eta) - eta * g

    return update


CASES = {
    "Adagrad": (optim.Adagrad, {}, adagrad()),
    "Adagrad-decay": (
        optim.Adagrad,
        {"lr_decay": 0.1, "initial_accumulator_value": 0.3},
        adagrad(lr_decay=0.1, initial=0.3),
    ),
    "Adadelta": (optim.Adadelta, {}, adadelta()),
    "Adadelta-rho": (optim.Adadelta, {"lr": 0.3, "rho": 0.5}, adadelta(0.3, 0.5)),
    "RMSprop": (optim.RMSprop, {}, rmsprop()),
    "RMSprop-centered": (
        optim.RMSprop,
        {"momentum": 0.9, "centered": True},
        rmsprop(momentum=0.9, centered=True),
    ),
    "Adamax": (optim.Adamax, {}, adamax()),
    "NAdam": (optim.NAdam, {}, nadam()),
    "RAdam": (optim.RAdam, {}, radam()),
    "RAdam-short": (optim.RAdam, {"lr": 0.1, "betas": (0.8, 0.9)}, radam(0.1, (0.8, 0.9))),
    "Rprop": (optim.Rprop, {}, rprop()),
    "Rprop-etas": (
        optim.Rprop,
        {"lr": 0.3, "etas": (0.2, 2.0), "step_sizes": (0.1, 0.5)},
        rprop(0.3, (0.2, 2.0), (0.1, 0.5)),
    ),
    "ASGD": (optim.ASGD, {"lambd": 0.1}, asgd(lambd=0.1)),
}
OTHERS = {
    "SGD": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "Adam": (optim.Adam, {"lr": 0.1, "amsgrad": True}),
    "AdamW": (optim.AdamW, {"lr": 0.1}),
    "ASGD-mean": (optim.ASGD, {"t0": 3, "lr": 0.1}),
    "NAdam-decoupled": (optim.NAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "Adamax-maximize": (optim.Adamax, {"weight_decay": 0.1, "maximize": True}),
}
KINDS = {**{name: case[:2] for name, case in CASES.items()}, **OTHERS}


def trained(cls, options, steps=8, around=lambda step: step, dtype=gramme.float64, change=None):
    w = gramme.tensor(START, dtype=dtype, requires_grad=True)
    optimizer = cls([w], **options)
    step = around(optimizer.step)
    for t in range(steps):
        w.grad = gramme.sin(w.detach() * (t + 1)) + 0.1 * w.detach()
        step()
        if change is not None:
            change(optimizer)
    return w.detach(), optimizer


@pytest.mark.parametrize("name", CASES)
def test_the_step_follows_its_formula(name):
    cls, options, update = CASES[name]
    np.testing.assert_allclose(trained(cls, options)[0].numpy(), follow(update), rtol=1e-10)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("Rprop", "Rprop-etas", "ASGD")])
def test_weight_decay_and_maximize(name):
    cls, options, update = CASES[name]
    options = {**options, "weight_decay": 0.1, "maximize": True}
    np.testing.assert_allclose(
        trained(cls, options)[0].numpy(), follow(update, sign=-1, decay=0.1), rtol=1e-9
    )


def test_asgd_keeps_the_mean_of_what_the_parameter_was():
    points = []
    _, optimizer = trained(
        optim.ASGD,
        {"t0": 3, "lr": 0.1},
        change=lambda o: points.append(o.param_groups[0]["params"][0].detach().numpy().copy()),
    )
    (state,) = optimizer.state.values()
    np.testing.assert_allclose(
        state["ax"].numpy(), np.mean(points[4:], axis=0), rtol=1e-12
    )  # mu is 1/k from the second step after t0 on


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_a_compiled_step_gives_the_same_bits(name, backend):
    cls, options = KINDS[name]
    for dtype in (gramme.float32, gramme.float64):
        want, plain = trained(cls, options, dtype=dtype)
        got, compiled = trained(
            cls, options, around=lambda step: gramme.compile(step, backend=backend), dtype=dtype
        )
        assert_bits_equal(got, want)
        (a,), (b,) = plain.state.values(), compiled.state.values()
        assert list(a) == list(b)
        for key in a:
            assert_bits_equal(b[key], a[key])


@pytest.mark.parametrize("name", KINDS)
def test_a_compiled_step_is_one_graph_for_the_first_step_and_one_for_all_others(name):
    cls, options = KINDS[name]
    counter = CompileCounter()
    trained(
        cls,
        options,
        steps=6,
        around=lambda step: gramme.compile(step, backend=counter, fullgraph=True),
    )
    assert counted(counter.frame_count) == 2


@pytest.mark.parametrize("name", KINDS)
def test_a_learning_rate_that_is_a_tensor_may_change_without_compiling_again(name):
    cls, options = KINDS[name]
    counter = CompileCounter()

    def half(optimizer):
        optimizer.param_groups[0]["lr"].mul_(0.5)

    options = {**options, "lr": gramme.tensor(0.25)}
    want, _ = trained(cls, options, change=half)
    got, _ = trained(
        cls, options, around=lambda step: gramme.compile(step, backend=counter), change=half
    )
    assert_bits_equal(got, want)
    assert counted(counter.frame_count) == 2
    assert options["lr"].item() == 0.25  # the group has one of its own


@pytest.mark.parametrize("name", KINDS)
def test_state_goes_on_where_it_was_saved(name):
    cls, options = KINDS[name]
    want, _ = trained(cls, options, steps=6)
    w = gramme.tensor(START, requires_grad=True)
    optimizer = cls([w], **options)
    for t in range(6):
        if t == 3:
            state = optimizer.state_dict()
            w = w.detach().clone().requires_grad_()
            optimizer = cls([w], lr=7.0)
            optimizer.load_state_dict(state)
        w.grad = gramme.sin(w.detach() * (t + 1)) + 0.1 * w.detach()
        optimizer.step()
    assert_bits_equal(w.detach(), want)


def test_a_state_of_another_dtype_gets_the_parameters():
    _, first = trained(optim.Adam, {}, dtype=gramme.float64)
    w = gramme.tensor(START, dtype=gramme.float32, requires_grad=True)
    second = optim.Adam([w])
    state = first.state_dict()
    state["state"][0]["step"] = 8  # a plain number, as older files have it
    second.load_state_dict(state)
    (state,) = second.state.values()
    assert (
        state["exp_avg"].dtype is gramme.float32
        and state["step"].dtype is gramme.float64
        and state["step"].item() == 8
    )


def rosenbrock(w):
    return (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2


@pytest.mark.parametrize("compiled", [False, True])
def test_lbfgs_finds_the_minimum_of_rosenbrocks_function(compiled):
    w = gramme.tensor([-1.2, 1.0], dtype=gramme.float64, requires_grad=True)
    optimizer = optim.LBFGS(
        [w], line_search_fn="strong_wolfe", max_iter=100, tolerance_change=1e-15
    )
    loss_of = gramme.compile(rosenbrock, backend="tcc") if compiled else rosenbrock

    def closure():
        optimizer.zero_grad()
        loss = loss_of(w)
        loss.backward()
        return loss

    assert abs(optimizer.step(closure).item() - 24.2) < 1e-12  # the loss before the step
    np.testing.assert_allclose(w.detach().numpy(), [1, 1], rtol=1e-6)
    assert optimizer.state[w]["func_evals"] < 90


def test_lbfgs_solves_a_quadratic_in_as_many_steps_as_it_has_dimensions():
    rng = np.random.default_rng(0)
    q = rng.normal(size=(5, 5))
    q = q @ q.T + np.eye(5)
    b = rng.normal(size=5)
    parts = [
        gramme.zeros(2, dtype=gramme.float64, requires_grad=True),
        gramme.zeros(3, 1, dtype=gramme.float64, requires_grad=True),
    ]
    optimizer = optim.LBFGS(
        parts, max_iter=40, line_search_fn="strong_wolfe", tolerance_change=1e-14
    )
    matrix, vector = gramme.tensor(q), gramme.tensor(b)

    def closure():
        optimizer.zero_grad()
        x = gramme.cat([parts[0], parts[1].reshape(3)])
        loss = 0.5 * (x @ (matrix @ x)) - vector @ x
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(
        np.concatenate([p.detach().numpy().reshape(-1) for p in parts]),
        np.linalg.solve(q, b),
        rtol=1e-6,
    )


def test_lbfgs_says_what_it_cannot_take():
    w = gramme.ones(1, requires_grad=True)
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([w]).step()
    with pytest.raises(ValueError, match="one group"):
        optim.LBFGS([{"params": [w]}, {"params": [gramme.ones(1, requires_grad=True)]}])
    with pytest.raises(ValueError, match="strong_wolfe"):
        optim.LBFGS([w], line_search_fn="golden")


def test_hooks_of_steps_and_states():
    w = gramme.ones(1, requires_grad=True)
    optimizer, seen = optim.SGD([w], lr=0.5), []
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", w.item()))),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(("after", w.item()))),
        optimizer.register_state_dict_pre_hook(lambda o: seen.append("save")),
        optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1}),
        optimizer.register_load_state_dict_pre_hook(
            lambda o, state: seen.append(("load", state["more"]))
        ),
        optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded")),
    ]
    w.grad = gramme.ones(1)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == [("before", 1.0), ("after", 0.5), "save", ("load", 1), "loaded"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 5 and w.item() == 0 and "more" not in optimizer.state_dict()


def test_named_parameters_and_hints():
    net = gramme.nn.Linear(2, 2)
    optimizer = optim.Adam(net.named_parameters(), foreach=True, fused=False, capturable=True)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"][0] is net.weight
    with pytest.raises(TypeError, match="'faster'"):
        optim.Adam(net.parameters(), faster=True)
    with pytest.raises(NotImplementedError, match="differentiable"):
        optim.SGD(net.parameters(), differentiable=True)
    with pytest.raises(ValueError, match="etas"):
        optim.Rprop(net.parameters(), etas=(1.5, 2))


def test_lists_of_parameters_may_be_changed_by_hand():
    a, b, c = (gramme.full((1,), float(i), requires_grad=True) for i in (1, 2, 3))
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.25, momentum=0.5)
    for p in (a, b, c):
        p.grad = gramme.ones(1)
    optimizer.step()
    del optimizer.param_groups[0]
    optimizer.param_groups[0]["params"].append(c)
    optimizer.step()
    assert (a.item(), b.item(), c.item()) == (0.75, 2 - 0.5 - 0.75, 2.5)  # b has kept its momentum
    assert (
        c in optimizer.state
        and optimizer.state[b]["momentum_buffer"].item() == 1.5
        and len(optimizer.state) == 3
    )
    del optimizer.state[b]
    assert b not in optimizer.state and len(optimizer.state) == 2


class Halver(optim.Optimizer):
    """An optimizer of one's own: _update() is all it takes."""

    def __init__(self, params):
        super().__init__(params, {})

    def _update(self, p, g, state, group):
        p *= 0.5


def test_an_optimizer_of_ones_own():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trained(Halver, {}, steps=2)[0].tolist() == (START / 4).tolist()


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("name", ["SGD", "AdamW", "RMSprop", "NAdam"])
def test_a_whole_training_step_compiles(name, backend):
    """Loss, gradients and the step in one function."""

    def train(around):
        gramme.manual_seed(0)
        net = gramme.nn.Sequential(gramme.nn.Linear(3, 8), gramme.nn.Tanh(), gramme.nn.Linear(8, 2))
        cls, options = KINDS[name]
        optimizer = cls(net.parameters(), **options)

        def step(x, y):
            optimizer.zero_grad()
            loss = gramme.nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        step = around(step)
        x, y = gramme.randn(5, 3), gramme.randn(5, 2)
        losses = [step(x, y).detach() for _ in range(5)]
        return losses + [p.detach() for p in net.parameters()]

    want, got = train(lambda f: f), train(lambda f: gramme.compile(f, backend=backend))
    for a, b in zip(got, want):
        assert_bits_equal(a, b)
