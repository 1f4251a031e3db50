# SPDX-License-Identifier: Apache-2.0
"""gramme.distributions: counts, gradients through draws of the gamma distribution's kin,
distributions made of others, relaxed events, constraints and what leads to them.  Densities and
moments against samples and each other, as in test_distributions.py."""

import math
import warnings

import numpy as np
import pytest

import gramme as G
from gramme import distributions as D
from gramme.distributions import constraints as C

N = 200_000
BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]


def t(*values):
    return G.tensor(values, dtype=G.float64)


COUNTS = {
    "Poisson": lambda: D.Poisson(t(0.5, 4.0, 9.9, 10.0, 35.0, 0.0)),
    "Binomial": lambda: D.Binomial(t(7.0, 50.0, 30.0, 100.0), t(0.3, 0.1, 0.75, 0.4)),
    "Binomial of logits": lambda: D.Binomial(30, logits=t(-2.0, 0.5)),
    "NegativeBinomial": lambda: D.NegativeBinomial(t(2.5, 12.0), t(0.3, 0.75)),
}
REAL = {
    "Weibull": lambda: D.Weibull(t(1.0, 2.0), t(1.5, 3.0)),
    "Pareto": lambda: D.Pareto(t(1.0, 2.0), t(9.0, 12.0)),
    "Kumaraswamy": lambda: D.Kumaraswamy(t(1.5, 2.0), t(3.0, 0.5)),
    "InverseGamma": lambda: D.InverseGamma(t(9.0, 12.0), t(2.0, 3.0)),
    "FisherSnedecor": lambda: D.FisherSnedecor(t(5.0, 9.0), t(30.0, 24.0)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    G.manual_seed(0)
    d = COUNTS[name]()
    x = d.sample((N,))
    assert (x == x.floor()).all() and d.support.check(x).all() and not x.requires_grad
    assert np.allclose(x.mean(0).numpy(), d.mean.numpy(), rtol=0.02) and np.allclose(
        x.var(0).numpy(), d.variance.numpy(), rtol=0.03
    )
    k = G.arange(400, dtype=G.float64).unsqueeze(1)
    inside = d.support.check(k)
    p = G.where(inside, d.log_prob(G.where(inside, k, 0.0)).exp(), 0.0)
    assert np.allclose(p.sum(0).numpy(), 1)
    for i in range(p.shape[1]):
        found = np.bincount(x[:, i].long().numpy(), minlength=400)[:400] / N
        assert np.abs(found - p[:, i].numpy()).max() < 0.005


def test_large_rates():
    G.manual_seed(0)
    x = D.Poisson(t(1e3, 1e6, 1e9)).sample((20_000,))
    assert np.allclose(
        ((x.mean(0) - x.new_tensor([1e3, 1e6, 1e9])) / x.std(0)).numpy(), 0, atol=0.03
    )
    assert np.allclose((x.var(0) / x.new_tensor([1e3, 1e6, 1e9])).numpy(), 1, atol=0.05)
    y = G.poisson(G.full((1000,), 3.0))
    assert (
        y.dtype == G.float32
        and abs(float(y.mean()) - 3) < 0.3
        and G.poisson(G.tensor([0.0, math.nan])).isnan().tolist() == [False, True]
    )
    again = [
        G.poisson(G.full((5,), 30.0), generator=G.Generator().manual_seed(1)).tolist()
        for _ in range(2)
    ]
    assert again[0] == again[1] and G.binomial(t(10.0), t(1.0)).tolist() == [10.0]
    with pytest.raises(RuntimeError, match="to be non-negative"):
        G.poisson(t(-1.0))


def test_many_events():
    G.manual_seed(0)
    d = D.Multinomial(10, t(1.0, 2.0, 5.0))
    x = d.sample((50_000,))
    assert (
        (x.sum(-1) == 10).all()
        and np.allclose(x.mean(0).numpy(), d.mean.numpy(), rtol=0.02)
        and np.allclose(x.var(0).numpy(), d.variance.numpy(), rtol=0.05)
    )
    assert (
        abs(float(d.log_prob(t(1.0, 3.0, 6.0))) - math.log(840 * 0.125 * 0.25**3 * 0.625**6))
        < 1e-12
    )
    assert abs(float(-d.log_prob(x).mean() - d.entropy())) < 0.02 and d.expand(
        (4,)
    ).sample().shape == (4, 3)


@pytest.mark.parametrize("name", REAL)
def test_real_numbers(name):
    G.manual_seed(0)
    d = REAL[name]()
    x = d.sample((N,))
    assert d.support.check(x).all() and d.expand((3, 2)).sample().shape == (3, 2)
    assert np.allclose(x.mean(0).numpy(), d.mean.numpy(), rtol=0.02) and np.allclose(
        x.var(0).numpy(), d.variance.numpy(), rtol=0.1
    )
    if name != "FisherSnedecor":
        assert np.allclose(-d.log_prob(x).mean(0).numpy(), d.entropy().numpy(), atol=0.02)
        assert np.allclose(d.cdf(x).mean(0).numpy(), 0.5, atol=0.01)


def test_the_circle():
    G.manual_seed(0)
    d = D.VonMises(t(0.5, 2.5, -1.0), t(0.5, 4.0, 1e-7))
    x = d.sample((N,))
    assert (x.abs() <= math.pi).all() and np.allclose(
        (1 - (x - d.loc).cos().mean(0)).numpy(), d.variance.numpy(), atol=0.01
    )
    around = G.linspace(-math.pi, math.pi, 20_001, dtype=G.float64)[:-1].unsqueeze(1)
    assert np.allclose((d.log_prob(around).exp().sum(0) * (2 * math.pi / 20_000)).numpy(), 1)
    half = D.HalfCauchy(t(2.0))
    y = half.sample((N,))
    assert (
        abs(float(y.median()) - 2) < 0.05 and abs(float(half.cdf(half.icdf(t(0.3)))) - 0.3) < 1e-12
    )


# What a draw's place in the distribution keeps: the derivative of the quantile, by differences of
# the distribution function.
def test_gradients_flow_through_draws_of_the_gamma_distribution():
    G.manual_seed(0)
    a, rate = (
        t(0.05, 0.4, 1.0, 3.0, 50.0, 2000.0).requires_grad_(),
        t(0.5, 1.0, 2.0, 1.0, 3.0, 1.0).requires_grad_(),
    )
    x = D.Gamma(a, rate).rsample((7,))
    (of_a,) = G.autograd.grad(x.sum(), a, retain_graph=True)
    (of_rate,) = G.autograd.grad(x.sum(), rate)
    step, z = 1e-6, (x * rate).detach()
    low, high = [G.special.gammainc(a.detach() * (1 + s), z) for s in (-step, step)]
    density = D.Gamma(a.detach(), G.ones_like(a.detach())).log_prob(z).exp()
    want = (-(high - low) / (2 * step * a.detach()) / density / rate.detach()).sum(0)
    assert np.allclose(of_a.numpy(), want.numpy(), rtol=1e-5) and np.allclose(
        of_rate.numpy(), -(x / rate).detach().sum(0).numpy()
    )


@pytest.mark.parametrize(
    "make, value, want",
    [
        (lambda a, b: D.Gamma(a, b), lambda x: x.log(), lambda a, b: G.digamma(a) - b.log()),
        (
            lambda a, b: D.Chi2(a + b),
            lambda x: x.log(),
            lambda a, b: G.digamma((a + b) / 2) + math.log(2),
        ),
        (
            lambda a, b: D.Beta(a, b),
            lambda x: x.log(),
            lambda a, b: G.digamma(a) - G.digamma(a + b),
        ),
        (
            lambda a, b: D.Dirichlet(G.stack([a, b, a])),
            lambda x: x[..., 1].log(),
            lambda a, b: G.digamma(b) - G.digamma(2 * a + b),
        ),
        (lambda a, b: D.InverseGamma(a + 3, b), lambda x: x, lambda a, b: b / (a + 2)),
        (
            lambda a, b: D.StudentT(a + 20, b, b),
            lambda x: x * x,
            lambda a, b: b * b + b * b * (a + 20) / (a + 18),
        ),
        (lambda a, b: D.FisherSnedecor(a, b + 20), lambda x: x, lambda a, b: (b + 20) / (b + 18)),
    ],
)
def test_gradients_of_means_are_means_of_gradients(make, value, want):
    G.manual_seed(0)
    a, b = G.tensor(1.5, dtype=G.float64, requires_grad=True), G.tensor(
        2.5, dtype=G.float64, requires_grad=True
    )
    have = G.autograd.grad(value(make(a, b).rsample((N,))).mean(), [a, b], allow_unused=True)
    exact = G.autograd.grad(want(a, b), [a, b], allow_unused=True)
    for x, y in zip(have, exact):
        assert abs((0.0 if x is None else float(x)) - (0.0 if y is None else float(y))) < 0.02


def test_relaxed_events():
    G.manual_seed(0)
    probs = t(0.2, 0.3, 0.5).requires_grad_()
    d = D.RelaxedOneHotCategorical(t(0.1)[0], probs)
    x = d.rsample((50_000,))
    assert np.allclose(x.sum(-1).detach().numpy(), 1) and np.allclose(
        np.bincount(x.argmax(-1).numpy()) / 50_000, [0.2, 0.3, 0.5], atol=0.01
    )
    x[:, 0].mean().backward()
    assert (
        probs.grad[0] > 0
        and d.support is C.simplex
        and d.log_prob(x[:5].detach().clamp(1e-300, 1)).shape == (5,)
    )
    y = D.RelaxedBernoulli(t(0.5)[0], logits=t(1.0, -1.0)).rsample((N,))
    assert np.allclose((y > 0.5).double().mean(0).numpy(), [0.7311, 0.2689], atol=0.01)
    u = G.linspace(1e-6, 1 - 1e-6, 200_001, dtype=G.float64).unsqueeze(1)
    assert np.allclose(
        (
            D.RelaxedBernoulli(t(0.5)[0], logits=t(1.0, -1.0)).log_prob(u).exp().sum(0) * 5e-6
        ).numpy(),
        1,
        atol=0.01,
    )
    straight = D.OneHotCategoricalStraightThrough(logits=t(0.0, 1.0).requires_grad_())
    z = straight.rsample((3,))
    assert z.requires_grad and ((z - z.round()).abs() < 1e-12).all()


TRANSFORMS = {
    "softplus": (D.SoftplusTransform(), t(0.3, -1.0, 2.0)),
    "stick breaking": (D.StickBreakingTransform(), t(0.3, -1.0, 2.0)),
    "concatenated": (
        D.CatTransform([D.ExpTransform(), D.SigmoidTransform()], 0, [1, 2]),
        t(0.3, -1.0, 2.0),
    ),
    "stacked": (
        D.StackTransform([D.ExpTransform(), D.TanhTransform(), D.SigmoidTransform()], 0),
        t(0.3, -1.0, 2.0),
    ),
    "independent": (D.IndependentTransform(D.ExpTransform(), 1), t(0.3, -1.0, 2.0)),
    "one after the other": (
        D.ComposeTransform([D.AffineTransform(0.5, -2.0), D.StickBreakingTransform()]),
        t(0.3, -1.0, 2.0),
    ),
    "distribution function": (
        D.CumulativeDistributionTransform(D.Normal(t(0.0), t(1.0))),
        t(0.3, -1.0, 2.0),
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_stretch_as_they_say(name):
    transform, x = TRANSFORMS[name]
    y = transform(x)
    assert np.allclose(transform.inv(y).numpy(), x.numpy()) and transform.codomain.check(y).all()
    jacobian = G.func.jacrev(lambda x: transform(x)[: x.shape[0]])(x)
    have = transform.log_abs_det_jacobian(x, y)
    assert np.allclose(float(have.sum()), float(G.linalg.slogdet(jacobian).logabsdet))
    assert have.shape == x.shape[: x.dim() - transform.event_dim] and tuple(
        transform.forward_shape(x.shape)
    ) == tuple(y.shape)


def test_events_are_reshaped():
    base = D.Independent(D.Normal(G.zeros(5, 6, dtype=G.float64), G.ones(5, 6, dtype=G.float64)), 1)
    d = D.TransformedDistribution(
        base, [D.ReshapeTransform((6,), (2, 3)), D.AffineTransform(1.0, 2.0)]
    )
    assert (
        d.batch_shape == (5,) and d.event_shape == (2, 3) and d.sample((4,)).shape == (4, 5, 2, 3)
    )
    x = d.sample()
    assert np.allclose(
        d.log_prob(x).numpy(),
        (base.log_prob(((x - 1) / 2).reshape(5, 6)) - 6 * math.log(2)).numpy(),
    )
    assert d.expand((7, 5)).sample().shape == (7, 5, 2, 3) and D.LogisticNormal(
        t(0.0, 1.0), t(1.0, 1.0)
    ).sample((4,)).shape == (4, 3)


def pairs():
    a, b = t(0.7, 2.5, 4.5), t(1.5, 0.8, 5.5)
    yield D.Poisson(a), D.Poisson(b)
    yield D.Binomial(4, a / 9), D.Binomial(4, b / 9)
    yield D.Geometric(a / 9), D.Geometric(b / 9)
    yield D.Gumbel(a, b), D.Gumbel(b, a + 2)
    yield D.HalfNormal(a), D.HalfNormal(b)
    yield D.LogNormal(a, b), D.LogNormal(b, a)
    yield D.Cauchy(a, b), D.Cauchy(b, a)
    yield D.Pareto(b, a + 2), D.Pareto(b / 9, a + 1)
    yield D.Uniform(a - 3, b), D.Normal(b, a)
    yield D.Exponential(a), D.Gamma(b, a)
    yield D.Gamma(a, b), D.Exponential(a)
    yield D.TransformedDistribution(D.Normal(a, b), [D.ExpTransform()]), D.TransformedDistribution(
        D.Normal(b, a), [D.ExpTransform()]
    )


@pytest.mark.parametrize("p, q", pairs())
def test_divergences_are_those_of_samples(p, q):
    G.manual_seed(0)
    x = p.sample((N,))
    each = p.log_prob(x) - q.log_prob(x)
    have, want, error = D.kl_divergence(p, q), each.mean(0), each.std(0) / math.sqrt(N)
    assert ((have - want).abs() < 5 * error + 1e-9).all()


@pytest.mark.parametrize(
    "constraint",
    [
        C.real,
        C.positive,
        C.nonnegative,
        C.unit_interval,
        C.interval(-1.0, 2.0),
        C.greater_than(3.0),
        C.less_than(-1.0),
        C.simplex,
        C.independent(C.positive, 1),
    ],
)
def test_all_numbers_are_led_to_constraints(constraint):
    x = G.linspace(-3, 3, 7, dtype=G.float64)
    for registry in (D.biject_to, D.transform_to):
        y = registry(constraint)(x)
        assert constraint.check(y).all()
    back = D.biject_to(constraint)
    assert np.allclose(back.inv(back(x)).numpy(), x.numpy())
    square = G.arange(4.0, dtype=G.float64).reshape(2, 2)
    assert all(
        D.transform_to(c)(square).shape == (2, 2) and c.check(D.transform_to(c)(square))
        for c in (C.lower_cholesky, C.positive_definite)
    )
    with pytest.raises(NotImplementedError, match="no transform"):
        D.biject_to(C.boolean)


def test_a_class_of_ones_own_is_checked():
    class Spike(D.Distribution):
        arg_constraints = {"width": C.positive}
        support = C.real

        def __init__(self, width, validate_args=None):
            self.width = width
            super().__init__(width.shape, validate_args=validate_args)

        def log_prob(self, value):
            if self._validate_args:
                self._validate_sample(value)
            return -value.abs() / self.width - (2 * self.width).log()

    assert Spike(t(2.0)).log_prob(t(0.0)).tolist() == [-math.log(4)]
    with pytest.raises(ValueError, match="width is to be"):
        Spike(t(-1.0))
    with pytest.raises(ValueError, match="value is to be real"):
        Spike(t(1.0)).log_prob(t(math.nan))
    assert (
        C.is_dependent(C.dependent)
        and not C.is_dependent(C.real)
        and "positive" not in repr(C.real)
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_functions_draw_what_eager_draws(backend):
    warnings.simplefilter("error")

    def drawn(a, b):
        x = (
            D.Gamma(a, b).rsample()
            + D.Beta(a, b).rsample()
            + D.StudentT(a, b).rsample()
            + D.Dirichlet(a).rsample()
        )
        return x.sum() + D.kl_divergence(D.Gamma(a, b), D.Gamma(b, a)).sum()

    def counted(a, b):
        n = (
            D.Poisson(a * 8).sample()
            + D.Binomial(20, logits=b).sample()
            + D.NegativeBinomial(b, logits=a - 2).sample()
        )
        return D.Poisson(a * b).log_prob(n).sum() + D.Multinomial(4, a).log_prob(
            D.Multinomial(4, a).sample()
        )

    def made(a, b):
        x = (
            D.Weibull(a, b).rsample()
            + D.VonMises(a, b).sample()
            + D.RelaxedOneHotCategorical(0.5, logits=a).rsample()
        )
        return (
            x.sum()
            + D.TransformedDistribution(D.Normal(a, b), [D.SoftplusTransform()]).log_prob(a).sum()
            + D.StickBreakingTransform()(b).max()
        )

    for f in (drawn, counted, made):
        found = []
        for g in (f, G.compile(f, backend=backend, fullgraph=True)):
            for seed in range(3):
                G.manual_seed(seed)
                a, b = G.tensor([0.7, 2.5, 1.0], requires_grad=True), G.tensor(
                    [1.5, 0.5, 2.0], requires_grad=True
                )
                y = g(a, b)
                y.backward()
                found.append(
                    [v.detach().numpy().tobytes() for v in (y, a.grad, b.grad)]
                    + [G.get_rng_state().tolist()]
                )
        assert found[:3] == found[3:], f.__name__
