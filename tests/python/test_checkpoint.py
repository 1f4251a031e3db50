# SPDX-License-Identifier: Apache-2.0
"""gramme.utils.checkpoint: the results and gradients of the plain call, to the bit, in less
memory."""

import gramme
import pytest
from gramme import nn
from gramme.nn import functional as F
from gramme.utils.checkpoint import checkpoint, checkpoint_sequential


def bits(tensors):
    return [None if t is None else t.detach().numpy().tobytes() for t in tensors]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.dropout(F.gelu(self.up(self.norm(x))), 0.1))


def make(depth=3, width=16):
    gramme.manual_seed(3)
    return nn.Sequential(*(Block(width) for _ in range(depth))), gramme.randn(
        4, width, requires_grad=True
    )


def step(model, x, forward):
    gramme.manual_seed(5)
    for p in [x, *model.parameters()]:
        p.grad = None
    loss = (forward(x) ** 2).mean()
    loss.backward()
    return bits([loss, x.grad, *(p.grad for p in model.parameters()), gramme.get_rng_state()])


def through_regions(model):
    def forward(x):
        for block in model:
            x = checkpoint(block, x)
        return x

    return forward


def test_bits_are_those_of_the_plain_call_dropout_included():
    model, x = make()
    assert step(model, x, model) == step(model, x, through_regions(model))


def test_one_region_around_all():
    model, x = make()
    assert step(model, x, model) == step(model, x, lambda x: checkpoint(model, x))


def test_regions_in_regions():
    model, x = make()
    inner = through_regions(model)
    assert step(model, x, model) == step(model, x, lambda x: checkpoint(inner, x))


def test_sequential():
    model, x = make()
    for segments in (1, 2, 3):
        assert step(model, x, model) == step(
            model, x, lambda x: checkpoint_sequential(model, segments, x)
        )
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential(model, 4, x)


def test_it_takes_less_memory():
    def peak(forward):
        step(model, x, forward)
        for p in [x, *model.parameters()]:
            p.grad = None
        before = gramme._core.live_bytes()
        gramme._core.reset_peak_bytes()
        loss = (forward(x) ** 2).mean()
        held = gramme._core.live_bytes() - before
        loss.backward()
        return held, gramme._core.peak_bytes() - before

    gramme.manual_seed(1)
    model = nn.Sequential(*(Block(32) for _ in range(6)))
    x = gramme.randn(2048, 32, requires_grad=True)
    plain, regions = peak(model), peak(through_regions(model))
    assert regions[0] < 0.15 * plain[0]
    assert regions[1] < 0.45 * plain[1]


def test_everything_is_freed_after_the_backward():
    model, x = make()
    step(model, x, through_regions(model))
    before = gramme._core.live_bytes()
    for _ in range(5):
        step(model, x, through_regions(model))
    assert gramme._core.live_bytes() == before


def test_a_region_that_nobody_walks_backwards_is_freed():
    model, x = make()
    before = gramme._core.live_bytes()
    through_regions(model)(x)
    assert gramme._core.live_bytes() == before


def test_gradients_of_parameters_by_grad():
    model, x = make()
    parameters = list(model.parameters())

    def gradients(forward):
        gramme.manual_seed(5)
        return bits(gramme.autograd.grad((forward(x) ** 2).mean(), parameters))

    assert gradients(model) == gradients(through_regions(model))


def test_second_derivatives():
    x = gramme.randn(5, requires_grad=True)

    def f(x):
        return (gramme.exp(gramme.sin(x)) * x).sum()

    def second(forward):
        (first,) = gramme.autograd.grad(forward(x), x, create_graph=True)
        (twice,) = gramme.autograd.grad((first * first).sum(), x)
        return bits([first.detach(), twice])

    assert second(f) == second(lambda x: checkpoint(f, x))


def test_two_backwards_with_retain_graph():
    x = gramme.randn(5, requires_grad=True)

    def twice(forward):
        x.grad = None
        y = forward(x)
        y.backward(retain_graph=True)
        y.backward()
        return bits([x.grad])

    def f(x):
        return (x.tanh() * x).sum()

    assert twice(f) == twice(lambda x: checkpoint(f, x))


def test_backward_again_without_retain_graph_is_refused():
    x = gramme.randn(5, requires_grad=True)
    y = checkpoint(lambda x: x.tanh().sum(), x)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_it_runs_twice_and_without_gradients_once():
    calls = []

    def f(x):
        calls.append(1)
        return (x * x).tanh().sum()

    x = gramme.randn(3, requires_grad=True)
    checkpoint(f, x).backward()
    assert len(calls) == 2
    with gramme.no_grad():
        checkpoint(f, x)
    assert len(calls) == 3


def test_keywords_and_several_results():
    def f(x, *, scale):
        return (x * scale).tanh(), x.exp()

    x = gramme.randn(3, requires_grad=True)
    scale = gramme.randn(3, requires_grad=True)

    def gradients(call):
        a, b = call(x, scale=scale)
        return bits(gramme.autograd.grad((a * b).sum(), (x, scale)))

    assert gradients(f) == gradients(lambda *a, **k: checkpoint(f, *a, **k))


@pytest.mark.parametrize("grad", [False, True])
def test_an_argument_that_was_changed_is_an_error(grad):
    w = gramme.randn(3, requires_grad=True)
    x = gramme.randn(3) * 2 if not grad else gramme.randn(3, requires_grad=True) * 2
    y = checkpoint(lambda x: (x.sin() * w).sum(), x)
    with gramme.no_grad():
        x.add_(1.0)
    with pytest.raises(RuntimeError, match="in-place"):
        y.backward()


def test_a_parameter_that_was_changed_is_an_error():
    w = gramme.randn(3, requires_grad=True)
    x = gramme.randn(3, requires_grad=True)
    y = checkpoint(lambda x: (x * w).sum(), x)
    with gramme.no_grad():
        w.add_(1.0)
    with pytest.raises(RuntimeError, match="in-place"):
        y.backward()


def test_a_function_that_does_something_else_is_an_error():
    turn = []

    def f(x):
        turn.append(1)
        return x.tanh().exp().sum() if len(turn) == 1 else x.exp().tanh().sum()

    y = checkpoint(f, gramme.randn(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="something else"):
        y.backward()


def test_what_the_second_run_raises_comes_out():
    turn = []

    def f(x):
        turn.append(1)
        if len(turn) > 1:
            raise KeyError("not again")
        return x.tanh().sum()

    y = checkpoint(f, gramme.randn(3, requires_grad=True))
    with pytest.raises(KeyError, match="not again"):
        y.backward()
    assert gramme.is_grad_enabled()


def test_what_the_first_run_raises_comes_out_and_closes_the_region():
    def f(x):
        x.tanh()
        raise KeyError("now")

    x = gramme.randn(3, requires_grad=True)
    with pytest.raises(KeyError, match="now"):
        checkpoint(f, x)
    before = x.grad
    x.tanh().sum().backward()
    assert before is None and x.grad is not None
