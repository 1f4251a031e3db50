# SPDX-License-Identifier: Apache-2.0
"""Functions that are compositions of the table's ops, against numpy; compiled against eager to the
bit; gradients against differences."""

import math

import numpy as np
import pytest

import gramme as G
import gramme.nn.functional as F

BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]


def numbers(*shape, low=-2.0, high=2.0, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape)


X, Y, SQUARE = numbers(3, 4), numbers(3, 4, seed=1), numbers(4, 4, seed=2)
POSITIVE, UNIT = numbers(3, 4, low=0.2, high=3.0), numbers(3, 4, low=-0.9, high=0.9)
BATCH, OTHER = numbers(2, 3, 4), numbers(2, 4, 5, seed=3)
ROW = np.array([3.0, -1.0, 2.0, 2.0, 5.0])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def normalised(x, groups, eps=1e-5):
    rows = x.reshape(x.shape[0], groups, -1)
    return (
        (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + eps)
    ).reshape(x.shape)


def neighbours(x, size, alpha, beta, k):
    square = np.pad(x**2, ((0, 0), (size // 2, (size - 1) // 2), (0, 0)))
    return x / (k + alpha * sum(square[:, i : i + x.shape[1]] for i in range(size)) / size) ** beta


IMAGE = numbers(2, 4, 3)

# What is called, with what, and what numpy says.  All of it is differentiable there.
SMOOTH = {
    "asin": (G.asin, (UNIT,), np.arcsin),
    "acos": (G.acos, (UNIT,), np.arccos),
    "asinh": (G.asinh, (X,), np.arcsinh),
    "acosh": (G.acosh, (POSITIVE + 1,), np.arccosh),
    "atanh": (G.atanh, (UNIT,), np.arctanh),
    "deg2rad": (G.deg2rad, (X,), np.deg2rad),
    "rad2deg": (G.rad2deg, (X,), np.rad2deg),
    "hypot": (G.hypot, (X, Y), np.hypot),
    "sinc": (G.sinc, (X,), np.sinc),
    "xlogy": (G.xlogy, (X, POSITIVE), lambda x, y: x * np.log(y)),
    "logaddexp": (G.logaddexp, (X, Y), np.logaddexp),
    "logaddexp2": (G.logaddexp2, (X, Y), np.logaddexp2),
    "logit": (G.logit, (sigmoid(X),), lambda x: np.log(x / (1 - x))),
    "frac": (G.frac, (X,), lambda x: x - np.trunc(x)),
    "copysign": (G.copysign, (X, Y), np.copysign),
    "fmax": (G.fmax, (X, Y), np.fmax),
    "fmin": (G.fmin, (X, Y), np.fmin),
    "fmod": (G.fmod, (X, POSITIVE), np.fmod),
    "float_power": (lambda x: G.float_power(x, 2.5), (POSITIVE,), lambda x: x**2.5),
    "ldexp": (G.ldexp, (X, Y), lambda x, y: x * 2**y),
    "mish": (F.mish, (X,), lambda x: x * np.tanh(softplus(x))),
    "softsign": (F.softsign, (X,), lambda x: x / (1 + abs(x))),
    "tanhshrink": (F.tanhshrink, (X,), lambda x: x - np.tanh(x)),
    "celu": (lambda x: F.celu(x, 1.5), (X,), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x / 1.5))),
    "selu": (
        F.selu,
        (X,),
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    ),
    "prelu": (F.prelu, (X, numbers(4, seed=5)), lambda x, w: np.where(x > 0, x, x * w)),
    "hardsigmoid": (F.hardsigmoid, (X * 2,), lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "hardswish": (F.hardswish, (X * 2,), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "hardshrink": (F.hardshrink, (X,), lambda x: np.where(abs(x) > 0.5, x, 0)),
    "softshrink": (F.softshrink, (X,), lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0)),
    "threshold": (lambda x: F.threshold(x, 0.3, 7.0), (X,), lambda x: np.where(x > 0.3, x, 7.0)),
    "glu": (F.glu, (X,), lambda x: x[:, :2] * sigmoid(x[:, 2:])),
    "softmin": (
        lambda x: F.softmin(x, 1),
        (X,),
        lambda x: np.exp(-x) / np.exp(-x).sum(1, keepdims=True),
    ),
    "group_norm": (lambda x: F.group_norm(x, 2), (IMAGE,), lambda x: normalised(x, 2)),
    "instance_norm": (F.instance_norm, (IMAGE,), lambda x: normalised(x, 4)),
    "local_response_norm": (
        lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 1.5),
        (IMAGE,),
        lambda x: neighbours(x, 3, 0.5, 0.75, 1.5),
    ),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (IMAGE,), lambda x: x[:, [0, 2, 1, 3]]),
    "einsum product": (
        lambda x, y: G.einsum("bij,bjk->bik", x, y),
        (BATCH, OTHER),
        lambda x, y: x @ y,
    ),
    "einsum trace": (lambda x: G.einsum("ii->", x), (SQUARE,), np.trace),
    "einsum diagonal": (lambda x: G.einsum("ii->i", x), (SQUARE,), np.diagonal),
    "einsum implicit": (lambda x, y: G.einsum("ij,jk", x, y), (X, SQUARE), lambda x, y: x @ y),
    "einsum dots": (
        lambda x, y: G.einsum("...ij,...jk->...ki", x, y),
        (BATCH, OTHER),
        lambda x, y: (x @ y).swapaxes(1, 2),
    ),
    "einsum three": (
        lambda x, y, z: G.einsum("ij,jk,kl->il", x, y, z),
        (X, SQUARE, SQUARE),
        lambda x, y, z: x @ y @ z,
    ),
    "einsum outer": (lambda x, y: G.einsum("i,j->ij", x, y), (ROW, X[0]), np.outer),
    "einsum batch only": (lambda x, y: G.einsum("ij,ij->ij", x, y), (X, Y), np.multiply),
    "tensordot": (
        lambda x, y: G.tensordot(x, y, dims=([1, 2], [0, 1])),
        (BATCH, numbers(3, 4, 2, seed=6)),
        lambda x, y: np.tensordot(x, y, ([1, 2], [0, 1])),
    ),
    "inner": (G.inner, (X, SQUARE), np.inner),
    "kron": (G.kron, (X, SQUARE[:2]), np.kron),
    "cross": (G.cross, (X.T[:, :3], Y.T[:, :3]), np.cross),
    "bilinear": (
        F.bilinear,
        (X, numbers(3, 2), numbers(5, 4, 2, seed=7), ROW),
        lambda x, y, w, b: np.einsum("ni,kij,nj->nk", x, w, y) + b,
    ),
    "addmv": (
        lambda v, m, x: G.addmv(v, m, x, beta=0.5, alpha=2),
        (X[:, 0], X, ROW[:4]),
        lambda v, m, x: 0.5 * v + 2 * (m @ x),
    ),
    "addr": (G.addr, (X, X[:, 0], X[0]), lambda m, x, y: m + np.outer(x, y)),
    "addbmm": (G.addbmm, (numbers(3, 5), BATCH, OTHER), lambda m, x, y: m + (x @ y).sum(0)),
    "chain_matmul": (G.chain_matmul, (X, SQUARE, SQUARE), lambda x, y, z: x @ y @ z),
    "matrix_power": (
        lambda x: G.matrix_power(x, 5),
        (SQUARE,),
        lambda x: np.linalg.matrix_power(x, 5),
    ),
    "trace": (G.trace, (X,), np.trace),
    "cdist": (G.cdist, (X, SQUARE), lambda x, y: np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))),
    "pairwise_distance": (
        F.pairwise_distance,
        (X, Y),
        lambda x, y: np.sqrt(((x - y + 1e-6) ** 2).sum(-1)),
    ),
    "pdist": (
        F.pdist,
        (X,),
        lambda x: np.array(
            [np.linalg.norm(x[i] - x[j]) for i in range(3) for j in range(i + 1, 3)]
        ),
    ),
    "dist": (lambda x, y: G.dist(x, y, 3), (X, Y), lambda x, y: (abs(x - y) ** 3).sum() ** (1 / 3)),
    "vander": (lambda x: G.vander(x, 4), (ROW,), lambda x: np.vander(x, 4)),
    "diag of a vector": (lambda x: G.diag(x, -1), (ROW,), lambda x: np.diag(x, -1)),
    "diag of a matrix": (lambda x: G.diag(x, 1), (X,), lambda x: np.diag(x, 1)),
    "diag_embed": (
        lambda x: G.diag_embed(x, 1),
        (X,),
        lambda x: np.stack([np.diag(r, 1) for r in x]),
    ),
    "diagflat": (G.diagflat, (X,), np.diagflat),
    "block_diag": (
        G.block_diag,
        (X, SQUARE),
        lambda x, y: np.block([[x, np.zeros((3, 4))], [np.zeros((4, 4)), y]]),
    ),
    "column_stack": (
        lambda x, y: G.column_stack((x, y)),
        (X[:, 0], Y),
        lambda x, y: np.column_stack((x, y)),
    ),
    "dstack": (lambda x, y: G.dstack((x, y)), (X, Y), lambda x, y: np.dstack((x, y))),
    "fliplr": (G.fliplr, (X,), np.fliplr),
    "flipud": (G.flipud, (X,), np.flipud),
    "rot90": (lambda x: G.rot90(x, 3, (0, 1)), (X,), lambda x: np.rot90(x, 3)),
    "repeat_interleave": (
        lambda x: G.repeat_interleave(x, 3, 1),
        (X,),
        lambda x: np.repeat(x, 3, 1),
    ),
    "unfold": (lambda x: x.unfold(1, 2, 2), (X,), lambda x: x.reshape(3, 2, 2)),
    "cumprod": (lambda x: G.cumprod(x, 1), (X,), lambda x: np.cumprod(x, 1)),
    "logcumsumexp": (lambda x: G.logcumsumexp(x, 0), (X,), lambda x: np.logaddexp.accumulate(x, 0)),
    "cummax": (lambda x: G.cummax(x, 1)[0], (X,), lambda x: np.maximum.accumulate(x, 1)),
    "cummin": (lambda x: G.cummin(x, 1).values, (X,), lambda x: np.minimum.accumulate(x, 1)),
    "diff": (lambda x: G.diff(x, 2), (X,), lambda x: np.diff(x, 2)),
    "trapezoid": (
        lambda x: G.trapezoid(x, dx=0.5),
        (X,),
        lambda x: (x[:, 1:] + x[:, :-1]).sum(1) * 0.25,
    ),
    "cumulative_trapezoid": (
        lambda y, x: G.cumulative_trapezoid(y, x),
        (X, POSITIVE),
        lambda y, x: np.cumsum((y[:, 1:] + y[:, :-1]) / 2 * np.diff(x), 1),
    ),
    "median": (G.median, (X[0, :3],), np.median),
    "kthvalue": (lambda x: G.kthvalue(x, 2, 1).values, (X,), lambda x: np.sort(x, 1)[:, 1]),
    "quantile": (lambda x: G.quantile(x, 0.3, 1), (X,), lambda x: np.quantile(x, 0.3, 1)),
    "nansum": (lambda x: G.nansum(x, 0), (X,), lambda x: np.nansum(x, 0)),
    "std": (lambda x: G.std_mean(x, 1)[0], (X,), lambda x: x.std(1, ddof=1)),
    "amax": (lambda x: G.aminmax(x, dim=1).max, (X,), lambda x: x.max(1)),
    "cov": (G.cov, (X,), np.cov),
    "corrcoef": (G.corrcoef, (X,), np.corrcoef),
    "renorm": (
        lambda x: G.renorm(x, 2, 0, 1.0),
        (X,),
        lambda x: x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-7),
    ),
    "msort": (G.msort, (X,), lambda x: np.sort(x, 0)),
    "meshgrid": (
        lambda x, y: G.meshgrid(x, y, indexing="xy")[1],
        (ROW, X[0]),
        lambda x, y: np.meshgrid(x, y)[1],
    ),
    "tensor_split": (
        lambda x: G.tensor_split(x, 3, 1)[0],
        (X,),
        lambda x: np.array_split(x, 3, 1)[0],
    ),
}


def close(ours, theirs):
    theirs = np.asarray(theirs)
    assert tuple(ours.shape) == theirs.shape
    assert np.allclose(np.array(ours.tolist()), theirs, rtol=1e-9, atol=1e-9)


def leaves(arrays):
    return [G.from_numpy(np.ascontiguousarray(a)).requires_grad_() for a in arrays]


def weights(y):
    return (G.arange(y.numel(), dtype=G.float64) % 7 * 0.25 + 0.5).reshape(y.shape)


def value_and_gradients(fn, arrays):
    inputs = leaves(arrays)
    y = fn(*inputs)
    (y * weights(y)).sum().backward()
    return [y.detach()] + [x.grad for x in inputs]


@pytest.mark.parametrize("name", SMOOTH)
def test_value_is_that_of_numpy(name):
    ours, arrays, theirs = SMOOTH[name]
    close(ours(*[G.from_numpy(np.ascontiguousarray(a)) for a in arrays]), theirs(*arrays))


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_is_that_of_differences(name):
    ours, arrays, _ = SMOOTH[name]
    found = value_and_gradients(ours, arrays)[1:]

    def at(changed):
        y = ours(*[G.from_numpy(np.ascontiguousarray(a)) for a in changed])
        return float((y * weights(y)).sum())

    for k, gradient in enumerate(found):
        if gradient is None:
            continue
        step, want = 1e-6, np.zeros(arrays[k].shape)
        for place in np.ndindex(arrays[k].shape):
            sides = []
            for sign in (1, -1):
                moved = [np.array(a) for a in arrays]
                moved[k][place] += sign * step
                sides.append(at(moved))
            want[place] = (sides[0] - sides[1]) / (2 * step)
        assert np.allclose(np.array(gradient.tolist()), want, rtol=1e-4, atol=1e-6), (
            k,
            gradient,
            want,
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_is_eager_to_the_bit(backend):
    different = []
    for name, (ours, arrays, _) in SMOOTH.items():
        compiled = G.compile(ours, backend=backend, fullgraph=True, dynamic=False)
        for a, b in zip(value_and_gradients(ours, arrays), value_and_gradients(compiled, arrays)):
            if not (a is b is None or a.numpy().tobytes() == b.numpy().tobytes()):
                different.append(name)
    assert not different


# -- Numbers at the edges -------------------------------------------------------------------------

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    "ours, x, want",
    [
        (G.asin, [1.0, -1.0, 1.5], [math.pi / 2, -math.pi / 2, NAN]),
        (G.acos, [1.0, -1.0, 1.5], [0.0, math.pi, NAN]),
        (G.asinh, [1e30, -1e30, INF, 0.0], [math.asinh(1e30), -math.asinh(1e30), INF, 0.0]),
        (G.acosh, [1.0, 1e300, INF, 0.5], [0.0, math.acosh(1e300), INF, NAN]),
        (G.atanh, [1.0, -1.0, 2.0], [INF, -INF, NAN]),
        (G.erfinv, [0.0, 1.0, -1.0, 2.0], [0.0, INF, -INF, NAN]),
        (G.sinc, [0.0], [1.0]),
        (G.signbit, [0.0, -0.0, -1.0, INF], [False, True, True, False]),
        (G.isposinf, [INF, -INF, NAN], [True, False, False]),
        (G.isneginf, [INF, -INF, NAN], [False, True, False]),
        (lambda x: G.xlogy(G.zeros(2, dtype=x.dtype), x), [0.0, NAN], [0.0, NAN]),
        (lambda x: G.logaddexp(x, x), [-INF, INF], [-INF, INF]),
        (lambda x: G.hypot(x, x), [1e200, INF, 0.0], [math.hypot(1e200, 1e200), INF, 0.0]),
        (lambda x: G.fmax(x, G.full_like(x, NAN)), [1.0, NAN], [1.0, NAN]),
        (lambda x: G.fmod(x, 3.0), [-7.0, 7.0], [-1.0, 1.0]),
        (lambda x: G.copysign(x, G.tensor([-0.0, 0.0], dtype=x.dtype)), [2.0, -3.0], [-2.0, 3.0]),
        (lambda x: G.heaviside(x, G.full_like(x, 0.5)), [-1.0, 0.0, 2.0], [0.0, 0.5, 1.0]),
        (lambda x: G.cummax(x, 0).values, [1.0, NAN, 3.0], [1.0, NAN, NAN]),
        (lambda x: G.cummax(x, 0).indices, [1.0, 1.0, 0.0], [0, 1, 1]),
        (G.median, [1.0, NAN, 3.0], NAN),
        (G.nanmedian, [1.0, NAN, 3.0, 5.0], 3.0),
        (lambda x: G.nanquantile(x, 0.5), [1.0, NAN, 3.0], 2.0),
        (lambda x: G.quantile(x, 0.5), [1.0, NAN, 3.0], NAN),
        (G.nanmean, [1.0, NAN, 3.0], 2.0),
        (lambda x: G.mode(x).values, [2.0, 1.0, 2.0, 1.0, 3.0], 1.0),
        (lambda x: G.mode(x).indices, [2.0, 1.0, 2.0, 1.0, 3.0], 3),
        (lambda x: G.histc(x, 4, 0, 4), [0.0, 1.0, 1.5, 4.0, 9.0], [1.0, 2.0, 0.0, 1.0]),
    ],
)
def test_edges(ours, x, want):
    got = ours(G.tensor(x, dtype=G.float64))
    assert np.allclose(
        np.array(got.tolist(), dtype=float),
        np.array(want, dtype=float),
        rtol=1e-12,
        atol=1e-12,
        equal_nan=True,
    )


@pytest.mark.parametrize("dtype, tolerance", [(G.float32, 3e-6), (G.float64, 1e-13)])
def test_erfinv_inverts_erf(dtype, tolerance):
    x = G.linspace(-0.999, 0.999, 1001, dtype=dtype).requires_grad_()
    y = G.erfinv(x)
    assert float((G.erf(y) - x).abs().max()) < tolerance
    (slope,) = G.autograd.grad(y.sum(), x)
    want = math.sqrt(math.pi) / 2 * (y.detach() ** 2).exp()
    assert float(((slope - want) / want).abs().max()) < 50 * tolerance


@pytest.mark.parametrize("bits, dtype", [(8, G.uint8), (8, G.int8), (32, G.int32), (64, G.int64)])
def test_shifts_are_those_of_integers(bits, dtype):
    low = 0 if dtype == G.uint8 else -(2 ** (bits - 1))
    top = 2**bits - 1 if dtype == G.uint8 else 2 ** (bits - 1) - 1
    values, steps = [top, low, 100, 1, low // 2], list(range(0, bits))
    x = G.tensor(values, dtype=dtype).reshape(-1, 1)
    n = G.tensor(steps, dtype=dtype)
    assert G.bitwise_right_shift(x, n).tolist() == [[v >> s for s in steps] for v in values]
    wrapped = [[(v << s) & (2**bits - 1) for s in steps] for v in values]
    if dtype != G.uint8:
        wrapped = [[w - 2**bits if w > top else w for w in row] for row in wrapped]
    assert G.bitwise_left_shift(x, n).tolist() == wrapped


# -- Places and counts ----------------------------------------------------------------------------


@pytest.mark.parametrize("right", [False, True])
def test_search_is_that_of_numpy(right):
    bounds, values = np.array([1.0, 2.0, 2.0, 5.0]), np.array([[0.0, 1.0, 2.0], [3.0, 5.0, 9.0]])
    want = np.searchsorted(bounds, values, "right" if right else "left").tolist()
    assert G.searchsorted(G.from_numpy(bounds), G.from_numpy(values), right=right).tolist() == want
    assert G.bucketize(G.from_numpy(values), G.from_numpy(bounds), right=right).tolist() == want


def test_counts_and_sets():
    x = G.tensor([1, 3, 3, 0])
    assert G.bincount(x).tolist() == [1, 1, 0, 2]
    assert G.bincount(x, minlength=6).tolist() == [1, 1, 0, 2, 0, 0]
    assert G.bincount(x, G.tensor([0.5, 1.0, 2.0, 4.0])).tolist() == [4.0, 0.5, 0.0, 3.0]
    assert G.isin(x, G.tensor([3, 7])).tolist() == [False, True, True, False]
    assert G.isin(x, 3, invert=True).tolist() == [True, False, False, True]
    assert G.tril_indices(3, 2).tolist() == [[0, 1, 1, 2, 2], [0, 0, 1, 0, 1]]
    assert G.triu_indices(2, 3, 1).tolist() == [[0, 0, 1], [1, 2, 2]]
    assert G.cartesian_prod(G.tensor([1, 2]), G.tensor([3, 4])).tolist() == [
        [1, 3],
        [1, 4],
        [2, 3],
        [2, 4],
    ]
    assert G.repeat_interleave(G.tensor([5, 6, 7]), G.tensor([2, 0, 1])).tolist() == [5, 5, 7]


def test_running_statistics_of_instance_norm():
    mean, var = G.zeros(4, dtype=G.float64), G.ones(4, dtype=G.float64)
    x = G.from_numpy(IMAGE)
    F.instance_norm(x, mean, var, momentum=0.5)
    close(mean, IMAGE.mean(2).mean(0) * 0.5)
    close(var, 0.5 + IMAGE.var(2, ddof=1).mean(0) * 0.5)
    y = F.instance_norm(x, mean, var, use_input_stats=False)
    m, v = np.array(mean.tolist()).reshape(1, 4, 1), np.array(var.tolist()).reshape(1, 4, 1)
    close(y, (IMAGE - m) / np.sqrt(v + 1e-5))


@pytest.mark.parametrize("fn", [F.dropout1d, F.dropout2d, F.dropout3d])
def test_dropout_takes_whole_channels(fn):
    G.manual_seed(0)
    shape = (8, 16) + (3,) * {F.dropout1d: 1, F.dropout2d: 2, F.dropout3d: 3}[fn]
    y = fn(G.ones(*shape), 0.5).reshape(8 * 16, -1)
    assert {tuple(row) for row in y.tolist()} == {(0.0,) * y.shape[1], (2.0,) * y.shape[1]}


def test_alpha_dropout_keeps_mean_and_variance():
    G.manual_seed(0)
    y = F.alpha_dropout(G.randn(100000), 0.3, training=True)
    assert abs(float(y.mean())) < 0.02 and abs(float(y.var()) - 1) < 0.03
    assert F.alpha_dropout(X_F32, 0.3).tolist() == X_F32.tolist()


X_F32 = G.tensor([1.0, 2.0])


def test_gumbel_softmax_draws_with_the_probabilities():
    G.manual_seed(0)
    p = G.tensor([0.5, 0.25, 0.125, 0.125])
    y = F.gumbel_softmax(p.log().expand(20000, 4), tau=1.0, hard=True)
    assert set(y.sum(1).tolist()) == {1.0}
    assert float((y.mean(0) - p).abs().max()) < 0.02
    x = G.zeros(3, 4, requires_grad=True)
    F.gumbel_softmax(x, hard=True)[:, 0].sum().backward()
    assert float(x.grad.abs().sum()) > 0


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: G.einsum("ij,jk->ik", G.ones(2, 3), G.ones(4, 5)), "does not broadcast"),
        (lambda: G.einsum("ij->ik", G.ones(2, 3)), "does not appear in any operand"),
        (lambda: G.einsum("ij", G.ones(2, 3), G.ones(2)), "1 operands, but 2 were given"),
        (lambda: G.einsum("i1->i", G.ones(2, 3)), "invalid subscript"),
        (lambda: G.einsum("ij->iij", G.ones(2, 3)), "more than once"),
        (lambda: G.kthvalue(G.ones(3), 4), "out of range"),
        (lambda: G.meshgrid(G.ones(3), indexing="yx"), "one of"),
        (lambda: G.quantile(G.ones(3), 1.5), "in the range"),
        (lambda: F.glu(G.ones(3)), "even"),
        (lambda: F.group_norm(G.ones(2, 3, 4), 2), "multiple of num_groups"),
        (lambda: F.pixel_shuffle(G.ones(1, 3, 2, 2), 2), "does not fit"),
        (lambda: G.matrix_power(G.ones(2, 3), 2), "square"),
        (lambda: G.tensor_split(G.ones(3), 0), "cannot be cut"),
        (lambda: G.copysign(1.0, 2.0), "must be Tensor"),
        (lambda: G.fmod(True, False), "must be Tensor"),
    ],
)
def test_errors_say_what_is_wrong(call, text):
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError), match=text):
        call()


def test_a_function_of_ours_compiles_by_itself():
    sine = G.compile(G.sin, backend="eager")
    x = G.tensor([0.5, 1.0])
    assert sine(x).tolist() == G.sin(x).tolist() and sine.__name__ == "sin"


# -- Losses ---------------------------------------------------------------------------------------

SIGNS, TARGETS = np.array([1.0, -1.0, 1.0]), np.array([2, 0, 3])


def above(x):
    return np.maximum(x, 0)


def cosine(x, y):
    return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


def labels(x, target):
    out = []
    for row, t in zip(x, target):
        mine = list(t[: list(t).index(-1)]) if -1 in t else list(t)
        out.append(
            sum(
                max(0, 1 - (row[j] - row[i]))
                for j in mine
                for i in range(len(row))
                if i not in mine
            )
            / len(row)
        )
    return np.array(out)


LABELS = np.array([[3, 0, -1, 1], [1, -1, 0, 0], [0, 1, 2, 3]])
LOSSES = {
    "soft_margin_loss": ((X, np.sign(Y)), {}, lambda x, y: np.log1p(np.exp(-x * y))),
    "margin_ranking_loss": (
        (X, Y, np.sign(X[::-1])),
        {"margin": 0.3},
        lambda x, z, y: above(-y * (x - z) + 0.3),
    ),
    "hinge_embedding_loss": (
        (X, np.sign(Y)),
        {"margin": 0.7},
        lambda x, y: np.where(y == 1, x, above(0.7 - x)),
    ),
    "cosine_embedding_loss": (
        (X, Y, SIGNS),
        {"margin": 0.1},
        lambda x, z, y: np.where(y == 1, 1 - cosine(x, z), above(cosine(x, z) - 0.1)),
    ),
    "triplet_margin_loss": (
        (X, Y, numbers(3, 4, seed=9)),
        {"swap": True},
        lambda a, p, n: above(
            np.linalg.norm(a - p + 1e-6, axis=1)
            - np.minimum(np.linalg.norm(a - n + 1e-6, axis=1), np.linalg.norm(p - n + 1e-6, axis=1))
            + 1
        ),
    ),
    "poisson_nll_loss": (
        (X, POSITIVE),
        {"full": True},
        lambda x, y: np.exp(x)
        - y * x
        + np.where(y > 1, y * np.log(y) - y + 0.5 * np.log(2 * np.pi * y), 0),
    ),
    "gaussian_nll_loss": (
        (X, Y, POSITIVE),
        {"full": True},
        lambda x, y, v: 0.5 * (np.log(v) + (x - y) ** 2 / v) + 0.5 * np.log(2 * np.pi),
    ),
    "multi_margin_loss": (
        (X, TARGETS),
        {"p": 2},
        lambda x, y: np.array(
            [sum(above(1 - r[t] + r[i]) ** 2 for i in range(4) if i != t) / 4 for r, t in zip(x, y)]
        ),
    ),
    "multilabel_margin_loss": ((X, LABELS), {}, labels),
    "multilabel_soft_margin_loss": (
        (X, (Y > 0) * 1.0),
        {},
        lambda x, y: (y * np.log1p(np.exp(-x)) + (1 - y) * np.log1p(np.exp(x))).mean(1),
    ),
}


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_their_formulas(name, reduction):
    arrays, keywords, theirs = LOSSES[name]
    G._dynamo.reset()  # the same code for every loss
    want = theirs(*arrays)
    want = want if reduction == "none" else want.sum() if reduction == "sum" else want.mean()

    def loss(*tensors):
        return getattr(F, name)(*tensors, reduction=reduction, **keywords)

    close(loss(*[G.from_numpy(np.ascontiguousarray(a)) for a in arrays]), want)
    found = []
    for fn in (loss, *[G.compile(loss, backend=backend, fullgraph=True) for backend in BACKENDS]):
        x = G.from_numpy(np.ascontiguousarray(arrays[0])).requires_grad_()
        y = fn(x, *[G.from_numpy(np.ascontiguousarray(a)) for a in arrays[1:]])
        y.sum().backward()
        found.append((y.detach().numpy().tobytes(), x.grad.numpy().tobytes()))
    assert len(set(found)) == 1


# -- Draws ----------------------------------------------------------------------------------------

N = 100000


def quartiles(y):
    return [
        float(v)
        for v in G.quantile(y.to(G.float64).flatten(), G.tensor([0.25, 0.5, 0.75], dtype=G.float64))
    ]


@pytest.mark.parametrize(
    "fill, inverse",
    [
        (lambda t: t.exponential_(2.0), lambda p: -math.log1p(-p) / 2),
        (lambda t: t.cauchy_(1.0, 3.0), lambda p: 1 + 3 * math.tan(math.pi * (p - 0.5))),
        (
            lambda t: t.log_normal_(0.5, 0.25),
            lambda p: math.exp(
                0.5 + 0.25 * {0.25: -0.6744897501960817, 0.5: 0.0, 0.75: 0.6744897501960817}[p]
            ),
        ),
    ],
)
def test_draws_have_the_quartiles_of_their_distribution(fill, inverse):
    G.manual_seed(1)
    got = quartiles(fill(G.empty(N)))
    want = [inverse(p) for p in (0.25, 0.5, 0.75)]
    assert all(abs(a - b) < 0.03 * (1 + abs(b)) for a, b in zip(got, want)), (got, want)


def test_draws_of_integers():
    G.manual_seed(1)
    y = G.empty(N, dtype=G.int64).geometric_(0.25)
    assert int(y.min()) == 1 and abs(float(y.float().mean()) - 4) < 0.05
    assert abs(float((y == 1).float().mean()) - 0.25) < 0.01
    assert G.bincount(G.empty(N, dtype=G.int64).random_(2, 5)).tolist()[:2] == [0, 0]
    assert set(G.empty(1000, dtype=G.uint8).random_(3).tolist()) == {0, 1, 2}
    assert float(G.empty(1000).random_().max()) > 2**22
    assert set(G.randint_like(G.empty(100), 3, 5).tolist()) == {3.0, 4.0}


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_draws_by_weight(replacement):
    G.manual_seed(1)
    weights = G.tensor([1.0, 0.0, 3.0, 4.0])
    first = G.multinomial(weights.expand(N, 4), 2, replacement)
    assert first.shape == (N, 2) and first.dtype == G.int64
    share = G.bincount(first[:, 0], minlength=4) / N
    assert G.allclose(share, weights / 8, atol=0.01)
    both = float((first[:, 0] == first[:, 1]).float().mean())
    assert abs(both - (1 + 9 + 16) / 64) < 0.01 if replacement else both == 0
    compiled = G.compile(
        lambda w: G.multinomial(w, 2, replacement), backend="eager", fullgraph=True
    )
    G.manual_seed(5)
    plain = G.multinomial(weights, 2, replacement).tolist()
    G.manual_seed(5)
    assert compiled(weights).tolist() == plain
    with pytest.raises(RuntimeError, match="without replacement"):
        G.multinomial(weights, 5)
