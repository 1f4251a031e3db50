# SPDX-License-Identifier: Apache-2.0
"""Schedules of learning rates against closed forms, alone, chained, in sequence, saved, and with
compiled steps."""

import math

import numpy as np
import pytest

import gramme
from gramme import optim
from gramme.optim import lr_scheduler as S
from gramme.testing import CompileCounter, assert_bits_equal
from stress import counted


def optimizer_of(lr=0.1, second=0.5, make=optim.SGD, **options):
    a, b = gramme.ones(1, requires_grad=True), gramme.ones(1, requires_grad=True)
    return make([{"params": [a]}, {"params": [b], "lr": second}], lr=lr, **options)


def rates(make, epochs=20):
    """What the first group has at each epoch; the second one's are 5 times as high."""
    optimizer = optimizer_of()
    schedule = make(optimizer)
    history = []
    for _ in range(epochs):
        first, second = (group["lr"] for group in optimizer.param_groups)
        assert schedule.get_last_lr() == [first, second]
        history.append([first, second])
        schedule.step()
    return np.array(history)


def cosine(e, length, least):
    return lambda base: least + (base - least) * (1 + math.cos(math.pi * e / length)) / 2


CASES = {
    "lambda": (lambda o: S.LambdaLR(o, lambda e: 0.9**e), lambda e: lambda base: base * 0.9**e),
    "multiplicative": (
        lambda o: S.MultiplicativeLR(o, lambda e: 1 - 1 / (e + 1)),
        lambda e: lambda base: base / (e + 1),
    ),
    "step": (lambda o: S.StepLR(o, 3, 0.5), lambda e: lambda base: base * 0.5 ** (e // 3)),
    "multistep": (
        lambda o: S.MultiStepLR(o, [7, 2, 7]),
        lambda e: lambda base: base * 0.1 ** ((e >= 2) + 2 * (e >= 7)),
    ),
    "constant": (
        lambda o: S.ConstantLR(o, 0.25, 4),
        lambda e: lambda base: base * (0.25 if e < 4 else 1),
    ),
    "linear": (
        lambda o: S.LinearLR(o, 0.2, 0.8, 6),
        lambda e: lambda base: base * (0.2 + 0.1 * min(e, 6)),
    ),
    "exponential": (lambda o: S.ExponentialLR(o, 0.8), lambda e: lambda base: base * 0.8**e),
    "polynomial": (
        lambda o: S.PolynomialLR(o, 8, 2.0),
        lambda e: lambda base: base * (1 - min(e, 8) / 8) ** 2,
    ),
    "cosine": (lambda o: S.CosineAnnealingLR(o, 5, 0.02), lambda e: cosine(e, 5, 0.02)),
    "restarts": (
        lambda o: S.CosineAnnealingWarmRestarts(o, 4, 1, 0.01),
        lambda e: cosine(e % 4, 4, 0.01),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_follows_its_closed_form(name):
    make, closed = CASES[name]
    want = [[closed(e)(0.1), closed(e)(0.5)] for e in range(20)]
    np.testing.assert_allclose(rates(make), want, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "name",
    ["step", "multistep", "constant", "linear", "exponential", "polynomial", "cosine", "restarts"],
)
def test_a_schedule_can_be_put_at_any_epoch(name):
    make, closed = CASES[name]
    optimizer = optimizer_of()
    schedule = make(optimizer)
    for epoch in (7, 2, 12):
        schedule.step(epoch)
        np.testing.assert_allclose(
            [g["lr"] for g in optimizer.param_groups],
            [closed(epoch)(0.1), closed(epoch)(0.5)],
            rtol=1e-12,
        )


def test_restarts_get_longer():
    history = rates(lambda o: S.CosineAnnealingWarmRestarts(o, 2, 2))[:, 0]
    assert [e for e in range(20) if abs(history[e] - 0.1) < 1e-15] == [0, 2, 6, 14]


def test_one_cycle_goes_up_and_down_and_momentum_the_other_way():
    optimizer = optimizer_of(momentum=0.9)
    schedule = S.OneCycleLR(
        optimizer, [1.0, 2.0], total_steps=20, pct_start=0.25, div_factor=10, final_div_factor=100
    )
    history = []
    for _ in range(19):
        history.append([(g["lr"], g["momentum"]) for g in optimizer.param_groups])
        schedule.step()
    history.append([(g["lr"], g["momentum"]) for g in optimizer.param_groups])
    for e, (first, second) in enumerate(history):
        part = e / 4 if e <= 4 else (e - 4) / 15
        rate, momentum = ((0.1, 1.0), (0.95, 0.85)) if e <= 4 else ((1.0, 0.001), (0.85, 0.95))
        for got, (start, end) in zip(first, (rate, momentum)):
            assert got == pytest.approx(
                end + (start - end) * (1 + math.cos(math.pi * part)) / 2, rel=1e-12
            )
        assert second[0] == pytest.approx(2 * first[0], rel=1e-12)
    schedule.step()
    with pytest.raises(ValueError, match="21 of a cycle of 20"):
        schedule.step()


def test_one_cycle_in_three_phases_ends_far_below():
    optimizer = optimizer_of(make=optim.Adam)
    schedule = S.OneCycleLR(
        optimizer, 1.0, epochs=4, steps_per_epoch=5, three_phase=True, anneal_strategy="linear"
    )
    peak = []
    for _ in range(19):
        peak.append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["betas"]))
        schedule.step()
    assert (
        max(peak)[0] == 1.0 and peak[5] == (1.0, (0.85, 0.999)) and peak[0] == (0.04, (0.95, 0.999))
    )
    assert peak[10][0] == pytest.approx(0.04)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.04 / 1e4)


@pytest.mark.parametrize(
    "mode, height",
    [
        ("triangular", lambda c, e: 1),
        ("triangular2", lambda c, e: 0.5**c),
        ("exp_range", lambda c, e: 0.9**e),
    ],
)
def test_a_cyclic_rate_is_a_saw(mode, height):
    optimizer = optimizer_of(momentum=0.9)
    schedule = S.CyclicLR(optimizer, 0.1, 1.1, 4, 6, mode=mode, gamma=0.9)
    for e in range(30):
        place = (e % 10) / 4 if e % 10 <= 4 else (10 - e % 10) / 6
        assert optimizer.param_groups[0]["lr"] == pytest.approx(
            0.1 + place * height(e // 10, e), rel=1e-9
        )
        assert optimizer.param_groups[0]["momentum"] == pytest.approx(
            0.9 - 0.1 * place * height(e // 10, e), rel=1e-9
        )
        schedule.step()


def test_a_plateau_lowers_the_rate():
    optimizer = optimizer_of()
    schedule = S.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, cooldown=1, min_lr=0.03)
    seen = []
    for metric in [5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3.9, 3.9, 3.9, gramme.tensor(3.9), 3.9]:
        schedule.step(metric)
        seen.append(optimizer.param_groups[0]["lr"])
    assert seen == [0.1] * 4 + [0.05] * 4 + [0.03] * 8
    with pytest.raises(ValueError, match="below 1"):
        S.ReduceLROnPlateau(optimizer, factor=1.0)


def test_schedules_follow_each_other():
    history = rates(
        lambda o: S.SequentialLR(
            o, [S.ConstantLR(o, 0.1, 99), S.ExponentialLR(o, 0.9), S.StepLR(o, 2)], [4, 9]
        ),
        12,
    )[:, 0]
    want = [0.01] * 4 + [0.1 * 0.9**k for k in range(5)] + [0.1, 0.1, 0.01]
    np.testing.assert_allclose(history, want, rtol=1e-12)


def test_chained_schedules_multiply():
    history = rates(
        lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9)]), 6
    )[:, 0]
    np.testing.assert_allclose(
        history, [0.1 * 0.9**e * (0.1 if e < 3 else 1) for e in range(6)], rtol=1e-12
    )


@pytest.mark.parametrize(
    "make",
    [lambda o: make(o) for make, _ in CASES.values()]
    + [
        lambda o: S.CyclicLR(o, 0.1, 1.0, 3, cycle_momentum=False),
        lambda o: S.OneCycleLR(o, 1.0, 30, cycle_momentum=False),
        lambda o: S.SequentialLR(o, [S.LinearLR(o), S.CosineAnnealingWarmRestarts(o, 3)], [4]),
        lambda o: S.ChainedScheduler([S.LinearLR(o), S.StepLR(o, 2)]),
    ],
)
def test_a_schedule_goes_on_where_it_was_saved(make):
    plain = optimizer_of()
    schedule = make(plain)
    for _ in range(5):
        schedule.step()
    other = optimizer_of()
    again = make(other)
    other.load_state_dict(plain.state_dict())
    again.load_state_dict(schedule.state_dict())
    for _ in range(8):
        schedule.step()
        again.step()
        assert [g["lr"] for g in other.param_groups] == [g["lr"] for g in plain.param_groups]


class Decay:
    def __init__(self, base):
        self.base = base

    def __call__(self, epoch):
        return self.base**epoch


def test_objects_that_are_called_are_saved_and_functions_are_not():
    schedule = S.LambdaLR(optimizer_of(), [Decay(0.5), lambda e: 1.0])
    assert schedule.state_dict()["lr_lambdas"] == [{"base": 0.5}, None]
    other = S.LambdaLR(optimizer_of(), [Decay(0.9), lambda e: 1.0])
    other.load_state_dict(schedule.state_dict())
    assert other.lr_lambdas[0].base == 0.5


def test_what_schedules_refuse():
    optimizer = optimizer_of()
    with pytest.raises(TypeError, match="for an optimizer"):
        S.StepLR([1], 3)
    with pytest.raises(KeyError, match="initial_lr"):
        S.StepLR(optimizer, 3, last_epoch=4)
    with pytest.raises(ValueError, match="3 values"):
        S.LambdaLR(optimizer, [abs, abs, abs])
    with pytest.raises(ValueError, match="no momentum"):
        S.OneCycleLR(optimizer_of(make=optim.Adagrad), 1.0, 10)
    with pytest.raises(ValueError, match="1 milestones"):
        S.SequentialLR(optimizer, [S.StepLR(optimizer, 3), S.StepLR(optimizer, 3)], [])


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_a_compiled_step_reads_a_rate_that_is_a_tensor_anew(backend):
    def train(around):
        gramme._dynamo.reset()
        w = gramme.tensor([1.0, -2.0], requires_grad=True)
        optimizer = optim.Adam([w], lr=gramme.tensor(0.1))
        schedule = S.OneCycleLR(optimizer, 0.5, 10, cycle_momentum=False)
        step = around(optimizer.step)
        for _ in range(10):
            w.grad = gramme.sin(w.detach())
            step()
            schedule.step()
        return w.detach()

    want = train(lambda step: step)
    assert_bits_equal(train(lambda step: gramme.compile(step, backend=backend)), want)
    counter = CompileCounter()
    train(lambda step: gramme.compile(step, backend=counter))
    assert counted(counter.frame_count) == 2
