# SPDX-License-Identifier: Apache-2.0
"""The contests of `gramme bench --device cuda`: tensors that lie on the GPU, gramme's back end
nvrtc beside torch, jax, cupy and triton.

Inputs are made on the CPU and sent once; nothing crosses while time is taken.  A turn is many calls
in a row and one wait for the GPU at its end, on every side, so that small cases show what a launch
costs the host and large ones what the kernels do.  Sides that multiply do so in
the precision of the inputs: jax is told "highest", triton "ieee"; else they would not pass the
check of accuracy, which comes first. `--quick` takes each case's smallest size only: it shows that
all sides run (a simulated GPU is enough for ours), and no speed.
"""

import os

import numpy as np

import gramme
import gramme.nn.functional as GF
from versus import Contest, NotRun, Side, compete, flat, library, own_code, step

CONTESTS = {}
QUICK = False
DTYPES = ("float32", "bfloat16")
EPS_OF = {"float32": 2.0**-23, "bfloat16": 2.0**-8}


def contest(fn):
    CONTESTS[fn.__name__] = fn
    return fn


def sizes(*all_of_them):
    return all_of_them[:1] if QUICK else all_of_them[1:]


def normal(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


# -- Sides: make (inputs) with the dtype in which they are sent


def sent(T, a, dtype):
    """A NumPy array on the GPU: floats as `dtype`, whole numbers as they are."""
    t = T.from_numpy(a.copy())
    return (t.to(getattr(T, dtype)) if a.dtype.kind == "f" else t).to("cuda")


def on_gramme(fn, dtype, grads=False):
    """fn (T, F, *tensors)."""

    def make(inputs):
        tensors = [sent(gramme, a, dtype) for a in inputs]
        run = gramme.compile(
            own_code(lambda *args: fn(gramme, GF, *args)), backend="nvrtc", fullgraph=True
        )
        call = step(run, tensors) if grads else lambda: run(*tensors)
        return Side(
            call,
            lambda r: flat(r, lambda t: t.detach().cpu().to(gramme.float32).numpy()),
            gramme.cuda.synchronize,
        )

    return make


def on_torch(fn, dtype, compiled=False, grads=False):
    def make(inputs):
        torch = library("torch")
        if not torch.cuda.is_available():
            raise NotRun("this torch sees no GPU")
        tensors = [sent(torch, a, dtype) for a in inputs]
        run = own_code(lambda *args: fn(torch, torch.nn.functional, *args))
        run = torch.compile(run) if compiled else run
        call = step(run, tensors) if grads else lambda: run(*tensors)
        return Side(
            call,
            lambda r: flat(r, lambda t: t.detach().float().cpu().numpy()),
            torch.cuda.synchronize,
        )

    return make


def on_jax(fn, dtype, swap=None):
    """fn (jax, jnp, *arrays); swap: two axes that its inputs and result have the other way
    round."""

    def make(inputs):
        os.environ.setdefault(
            "XLA_PYTHON_CLIENT_PREALLOCATE", "false"
        )  # the others need memory, too
        jax = library("jax")
        if jax.default_backend() != "gpu":
            raise NotRun("this jax sees no GPU")
        jax.config.update("jax_default_matmul_precision", "highest")
        other = (lambda a: a.swapaxes(*swap)) if swap else lambda a: a
        arrays = [jax.numpy.asarray(np.ascontiguousarray(other(a))).astype(dtype) for a in inputs]
        run, last = jax.jit(lambda *args: fn(jax, jax.numpy, *args)), []

        def call():
            last[:] = [run(*arrays)]
            return last[0]

        return Side(
            call,
            lambda r: flat(r, lambda a: other(np.asarray(a).astype(np.float32))),
            lambda: jax.block_until_ready(last),
        )

    return make


def on_cupy(fn, dtype):
    """fn (cupy, *arrays)."""

    def make(inputs):
        cupy = library("cupy")
        if dtype == "bfloat16":
            raise NotRun("it has no bfloat16")
        arrays = [cupy.asarray(a) for a in inputs]
        run = fn(cupy)
        return Side(
            lambda: run(*arrays),
            lambda r: flat(r, cupy.asnumpy),
            cupy.cuda.get_current_stream().synchronize,
        )

    return make


def on_triton(name, dtype):
    """A kernel of triton_kernels.py, on torch's tensors."""

    def make(inputs):
        library("triton")
        torch = library("torch")
        import triton_kernels as kernels

        if not kernels.INTERPRETED and not torch.cuda.is_available():
            raise NotRun("its tensors are torch's, and this torch sees no GPU")
        place = "cpu" if kernels.INTERPRETED else "cuda"
        tensors = [torch.from_numpy(a).to(place).to(getattr(torch, dtype)) for a in inputs]
        run = getattr(kernels, name)
        return Side(
            lambda: run(*tensors),
            lambda r: flat(r, lambda t: t.float().cpu().numpy()),
            (lambda: None) if kernels.INTERPRETED else torch.cuda.synchronize,
        )

    return make


def copied(dtype):
    """What the GPU's memory allows: a copy of the first input."""

    def make(inputs):
        try:
            side = on_torch(lambda T, F, x, *rest: x.clone(), dtype)(inputs)
        except NotRun:
            x = gramme.from_numpy(inputs[0].copy()).to(getattr(gramme, dtype)).to("cuda")
            side = Side(lambda: x.clone(), None, gramme.cuda.synchronize)
        return Side(side.call, None, side.finish)

    return make


def reference(fn, inputs, dtype, grads=False):
    """Plain eager in double precision on the CPU, of inputs as they are sent."""
    tensors = [gramme.from_numpy(a.copy()) for a in inputs]
    tensors = [
        t.to(getattr(gramme, dtype)).to(gramme.float64) if a.dtype.kind == "f" else t
        for a, t in zip(inputs, tensors)
    ]
    run = lambda *args: fn(gramme, GF, *args)
    return flat(step(run, tensors)() if grads else run(*tensors), lambda t: t.detach().numpy())


def all_sides(
    name, title, inputs, rounds, fn, in_jax, in_cupy, tolerance, swap=None, with_copy=True
):
    rows = []
    for dtype in DTYPES:
        sides = {
            "gramme": on_gramme(fn, dtype),
            "torch": on_torch(fn, dtype),
            "torch.compile": on_torch(fn, dtype, compiled=True),
            "jax": on_jax(in_jax, dtype, swap),
            "cupy": on_cupy(in_cupy, dtype),
            "triton": on_triton(name, dtype),
        }
        if with_copy:
            sides["a copy"] = copied(dtype)
        allowed = tolerance if dtype == "float32" else 8.0
        rows += compete(
            Contest(
                f"{title}, {dtype}",
                inputs,
                sides,
                reference(fn, inputs, dtype),
                allowed,
                eps=EPS_OF[dtype],
            ),
            rounds,
        )
    return rows


# -- Cases


@contest
def pointwise(rounds):
    """x sigmoid(x) + 2 tanh(x)."""
    rows = []
    for n in sizes(1000, 1000, 100_000, 10_000_000, 1 << 26):

        def in_cupy(cupy):
            return cupy.ElementwiseKernel(
                "T x", "T y", "y = x / (T(1) + exp(-x)) + T(2) * tanh(x)", "contest"
            )

        rows += all_sides(
            "pointwise",
            f"x sigmoid(x) + 2 tanh(x), {n}",
            [normal(n)],
            rounds,
            lambda T, F, x: x * T.sigmoid(x) + 2 * T.tanh(x),
            lambda jax, jnp, x: x * jax.nn.sigmoid(x) + 2 * jnp.tanh(x),
            in_cupy,
            64.0,
        )
    return rows


WIDTHS = ((5, 100), (65_536, 128), (16_384, 1000), (16_384, 1023), (16_384, 4096), (1024, 32_768))


def softmax_of_cupy(cupy):
    def run(x):
        e = cupy.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return run


@contest
def softmax(rounds):
    """softmax over rows, of even and odd widths."""
    rows = []
    for height, width in sizes(*WIDTHS):
        rows += all_sides(
            "softmax",
            f"softmax, {height} x {width}",
            [normal(height, width)],
            rounds,
            lambda T, F, x: F.softmax(x, -1),
            lambda jax, jnp, x: jax.nn.softmax(x, -1),
            softmax_of_cupy,
            256.0,
        )
    return rows


@contest
def layer_norm(rounds):
    """layer norm over rows with weight and bias, of even and odd widths."""

    def in_jax(jax, jnp, x, w, b):
        y = x.astype("float32")
        y = (y - y.mean(-1, keepdims=True)) * jax.lax.rsqrt(y.var(-1, keepdims=True) + 1e-5)
        return (y * w + b).astype(x.dtype)

    def in_cupy(cupy):
        def run(x, w, b):
            d = x - x.mean(-1, keepdims=True)
            return d / cupy.sqrt((d * d).mean(-1, keepdims=True) + cupy.float32(1e-5)) * w + b

        return run

    rows = []
    for height, width in sizes(*WIDTHS):
        inputs = [normal(height, width), normal(width, seed=2), normal(width, seed=3)]
        rows += all_sides(
            "layer_norm",
            f"layer norm, {height} x {width}",
            inputs,
            rounds,
            lambda T, F, x, w, b: F.layer_norm(x, (x.shape[-1],), w, b),
            in_jax,
            in_cupy,
            256.0,
        )
    return rows


@contest
def cross_entropy(rounds):
    """The mean cross entropy of rows of logits: the loss, and a training step."""
    rows = []
    for height, width in sizes((5, 100), (16_384, 1000), (8192, 32_000)):
        inputs = [
            np.arange(height, dtype=np.int64) * 7 % width,
            normal(height, width),
        ]  # a step differentiates all but the first
        loss = lambda T, F, y, x: F.cross_entropy(x, y)
        for grads in (False, True):
            for dtype in DTYPES:
                sides = {
                    "gramme": on_gramme(loss, dtype, grads),
                    "torch": on_torch(loss, dtype, grads=grads),
                    "torch.compile": on_torch(loss, dtype, compiled=True, grads=grads),
                }
                title = f"cross entropy, {height} x {width}{': training step' * grads}, {dtype}"
                allowed = 256.0 if dtype == "float32" else 8.0
                rows += compete(
                    Contest(
                        title,
                        inputs,
                        sides,
                        reference(loss, inputs, dtype, grads),
                        allowed,
                        eps=EPS_OF[dtype],
                    ),
                    rounds,
                )
    return rows


@contest
def matmul(rounds):
    """gelu (x w + b) of square matrices, and the product alone."""
    rows = []
    for n in sizes(40, 256, 1024, 4096):
        inputs = [normal(n, n), normal(n, n, seed=2) / np.float32(n**0.5)]
        rows += all_sides(
            "matmul",
            f"x w, {n}",
            inputs,
            rounds,
            lambda T, F, x, w: x @ w,
            lambda jax, jnp, x, w: x @ w,
            lambda cupy: lambda x, w: x @ w,
            256.0,
            with_copy=False,
        )
        inputs.append(normal(n, seed=3))

        def in_cupy(cupy):
            from cupyx.scipy.special import erf

            return lambda x, w, b: (
                lambda y: y * np.float32(0.5) * (np.float32(1) + erf(y * np.float32(0.5**0.5)))
            )(x @ w + b)

        rows += all_sides(
            "linear_gelu",
            f"gelu (x w + b), {n}",
            inputs,
            rounds,
            lambda T, F, x, w, b: F.gelu(x @ w + b),
            lambda jax, jnp, x, w, b: jax.nn.gelu(x @ w + b, approximate=False),
            in_cupy,
            256.0,
            with_copy=False,
        )
    return rows


@contest
def attention(rounds):
    """Attention of heads of 64, without and with a causal mask."""

    def in_cupy(causal):
        def make(cupy):
            softmax = softmax_of_cupy(cupy)

            def run(q, k, v):
                scores = q @ k.swapaxes(-1, -2) * cupy.float32(q.shape[-1] ** -0.5)
                if causal:
                    scores = cupy.where(
                        cupy.tri(q.shape[-2], dtype=bool), scores, cupy.float32(-np.inf)
                    )
                return softmax(scores) @ v

            return run

        return make

    rows = []
    for batch, heads, length in sizes((1, 2, 20), (8, 16, 512), (4, 16, 2048)):
        inputs = [normal(batch, heads, length, 64, seed=s) for s in (1, 2, 3)]
        for causal in (False, True):
            rows += all_sides(
                "causal_attention" if causal else "attention",
                f"{'causal ' * causal}attention, {batch} x {heads} x {length} x 64",
                inputs,
                rounds,
                lambda T, F, q, k, v, causal=causal: F.scaled_dot_product_attention(
                    q, k, v, is_causal=causal
                ),
                lambda jax, jnp, q, k, v, causal=causal: jax.nn.dot_product_attention(
                    q, k, v, is_causal=causal
                ),
                in_cupy(causal),
                256.0,
                swap=(1, 2),
                with_copy=False,
            )
    return rows
