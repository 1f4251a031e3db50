# SPDX-License-Identifier: Apache-2.0
"""autograd.detect_anomaly: which function made a NaN, and where the forward called it; in eager,
around and inside of compiled functions."""

import inspect
import math
import warnings

import pytest

import gramme as G
from gramme.autograd import detect_anomaly, set_detect_anomaly

BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]
NAN = "Function '{}' returned nan values in its {}th output"


def bad(x):
    y = (x - 1.0).log()
    return (y * 0.0).sum()


LINE = inspect.getsourcelines(bad)[1] + 1


def leaf():
    return G.tensor([1.0, 2.0], requires_grad=True)


def fails(loss, text):
    """What backward() tells."""
    with pytest.raises(RuntimeError) as info, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        loss.backward()
    assert text in str(info.value)
    return str(info.value), "".join(str(w.message) for w in told)


@pytest.mark.parametrize(
    "compile", [lambda f: f, *[lambda f, b=b: G.compile(f, backend=b) for b in BACKENDS]]
)
def test_the_function_and_the_line_are_named(compile):
    f = compile(bad)
    f(leaf())  # compiled before
    with set_detect_anomaly(True):
        error, warning = fails(f(leaf()), NAN.format("LogBackward0", 0))
    assert f'test_anomaly.py", line {LINE}, in bad: y = (x - 1.0).log()' in error
    assert (
        "Error detected in LogBackward0. Traceback of forward call" in warning
        and "y = (x - 1.0).log()" in warning
    )
    x = leaf()
    f(x).backward()
    assert math.isnan(x.grad[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_compiled_before_is_taken_apart(backend):
    loss = G.compile(bad, backend=backend)(leaf())
    with set_detect_anomaly(True):
        _, warning = fails(loss, NAN.format("LogBackward0", 0))
    assert "No forward pass information available" in warning


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_mode_may_begin_inside_of_a_compiled_function(backend):
    def inside(x):
        a = x * 1
        with set_detect_anomaly(True):
            (g,) = G.autograd.grad(((a - 1.0).log() * 0).sum(), a)
        return g

    def after(x):
        G.autograd.set_detect_anomaly(True)
        try:
            return bad(x)
        finally:
            G.autograd.set_detect_anomaly(False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            with pytest.raises(RuntimeError, match="LogBackward0"):
                G.compile(inside, backend=backend)(leaf())
        assert not G.is_anomaly_enabled()
        loss = G.compile(after, backend=backend)(leaf())
    with set_detect_anomaly(True):
        assert "in bad: y = " in fails(loss, "LogBackward0")[0]


def test_gradients_do_not_change():
    def f(x):
        return (G.nn.functional.softmax(x @ x.T, -1) * x.sin()).tanh().sum() + x.cumsum(0).std()

    found = []
    for mode in (False, True):
        for compiled in (f, G.compile(f, backend="eager")):
            x = G.linspace(-2, 2, 9, dtype=G.float64).reshape(3, 3).requires_grad_()
            with set_detect_anomaly(mode):
                compiled(x).backward()
            found.append(x.grad.numpy().tobytes())
    assert found[0] == found[1] == found[2] == found[3]


def test_functions_of_ones_own_loops_and_second_gradients():
    class Bad(G.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g, g * math.nan

    with set_detect_anomaly(True):
        x = leaf()
        fails(Bad.apply(x, x * 1).sum(), NAN.format("BadBackward", 1))
        loop = G.while_loop(
            lambda i, x: i < 2, lambda i, x: (i + 1, (x - 1).log() * 0 + 1), (G.tensor(0), x)
        )[1]
        assert "while_loop(" in fails(loop.sum(), "HigherOrderBackward")[0]
        y = G.zeros(1, requires_grad=True)
        (slope,) = G.autograd.grad((y**1.5).sum(), y, create_graph=True)
        fails((slope * 0).sum(), "returned nan")


def test_other_errors_are_told_of():
    x = leaf()
    with set_detect_anomaly(True):
        y = x.exp()
        z = y.sin()
        y.add_(1)
        _, warning = fails(z.sum(), "changed by an in-place operation")
    assert "Error detected in SinBackward0" in warning and "z = y.sin()" in warning


def test_the_mode():
    assert not G.is_anomaly_enabled()
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"), detect_anomaly(
        check_nan=False
    ):
        assert G.is_anomaly_enabled() and not G.is_anomaly_check_nan_enabled()
        bad(leaf()).backward()
        with set_detect_anomaly(False):
            assert not G.is_anomaly_enabled()
        assert G.is_anomaly_enabled()
    G.set_anomaly_enabled(True)
    assert G.is_anomaly_enabled() and G.is_anomaly_check_nan_enabled()
    G.set_anomaly_enabled(False)
    assert not G.is_anomaly_enabled()


@pytest.mark.parametrize("stance", ["force_eager", "eager_on_recompile", "fail_on_recompile"])
def test_loops_run_in_every_stance(stance):
    def loop(x):
        return G.while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, x * 2 + 0.5), (G.tensor(0), x)
        )[1]

    assert G.compiler.disable(loop)(G.ones(2)).tolist() == [11.5, 11.5]
    with G.compiler.set_stance(stance):
        assert loop(G.ones(2)).tolist() == [11.5, 11.5]
