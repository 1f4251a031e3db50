# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools as operators: against their definitions over the kernel's places, in every
back end, with every instruction set."""

import hashlib
import itertools
import math
import os
import random
import subprocess
import sys
import types

import pytest

import gramme as G
import gramme.nn.functional as F
from stress import counted

BACKENDS = [name for name in ("eager", "tcc", "cc") if name in G.compiler.list_backends()]


def values(generator, *shape, dtype=G.float32):
    G.manual_seed(generator.randrange(1 << 30))
    return G.randn(*shape).to(dtype).requires_grad_()


def by_places(x, w, stride, pad, dilation, groups):
    """One product of matrices for each place of the kernel."""
    space, n, channels, n_out = w.dim() - 2, x.shape[0], w.shape[1], w.shape[0] // groups
    x = F.pad(x, [p for width in reversed(pad) for p in (width, width)])
    sizes = [
        (x.shape[2 + d] - dilation[d] * (w.shape[2 + d] - 1) - 1) // stride[d] + 1
        for d in range(space)
    ]
    parts = []
    for g in range(groups):
        total = 0.0
        for place in itertools.product(*[range(k) for k in w.shape[2:]]):
            cut = [
                slice(p * dilation[d], p * dilation[d] + (sizes[d] - 1) * stride[d] + 1, stride[d])
                for d, p in enumerate(place)
            ]
            seen = x[tuple([slice(None), slice(g * channels, (g + 1) * channels)] + cut)].reshape(
                n, channels, -1
            )
            total = (
                total
                + w[tuple([slice(g * n_out, (g + 1) * n_out), slice(None)] + list(place))] @ seen
            )
        parts.append(total)
    return G.cat(parts, 1).reshape(n, w.shape[0], *sizes)


def some_convolution(generator):
    """(dimensions, sizes of x and w, the other arguments): small, but with panels that are whole
    and not, few rows and many, deep and flat."""
    while True:
        space, groups = generator.choice([1, 2, 2, 2, 3]), generator.choice([1, 1, 1, 2, 3])
        n_in, n_out = generator.choice([1, 2, 3, 5, 70]), generator.choice(
            [1, 2, 3, 4, 7, 9, 16, 50]
        )
        if generator.random() < 0.3:
            n_in, n_out, groups = (
                1,
                generator.choice([1, 2]),
                generator.choice([1, 3, 5]),
            )  # each channel alone
        most = {1: 70, 2: 19, 3: 6}[space]
        sizes = [generator.randint(1, most) for _ in range(space)]
        kernel = [generator.randint(1, 5 if space < 3 else 3) for _ in range(space)]
        stride = [generator.choice([1, 1, 2, 3, 5]) for _ in range(space)]
        pad = [generator.choice([0, 0, 1, 2, 4]) for _ in range(space)]
        dilation = [generator.choice([1, 1, 2, 3]) for _ in range(space)]
        if all(sizes[d] + 2 * pad[d] > (kernel[d] - 1) * dilation[d] for d in range(space)):
            return (
                space,
                [generator.choice([1, 2, 3]), n_in * groups, *sizes],
                [n_out * groups, n_in, *kernel],
                (stride, pad, dilation, groups),
            )


def results(fn, x, w, turn):
    """The value and both gradients; turn: x is read through another order of its memory."""
    x.grad = w.grad = None
    y = fn(x.transpose(1, -1).contiguous().transpose(1, -1) if turn else x, w)
    (y * (G.arange(y.numel()).reshape(y.shape) % 7 - 3).to(y.dtype)).sum().backward()
    return [y.detach(), x.grad, w.grad]


@pytest.mark.parametrize("seed", range(60))
def test_a_convolution_is_the_sum_over_its_places(seed):
    generator = random.Random(seed)
    space, x_sizes, w_sizes, how = some_convolution(generator)
    dtype = generator.choice([G.float32, G.float64])
    x, w = values(generator, *x_sizes, dtype=dtype), values(generator, *w_sizes, dtype=dtype)
    conv = getattr(F, f"conv{space}d")
    ours = results(lambda x, w: conv(x, w, None, *how), x, w, seed % 3 == 0)
    wanted = results(lambda x, w: by_places(x, w, *how), x, w, False)
    small = 1e-4 if dtype == G.float32 else 1e-11
    for name, a, b in zip(("value", "input", "weight"), ours, wanted):
        assert a.shape == b.shape
        assert (a - b).abs().max() <= small * max(1.0, b.abs().max().item()), (
            name,
            x_sizes,
            w_sizes,
            how,
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_back_end_convolves_with_the_same_bits(backend):
    generator = random.Random(5)
    for case in range(6 if backend == "cc" else 20):
        space, x_sizes, w_sizes, how = some_convolution(generator)
        dtype = generator.choice([G.float32, G.float64, G.float16, G.bfloat16])
        x, w = values(generator, *x_sizes, dtype=dtype), values(generator, *w_sizes, dtype=dtype)
        fn = lambda x, w: G.relu(getattr(F, f"conv{space}d")(x * 2, w, None, *how)) * 0.5
        fn = types.FunctionType(
            fn.__code__.replace(), fn.__globals__, fn.__name__, None, fn.__closure__
        )  # compiled entries live on the code, and are limited in number
        plain, compiled = results(fn, x, w, False), results(
            G.compile(fn, backend=backend), x, w, False
        )
        assert [t.tolist() for t in plain] == [t.tolist() for t in compiled], (
            case,
            x_sizes,
            w_sizes,
            how,
        )


def test_short_floats_are_convolved_in_f32_and_rounded_once():
    generator = random.Random(7)
    x, w = values(generator, 2, 5, 9, 9), values(generator, 4, 5, 3, 3)
    for dtype in (G.float16, G.bfloat16):
        a, b = x.detach().to(dtype), w.detach().to(dtype)
        assert (
            F.conv2d(a, b, padding=1).tolist()
            == F.conv2d(a.float(), b.float(), padding=1).to(dtype).tolist()
        )


def test_a_gradient_can_be_differentiated_again():
    generator = random.Random(8)
    x, w = values(generator, 1, 2, 5, dtype=G.float64), values(generator, 3, 2, 2, dtype=G.float64)

    def penalty(conv):
        (g,) = G.autograd.grad((conv(x, w) ** 3).sum(), x, create_graph=True)
        return G.autograd.grad((g**2).sum(), [x, w])

    ours = penalty(lambda x, w: F.conv1d(x, w, None, 2, 1))
    wanted = penalty(lambda x, w: by_places(x, w, [2], [1], [1], 1))
    for a, b in zip(ours, wanted):
        assert (a - b).abs().max() < 1e-9


def test_nothing_is_convolved_to_nothing():
    w = G.ones(4, 3, 2, 2, requires_grad=True)
    y = F.conv2d(G.ones(0, 3, 5, 5), w)
    assert y.shape == (0, 4, 4, 4)
    y.sum().backward()
    assert w.grad.abs().max() == 0


# -- Pools


def best_by_places(x, kernel, stride, pad, dilation):
    """The maximum of what each place of the kernel sees; the first of equals, or the first NaN, has
    the gradient."""
    space = len(kernel)
    sizes = [
        (x.shape[2 + d] + 2 * pad[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1
        for d in range(space)
    ]
    x = F.pad(x, [p for width in reversed(pad) for p in (width, width)], value=-math.inf)
    seen = []
    for place in itertools.product(*[range(k) for k in kernel]):
        cut = [
            slice(p * dilation[d], p * dilation[d] + (sizes[d] - 1) * stride[d] + 1, stride[d])
            for d, p in enumerate(place)
        ]
        seen.append(x[tuple([slice(None), slice(None)] + cut)])
    seen = G.stack(seen, -1)
    return seen.gather(-1, seen.detach().argmax(-1, keepdim=True)).squeeze(-1)


def some_pool(generator):
    space = generator.choice([1, 2, 2, 3])
    kernel = [generator.randint(1, 4) for _ in range(space)]
    pad = [generator.randint(0, k // 2) for k in kernel]
    dilation = [generator.choice([1, 1, 2]) for _ in range(space)]
    stride = [generator.choice([1, 2, 2, 3]) for _ in range(space)]
    sizes = [
        (kernel[d] - 1) * dilation[d] + generator.randint(1, 40 if space < 3 else 5)
        for d in range(space)
    ]
    return [2, 3, *sizes], (kernel, stride, pad, dilation)


def same_bits(a, b):
    assert a.shape == b.shape
    for x, y in zip(a.flatten().tolist(), b.flatten().tolist()):
        assert repr(x) == repr(y)


@pytest.mark.parametrize("seed", range(30))
def test_a_maximum_is_that_over_its_places(seed):
    generator = random.Random(seed)
    sizes, how = some_pool(generator)
    x = values(generator, *sizes, dtype=generator.choice([G.float32, G.float64]))
    if seed % 2:  # ties, zeros of both signs, infinities, and numbers that are none
        few = G.tensor(
            [0.0, -0.0, 1.0, 1.0, -math.inf, math.inf, math.nan if seed % 4 == 1 else 2.0],
            dtype=x.dtype,
        )
        x = few[G.randint(0, 7, sizes)].requires_grad_()
    pool, found = getattr(F, f"max_pool{len(sizes) - 2}d"), []
    for fn in (lambda x: pool(x, *how), lambda x: best_by_places(x, *how)):
        x.grad = None
        y = fn(x)
        (y * 0 + 1 if seed % 2 else y).backward(
            G.arange(y.numel()).reshape(y.shape).to(y.dtype) % 5 - 2
        )
        found.append((y.detach(), x.grad))
    same_bits(found[0][0], found[1][0])
    if seed % 2 == 0:
        assert (
            found[0][1] - found[1][1]
        ).abs().max() == 0  # small whole numbers: exact in any order


def test_the_gradient_of_a_window_of_minus_infinity_stays_inside():
    x = G.full([1, 1, 2, 2], -math.inf, requires_grad=True)
    F.max_pool2d(x, 2, 1, 1).sum().backward()
    assert x.grad.tolist() == [[[[4.0, 2.0], [2.0, 1.0]]]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_back_end_pools_with_the_same_bits(backend):
    generator = random.Random(9)
    for case in range(5 if backend == "cc" else 12):
        sizes, (kernel, stride, pad, dilation) = some_pool(generator)
        x = values(
            generator, *sizes, dtype=generator.choice([G.float32, G.float64, G.float16, G.bfloat16])
        )
        space = len(sizes) - 2

        def fn(x):
            most = getattr(F, f"max_pool{space}d")(x * 2, kernel, stride, pad, dilation)
            return most.sum() + getattr(F, f"avg_pool{space}d")(x, kernel, stride, pad).sum()

        fn = types.FunctionType(
            fn.__code__.replace(), fn.__globals__, fn.__name__, None, fn.__closure__
        )
        found = []
        for run in (fn, G.compile(fn, backend=backend)):
            x.grad = None
            y = run(x)
            y.backward()
            found.append([y.detach(), x.grad])
        for a, b in zip(*found):
            same_bits(a, b)


# -- Instruction sets


def digest():
    """Of some results, with their gradients."""
    generator, bits = random.Random(11), hashlib.sha256()
    for _ in range(40):
        space, x_sizes, w_sizes, how = some_convolution(generator)
        dtype = generator.choice([G.float32, G.float64])
        x, w = values(generator, *x_sizes, dtype=dtype), values(generator, *w_sizes, dtype=dtype)
        for t in results(lambda x, w: getattr(F, f"conv{space}d")(x, w, None, *how), x, w, False):
            bits.update(repr(t.tolist()).encode())
        sizes, (kernel, stride, pad, dilation) = some_pool(generator)
        x = values(generator, *sizes, dtype=dtype)
        getattr(F, f"max_pool{len(sizes) - 2}d")(
            x, kernel, stride, pad, dilation
        ).square().sum().backward()
        bits.update(repr(x.grad.tolist()).encode())
    return bits.hexdigest()


def test_every_instruction_set_convolves_with_the_same_bits():
    here = digest()
    environment = {**os.environ, "GRAMME_ISA": "avx2", "PYTHONPATH": os.pathsep.join(sys.path)}
    code = "import test_convolve; print(test_convolve.digest())"
    there = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == here


SIZED = {
    "conv2d": lambda x, w: F.conv2d(x, w, padding=1),
    "strided": lambda x, w: F.conv2d(x, w, stride=2, padding=(1, 0)),
    "same": lambda x, w: F.conv2d(x, w[:, :, :2], padding="same"),
    "dilated": lambda x, w: F.conv2d(x, w, dilation=2),
    "grouped": lambda x, w: F.conv2d(x, w[:3, :1], groups=3),
    "flat": lambda x, w: F.conv1d(x.flatten(2), w[:, :, 0], padding=1),
    "max_pool": lambda x, w: F.max_pool2d(F.conv2d(x, w), 2),
    "avg_pool": lambda x, w: F.avg_pool2d(x, 3, 2, padding=1) * w.sum(),
    "avg_pool_without_padding": lambda x, w: F.avg_pool2d(
        x, 3, 2, padding=1, count_include_pad=False
    )
    * w.sum(),
    "normed": lambda x, w: F.relu(F.batch_norm(F.conv2d(x, w), None, None, training=True)),
}


@pytest.mark.parametrize("backend", ["eager", "tcc"])
@pytest.mark.parametrize("name", SIZED)
def test_one_compilation_serves_images_of_all_sizes(name, backend):
    """Batches, heights and widths change: values and gradients, to the bit."""
    G._dynamo.reset()
    f = SIZED[name]
    g = G.compile(f, backend=backend, fullgraph=True, dynamic=True)
    for b, height, width in [
        (2, 8, 8),
        (3, 8, 8),
        (4, 9, 8),
        (5, 10, 11),
        (6, 13, 7),
        (7, 16, 9),
        (2, 30, 31),
    ]:
        x, w = G.randn(b, 3, height, width, requires_grad=True), G.randn(
            4, 3, 3, 3, requires_grad=True
        )
        y, z = f(x, w), g(x, w)
        G.testing.assert_bits_equal(z, y)
        for a, c in zip(G.autograd.grad(z.sum(), (x, w)), G.autograd.grad(y.sum(), (x, w))):
            G.testing.assert_bits_equal(a, c)
    counters = G._dynamo.utils.counters
    assert counted(counters["frames"]["total"]) == 1
    assert (
        backend == "eager" or counted(counters["backend"]["compiles"]) == 2
    )  # the forward, and the backward
