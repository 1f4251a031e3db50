# SPDX-License-Identifier: Apache-2.0
"""Writes by index and images at other sizes, against loops; compiled against eager to the bit."""

import itertools
import math

import numpy as np
import pytest

import gramme as G
import gramme.nn.functional as F

BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]
HOW = {"sum": sum, "prod": math.prod, "mean": lambda v: sum(v) / len(v), "amax": max, "amin": min}


def plain_scatter(x, dim, index, src, how=None, own=True):
    """torch's definition, one element after the other; and which elements of x and src each result
    is made of."""
    out, parts = x.copy(), {p: [("x", p)] for p in np.ndindex(x.shape)}
    seen = set()
    for place in np.ndindex(index.shape):
        to = list(place)
        to[dim] = index[place]
        to = tuple(to)
        if how is None or (not own and to not in seen):
            parts[to] = []
        seen.add(to)
        parts[to].append(("src", place))
    for to in seen:
        values = [x[p] if side == "x" else src[p] for side, p in parts[to]]
        out[to] = values[-1] if how is None else HOW[how](values)
    return out, parts


def cases(n):
    rng = np.random.default_rng(0)
    for _ in range(n):
        rank = int(rng.integers(1, 4))
        shape = tuple(int(v) for v in rng.integers(1, 4, rank))
        dim = int(rng.integers(0, rank))
        index_shape = tuple(
            int(rng.integers(1, 5)) if d == dim else int(rng.integers(1, shape[d] + 1))
            for d in range(rank)
        )
        src_shape = tuple(s + int(rng.integers(0, 2)) for s in index_shape)
        yield (
            rng.integers(-3, 4, shape).astype(float),
            dim,
            rng.integers(0, shape[dim], index_shape),
            rng.integers(-3, 4, src_shape).astype(float),
        )


def test_the_last_write_wins():
    for x, dim, index, src in cases(150):
        got = G.scatter(G.from_numpy(x), dim, G.from_numpy(index), G.from_numpy(src))
        assert got.tolist() == plain_scatter(x, dim, index, src)[0].tolist()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("own", [True, False])
def test_scatter_reduce_is_its_definition(how, own):
    for x, dim, index, src in cases(80):
        got = G.scatter_reduce(
            G.from_numpy(x), dim, G.from_numpy(index), G.from_numpy(src), how, include_self=own
        )
        assert np.allclose(
            np.array(got.tolist()), plain_scatter(x, dim, index, src, how, own)[0], rtol=1e-12
        )


@pytest.mark.parametrize("how", [None, *HOW])
@pytest.mark.parametrize("own", [True, False])
def test_gradients_go_to_what_counts(how, own):
    """Of equal extrema each has the same share; a product's are those of differences."""
    for x, dim, index, src in cases(40):
        a, s = G.from_numpy(x).requires_grad_(), G.from_numpy(src).requires_grad_()
        i = G.from_numpy(index)
        y = (
            G.scatter(a, dim, i, s)
            if how is None
            else G.scatter_reduce(a, dim, i, s, how, include_self=own)
        )
        given = np.arange(1.0, y.numel() + 1).reshape(x.shape)
        y.backward(G.from_numpy(given))
        out, parts = plain_scatter(x, dim, index, src, how, own)
        want = {"x": np.zeros(x.shape), "src": np.zeros(src.shape)}
        for to, members in parts.items():
            values = [x[p] if side == "x" else src[p] for side, p in members]
            if how is None:
                members, shares = members[-1:], [1.0]
            elif how in ("amax", "amin"):
                shares = [float(v == out[to]) / values.count(out[to]) for v in values]
            elif how == "prod":
                shares = [math.prod(values[:k] + values[k + 1 :]) for k in range(len(values))]
            else:
                shares = [1.0 / (len(values) if how == "mean" else 1)] * len(values)
            for (side, p), share in zip(members, shares):
                want[side][p] += share * given[to]
        for got, side in ((a.grad, "x"), (s.grad, "src")):
            assert (
                got is None
                and not want[side].any()
                or np.allclose(np.array(got.tolist()), want[side], rtol=1e-12)
            ), (how, side, x, index, src)


@pytest.mark.parametrize("value", [-0.0, math.inf, math.nan])
def test_what_is_written_keeps_its_bits(value):
    x, at = G.ones(4), G.tensor([2, 0, 2])
    src = G.tensor([5.0, 6.0, value])
    for y in (G.scatter(x, 0, at, src), G.index_copy(x, 0, at, src), G.put(x, at, src)):
        assert y.numpy().tobytes() == np.array([6.0, 1.0, value, 1.0], np.float32).tobytes()


def test_slices_are_replaced():
    x = np.arange(12.0).reshape(3, 4)
    t = G.from_numpy(x)
    want = x.copy()
    want[:, [3, 1]] = [[1, 2]] * 3
    assert (
        G.index_copy(t, 1, G.tensor([3, 1]), G.tensor([[1.0, 2.0]] * 3, dtype=G.float64)).tolist()
        == want.tolist()
    )
    want = x.copy()
    want[[2, 0]] = 9
    assert G.index_fill(t, 0, G.tensor([-1, 0]), 9.0).tolist() == want.tolist()
    want = x.copy()
    want[:, 1:4:2] = 7
    assert (
        G.slice_scatter(t, G.full((3, 2), 7.0, dtype=G.float64), 1, 1, 4, 2).tolist()
        == want.tolist()
    )
    want = x.copy()
    want[-1] = 8
    assert G.select_scatter(t, G.full((4,), 8.0, dtype=G.float64), 0, -1).tolist() == want.tolist()
    for offset in (-2, -1, 0, 1, 3):
        want, n = x.copy(), len(np.diagonal(x, offset))
        rows = np.arange(n) + max(-offset, 0)
        want[rows, rows + offset] = -1
        assert (
            G.diagonal_scatter(t, G.full((n,), -1.0, dtype=G.float64), offset).tolist()
            == want.tolist()
        )
    assert G.take(t, G.tensor([[-1, 0]])).tolist() == [[11.0, 0.0]]
    assert G.masked_scatter(t, t > 8, G.tensor([1.0, 2.0, 3.0, 4.0], dtype=G.float64)).tolist()[
        2
    ] == [8.0, 1.0, 2.0, 3.0]
    y = t.clone()
    y.scatter_(1, G.tensor([[0], [1], [2]]), 5.0)
    assert [y[i, i].item() for i in range(3)] == [5.0] * 3


def sources(n_in, n_out, step, corners):
    if corners:
        return [i * (n_in - 1) / (n_out - 1) if n_out > 1 else 0.0 for i in range(n_out)]
    return [(i + 0.5) * step - 0.5 for i in range(n_out)]


def cubic(t):
    t, a = abs(t), -0.75
    return (
        ((a + 2) * t - (a + 3)) * t * t + 1
        if t <= 1
        else ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        if t < 2
        else 0.0
    )


def matrix(n_in, n_out, step, mode, corners):
    """The weights [out, in] of one dimension."""
    m = np.zeros((n_out, n_in))
    for i, x in enumerate(sources(n_in, n_out, step, corners)):
        if mode == "nearest":
            m[i, min(int(i * n_in // n_out if step == n_in / n_out else i * step), n_in - 1)] = 1
        elif mode == "cubic":
            for k in range(-1, 3):
                m[i, min(max(math.floor(x) + k, 0), n_in - 1)] += cubic(x - math.floor(x) - k)
        else:
            x = max(x, 0.0)
            m[i, min(int(x), n_in - 1)] += 1 - (x - int(x))
            m[i, min(int(x) + 1, n_in - 1)] += x - int(x)
    return m


@pytest.mark.parametrize(
    "mode, kind, corners",
    [
        ("nearest", "nearest", False),
        ("bilinear", "linear", False),
        ("bilinear", "linear", True),
        ("bicubic", "cubic", False),
        ("bicubic", "cubic", True),
    ],
)
def test_interpolate_is_a_product_with_weights(mode, kind, corners):
    G.manual_seed(0)
    for h, w in ((3, 9), (8, 2), (5, 7), (1, 1)):
        x = G.randn(2, 3, 5, 4, dtype=G.float64)
        rows, cols = matrix(5, h, 5 / h, kind, corners), matrix(4, w, 4 / w, kind, corners)
        got = F.interpolate(
            x, size=(h, w), mode=mode, align_corners=corners if mode != "nearest" else None
        )
        assert np.allclose(
            np.array(got.tolist()),
            np.einsum("hi,wj,ncij->nchw", rows, cols, np.array(x.tolist())),
            rtol=1e-9,
            atol=1e-12,
        )
    doubled = F.interpolate(x, scale_factor=2, mode=mode)
    assert doubled.shape == (2, 3, 10, 8)


def test_columns_and_back():
    G.manual_seed(0)
    x = G.randn(2, 3, 6, 5, dtype=G.float64)
    for kernel, dilation, pad, stride in itertools.product(((2, 3), 2), (1, 2), (0, 1), (1, 2)):
        columns = F.unfold(x, kernel, dilation, pad, stride)
        kh, kw = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        z = np.pad(np.array(x.tolist()), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        rows, cols = [
            (z.shape[2 + d] - dilation * (k - 1) - 1) // stride + 1 for d, k in enumerate((kh, kw))
        ]
        want = np.zeros((2, 3, kh, kw, rows, cols))
        back = np.zeros(z.shape)
        for i, j in np.ndindex(kh, kw):
            part = (
                slice(None),
                slice(None),
                slice(i * dilation, i * dilation + stride * (rows - 1) + 1, stride),
                slice(j * dilation, j * dilation + stride * (cols - 1) + 1, stride),
            )
            want[:, :, i, j] = z[part]
            back[part] += want[:, :, i, j]
        assert columns.tolist() == want.reshape(2, 3 * kh * kw, -1).tolist()
        folded = F.fold(columns, (6, 5), kernel, dilation, pad, stride)
        assert np.allclose(
            np.array(folded.tolist()), back[:, :, pad : pad + 6, pad : pad + 5], rtol=1e-12
        )


@pytest.mark.parametrize("space", [1, 2, 3])
def test_transposed_convolution_is_the_gradient_of_a_convolution(space):
    conv = (F.conv1d, F.conv2d, F.conv3d)[space - 1]
    transposed = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[space - 1]
    G.manual_seed(0)
    for stride, pad, dilation, groups in itertools.product((1, 2), (0, 1), (1, 2), (1, 2)):
        small, extra = G.randn(2, 4, *(3,) * space, dtype=G.float64), stride - 1
        w = G.randn(4, 3, *(2,) * space, dtype=G.float64)
        got = transposed(
            small,
            w,
            stride=stride,
            padding=pad,
            output_padding=extra,
            groups=groups,
            dilation=dilation,
        )
        big = G.zeros(*got.shape, dtype=G.float64).requires_grad_()
        y = conv(big, w, stride=stride, padding=pad, groups=groups, dilation=dilation)
        assert y.shape == small.shape
        (want,) = G.autograd.grad(y, big, small)
        assert G.allclose(got, want, rtol=1e-9, atol=1e-10)


PROGRAMS = {
    "scatter": lambda x, s: G.scatter(x, 1, G.tensor([[0, 2, 2], [1, 1, 0]]), s),
    "scatter a number": lambda x, s: G.scatter(x, 0, G.tensor([[0, 1, 0, 1]]), 2.5) * s.sum(),
    "scatter_reduce": lambda x, s: G.scatter_reduce(
        x, 1, G.tensor([[0, 2, 2], [1, 1, 0]]), s, "amax"
    ),
    "index_fill": lambda x, s: G.index_fill(x, 1, G.tensor([1, -1]), 0.5) * s.mean(),
    "index_copy": lambda x, s: G.index_copy(x, 1, G.tensor([3, 0, 3]), s),
    "masked_scatter": lambda x, s: G.masked_scatter(x, x > 0, s.repeat(4, 1)),
    "diagonal_scatter": lambda x, s: G.diagonal_scatter(x, s[:, 0], 1),
    "interpolate": lambda x, s: F.interpolate(x[None, None], scale_factor=1.7, mode="bicubic")
    * s.sum(),
    "unfold": lambda x, s: F.fold(F.unfold(x[None, None], 2), (2, 4), 2) * s.sum(),
    "conv_transpose": lambda x, s: F.conv_transpose1d(x, s[:, :, None].expand(2, 3, 3), stride=2),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_is_eager_to_the_bit(name, backend):
    found = []
    for fn in (PROGRAMS[name], G.compile(PROGRAMS[name], backend=backend, fullgraph=True)):
        G.manual_seed(3)
        x, s = G.randn(2, 4).requires_grad_(), G.randn(2, 3).requires_grad_()
        y = fn(x, s)
        (y * (G.arange(y.numel()) % 5 - 1.5).reshape(y.shape)).sum().backward()
        found.append([v.numpy().tobytes() for v in (y.detach(), x.grad, s.grad)])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: G.scatter(G.ones(3), 0, G.tensor([5]), 1.0), "out of"),
        (lambda: G.scatter(G.ones(3), 0, G.tensor([0]), G.ones(1, dtype=G.float64)), "dtype"),
        (
            lambda: G.scatter(G.ones(2, 2), 0, G.tensor([[0, 0, 0]]), G.ones(1, 3)),
            "smaller than self",
        ),
        (lambda: G.scatter_reduce(G.ones(3), 0, G.tensor([0]), G.ones(1), "median"), "one of sum"),
        (lambda: G.index_copy(G.ones(3), 0, G.tensor([0]), G.ones(2)), "does not fit"),
        (lambda: F.interpolate(G.ones(1, 1, 3), size=3, scale_factor=2), "only one of"),
        (lambda: F.interpolate(G.ones(1, 1, 3), size=3, mode="bilinear"), "inputs of 4 dimensions"),
        (lambda: F.interpolate(G.ones(1, 1, 3), size=0), "greater than 0"),
        (lambda: F.fold(G.ones(1, 5, 4), (3, 3), 2), "does not fit"),
        (lambda: F.conv_transpose1d(G.ones(1, 2, 3), G.ones(3, 2, 2)), "expected an input"),
        (
            lambda: F.conv_transpose1d(G.ones(1, 2, 3), G.ones(2, 2, 2), output_padding=1),
            "output_padding is smaller",
        ),
    ],
)
def test_errors_say_what_is_wrong(call, text):
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError), match=text):
        call()
