# SPDX-License-Identifier: Apache-2.0
"""no_grad, enable_grad, set_grad_enabled, inference_mode, autocast and the default dtype, inside
and around compiled functions:
results, what requires grad, gradients and the state left behind are eager's, and what was read of
the state is guarded."""

import threading

import pytest

import gramme as G
from stress import counted

BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]


@pytest.fixture(autouse=True)
def as_it_was():
    G.compiler.reset()
    yield
    G.set_grad_enabled(True)
    G.set_default_dtype(G.float32)


def bits(t):
    return b"".join([t.detach().contiguous()])


def state():
    return G.is_grad_enabled(), G.get_default_dtype(), G.is_autocast_enabled()


def leaves():
    G.manual_seed(2)
    return G.randn(4, 4, requires_grad=True), G.randn(4, 4, requires_grad=True)


def seen(f):
    """All that a call shows."""
    x, w = leaves()
    results = f(x, w)
    shown = [state()] + [(str(t.dtype), t.requires_grad, t.is_leaf, bits(t)) for t in results]
    for t in results:
        if t.requires_grad:
            G.set_grad_enabled(True)
            t.float().sum().backward(retain_graph=True)
    return shown + [None if t.grad is None else bits(t.grad) for t in (x, w)]


# -- Inside


def plain(x, w):
    return x @ w, x * G.get_default_dtype().itemsize, (x + w) * (2 if G.is_grad_enabled() else 3)


def a_block(x, w):
    with G.no_grad():
        y = x @ w
        with G.enable_grad():
            z = (x * w).exp()
    return y, z, y * x


def inference(x, w):
    with G.inference_mode():
        y = x.exp()
    with G.inference_mode(False):
        z = x.sin()
    with G.inference_mode(mode=True):
        u = w.sin()
    return y, z, u, u * w


def a_call(x, w):
    G.set_grad_enabled(False)
    y = x * w
    G.set_grad_enabled(True)
    z = x * w
    return y, z


def left_off(x, w):
    y = x * w
    G.set_grad_enabled(False)
    return y, y + x


@G.no_grad()
def decorated(x, w):
    return x * w, x + 1


@G.inference_mode
def decorated_bare(x, w):
    return x * w, x + 1


def detached(x, w):
    with G.set_grad_enabled(False):
        a = x.detach() * w
    return a, a * w, x.detach()


def in_an_exception(x, w):
    try:
        with G.no_grad():
            y = x * w
            raise KeyError("out")
    except KeyError:
        return y, x * w


def casts(x, w):
    with G.autocast("cpu", dtype=G.bfloat16):
        y = x @ w
        with G.autocast("cpu", enabled=False):
            z = x @ w
    return y, z, x @ w, y.float() * z


def casts_without_gradients(x, w):
    with G.no_grad(), G.autocast("cpu"):
        y = (x @ w).exp()
    return y, y.float() * w


def default_dtype(x, w):
    G.set_default_dtype(G.float64)
    a = G.ones(4)
    b = G.tensor([1.5, 2.5])
    G.set_default_dtype(G.float32)
    return a, b, G.ones(4) + x


INSIDE = [
    plain,
    a_block,
    inference,
    a_call,
    left_off,
    decorated,
    decorated_bare,
    detached,
    in_an_exception,
    casts,
    casts_without_gradients,
    default_dtype,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", INSIDE, ids=lambda f: f.__name__)
def test_modes_inside_of_a_compiled_function(f, backend):
    compiled = G.compile(f, backend=backend)
    want = seen(f)
    as_left = state()
    for _ in range(2):
        G.set_grad_enabled(True)
        assert seen(compiled) == want
        assert state() == as_left


# -- Around


def in_float64():
    class Scope:
        def __enter__(self):
            G.set_default_dtype(G.float64)

        def __exit__(self, *exception):
            G.set_default_dtype(G.float32)

    return Scope()


def nothing():
    return G.enable_grad()


AROUND = [
    nothing,
    G.no_grad,
    G.inference_mode,
    lambda: G.inference_mode(False),
    lambda: G.set_grad_enabled(False),
    lambda: G.autocast("cpu"),
    lambda: G.autocast("cpu", dtype=G.float16),
    lambda: G.autocast("cpu", enabled=False),
    in_float64,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f", [plain, a_block, casts, in_an_exception, detached], ids=lambda f: f.__name__
)
def test_modes_around_a_compiled_function(f, backend):
    """One function, called in all of them in turn, twice: the second time all entries are there."""
    compiled = G.compile(f, backend=backend, fullgraph=True)
    entries = []
    for _ in range(2):
        for scope in AROUND:
            with scope():
                want = under(f)
            with scope():
                assert under(compiled) == want, scope
        entries.append(counted(compiled.status()["graphs"]))
    assert entries[0] == entries[1] <= 5  # grad on and off, two autocasts, another default dtype


def under(f):
    x, w = leaves()
    return [state()] + [(str(t.dtype), t.requires_grad, bits(t)) for t in f(x, w)]


def test_what_was_read_of_the_state_is_in_the_guards():
    compiled = G.compile(plain, backend="eager", fullgraph=True)
    compiled(*leaves())
    assert (
        "GRAD_MODE on" in compiled.entries()[0]["guards"]
        and "DEFAULT_DTYPE f32" in compiled.entries()[0]["guards"]
    )
    with G.no_grad(), G.autocast("cpu"):
        compiled(*leaves())
    entry = compiled.entries()[0]
    assert "GRAD_MODE off" in entry["guards"] and "AUTOCAST cpu bf16" in entry["guards"]
    assert "expected GRAD_MODE on" in entry["reason"]


def test_gradients_are_computed_in_whatever_mode_the_backward_runs():
    compiled = G.compile(lambda x, w: (x @ w).exp().sum(), backend="eager", fullgraph=True)

    def step(f, scope):
        x, w = leaves()
        y = f(x, w)
        with scope():
            y.backward()
        return bits(x.grad), bits(w.grad), str(x.grad.dtype)

    for scope in AROUND:
        assert step(compiled, scope) == step(compiled.__wrapped__, scope)


def test_modes_are_the_threads_own():
    compiled = G.compile(plain, backend="eager", fullgraph=True)
    found = []

    def other():
        with G.no_grad():
            found.append(under(compiled))
        found.append(state())

    want_here = under(plain)
    with G.no_grad():
        want_there = under(plain)
    thread = threading.Thread(target=other)
    thread.start()
    assert under(compiled) == want_here
    thread.join()
    assert found == [want_there, (True, G.float32, False)] and under(compiled) == want_here


def test_a_break_inside_of_a_mode_goes_on_in_it():
    def f(x, w):
        with G.inference_mode():
            y = x * w
            G._dynamo.graph_break()
            z = y + x
        return y, z, z * w, x * 2

    assert seen(G.compile(f, backend="eager")) == seen(f)
