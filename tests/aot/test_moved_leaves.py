# SPDX-License-Identifier: Apache-2.0
"""A leaf that is given other memory (.data) between a forward and its backward: compiled code reads
where plain code reads.

Plain code keeps a leaf itself and reads it when the backward runs; everything else is kept as it
was.
"""

import gramme
import gramme.nn.functional as F
import pytest


def product(x, w):
    return x * w


def made_of_it(x, w):
    return (x * w).tanh() * w


def written(x, w):
    y = x + 0
    y.mul_(w)
    y.mul_(w)
    return y


def view_of_it(x, w):
    return x * w.view(3) + w.reshape(3, 1).sum(1) * x


def computed_again(x, w):
    return (x * w).sin().cos().exp() / w


def twice(x, w):
    return F.linear(x.reshape(1, 3), (w * w).reshape(1, 3)) + w.exp() * x


class Scale(gramme.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x


def function(x, w):
    return Scale.apply(x, w) * w


FUNCTIONS = [product, made_of_it, written, view_of_it, computed_again, twice, function]


def other(scale, version=0):
    t = gramme.tensor([1.5, -2.5, 3.25]) * scale
    for _ in range(version):
        t.add_(1.0)
    return t


def outcome(run):
    try:
        return run()
    except RuntimeError as error:
        return type(error)


def both(f, run):
    plain = outcome(lambda: run(f))
    assert outcome(lambda: run(gramme.compile(f, backend="eager"))) == plain
    return plain


def start():
    return gramme.tensor([1.0, 1.0, 2.0], requires_grad=True), gramme.nn.Parameter(
        gramme.tensor([1.0, 2.0, 3.0])
    )


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_parameter_moves_after_the_call(f, calls):
    def run(f):
        x, w = start()
        y = x
        for i in range(calls):
            y = f(y, w)
            w.data = other(10.0 + i)
        y.sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    assert isinstance(both(f, run), tuple)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_input_that_requires_grad_moves(f):
    def run(f):
        x, w = start()
        y = f(x, w)
        x.data = other(2.0)
        y.sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    assert isinstance(both(f, run), tuple)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_input_without_gradient_stays_as_it_was(f):
    def run(f):
        x, w = start()
        x = x.detach()
        y = f(x, w)
        x.data = other(2.0)
        y.sum().backward()
        return w.grad.tolist()

    assert isinstance(both(f, run), list)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_moves_between_two_backwards(f):
    def run(f):
        x, w = start()
        y = f(x, w)
        w.data = other(3.0)
        y.sum().backward(retain_graph=True)
        first = x.grad.tolist(), w.grad.tolist()
        w.data = other(5.0)
        y.sum().backward()
        return first, x.grad.tolist(), w.grad.tolist()

    assert isinstance(both(f, run), tuple)


@pytest.mark.parametrize("f", [product, made_of_it, twice], ids=lambda f: f.__name__)
def test_new_memory_of_another_version_is_refused(f):
    def run(f):
        x, w = start()
        y = f(x, w)
        w.data = other(3.0, version=2)
        y.sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    assert both(f, run) is RuntimeError


@pytest.mark.parametrize("writes", [1, 2])
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("f", [product, made_of_it, view_of_it, twice], ids=lambda f: f.__name__)
def test_old_memory_may_be_written_before_the_leaf_moves(f, version, writes):
    """The version that counts is that of where the leaf is."""

    def run(f):
        x, w = start()
        y = f(x, w)
        with gramme.no_grad():
            for _ in range(writes):
                w.mul_(2.0)
        w.data = other(3.0, version)
        y.sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    found = both(f, run)
    if f in (product, made_of_it):
        assert found is RuntimeError if version else isinstance(found, tuple)


def moves_itself(x, w):
    y = x * w
    with gramme.no_grad():
        w.mul_(3)
    w.data = other(5.0)
    return y + w


@pytest.mark.parametrize("before", [0, 1])
def test_written_and_moved_within_the_function(before):
    def run(f):
        x, w = start()
        with gramme.no_grad():
            for _ in range(before):
                w.add_(1.0)
        f(x, w).sum().backward()
        return x.grad.tolist(), w.grad.tolist(), w.tolist()

    found = both(moves_itself, run)
    assert found is RuntimeError if before else isinstance(found, tuple)


@pytest.mark.parametrize("f", [product, made_of_it, computed_again], ids=lambda f: f.__name__)
def test_second_derivative(f):
    def run(f):
        x, w = start()
        y = f(x, w)
        w.data = other(3.0)
        (g,) = gramme.autograd.grad(y.sum(), x, create_graph=True)
        w.data = other(4.0)
        (g * g * x).sum().backward()
        return g.tolist(), x.grad.tolist(), w.grad.tolist()

    assert isinstance(both(f, run), tuple)


def test_memory_of_another_shape():
    def run(f):
        x, w = start()
        y = f(x, w)
        w.data = gramme.tensor([2.0])
        y.sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    both(product, run)


def test_hooks_on_saved_tensors_have_what_they_packed():
    def run(f):
        x, w = start()
        with gramme.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = f(x, w)
        w.data = other(3.0)
        y.sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    assert isinstance(both(made_of_it, run), tuple)


def train(steps, compiled, early):
    gramme.manual_seed(0)
    net = gramme.nn.Sequential(gramme.nn.Linear(3, 4), gramme.nn.Tanh(), gramme.nn.Linear(4, 1))
    run = gramme.compile(net, backend="eager") if compiled else net
    x = gramme.arange(6.0).reshape(2, 3)
    for _ in range(steps):
        loss = (run(x) ** 2).sum()
        if early:  # the last step's loss is differentiated where the parameters are now
            for p in net.parameters():
                p.data = p.data * 0.5
        loss.backward()
        for p in net.parameters():
            p.data = p.data - 0.01 * p.grad
            p.grad = None
    return [p.tolist() for p in net.parameters()]


@pytest.mark.parametrize("early", [False, True])
def test_loop_that_exchanges_parameters(early):
    assert train(4, True, early) == train(4, False, early)
