# SPDX-License-Identifier: Apache-2.0
"""Generated kernels beside C that was written by hand for the same arithmetic (by_hand.c): the bits
must be equal, so times can be compared.

The C is compiled when the case runs.  Its side runs in a loop of C; gramme's is called from Python
each time, and its calls count.
"""

import ctypes
import functools
import os
import subprocess
import tempfile

import numpy as np

import gramme
import gramme.nn.functional as F
from versus import Contest, NotRun, Side, compete, flat, own_code

FLAGS = "-O2 -mavx512f -ffp-contract=off -fno-math-errno -shared -fPIC"


@functools.cache
def library():
    if gramme._core.isa() != "avx512":
        raise NotRun("it is written for AVX-512")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "by_hand.c")
    compiler = os.environ.get("GRAMME_CC", "cc")
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "by_hand.so")
        try:
            subprocess.run(
                [*compiler.split(), *FLAGS.split(), "-o", made, source],
                check=True,
                capture_output=True,
                text=True,
            )
        except (OSError, subprocess.CalledProcessError) as why:
            raise NotRun(f"no C compiler: {why}") from None
        return ctypes.CDLL(made)


def by_hand(name):
    """make() of a function of by_hand.c: (times, n or rows and width, inputs, output)."""

    def make(inputs):
        function, tensors = library()[name], [gramme.from_numpy(a.copy()) for a in inputs]
        out = gramme.empty(*inputs[0].shape)
        pointers = [t.data_ptr() for t in tensors]
        if inputs[0].ndim == 1:
            numbers = [inputs[0].shape[0], *(pointers + [None])[:2], out.data_ptr()]
        else:
            numbers = [*inputs[0].shape, pointers[0], out.data_ptr()]
        types = [
            ctypes.c_long if isinstance(n, int) and n < 1 << 32 else ctypes.c_void_p
            for n in numbers
        ]
        arguments = [t(n) for t, n in zip(types, numbers)]

        def many(times, kept=tensors):
            function(ctypes.c_long(times), *arguments)

        def call():
            many(1)
            return out

        return Side(call, lambda r: [r.numpy()], many=many)

    return make


def generated(f, backend):
    def make(inputs):
        tensors = [gramme.from_numpy(a.copy()) for a in inputs]
        run = gramme.compile(
            own_code(f), backend=backend, options={"wait": True} if backend == "cc" else None
        )
        for _ in range(3):
            run(*tensors)
        return lambda: run(*tensors), lambda r: flat(r, lambda t: t.numpy())

    return make


FUNCTIONS = {
    "x sigmoid(x) + 2 tanh(x)": (
        "swish_tanh",
        1,
        lambda x: x * gramme.sigmoid(x) + 2 * gramme.tanh(x),
    ),
    "exp": ("exponentials", 1, lambda x: gramme.exp(x)),
    "relu(a b + a) b - a": ("cheap", 2, lambda a, b: gramme.relu(a * b + a) * b - a),
    "ten cheap operations": (
        "ten",
        1,
        lambda x: ((x * 2 + x).relu() - x) * (x.abs() + 0.5) * x - (x * x),
    ),
    "softmax": ("softmax", 1, lambda x: F.softmax(x, -1)),
    "layer norm": ("layer_norm", 1, lambda x: F.layer_norm(x, (x.shape[-1],))),
}
LENGTHS = ((16_384,), (65_536,), (262_144,), (10_000_000,))
ROWS = ((1024, 128), (1024, 1000), (1024, 1024), (32, 32_768))


def vs_by_hand(rounds):
    """Generated code beside C with AVX-512 written by hand for the same arithmetic, to the bit; in
    the cache and in memory."""
    rows = []
    rng = np.random.default_rng(1)
    for label, (name, n_in, f) in FUNCTIONS.items():
        for shape in ROWS if name in ("softmax", "layer_norm") else LENGTHS:
            inputs = [rng.standard_normal(shape, dtype=np.float32) for _ in range(n_in)]
            eager = f(*(gramme.from_numpy(a.copy()) for a in inputs)).numpy().astype(np.float64)
            size = " x ".join(map(str, shape))
            for backend in ("cc", "tcc"):
                sides = {"gramme": generated(f, backend), "C by hand": by_hand(name)}
                if backend == "tcc":
                    sides["cc"] = generated(f, "cc")
                rows += compete(
                    Contest(f"{backend}: {label}, {size}", inputs, sides, [eager], tolerance=0),
                    rounds,
                )
    return rows


def vs_triad(rounds):
    """A chain that is all memory, a + 3 b of ten million numbers, beside the same in C by hand; and
    a copy of 40 MB beside memcpy."""
    a, b = (
        np.random.default_rng(seed).standard_normal(10_000_000, dtype=np.float32) for seed in (1, 2)
    )
    rows = []
    for backend in ("cc", "tcc"):
        sides = {
            "gramme": generated(lambda a, b: a + 3 * b, backend),
            "C by hand": by_hand("triad"),
        }
        rows += compete(
            Contest(
                f"{backend}: a + 3 b, 10000000",
                [a, b],
                sides,
                [(a + 3 * b).astype(np.float64)],
                tolerance=0,
            ),
            rounds,
        )
        sides = {"gramme": generated(lambda a: a * 1, backend), "C by hand": by_hand("copied")}
        rows += compete(
            Contest(
                f"{backend}: a copy, 10000000", [a], sides, [a.astype(np.float64)], tolerance=0
            ),
            rounds,
        )
    return rows


CONTESTS = {fn.__name__: fn for fn in (vs_by_hand, vs_triad)}
