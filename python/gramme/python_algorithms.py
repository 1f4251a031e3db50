# SPDX-License-Identifier: Apache-2.0
"""Differences, counts, reductions by index, cells of recurrent networks, and factors of low rank:
compositions, recorded like code of your own."""

import collections
import math

import gramme
from gramme.python_functions import need_floats

Histogram = collections.namedtuple("histogram", "hist bin_edges")

# -- Differences


def _along(input, h, dim, edge_order):
    """The gradient along dim; h: a number, or the places (n,) of the elements."""
    n = input.shape[dim]
    if n < edge_order + 1:
        raise RuntimeError(
            f"gradient() with edge_order={edge_order} needs at least {edge_order + 1} elements "
            f"along each dimension, and there are {n}"
        )

    def at(i, length=1):
        return input.narrow(dim, i if i >= 0 else n + i, length)

    if isinstance(h, gramme.Tensor):
        shape = [1] * input.dim()
        shape[dim] = n - 1
        steps = h.diff()
        if edge_order == 1:
            first, last = (at(1) - at(0)) / steps[0], (at(-1) - at(-2)) / steps[-1]
        else:
            a, b = steps[0], steps[1]
            first = (
                at(0) * (-(2 * a + b) / (a * (a + b)))
                + at(1) * ((a + b) / (a * b))
                - at(2) * (a / (b * (a + b)))
            )
            a, b = steps[-2], steps[-1]
            last = (
                at(-3) * (b / (a * (a + b)))
                - at(-2) * ((a + b) / (a * b))
                + at(-1) * ((2 * b + a) / (b * (a + b)))
            )
        if n < 3:
            return gramme.cat([first, last], dim)
        steps = steps.reshape(shape)
        a, b = steps.narrow(dim, 0, n - 2), steps.narrow(dim, 1, n - 2)
        inner = (
            at(0, n - 2) * (-b / (a * (a + b)))
            + at(1, n - 2) * ((b - a) / (a * b))
            + at(2, n - 2) * (a / (b * (a + b)))
        )
        return gramme.cat([first, inner, last], dim)
    if edge_order == 1:
        first, last = (at(1) - at(0)) / h, (at(-1) - at(-2)) / h
    else:
        first, last = (at(0) * -1.5 + at(1) * 2 - at(2) * 0.5) / h, (
            at(-3) * 0.5 - at(-2) * 2 + at(-1) * 1.5
        ) / h
    inner = [(at(2, n - 2) - at(0, n - 2)) / (2 * h)] if n > 2 else []
    return gramme.cat([first, *inner, last], dim)


def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Central differences along each dimension of dim (None: all), one-sided ones at the edges, of
    order edge_order (1 or 2): a tuple of tensors of input's shape.  spacing: the distance of
    elements (None: 1), a list of distances, or a list of tensors, where elements are.

    Errors: RuntimeError for too few elements, a dimension that comes twice, or another number of
    spacings than of dimensions; IndexError.
    """
    n = input.dim()
    dims = list(range(n)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    for d in dims:
        if not -n <= d < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})"
            )
    dims = [d % n for d in dims]
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"gradient() takes each dimension once, not {dims}")
    spacings = (
        list(spacing)
        if isinstance(spacing, (list, tuple))
        else [1 if spacing is None else spacing] * len(dims)
    )
    if len(spacings) != len(dims):
        raise RuntimeError(
            f"gradient() expected spacing to be a number, or one for each of the {len(dims)} "
            f"dimensions, and got {len(spacings)}"
        )
    if edge_order not in (1, 2):
        raise RuntimeError("gradient() only supports edge_order=1 and edge_order=2")
    x = input if input.is_floating_point() else input.to(gramme.get_default_dtype())
    return tuple([_along(x, h, d, edge_order) for h, d in zip(spacings, dims)])


# -- Counts


def histogram(input, bins, *, range=None, weight=None, density=False):
    """(hist, bin_edges): how many elements, or how much weight, is in each bin; the last one has
    its right edge, and what lies outside of all counts nowhere.  bins: how many, of equal width
    over range (low, high; None: the extremes), or the edges.  density: so that the integral is 1.

    weight has input's shape and dtype, and so have edges the dtype.  Errors: RuntimeError for
    others, for a range that is not finite or goes down, and where elements decide it and are not
    finite; TypeError for a range beside edges."""
    need_floats("histogram", input)
    x = input.reshape(-1)
    if weight is not None and (weight.shape != input.shape or weight.dtype != input.dtype):
        raise RuntimeError(
            f"histogram(): weight has the input's shape and dtype, not {tuple(weight.shape)} and "
            f"{weight.dtype}"
        )
    if isinstance(bins, gramme.Tensor):
        if range is not None:
            raise TypeError("histogram(): a range goes with a number of bins, not with their edges")
        if bins.dtype != input.dtype:
            raise RuntimeError(
                f"histogram(): edges have the input's dtype, {input.dtype}, not {bins.dtype}"
            )
        edges = bins
    else:
        if range is not None and len(range) != 2:
            raise RuntimeError(f"histogram(): range is two numbers, not {len(range)}")
        low, high = (
            range
            if range is not None
            else (input.min(), input.max())
            if input.numel()
            else (0.0, 1.0)
        )
        low, high = float(low), float(high)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(f"histogram(): the range [{low}, {high}] is not finite")
        if low > high:
            raise RuntimeError(
                f"histogram(): the range goes from the lower to the higher end, not from {low} to "
                f"{high}"
            )
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = gramme.linspace(low, high, bins + 1, dtype=input.dtype, device=input.device)
    n = edges.numel() - 1
    inside = (x >= edges[0]) & (x <= edges[-1])
    which = (gramme.searchsorted(edges, x.contiguous(), right=True) - 1).clamp(0, n - 1)
    amount = gramme.ones_like(x) if weight is None else weight.reshape(-1).to(x.dtype)
    hist = gramme.zeros(n, dtype=x.dtype, device=x.device).index_add(
        0, which, gramme.where(inside, amount, 0.0)
    )
    if density:
        hist = hist / (hist.sum() * edges.diff())
    return Histogram(hist, edges)


def nonzero_static(input, *, size, fill_value=-1):
    """The first `size` rows of nonzero(), with rows of fill_value where there are fewer."""
    found = input.nonzero()[:size]
    rest = gramme.full(
        (size - found.shape[0], input.dim()), fill_value, dtype=gramme.int64, device=input.device
    )
    return gramme.cat([found, rest])


# -- Reductions by index


def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """A copy of input in which each slice of dim that index names is combined with those of source:
    prod, mean, amax or amin.
    include_self: and with what is there."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    if input.dim() == 0:
        return index_reduce(
            input.reshape(1), dim, index, source.reshape(-1), reduce, include_self=include_self
        ).reshape(())
    shape = [1] * source.dim()
    shape[dim] = index.numel()
    places = index.to(gramme.int64).reshape(shape).expand(source.shape)
    return input.scatter_reduce(dim, places, source, reduce, include_self=include_self)


def index_reduce_(input, dim, index, source, reduce, *, include_self=True):
    """index_reduce(), in place."""
    return input.copy_(index_reduce(input, dim, index, source, reduce, include_self=include_self))


# -- Windows


def kaiser_window(
    window_length, periodic=True, beta=12.0, *, dtype=None, device=None, requires_grad=False
):
    """i0 (beta * sqrt (1 - (2 n / N - 1) ** 2)) / i0 (beta)."""
    dtype = dtype or gramme.get_default_dtype()
    if window_length <= 1:
        return gramme.ones(window_length, dtype=dtype, device=device, requires_grad=requires_grad)
    at = (
        gramme.arange(window_length, dtype=gramme.float64, device=device)
        * (2 / (window_length - (0 if periodic else 1)))
        - 1
    )
    shape = gramme.i0((1 - at * at).clamp(min=0).sqrt() * beta) / gramme.i0(
        gramme.scalar_tensor(beta, dtype=gramme.float64, device=device)
    )
    return shape.to(dtype).requires_grad_(requires_grad)


# -- Cells


def _sides(input, hx, w_ih, w_hh, b_ih, b_hh):
    return gramme.nn.functional.linear(input, w_ih, b_ih), gramme.nn.functional.linear(
        hx, w_hh, b_hh
    )


def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """tanh (w_ih input + b_ih + w_hh hx + b_hh)."""
    return gramme.nn.recurrence.Tanh.step(*_sides(input, hx, w_ih, w_hh, b_ih, b_hh), (hx,))[0][0]


def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """relu (w_ih input + b_ih + w_hh hx + b_hh)."""
    return gramme.nn.recurrence.Relu.step(*_sides(input, hx, w_ih, w_hh, b_ih, b_hh), (hx,))[0][0]


def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a gated recurrent unit: the next hx."""
    return gramme.nn.recurrence.Gru.step(*_sides(input, hx, w_ih, w_hh, b_ih, b_hh), (hx,))[0][0]


def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a long short-term memory from hx = (h, c): the next (h, c)."""
    return gramme.nn.recurrence.Lstm.step(*_sides(input, hx[0], w_ih, w_hh, b_ih, b_hh), tuple(hx))[
        0
    ]


# -- Factors of low rank


def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V) of rank q, nearly those of A - M: Halko, Martinsson and Tropp, "Finding structure
    with randomness" (2009), algorithms 4.4 and 5.1."""
    A = A if M is None else A - M
    tall = A.shape[-2] >= A.shape[-1]
    A = A if tall else A.mT
    Q = gramme.linalg.qr(A @ gramme.randn(A.shape[-1], q, dtype=A.dtype, device=A.device))[0]
    for _ in range(niter):
        Q = gramme.linalg.qr(A.mT @ Q)[0]
        Q = gramme.linalg.qr(A @ Q)[0]
    U, S, Vh = gramme.linalg.svd(Q.mT @ A, full_matrices=False)
    U, V = Q @ U, Vh.mT
    return (U, S, V) if tall else (V, S, U)


def pca_lowrank(A, q=None, center=True, niter=2):
    """(U, S, V) of rank q (None: 6 at most): svd_lowrank() of A, of which center takes the mean of
    each column away."""
    q = min(6, *A.shape[-2:]) if q is None else q
    if not 0 <= q <= min(A.shape[-2:]):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, "
            f"n)={min(A.shape[-2:])}"
        )
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
