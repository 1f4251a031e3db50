# SPDX-License-Identifier: Apache-2.0
"""The contests of `gramme bench`: named functions of the number of rounds that return rows
(versus.py).

A function of (T, F, ...) is written once, for gramme and torch: the names are the same.  Inputs are
random in a stated range, the same for all sides.  One thread, unless --threads says otherwise.
"""

import os
import subprocess
import sys

import numpy as np

import by_hand
import gramme
import models
from versus import (
    Contest,
    NotRun,
    compete,
    double,
    library,
    own_code,
    rows_of,
    torch_sides,
    with_gramme,
    with_jax,
    with_numpy,
)

CONTESTS = {**by_hand.CONTESTS, "vs_models": models.vs_models}


def contest(fn):
    CONTESTS[fn.__name__] = fn
    return fn


def normal(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


# -- Calls


@contest
def vs_call(rounds):
    """A warm call that adds one to 16 numbers: what a call costs beside the work."""
    add_one = lambda T, F, x: x + 1.0
    sides = {
        "gramme": with_gramme(add_one),
        "numpy": with_numpy(lambda x: x + np.float32(1)),
        **torch_sides(add_one),
        "jax": with_jax(lambda jax, jnp, x: x + 1.0),
    }
    x = normal(16)
    return compete(Contest("add one, 16 numbers", [x], sides, [x.astype(np.float64) + 1]), rounds)


COLD = """
import sys, time
peer = sys.argv[1]
if peer == "gramme":
    import gramme as T
    x = T.randn(1000)
    wrap = T.compile
    wrap(lambda x: x + 1)(x)
elif peer == "torch.compile":
    import torch as T
    T.set_num_threads(1)
    x = T.randn(1000)
    wrap = T.compile
elif peer == "jax":
    import jax, jax.numpy as T
    x = T.ones(1000)
    wrap = jax.jit
    jax.block_until_ready(wrap(lambda x: x + 1)(x))
def f(x):
    a = x * 2.0 + x
    b = T.tanh(a) - x
    c = T.exp(-b) * a
    return c + b
start = time.perf_counter()
r = wrap(f)(x)
if peer == "jax":
    r.block_until_ready()
print(time.perf_counter() - start)
"""


@contest
def vs_cold(rounds):
    """The first call of a function of six operations on 1,000 numbers, each time in a new process
    with its caches off; the library has compiled something before, except torch.compile, whose
    start is part of what is waited for."""
    taken, refused = {}, {}
    environment = {**os.environ, "GRAMME_CACHE": "0", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    for peer in ("gramme", "jax", "torch.compile"):
        try:
            library(peer.split(".")[0])
        except NotRun as why:
            refused[peer] = str(why)
            continue
        for _ in range(max(2, rounds // 3) if peer != "torch.compile" else 2):
            done = subprocess.run(
                [sys.executable, "-c", COLD, peer], capture_output=True, text=True, env=environment
            )
            if done.returncode:
                refused[peer] = (done.stderr.strip().splitlines() or ["it failed"])[-1][:200]
                break
            taken.setdefault(peer, []).append(float(done.stdout))
    return rows_of("first call of a function", taken, refused)


WARM_START = """
import sys, time
import gramme as T
x = T.randn(1000)
T.compile(lambda x: x + 1)(x)
def f(x):
    a = x * 2.0 + x
    b = T.tanh(a) - x
    c = T.exp(-b) * a
    return c + b
start = time.perf_counter()
g = T.compile(f)
g(x)
taken = time.perf_counter() - start
g(x)
T.compiler.wait()
print(taken, T.compiler.cache_counts()["hits"])
"""


@contest
def vs_warm_start(rounds):
    """The same function in a process that finds its code on disk, against one that compiles it at
    once with tcc, and with cc."""
    import tempfile

    taken = {}
    with tempfile.TemporaryDirectory() as folder:
        kinds = {
            "gramme": {"GRAMME_CACHE_DIR": folder, "GRAMME_CACHE": "1"},
            "tcc, no cache": {"GRAMME_CACHE": "0"},
            "cc, no cache": {"GRAMME_CACHE": "0", "GRAMME_AUTO": "wait=true"},
        }
        for i in range(max(4, rounds // 2)):
            for name, extra in kinds.items():
                done = subprocess.run(
                    [sys.executable, "-c", WARM_START],
                    capture_output=True,
                    text=True,
                    check=True,
                    env={**os.environ, **extra},
                )
                seconds, hits = done.stdout.split()
                if name != "gramme" or i > 0:  # the first one fills the cache
                    assert name != "gramme" or int(hits) >= 1, "the code was not found on disk"
                    taken.setdefault(name, []).append(float(seconds))
    return rows_of("warm start of a function", taken, {})


@contest
def vs_guards(rounds):
    """A warm call of a function that reads n attributes of an object; beside torch.compile up to
    100 (more take it minutes to compile)."""

    class Box:
        pass

    rows = []
    for n in (1, 10, 100, 1000, 10_000):
        box = Box()
        for i in range(n):
            setattr(box, f"a{i}", float(i % 3))
        text = (
            "def f(T, F, x):\n    s = 0.0\n"
            + "".join(f"    s = s + box.a{i}\n" for i in range(n))
            + "    return x + s\n"
        )
        space = {"box": box}
        exec(compile(text, "<guards>", "exec"), space)
        sides = {"gramme": with_gramme(space["f"])}
        sides |= {
            name: make
            for name, make in torch_sides(space["f"]).items()
            if n <= 100 or name == "torch"
        }
        missing = {} if n <= 100 else {"torch.compile": "it takes minutes to compile"}
        x = normal(16)
        total = sum(float(i % 3) for i in range(n))
        rows += compete(
            Contest(
                f"{n} attributes guarded",
                [x],
                sides,
                [x.astype(np.float64) + total],
                missing=missing,
            ),
            rounds,
        )
    return rows


# -- Kernels


@contest
def vs_pointwise(rounds):
    """x sigmoid(x) + 2 tanh(x), from a thousand to ten million numbers."""
    f = lambda T, F, x: x * T.sigmoid(x) + 2 * T.tanh(x)
    in_numpy = lambda x: x / (1 + np.exp(-x)) + 2 * np.tanh(x)

    def with_numexpr(inputs):
        numexpr = library("numexpr")
        numexpr.set_num_threads(int(os.environ.get("NUMEXPR_NUM_THREADS", "1")))
        (x,) = inputs
        return (lambda: numexpr.evaluate("x / (1 + exp(-x)) + 2 * tanh(x)", {"x": x})), lambda r: [
            r
        ]

    def with_numba(inputs):
        numba = library("numba")

        @numba.vectorize(["float32(float32)"])
        def run(x):
            return x / (np.float32(1) + np.exp(-x)) + np.float32(2) * np.tanh(x)

        (x,) = inputs
        return (lambda: run(x)), lambda r: [r]

    rows = []
    for n in (1_000, 10_000, 100_000, 1_000_000, 10_000_000):
        x = normal(n)
        sides = {
            "gramme": with_gramme(f),
            "numpy": with_numpy(in_numpy),
            "numexpr": with_numexpr,
            "numba": with_numba,
            **torch_sides(f),
            "jax": with_jax(lambda jax, jnp, x: x * jax.nn.sigmoid(x) + 2 * jnp.tanh(x)),
        }
        rows += compete(
            Contest(f"x sigmoid(x) + 2 tanh(x), {n}", [x], sides, [in_numpy(x.astype(np.float64))]),
            rounds,
        )
    return rows


@contest
def vs_chains(rounds):
    """Twelve chains of transcendental functions on 100,000 numbers."""
    chains = {
        "log (1 + exp x)": lambda T, F, x: T.log(1 + T.exp(x)),
        "tanh": lambda T, F, x: T.tanh(x),
        "sigmoid": lambda T, F, x: T.sigmoid(x),
        "logit": lambda T, F, x: T.log(x.abs() / (4 + x.abs())),
        "mish": lambda T, F, x: F.mish(x),
        "gelu": lambda T, F, x: F.gelu(x),
        "gelu, tanh": lambda T, F, x: F.gelu(x, approximate="tanh"),
        "silu": lambda T, F, x: F.silu(x),
        "elu": lambda T, F, x: F.elu(x),
        "softplus": lambda T, F, x: F.softplus(x),
        "exp (-x x) sin x": lambda T, F, x: T.exp(-x * x) * T.sin(x),
        "erf + tanh": lambda T, F, x: T.erf(x) + T.tanh(x) * x,
    }
    rows, x = [], normal(100_000)
    for name, f in chains.items():
        rows += compete(
            Contest(
                name,
                [x],
                {"gramme": with_gramme(f), **torch_sides(f)},
                double(f, [x]),
                tolerance=256,
            ),
            rounds,
        )
    return rows


@contest
def vs_rows(rounds):
    """Softmax, layer norm and cross entropy of 1,024 rows, at even and odd widths; and what a copy
    of the same bytes takes."""
    functions = {
        "softmax": (lambda T, F, x: F.softmax(x, -1), lambda jax, jnp, x: jax.nn.softmax(x, -1)),
        "layer norm": (
            lambda T, F, x: F.layer_norm(x, (x.shape[-1],)),
            lambda jax, jnp, x: (x - x.mean(-1, keepdims=True))
            * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5),
        ),
        "cross entropy": (
            lambda T, F, x, y: F.cross_entropy(x, y),
            lambda jax, jnp, x, y: -jnp.take_along_axis(
                jax.nn.log_softmax(x, -1), y[:, None], 1
            ).mean(),
        ),
    }
    rows = []
    for name, (f, in_jax) in functions.items():
        for width in (128, 1000, 1024, 1023, 32_768):
            x = normal(1024 if width < 30_000 else 32, width)
            inputs = [x] + (
                [np.arange(len(x), dtype=np.int64) % width] if name == "cross entropy" else []
            )
            sides = {
                "gramme": with_gramme(f),
                "numpy": with_numpy(lambda x, *rest: x.copy()),
                **torch_sides(f),
                "jax": with_jax(in_jax),
            }
            copy = sides.pop("numpy")
            got = compete(
                Contest(
                    f"{name}, {len(x)} x {width}", inputs, sides, double(f, inputs), tolerance=256
                ),
                rounds,
            )
            rows += got
            if name != "cross entropy":
                rows += compete(
                    Contest(
                        f"{name}, {len(x)} x {width}",
                        inputs,
                        {"gramme": timed_only(with_gramme(f)), "a copy": copy},
                        [x.astype(np.float64)],
                    ),
                    rounds,
                )
                continue
            loss = lambda T, F, y, x: F.cross_entropy(x, y)
            step = {"gramme": with_gramme(loss, grads=True), **torch_sides(loss, grads=True)}
            rows += compete(
                Contest(
                    f"{name}, {len(x)} x {width}: training step",
                    inputs[::-1],
                    step,
                    double(loss, inputs[::-1], grads=True),
                    tolerance=256,
                ),
                rounds,
            )
    return rows


def timed_only(make):
    """A side whose result was checked elsewhere, beside one that computes something else."""

    def again(inputs):
        call, _ = make(inputs)
        return call, lambda r: [inputs[0]]

    return again


def with_blas(inputs):
    """The product by the BLAS that this process's gramme has linked, called directly."""
    import ctypes

    with open("/proc/self/maps", encoding="utf-8") as maps:
        found = {
            line.split(None, 5)[-1].strip()
            for line in maps
            if "blas" in line
            and "numpy" not in line
            and "scipy" not in line
            and "torch" not in line
        }
    if not found:
        raise NotRun("no BLAS that could be called")
    sgemm = ctypes.CDLL(sorted(found)[0]).cblas_sgemm
    x, w = (gramme.from_numpy(a.copy()) for a in inputs[:2])
    out, n, one = gramme.empty(*x.shape), ctypes.c_int(x.shape[0]), ctypes.c_float
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, w, out)]

    def call(keep=(x, w)):
        sgemm(
            101, 111, 111, n, n, n, one(1), pointers[0], n, pointers[1], n, one(0), pointers[2], n
        )
        return out

    return call, lambda r: [r.numpy()]


@contest
def vs_matmul(rounds):
    """gelu (x w + b) of 1,024 x 1,024 matrices, and the product alone."""
    rows = []
    inputs = [normal(1024, 1024), normal(1024, 1024, seed=2), normal(1024, seed=3)]
    f = lambda T, F, x, w, b: F.gelu(x @ w + b)
    in_jax = lambda jax, jnp, x, w, b: jax.nn.gelu(x @ w + b, approximate=False)
    sides = {"gramme": with_gramme(f), **torch_sides(f), "jax": with_jax(in_jax)}
    rows += compete(Contest("gelu (x w + b), 1024", inputs, sides, double(f, inputs)), rounds)
    alone = lambda T, F, x, w, b: x @ w
    sides = {
        "gramme": with_gramme(alone),
        "BLAS": with_blas,
        "numpy": with_numpy(lambda x, w, b: x @ w),
        **torch_sides(alone),
        "jax": with_jax(lambda jax, jnp, x, w, b: x @ w),
    }
    rows += compete(Contest("x w, 1024", inputs, sides, double(alone, inputs)), rounds)
    half = {
        "gramme": with_gramme(lambda T, F, x, w: (x.bfloat16() @ w.bfloat16()).float()),
        **torch_sides(lambda T, F, x, w: (x.bfloat16() @ w.bfloat16()).float()),
    }
    exact = [inputs[0].astype(np.float64) @ inputs[1].astype(np.float64)]
    return rows + compete(
        Contest("x w of bfloat16, 1024", inputs[:2], half, exact, tolerance=2**16), rounds
    )


# -- Models: forward, and a training step


def both_ways(name, f, loss, inputs, rounds, in_jax=None):
    """f: the forward; loss: of its inputs; the first input is data, the others weights."""
    sides = {"gramme": with_gramme(f), **torch_sides(f)}
    if in_jax:
        sides["jax"] = with_jax(in_jax)
    rows = compete(
        Contest(f"{name}: forward", inputs, sides, double(f, inputs), tolerance=1024), rounds
    )
    sides = {"gramme": with_gramme(loss, grads=True), **torch_sides(loss, grads=True)}
    if in_jax:

        def step(jax, jnp, x, *weights):
            value, grads = jax.value_and_grad(
                lambda *w: (in_jax(jax, jnp, x, *w) ** 2).mean(), argnums=tuple(range(len(weights)))
            )(*weights)
            return (value, *grads)

        sides["jax"] = with_jax(step)
    return rows + compete(
        Contest(
            f"{name}: training step",
            inputs,
            sides,
            double(loss, inputs, grads=True),
            tolerance=4096,
        ),
        rounds,
    )


def scaled(*shape, seed):
    return normal(*shape, seed=seed) / np.float32(shape[-1] ** 0.5)


@contest
def vs_mlp(rounds):
    """A perceptron of three layers of 256, batch 64."""
    f = lambda T, F, x, a, b, c: F.gelu(F.gelu(x @ a) @ b) @ c
    loss = lambda T, F, *args: (f(T, F, *args) ** 2).mean()
    inputs = [normal(64, 256)] + [scaled(256, 256, seed=s) for s in (2, 3, 4)]
    gelu = lambda jax, x: jax.nn.gelu(x, approximate=False)
    return both_ways(
        "MLP 3 x 256, batch 64",
        f,
        loss,
        inputs,
        rounds,
        lambda jax, jnp, x, a, b, c: gelu(jax, gelu(jax, x @ a) @ b) @ c,
    )


@contest
def vs_lstm(rounds):
    """An LSTM cell of width 128, 16 steps, batch 16."""

    def f(T, F, x, wi, wh, bias):
        h = x[0] * 0.0
        c = h
        for t in range(16):
            i, g, o, n = (x[t] @ wi + h @ wh + bias).chunk(4, -1)
            c = T.sigmoid(g) * c + T.sigmoid(i) * T.tanh(n)
            h = T.sigmoid(o) * T.tanh(c)
        return h

    inputs = [
        normal(16, 16, 128),
        scaled(128, 512, seed=2),
        scaled(128, 512, seed=3),
        normal(512, seed=4),
    ]
    return both_ways(
        "LSTM 128, 16 steps, batch 16",
        f,
        lambda T, F, *args: (f(T, F, *args) ** 2).mean(),
        inputs,
        rounds,
    )


def block(T, F, x, qkv, out, up, down, heads):
    batch, length, width = x.shape
    h = F.layer_norm(x, (width,)) @ qkv
    q, k, v = (
        p.reshape(batch, length, heads, width // heads).transpose(1, 2) for p in h.chunk(3, -1)
    )
    a = (
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
        .transpose(1, 2)
        .reshape(batch, length, width)
    )
    x = x + a @ out
    return x + F.gelu(F.layer_norm(x, (width,)) @ up) @ down


@contest
def vs_block(rounds):
    """A transformer block: tiny (batch 1, length 16, width 64), medium (8, 128, 256), large (4,
    256, 512)."""
    rows = []
    for size, (batch, length, width) in {
        "tiny": (1, 16, 64),
        "medium": (8, 128, 256),
        "large": (4, 256, 512),
    }.items():
        f = lambda T, F, *args, heads=4: block(T, F, *args, heads)
        loss = lambda T, F, *args: (f(T, F, *args) ** 2).mean()
        inputs = [
            normal(batch, length, width),
            scaled(width, 3 * width, seed=2),
            scaled(width, width, seed=3),
            scaled(width, 4 * width, seed=4),
            scaled(4 * width, width, seed=5),
        ]
        rows += both_ways(
            f"transformer block, {size}",
            f,
            loss,
            inputs,
            max(3, rounds // (3 if size == "large" else 1)),
        )
    return rows


@contest
def vs_convnet(rounds):
    """Two convolutions of 3 x 3, each with a maximum over 2 x 2, and a linear layer; batch 8 of 32
    x 32 with 3 channels."""

    def f(T, F, x, a, b, w):
        h = F.max_pool2d(F.relu(F.conv2d(x, a, padding=1)), 2)
        h = F.max_pool2d(F.relu(F.conv2d(h, b, padding=1)), 2)
        return h.reshape(h.shape[0], -1) @ w

    inputs = [
        normal(8, 3, 32, 32),
        scaled(16, 3, 3, 3, seed=2),
        scaled(32, 16, 3, 3, seed=3),
        scaled(2048, 10, seed=4),
    ]
    return both_ways(
        "convolutional net, batch 8",
        f,
        lambda T, F, *args: (f(T, F, *args) ** 2).mean(),
        inputs,
        rounds,
    )


@contest
def vs_convolve(rounds):
    """Convolutions alone, forward and with both gradients: 3 x 3, 1 x 1 and 7 x 7 as in residual
    nets, with a stride, and each channel alone."""
    cases = {
        "3 x 3, 64 of 56 x 56": ((1, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
        "3 x 3, 256 of 14 x 14": ((1, 256, 14, 14), (256, 256, 3, 3), 1, 1, 1),
        "1 x 1, 256 to 64 of 56 x 56": ((1, 256, 56, 56), (64, 256, 1, 1), 1, 0, 1),
        "7 x 7 by 2, 3 to 64 of 224 x 224": ((1, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
        "3 x 3 by 2, 128 of 28 x 28": ((1, 128, 28, 28), (128, 128, 3, 3), 2, 1, 1),
        "3 x 3 alone, 64 of 56 x 56": ((1, 64, 56, 56), (64, 1, 3, 3), 1, 1, 64),
        "3 x 3 by 2 alone, 64 of 56 x 56": ((1, 64, 56, 56), (64, 1, 3, 3), 2, 1, 64),
    }
    rows = []
    for name, (x, w, stride, pad, groups) in cases.items():
        f = lambda T, F, x, w, stride=stride, pad=pad, groups=groups: F.conv2d(
            x, w, None, stride, pad, 1, groups
        )
        loss = lambda T, F, *args, f=f: (f(T, F, *args) ** 2).mean()
        rows += both_ways(f"convolution, {name}", f, loss, [normal(*x), scaled(*w, seed=2)], rounds)
    return rows


@contest
def vs_pool(rounds):
    """Maxima and means over windows, forward and with the gradient of the input."""
    cases = {
        "maximum of 2 x 2": ((8, 16, 32, 32), lambda F, x: F.max_pool2d(x, 2)),
        "maximum of 3 x 3 by 2": ((1, 64, 112, 112), lambda F, x: F.max_pool2d(x, 3, 2, 1)),
        "mean of 2 x 2": ((8, 16, 32, 32), lambda F, x: F.avg_pool2d(x, 2)),
        "mean of 7 x 7": ((1, 512, 7, 7), lambda F, x: F.avg_pool2d(x, 7)),
    }
    rows = []
    for name, (x, pool) in cases.items():
        f = lambda T, F, one, x, pool=pool: pool(F, x)
        loss = lambda T, F, one, x, pool=pool: (pool(F, x) ** 2).mean()
        rows += both_ways(name, f, loss, [normal(1), normal(*x, seed=2)], rounds)
    return rows


@contest
def vs_memory(rounds):
    """Bytes of a training step of the medium block, those that stay between forward and backward
    and the peak, over plain eager's: in bytes, not seconds."""
    inputs = [
        normal(8, 128, 256),
        scaled(256, 768, seed=2),
        scaled(256, 256, seed=3),
        scaled(256, 1024, seed=4),
        scaled(1024, 256, seed=5),
    ]

    def peak(run):
        tensors = [gramme.from_numpy(a.copy()).requires_grad_(i > 0) for i, a in enumerate(inputs)]
        for _ in range(2):
            for t in tensors:
                t.grad = None
            gramme._core.reset_peak_bytes()
            before = gramme._core.live_bytes()
            result = run(*tensors)
            saved = gramme._core.live_bytes() - before
            result.backward()
        return saved, gramme._core.peak_bytes()

    import gramme.nn.functional as F

    loss = lambda *args: (block(gramme, F, *args, 4) ** 2).mean()
    plain = peak(loss)
    rows = [
        {
            "case": "peak bytes, block, medium",
            "peer": "torch",
            "not_run": "it has no counter of memory on the CPU",
        }
    ]
    budgets = ((f"memory-budget={b}", {"memory-budget": b}) for b in (0.9, 0.7, 0.5, 0.3))
    for name, options in (
        ("compiled", None),
        ("partition=min-cut", {"partition": "min-cut"}),
        *budgets,
    ):
        ours = peak(
            gramme.compile(own_code(lambda *args: loss(*args)), backend="tcc", options=options)
        )
        for kind, mine, theirs in zip(("saved", "peak"), ours, plain):
            rows.append(
                {
                    "case": f"{kind} bytes, block, medium, {name}",
                    "peer": "plain eager",
                    "ours": mine,
                    "theirs": theirs,
                    "ratio": theirs / mine,
                    "ours_min": mine,
                    "theirs_min": theirs,
                    "ratio_min": theirs / mine,
                    "bytes": True,
                }
            )
    return rows
