# SPDX-License-Identifier: Apache-2.0
"""gramme.amp: scaled losses, autocast on two devices, autograd.Functions under autocast."""

import math
import os
import subprocess
import sys

import pytest

import gramme as G
from gramme import amp, nn
from gramme.nn import functional as F


def problem(lr=0.1):
    G.manual_seed(0)
    model = nn.Linear(4, 2)
    return model, G.optim.SGD(model.parameters(), lr=lr, momentum=0.9), G.randn(8, 4), G.randn(8, 2)


def steps(scaler, n=4, compile=lambda f: f, clip=None):
    model, optimizer, x, y = problem()
    step = compile(lambda x, y: F.mse_loss(model(x), y))
    for _ in range(n):
        optimizer.zero_grad()
        loss = step(x, y)
        if scaler is None:
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            if clip:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            scaler.step(optimizer)
            scaler.update()
    return [p.tolist() for p in model.parameters()]


@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize(
    "compile", [lambda f: f, lambda f: G.compile(f, backend="eager")], ids=["plain", "compiled"]
)
def test_a_power_of_two_changes_no_bit(clip, compile):
    assert steps(amp.GradScaler("cpu"), clip=clip, compile=compile) == steps(
        None, clip=clip, compile=compile
    )


def test_a_step_with_infinite_gradients_is_left_out_and_the_scale_falls():
    model, optimizer, x, y = problem()
    scaler = amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    before = [p.tolist() for p in model.parameters()]
    scaler.scale(F.mse_loss(model(x), y) * math.inf).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert [p.tolist() for p in model.parameters()] == before and scaler.get_scale() == 4.0
    scales = []
    for _ in range(4):
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [4.0, 8.0, 8.0, 16.0]
    assert [p.tolist() for p in model.parameters()] != before


def test_two_optimizers_are_looked_at_apart_and_share_the_scale():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    first, second = (G.optim.SGD(m.parameters(), lr=0.5) for m in (a, b))
    scaler = amp.GradScaler("cpu", init_scale=4.0)
    kept, other = a.weight.tolist(), b.weight.tolist()
    scaler.scale(a(G.full((1, 2), math.inf)).sum()).backward()
    scaler.scale(b(G.ones(1, 2)).sum()).backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert a.weight.tolist() == kept and b.weight.tolist() != other and scaler.get_scale() == 2.0


def test_trees_of_losses_are_scaled():
    scaler = amp.GradScaler("cpu", init_scale=2.0)
    one = G.ones(())
    got = scaler.scale([one, (one, {"k": one}), "text"])
    assert [got[0].item(), got[1][0].item(), got[1][1]["k"].item(), got[2]] == [
        2.0,
        2.0,
        2.0,
        "text",
    ]


def test_the_state_goes_on_elsewhere():
    scaler = amp.GradScaler("cpu", init_scale=2.0, growth_interval=5)
    steps(scaler, n=3)
    other = amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.state_dict()["_growth_tracker"] == 3
    with pytest.raises(RuntimeError, match="the state is empty"):
        other.load_state_dict({})


def test_a_scaler_that_is_not_enabled_does_nothing():
    scaler = amp.GradScaler("cpu", enabled=False)
    assert not scaler.is_enabled() and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    assert steps(scaler) == steps(None)


def test_without_a_gpu_its_scaler_warns_and_is_not_enabled():
    program = "import gramme, warnings; warnings.simplefilter('error'); gramme.amp.GradScaler()"
    env = {**os.environ, "GRAMME_CUDA_DRIVER": "/nowhere/libcuda.so"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert (
        "UserWarning: GradScaler scales nothing" in done.stderr
        and "/nowhere/libcuda.so" in done.stderr
    )


def unscaled_twice(scaler, optimizer):
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


def stepped_twice(scaler, optimizer):
    scaler.step(optimizer)
    scaler.step(optimizer)


def unscaled_after_the_step(scaler, optimizer):
    scaler.step(optimizer)
    scaler.unscale_(optimizer)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (unscaled_twice, "has been called for this optimizer"),
        (stepped_twice, "has been called for this optimizer"),
        (unscaled_after_the_step, "must come before step"),
        (lambda scaler, optimizer: scaler.update(), "no gradients were looked at"),
        (lambda scaler, optimizer: scaler.step(optimizer, closure=lambda: 0), "closure"),
        (
            lambda scaler, optimizer: (optimizer.zero_grad(), scaler.step(optimizer)),
            "has no gradients",
        ),
    ],
)
def test_calls_out_of_order_say_so(wrong, message):
    model, optimizer, x, y = problem()
    scaler = amp.GradScaler("cpu")
    scaler.scale(F.mse_loss(model(x), y)).backward()
    with pytest.raises(RuntimeError, match=message):
        wrong(scaler, optimizer)


def test_wrong_factors_and_gradients_of_halves_are_refused():
    with pytest.raises(ValueError, match="growth_factor"):
        amp.GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(ValueError, match="backoff_factor"):
        amp.GradScaler("cpu", backoff_factor=1.0)
    p = G.ones(2, dtype=G.float16).requires_grad_()
    scaler, optimizer = amp.GradScaler("cpu", init_scale=2.0), G.optim.SGD([p], lr=1.0)
    scaler.scale(p.sum()).backward()
    with pytest.raises(ValueError, match="keep the parameters in float32"):
        scaler.step(optimizer)


# -- Functions under autocast ----------------------------------------------------------------------


class Product(G.autograd.Function):
    seen = []

    @staticmethod
    @amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        Product.seen.append(("forward", (a @ b).dtype))
        return a @ b

    @staticmethod
    @amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        Product.seen.append(("backward", (a @ b).dtype))
        return (grad.to(a.dtype) @ b.t()).to(a.dtype), (a.t() @ grad.to(a.dtype)).to(b.dtype)


class InFloat32(G.autograd.Function):
    @staticmethod
    @amp.custom_fwd(device_type="cpu", cast_inputs=G.float32)
    def forward(ctx, a):
        ctx.save_for_backward(a)
        assert not G.is_autocast_enabled()
        return a * a

    @staticmethod
    @amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        (a,) = ctx.saved_tensors
        return 2 * a * grad


def test_a_backward_runs_with_autocast_as_its_forward_did():
    a, b = (G.randn(3, 3, requires_grad=True) for _ in range(2))
    for enabled, dtype in ((True, G.bfloat16), (False, G.float32)):
        Product.seen.clear()
        with G.autocast("cpu", enabled=enabled):
            y = Product.apply(a, b)
        y.float().sum().backward()
        assert Product.seen == [("forward", dtype), ("backward", dtype)]


def test_inputs_are_cast_and_autocast_is_off_inside():
    with G.autocast("cpu"):
        y = InFloat32.apply(G.ones(2, dtype=G.bfloat16, requires_grad=True))
    assert y.dtype == G.float32
    assert (
        InFloat32.apply(G.ones(2, dtype=G.bfloat16)).dtype == G.bfloat16
    )  # without autocast nothing is cast


# -- Two devices -----------------------------------------------------------------------------------


def test_autocast_of_one_device_leaves_the_other_s_tensors_alone():
    a = G.ones(2, 2)
    with G.autocast("cuda"):
        assert (
            (a @ a).dtype == G.float32
            and G.is_autocast_enabled("cuda")
            and not G.is_autocast_enabled("cpu")
        )
        assert (
            G.get_autocast_dtype("cuda") == G.float16 and G.get_autocast_dtype("cpu") == G.bfloat16
        )
        with G.autocast("cpu"):
            assert (a @ a).dtype == G.bfloat16 and G.is_autocast_enabled("cuda")
        with G.autocast("cuda", enabled=False):
            assert not G.is_autocast_enabled("cuda")
        assert G.is_autocast_enabled("cuda")
    assert not G.is_autocast_enabled("cuda")
    with pytest.raises(RuntimeError, match="no device of type 'mps'"):
        G.autocast("mps")


def test_both_are_followed_and_guarded_in_compiled_functions():
    def inside(a):
        with G.autocast("cuda", dtype=G.bfloat16):
            y = a @ a
            with G.autocast("cpu", dtype=G.float16):
                z = a @ a
        return y, z, G.is_autocast_enabled("cuda")

    a = G.ones(2, 2)
    y, z, after = G.compile(inside, backend="eager")(a)
    assert (y.dtype, z.dtype, after) == (G.float32, G.float16, False)

    def around(a):
        return a @ a, G.get_autocast_dtype("cuda"), G.is_autocast_enabled("cuda")

    compiled = G.compile(around, backend="eager")
    for _ in range(2):
        for device, dtype in (("cpu", None), ("cuda", None), ("cuda", G.bfloat16)):
            with G.autocast(device, dtype):
                got, want = compiled(a), around(a)
                assert got[0].dtype == want[0].dtype and got[1:] == want[1:]

    def left_open(a):
        G.autocast("cuda").__enter__()
        return a @ a

    try:
        G.compile(left_open, backend="eager")(a)
        assert G.is_autocast_enabled("cuda")
    finally:
        G._core.set_autocast(None, "cuda")


# -- grad() ----------------------------------------------------------------------------------------


def test_grad_materializes_zeros_for_what_was_not_used():
    x, z = (
        G.ones(2, requires_grad=True),
        G.ones(2, 3, requires_grad=True).t().detach().requires_grad_(),
    )
    got = G.autograd.grad((x * 2).sum(), [x, z], materialize_grads=True)
    assert (
        got[0].tolist() == [2.0, 2.0]
        and got[1].tolist() == [[0.0] * 2] * 3
        and not got[1].requires_grad
    )
    assert G.autograd.grad((x * 2).sum(), [x], only_inputs=True)[0].tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="contradicts"):
        G.autograd.grad((x * 2).sum(), [x, z], allow_unused=False, materialize_grads=True)
    with pytest.raises(ValueError, match="backward"):
        G.autograd.grad((x * 2).sum(), [x], only_inputs=False)
