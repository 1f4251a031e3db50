# SPDX-License-Identifier: Apache-2.0
"""Special functions: values against the C library, whose errors are below one unit, over wide
ranges; slopes against each other; edges."""

import ctypes
import math

import numpy as np
import pytest

import gramme as G
from gramme import special as S

INF, NAN = math.inf, math.nan
BACKENDS = [name for name in ("eager", "tcc", "cc") if name in G.compiler.list_backends()]

C = ctypes.CDLL("libm.so.6")
C.lgamma.restype, C.lgamma.argtypes = ctypes.c_double, [ctypes.c_double]


def spread(low, high, n=5000):
    return np.random.default_rng(0).uniform(low, high, n)


def powers(low, high, n=2000):
    return 10.0 ** spread(low, high, n)


def units(have, want, dtype):
    """The largest distance in units of the last place."""
    with np.errstate(all="ignore"):
        unit = np.maximum(
            np.abs(want) * np.finfo(dtype).eps, np.finfo(dtype).tiny * np.finfo(dtype).eps
        )
        return float(np.max(np.where(have == want, 0, np.abs(have - want) / unit)))


@pytest.mark.parametrize(
    "ours, theirs, x, most",
    [
        (G.erfc, math.erfc, np.concatenate([spread(-7, 26), spread(-1, 5), powers(-300, 0)]), 5),
        (G.lgamma, C.lgamma, np.concatenate([spread(0, 3), spread(3, 200), powers(-300, 300)]), 5),
        (G.lgamma, C.lgamma, np.concatenate([1 + spread(-0.01, 0.01), 2 + spread(-0.01, 0.01)]), 5),
    ],
)
def test_values_of_f64_are_within_units(ours, theirs, x, most):
    assert (
        units(ours(G.from_numpy(x)).numpy(), np.array([theirs(v) for v in x]), np.float64) <= most
    )


@pytest.mark.parametrize(
    "ours, theirs, x",
    [
        (G.erfc, math.erfc, spread(-5, 9)),
        (G.lgamma, C.lgamma, np.concatenate([spread(-40, 40), powers(-30, 30)])),
    ],
)
def test_values_of_f32_are_rounded_once(ours, theirs, x):
    x = x.astype(np.float32)
    want = np.array([theirs(float(v)) for v in x]).astype(np.float32)
    assert units(ours(G.from_numpy(x)).numpy(), want, np.float32) <= 1


def test_the_logarithm_of_gamma_below_zero():
    """Near its zeros the sum of two parts has their error, not its own."""
    x = spread(-30, 0)
    want = np.array([C.lgamma(v) for v in x])
    assert np.abs(G.lgamma(G.from_numpy(x)).numpy() - want).max() < 1e-13


def test_the_derivatives_are_those_of_each_other():
    x = G.from_numpy(np.concatenate([spread(0.01, 40, 500), spread(-10, 0, 500)])).requires_grad_()
    (first,) = G.autograd.grad(G.lgamma(x).sum(), x, create_graph=True)
    (second,) = G.autograd.grad(first.sum(), x)
    for have, want in (
        (first, G.digamma(x)),
        (second, G.polygamma(1, x)),
        (G.autograd.grad(G.digamma(x).sum(), x)[0], G.polygamma(1, x)),
    ):
        assert float(((have - want) / (want.abs() + 1)).abs().max()) < 1e-11
    y = G.from_numpy(spread(-5, 20)).requires_grad_()
    (slope,) = G.autograd.grad(G.erfc(y).sum(), y)
    want = -2 / math.sqrt(math.pi) * np.exp(-(y.detach().numpy() ** 2))
    assert np.abs(slope.numpy() / want - 1).max() < 1e-12


def test_known_values():
    euler, x = 0.57721566490153286, G.tensor([1.0, 2.0, 0.5, 10.0], dtype=G.float64)
    assert np.allclose(
        G.digamma(x).numpy(),
        [-euler, 1 - euler, -euler - 2 * math.log(2), 2.2517525890667211],
        rtol=1e-15,
    )
    assert np.allclose(
        G.polygamma(1, x)[:3].numpy(),
        [math.pi**2 / 6, math.pi**2 / 6 - 1, math.pi**2 / 2],
        rtol=1e-15,
    )
    assert np.allclose(G.polygamma(2, x)[:1].numpy(), [-2 * 1.2020569031595942], rtol=1e-14)
    assert np.allclose(x.polygamma(3)[:1].numpy(), [math.pi**4 / 15], rtol=1e-14)
    want = math.log(math.pi) / 2 + math.lgamma(3.0) + math.lgamma(2.5)
    assert abs(float(G.mvlgamma(G.tensor(3.0, dtype=G.float64), 2)) - want) < 1e-14


@pytest.mark.parametrize(
    "ours, x, want",
    [
        (G.erfc, [0.0, INF, -INF, NAN, 1e300, -1e300], [1.0, 0.0, 2.0, NAN, 0.0, 2.0]),
        (
            G.lgamma,
            [0.0, -0.0, -1.0, -7.0, 1.0, 2.0, INF, -INF, NAN],
            [INF, INF, INF, INF, 0.0, 0.0, INF, INF, NAN],
        ),
        (G.digamma, [0.0, -0.0, -1.0, INF, -INF, NAN], [-INF, INF, NAN, INF, NAN, NAN]),
        (S.entr, [0.0, 1.0, -1.0, math.e, NAN], [0.0, 0.0, -INF, -math.e, NAN]),
        (
            lambda x: S.xlog1py(x, G.tensor([-1.0, NAN, 1.0], dtype=x.dtype)),
            [0.0, 0.0, 2.0],
            [0.0, NAN, 2 * math.log(2)],
        ),
        (S.ndtr, [0.0, INF, -INF, 1.0], [0.5, 1.0, 0.0, 0.8413447460685429]),
        (S.ndtri, [0.5, 1.0, 0.0, 0.8413447460685429], [0.0, INF, -INF, 1.0]),
    ],
)
def test_edges(ours, x, want):
    assert np.allclose(
        ours(G.tensor(x, dtype=G.float64)).numpy(), want, rtol=1e-14, atol=1e-14, equal_nan=True
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours(dtype):
    info = np.finfo(dtype)
    odd = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        info.max,
        -info.max,
        info.tiny,
        -info.tiny,
        info.tiny * info.eps,
        -info.tiny * info.eps,
        INF,
        -INF,
        NAN,
    ]
    some = np.array(odd + list(spread(-1, 1, 1000) * 2.0 ** spread(-140, 120, 1000)), dtype=dtype)
    for to in (0.0, 1.0, INF, -INF, NAN):
        x, y = some, np.full_like(some, to)
        with np.errstate(all="ignore"):
            want = np.nextafter(x, y)
        have = G.nextafter(G.from_numpy(x), G.from_numpy(y)).numpy()
        assert (
            (have == want) & (np.signbit(have) == np.signbit(want))
            | (np.isnan(have) & np.isnan(want))
        ).all()
    with pytest.raises(RuntimeError, match="float32 or of float64"):
        G.nextafter(G.ones(1), G.ones(1, dtype=G.float64))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_divisors(dtype):
    dice, info = np.random.default_rng(0), np.iinfo(dtype)
    x = dice.integers(info.min + 1, info.max, 500, dtype=dtype)
    y, small = dice.permutation(x), dice.integers(-11 if info.min else 0, 11, 500).astype(dtype)
    for a, b in ((x, y), (x, small), (small, small[::-1].copy())):
        assert (G.gcd(G.from_numpy(a), G.from_numpy(b)).numpy() == np.gcd(a, b)).all()
    assert (
        G.lcm(G.from_numpy(small), G.from_numpy(small[::-1].copy())).numpy()
        == np.lcm(small, small[::-1])
    ).all()
    with pytest.raises(RuntimeError, match="of integers"):
        G.gcd(G.ones(2), G.ones(2))


def test_divisors_of_fibonacci_take_the_most_steps():
    a, b = 7540113804746346429, 4660046610375530309
    assert G.gcd(G.tensor([a, b]), G.tensor([b, a])).tolist() == [1, 1]


def test_other_names():
    assert (
        S.psi is G.digamma
        and S.gammaln is G.lgamma
        and S.expit is G.sigmoid
        and all(hasattr(S, name) for name in S.__all__)
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_is_eager_to_the_bit(backend):
    def short(x, i):  # the C compiler takes its time for the steps of the others
        return G.erfc(x), G.lgamma(x), G.nextafter(x, x * 2), G.gcd(i, i.flip(0))

    def whole(x, i):
        return (
            G.erfc(x),
            G.lgamma(x),
            G.digamma(x),
            G.polygamma(1, x),
            S.entr(x),
            S.ndtr(x),
            G.nextafter(x, x * 2),
            G.gcd(i, i.flip(0)),
            G.lcm(i, i.flip(0)),
        )

    f = short if backend == "cc" else whole
    compiled = G.compile(f, backend=backend, fullgraph=True)
    for dtype in (G.float32,) if backend == "cc" else (G.float32, G.float64):
        x = G.from_numpy(np.concatenate([spread(-8, 30, 600), [0.0, 1.0, 2.0, INF, -INF, NAN]])).to(
            dtype
        )
        i = (x.nan_to_num(0, 0, 0) * 3).to(G.int8 if backend == "cc" else G.int32)
        found = []
        for g in (f, compiled):
            leaf = x.clone().requires_grad_()
            results = g(leaf, i)
            sum(t[:600].sum() for t in results if t.requires_grad).backward()
            found.append([t.detach().numpy().tobytes() for t in (*results, leaf.grad)])
        assert found[0] == found[1]


def test_f16_and_integers():
    assert (
        G.lgamma(G.tensor([3, 4])).dtype == G.float32
        and G.erfc(G.tensor([0.5], dtype=G.float16)).dtype == G.float16
    )
    assert G.digamma(G.tensor([1.0], dtype=G.bfloat16)).tolist() == [
        G.tensor(-0.5772156649).bfloat16().item()
    ]


def test_the_quadrature_of_incomplete_gammas_integrates_polynomials_below_its_degree_exactly():
    from fractions import Fraction

    from gramme import incomplete_gamma

    places, weights = incomplete_gamma._PLACES, incomplete_gamma._WEIGHTS
    for degree in range(2 * len(places)):
        got = sum(Fraction(w) * Fraction(x) ** degree for x, w in zip(places, weights))
        assert abs(got - Fraction(1, degree + 1)) < Fraction(1, 2**52), degree
