# SPDX-License-Identifier: Apache-2.0
"""One element of each row, taken or put by position: compiled without the rows around it
(core/aot/index_rewrites.c), and nobody can tell."""
import itertools

import pytest

import gramme as G
import gramme.nn.functional as F

BACKENDS = ["eager", "tcc", "cc"]
backends = pytest.mark.parametrize("backend", BACKENDS)
SEEDS = itertools.count(1)


def compiled(f, backend="tcc", **how):
    return G.compile(
        f, backend=backend, fullgraph=True, options={"wait": True} if backend == "cc" else {}, **how
    )


def numbers(*sizes, dtype=G.float32):
    return G.randn(*sizes).to(dtype).requires_grad_()


def bits(t):
    wide = t.detach().to(G.float64)
    return (
        t.dtype,
        tuple(t.shape),
        t.stride(),
        repr(wide.tolist()),
        (G.signbit(wide) & ~wide.isnan()).tolist(),
    )


def run(f, inputs):
    fresh = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    y = f(*fresh)
    weight = G.linspace(-1, 1, max(y.numel(), 1))
    weight[0] = -0.0
    weight = weight.reshape(y.shape).to(y.dtype)
    grads = G.autograd.grad((y * weight).sum(), [x for x in fresh if x.requires_grad])
    return [bits(t) for t in (y, *grads)]


def same(f, *inputs, backend, **how):
    call = compiled(f, backend, **how)
    for _ in range(2):
        assert run(call, inputs) == run(f, inputs)


def chosen(n, width):
    return (G.arange(n) * 7 + 3) % width


PICKS = {
    "cross entropy": lambda x, t: F.cross_entropy(x, t),
    "none": lambda x, t: F.cross_entropy(x, t, reduction="none"),
    "sum, one class ignored": lambda x, t: F.cross_entropy(x, t, ignore_index=3, reduction="sum"),
    "smoothed": lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
    "weighted": lambda x, t: F.cross_entropy(
        x, t, weight=G.linspace(0.5, 2, x.shape[1]).to(x.dtype)
    ),
    "likelihood": lambda x, t: F.nll_loss((x * 2).tanh(), t),
    "probability": lambda x, t: x.softmax(1).gather(1, t[:, None]),
    "a spread operand": lambda x, t: (x.exp() + x.sum(0).to(x.dtype)).gather(1, t[:, None]) * -1,
    "a number for all": lambda x, t: (x * 0 - 0.0).gather(1, t[:, None]),
    "chosen by what is computed": lambda x, t: x.exp().gather(1, x.argmax(1, keepdim=True)),
    "twice": lambda x, t: x.sigmoid().gather(1, t[:, None])
    - x.sigmoid().gather(1, (t[:, None] + 1) % x.shape[1]),
    "given out as well": lambda x, t: G.cat([x.cos(), x.cos().gather(1, t[:, None])], 1),
    "across": lambda x, t: (x + 1).gather(0, t[None, :3].expand(1, 3).clamp(max=1))
    if x.shape[1] == 3
    else (x + 1).log_softmax(0)[:1],
    "of few rows": lambda x, t: x.exp().gather(1, t[:2, None]),
    "of few rows, with one of each": lambda x, t: (x - x.amax(1, keepdim=True)).gather(
        1, t[:2, None]
    ),
    "doubled": lambda x, t: (x * 2).gather(1, t[:, None]),
    "where": lambda x, t: G.where(x > 0, x, x * 0.1).gather(1, t[:, None]),
    "cast": lambda x, t: x.to(G.float64).square().gather(1, t[:, None]),
}


@backends
@pytest.mark.parametrize("name", PICKS)
@pytest.mark.parametrize("sizes", [(5, 9), (16, 130), (3, 4), (4, 3)])
def test_bits_are_those_of_the_plain_function(name, sizes, backend):
    G.manual_seed(next(SEEDS))
    same(PICKS[name], numbers(*sizes), chosen(sizes[0], sizes[1]), backend=backend)


@backends
@pytest.mark.parametrize("dtype", [G.float64, G.float16, G.bfloat16])
def test_other_floats(dtype, backend):
    G.manual_seed(next(SEEDS))
    same(PICKS["smoothed"], numbers(6, 40, dtype=dtype), chosen(6, 40), backend=backend)
    same(PICKS["likelihood"], numbers(6, 40, dtype=dtype), chosen(6, 40), backend=backend)


@backends
def test_classes_in_the_middle_and_in_a_layout_of_their_own(backend):
    G.manual_seed(next(SEEDS))
    x, t = numbers(2, 9, 3, 5), (G.arange(30) % 9).reshape(2, 3, 5)
    same(lambda x, t: F.cross_entropy(x, t), x, t, backend=backend)
    same(
        lambda x, t: F.cross_entropy(
            x.permute(0, 3, 1, 2), t.transpose(1, 2).clamp(max=4), reduction="none"
        ),
        x.detach().permute(0, 2, 3, 1).contiguous().requires_grad_(),
        t.transpose(1, 2).contiguous() % 5,
        backend=backend,
    )


@backends
def test_infinities_not_a_number_and_signed_zeros(backend):
    x = G.tensor(
        [
            [0.0, -0.0, float("inf"), 1.0, -3.0],
            [float("-inf"), 2.0, float("nan"), -0.0, 0.5],
            [-0.0] * 5,
        ]
    ).requires_grad_()
    for place in range(5):
        same(
            lambda x, t: (x * 2).gather(1, t),
            x,
            G.full((3, 1), place, dtype=G.int64),
            backend=backend,
        )
        same(
            lambda x, t: F.cross_entropy(x, t, reduction="none"),
            x,
            G.full((3,), place, dtype=G.int64),
            backend=backend,
        )


@backends
@pytest.mark.parametrize("bad", [64, -65, 1 << 40])
def test_a_position_out_of_range_is_an_error_as_before(bad, backend):
    x, t = numbers(8, 64), chosen(8, 64)
    t[5] = bad
    for f in (PICKS["probability"], PICKS["likelihood"]):
        with pytest.raises((IndexError, RuntimeError)) as plain:
            f(x, t)
        with pytest.raises(plain.type) as fast:
            compiled(f, backend)(x, t)
        assert str(bad) in str(plain.value) and str(bad) in str(fast.value)


@backends
def test_sizes_that_change(backend):
    call = compiled(PICKS["cross entropy"], backend, dynamic=True)
    for n, width in ((8, 64), (3, 5), (17, 1000), (2, 2), (1, 70), (6, 4)):
        G.manual_seed(next(SEEDS))
        inputs = numbers(n, width), chosen(n, width)
        assert run(call, inputs) == run(PICKS["cross entropy"], inputs)


@backends
def test_gradients_of_gradients(backend):
    def twice(f, x, t):
        x = x.detach().clone().requires_grad_()
        (first,) = G.autograd.grad(f(x, t), x, create_graph=True)
        (second,) = G.autograd.grad(first.square().sum(), x)
        return bits(first), bits(second)

    G.manual_seed(next(SEEDS))
    x, t = numbers(4, 12), chosen(4, 12)
    for name in ("cross entropy", "smoothed", "likelihood"):
        assert twice(compiled(PICKS[name], backend), x, t) == twice(PICKS[name], x, t)


@backends
def test_a_result_may_be_written_to_where_the_plain_backward_does_not_read_it(backend):
    at = G.tensor([[1], [1]])

    def f(x):
        y = G.zeros_like(x).scatter_add(1, at, x.sin().gather(1, at))
        return y, F.cross_entropy(y, y.detach().argmax(1), reduction="none")

    def gradient(f):
        x = G.linspace(-1, 1, 8).view(2, 4).requires_grad_()
        y, loss = f(x)
        with G.no_grad():
            y.add_(1)
        loss.sum().backward()
        return bits(x.grad)

    assert gradient(compiled(f, backend)) == gradient(f)


def test_what_is_kept_for_the_backward_is_no_larger():
    """Positions, and not whole rows of answers to where they are."""
    x, t = numbers(64, 4096), chosen(64, 4096)

    def held(f):
        y = f(x, t)
        before = G._core.live_bytes()
        y.backward()
        x.grad = None
        return before - G._core.live_bytes()

    call = compiled(PICKS["cross entropy"])
    held(call)
    assert held(call) <= held(PICKS["cross entropy"])


# -- What is cut into slices

SLICES = {
    "chunks": lambda x: (lambda a, b, c: a.tanh() * b + c.exp())(*x.chunk(3, 1)),
    "chunks in another order": lambda x: (lambda a, b, c: c * a - b)(*x.chunk(3, 1)),
    "split unevenly": lambda x: G.cat(
        [p * (k + 1) for k, p in enumerate(x.split([1, 5, 6], 1))], 1
    ).sin(),
    "of the rows": lambda x: (lambda a, b: a * b)(*x.chunk(2, 0)),
    "of slices": lambda x: (
        lambda a, b: a.chunk(2, 1)[0] * b.chunk(2, 1)[1] + a.chunk(2, 1)[1] * b.chunk(2, 1)[0]
    )(*x.chunk(2, 1)),
    "one of them twice": lambda x: (lambda a, b: a * b + a)(*x.chunk(2, 1)),
    "one of them not at all": lambda x: x.chunk(3, 1)[0] * x.chunk(3, 1)[2],
    "overlapping": lambda x: x[:, :8] * x[:, 4:],
    "the whole as well": lambda x: G.cat([x.exp(), G.cat([-p for p in x.chunk(2, 1)], 1)], 0),
    "zeros of both signs": lambda x: G.cat(
        [p * 0.0 * (1 - 2 * (k % 2)) for k, p in enumerate(x.chunk(4, 1))], 1
    ),
    "every other column": lambda x: x[:, ::2] * x[:, 1::2],
}


@backends
@pytest.mark.parametrize("dtype", [G.float32, G.float64, G.float16])
@pytest.mark.parametrize("name", SLICES)
def test_the_gradient_of_slices_keeps_its_bits(name, dtype, backend):
    same(SLICES[name], numbers(6, 12, dtype=dtype), backend=backend)
