# SPDX-License-Identifier: Apache-2.0
"""gramme.autocast: in eager, inside of compiled functions, and around them."""

import threading

import pytest

import gramme as G
from gramme import nn
from gramme.nn import functional as F
from stress import FORCED, undisturbed


def bits(t):
    return b"".join([t.detach().contiguous()])


def test_products_run_in_the_dtype_of_the_context():
    a, b = G.randn(3, 4), G.randn(4, 5)
    with G.autocast("cpu"):
        c = a @ b
        assert (
            c.dtype == G.bfloat16
            and G.is_autocast_enabled()
            and G.get_autocast_dtype() == G.bfloat16
        )
        assert (a + 1).dtype == G.float32
        assert F.linear(a, b.t()).dtype == G.bfloat16
        assert F.mse_loss(c, c.to(G.float32)).dtype == G.float32
        assert (
            G.cat([c, a @ b]).dtype == G.bfloat16
            and G.cat([c, a.to(G.float32) @ b.to(G.float32) + G.zeros(1)]).dtype == G.float32
        )
        assert (a.double() @ b.double()).dtype == G.float64
        with G.autocast("cpu", enabled=False):
            assert (a @ b).dtype == G.float32
        with G.autocast("cpu", dtype=G.float16):
            assert (a @ b).dtype == G.float16
    assert (a @ b).dtype == G.float32 and not G.is_autocast_enabled()
    assert bits(c) == bits(a.to(G.bfloat16) @ b.to(G.bfloat16))


@pytest.mark.parametrize("backend", [None, "eager"])
def test_an_image_and_a_grid_of_two_dtypes_are_sampled_in_the_wider_one(backend):
    def sample(x, grid):
        with G.autocast("cpu"):
            return F.grid_sample(x.to(G.bfloat16), grid, align_corners=False)

    x, grid = G.randn(1, 2, 4, 4), G.rand(1, 3, 3, 2) * 2 - 1
    got = (G.compile(sample, backend=backend) if backend else sample)(x, grid)
    want = F.grid_sample(x.to(G.bfloat16).to(G.float32), grid, align_corners=False)
    assert got.dtype == G.float32 and bits(got) == bits(want)
    with pytest.raises(RuntimeError, match="one dtype"):
        F.grid_sample(x.to(G.bfloat16), grid, align_corners=False)


def test_gradients_arrive_in_the_dtype_of_the_leaves():
    model = nn.Linear(4, 3)
    x = G.randn(2, 4)
    with G.autocast("cpu"):
        loss = F.cross_entropy(model(x), G.tensor([0, 2]))
    loss.backward()
    assert loss.dtype == G.float32 and model.weight.grad.dtype == G.float32


def test_it_is_a_decorator_and_belongs_to_a_thread():
    @G.autocast("cpu")
    def f(a):
        return a @ a

    assert f(G.ones(2, 2)).dtype == G.bfloat16
    found = []
    with G.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append(G.is_autocast_enabled()))
        thread.start()
        thread.join()
    assert found == [False]


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="bfloat16 or gramme.float16"):
        G.autocast("cpu", dtype=G.float64)
    with pytest.raises(TypeError, match="type of a device"):
        G.autocast(G.bfloat16)


def test_the_context_is_left_on_an_exception():
    with pytest.raises(KeyError):
        with G.autocast("cpu"):
            raise KeyError
    assert not G.is_autocast_enabled()


def test_a_checkpoint_runs_again_as_it_ran():
    x = G.randn(3, 3, requires_grad=True)
    grads = []
    for run in (lambda f, x: f(x), G.utils.checkpoint.checkpoint):
        x.grad = None
        with G.autocast("cpu"):
            y = run(lambda x: (x @ x).exp(), x)
        y.float().sum().backward()
        grads.append(bits(x.grad))
    assert grads[0] == grads[1]


def model_step(x, w):
    with G.autocast("cpu"):
        y = F.linear(x, w).relu() @ w
        inside = G.is_autocast_enabled()
    return F.mse_loss(y.float(), x), y, inside, G.is_autocast_enabled()


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_inside_of_a_compiled_function(backend):
    if backend not in G.compiler.list_backends():
        pytest.skip("no such back end here")
    f = G.compile(model_step, backend=backend, fullgraph=not FORCED)
    results = []
    for fn in (model_step, f, f):
        G.manual_seed(1)
        x, w = G.randn(2, 4), G.randn(4, 4, requires_grad=True)
        loss, y, inside, outside = fn(x, w)
        loss.backward()
        results.append(
            (bits(loss), bits(y), y.dtype, inside, outside, bits(w.grad), G.is_autocast_enabled())
        )
    assert results[0] == results[1] == results[2]


@undisturbed
def test_around_a_compiled_function_it_is_guarded():
    f = G.compile(lambda x: x @ x, backend="eager", fullgraph=True)
    x = G.randn(3, 3)
    for _ in range(2):
        assert f(x).dtype == G.float32
        with G.autocast("cpu"):
            assert f(x).dtype == G.bfloat16 and bits(f(x)) == bits(x @ x)
        with G.autocast("cpu", dtype=G.float16):
            assert f(x).dtype == G.float16
    assert f.status()["graphs"] == 3
    assert any("AUTOCAST cpu bf16" in str(entry) for entry in f.entries())


def test_a_break_in_the_context_goes_on_in_it():
    seen = []

    def g(x):
        with G.autocast("cpu"):
            y = x @ x
            G._dynamo.graph_break()
            seen.append(G.is_autocast_enabled())
            z = x @ x
        return y, z, x @ x

    f = G.compile(g, backend="eager")
    x = G.randn(2, 2)
    for _ in range(2):
        assert [(t.dtype, bits(t)) for t in f(x)] == [(t.dtype, bits(t)) for t in g(x)]
    assert all(seen) and not G.is_autocast_enabled()


def test_a_compiled_function_that_leaves_it_open_leaves_it_open():
    def enter(x):
        context = G.autocast("cpu")
        context.__enter__()
        return x @ x, context

    try:
        y, context = G.compile(enter, backend="eager")(G.ones(2, 2))
        assert y.dtype == G.bfloat16 and G.is_autocast_enabled()
        context.__exit__()
        assert not G.is_autocast_enabled()
    finally:
        G._core.set_autocast(None, "cpu")


def test_a_compiled_function_as_a_decorated_one():
    f = G.compile(G.autocast("cpu")(lambda x: x @ x), backend="eager")
    assert f(G.ones(2, 2)).dtype == G.bfloat16 and not G.is_autocast_enabled()
