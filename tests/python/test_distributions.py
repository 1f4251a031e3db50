# SPDX-License-Identifier: Apache-2.0
"""gramme.distributions: densities that add up to 1, moments and entropies of samples, gradients,
divergences; compiled as in eager."""

import math
import warnings

import numpy as np
import pytest

import gramme as G
from gramme import distributions as D

N = 200_000
BACKENDS = [name for name in ("eager", "tcc") if name in G.compiler.list_backends()]


def t(*values):
    return G.tensor(values, dtype=G.float64)


CONTINUOUS = {
    "Normal": lambda: D.Normal(t(-1.0, 0.5), t(0.5, 2.0)),
    "Laplace": lambda: D.Laplace(t(-1.0, 0.5), t(0.5, 2.0)),
    "Gumbel": lambda: D.Gumbel(t(-1.0, 0.5), t(0.5, 2.0)),
    "LogNormal": lambda: D.LogNormal(t(-1.0, 0.5), t(0.25, 0.5)),
    "Uniform": lambda: D.Uniform(t(-1.0, 0.5), t(1.0, 4.0)),
    "Exponential": lambda: D.Exponential(t(0.5, 2.0)),
    "HalfNormal": lambda: D.HalfNormal(t(0.5, 2.0)),
    "Gamma": lambda: D.Gamma(t(2.5, 3.0), t(0.5, 2.0)),
    "Beta": lambda: D.Beta(t(2.5, 1.5), t(1.5, 2.0)),
    "StudentT": lambda: D.StudentT(t(9.0, 12.0), t(0.5, -1.0), t(1.0, 2.0)),
    "Chi2": lambda: D.Chi2(t(3.0, 5.0)),
}
DISCRETE = {
    "Bernoulli": lambda: D.Bernoulli(t(0.25, 0.9)),
    "Bernoulli of logits": lambda: D.Bernoulli(logits=t(0.25, -2.0)),
    "Geometric": lambda: D.Geometric(t(0.25, 0.9)),
}
ALL = {**CONTINUOUS, **DISCRETE}


@pytest.mark.parametrize("name", ALL)
def test_samples_have_the_moments(name):
    G.manual_seed(0)
    d = ALL[name]()
    x = d.sample((N,))
    assert (
        x.shape == (N, 2) and not x.requires_grad and d.batch_shape == (2,) and d.event_shape == ()
    )
    close = lambda a, b: np.allclose(a.numpy(), b.numpy(), rtol=0.03, atol=0.01)
    assert (
        close(x.mean(0), d.mean)
        and close(x.var(0), d.variance)
        and close(d.stddev**2, d.variance)
    )
    assert close(-d.log_prob(x).mean(0), d.entropy())


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_add_up_to_one(name):
    d = CONTINUOUS[name]()
    x = G.linspace(-60, 60, 2_400_001, dtype=G.float64).unsqueeze(1)
    d._validate_args = False
    density = d.log_prob(x).exp().nan_to_num(0.0) * (
        x >= 0 if name in ("Exponential", "HalfNormal") else 1
    )
    assert np.allclose((density.sum(0) * 5e-5).numpy(), 1, atol=1e-3)


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Uniform", "Exponential"])
def test_distribution_functions_are_inverse(name):
    d = CONTINUOUS[name]()
    p = t(0.1, 0.7)
    assert np.allclose(d.cdf(d.icdf(p)).numpy(), p.numpy(), atol=1e-12)


def test_the_cauchy_distribution():
    G.manual_seed(0)
    d = D.Cauchy(1.0, 2.0)
    x = d.sample((N,))
    assert (
        abs(float(x.median()) - 1) < 0.05
        and abs(float((x < 3).float().mean()) - 0.75) < 0.01
        and abs(float(d.cdf(G.tensor(3.0))) - 0.75) < 1e-6
    )


def test_gradients_flow_through_rsample():
    for make in (D.Normal, D.Laplace, D.Gumbel):
        loc, scale = t(0.5).requires_grad_(), t(2.0).requires_grad_()
        G.manual_seed(1)
        y = make(loc, scale).rsample((5,))
        y.sum().backward()
        assert loc.grad.tolist() == [5.0]
        assert np.allclose(scale.grad.numpy(), ((y.detach() - 0.5) / 2).sum().numpy())
    assert not D.Normal(loc, scale).sample().requires_grad
    with pytest.raises(NotImplementedError, match="no rsample"):
        D.Bernoulli(0.5).rsample()


def test_categories():
    G.manual_seed(0)
    probs = t(1.0, 2.0, 5.0)
    for d in (D.Categorical(probs), D.Categorical(logits=probs.log())):
        assert (
            np.allclose(d.probs.numpy(), [0.125, 0.25, 0.625])
            and d.batch_shape == ()
            and d.event_shape == ()
        )
        x = d.sample((N,))
        assert x.dtype == G.int64 and np.allclose(
            np.bincount(x.numpy()) / N, d.probs.numpy(), atol=0.01
        )
        assert np.allclose(d.log_prob(G.tensor([2, 0])).exp().numpy(), [0.625, 0.125])
        assert np.allclose(float(-d.log_prob(x).mean()), float(d.entropy()), atol=0.01)
        assert int(d.mode) == 2 and d.enumerate_support().tolist() == [0, 1, 2]
    batch = D.Categorical(logits=G.randn(4, 3))
    assert (
        batch.sample().shape == (4,)
        and batch.sample((2, 5)).shape == (2, 5, 4)
        and batch.log_prob(batch.sample((7,))).shape == (7, 4)
    )
    one_hot = D.OneHotCategorical(probs)
    x = one_hot.sample((9,))
    assert (
        x.shape == (9, 3)
        and x.sum(-1).tolist() == [1.0] * 9
        and np.allclose(one_hot.log_prob(x).exp().numpy(), (x * one_hot.probs).sum(-1).numpy())
    )


def test_a_policy_gradient():
    logits = G.zeros(3, dtype=G.float64, requires_grad=True)
    (-D.Categorical(logits=logits).log_prob(G.tensor(1)) * 2.0).backward()
    assert np.allclose(logits.grad.numpy(), [2 / 3, -4 / 3, 2 / 3])


def test_vectors():
    G.manual_seed(0)
    a = t([2.0, 0.5], [0.5, 1.0])
    d = D.MultivariateNormal(t(1.0, -1.0), a)
    x = d.sample((N,))
    assert np.allclose(np.cov(x.numpy().T), a.numpy(), atol=0.03) and np.allclose(
        d.covariance_matrix.numpy(), a.numpy()
    )
    assert np.allclose(float(-d.log_prob(x).mean()), float(d.entropy()), atol=0.02)
    away = x[0] - d.loc
    want = (
        -0.5 * float(away @ G.linalg.inv(a) @ away) - math.log(2 * math.pi) - 0.5 * math.log(1.75)
    )
    assert abs(float(d.log_prob(x[0])) - want) < 1e-12
    same = D.Independent(D.Normal(t(1.0, -1.0), t(0.5, 2.0)), 1)
    other = D.MultivariateNormal(t(1.0, -1.0), scale_tril=G.diag(t(0.5, 2.0)))
    assert same.event_shape == (2,) and np.allclose(
        same.log_prob(x).numpy(), other.log_prob(x).numpy()
    )
    assert np.allclose(float(same.entropy()), float(other.entropy()))


def pairs():
    yield D.Normal(t(0.5), t(2.0)), D.Normal(t(-0.5), t(1.5))
    yield D.Laplace(t(0.5), t(2.0)), D.Laplace(t(-0.5), t(1.5))
    yield D.Exponential(t(0.5)), D.Exponential(t(1.5))
    yield D.Uniform(t(0.5), t(1.0)), D.Uniform(t(0.0), t(1.5))
    yield D.Bernoulli(t(0.25)), D.Bernoulli(t(0.5))
    yield D.Gamma(t(0.5), t(2.0)), D.Gamma(t(1.5), t(1.5))
    yield D.Beta(t(0.5), t(2.0)), D.Beta(t(1.5), t(1.5))
    yield D.Dirichlet(t(0.5, 2.0, 1.0)), D.Dirichlet(t(1.5, 1.5, 0.5))
    yield D.Categorical(t(0.25, 0.5, 0.25)), D.Categorical(t(0.5, 0.25, 0.25))
    yield D.MultivariateNormal(t(0.0, 1.0), t([2.0, 0.5], [0.5, 1.0])), D.MultivariateNormal(
        t(0.5, 0.0), t([1.0, 0.0], [0.0, 2.0])
    )
    yield D.Independent(D.Normal(t(0.5, 0.0), t(2.0, 1.0)), 1), D.Independent(
        D.Normal(t(-0.5, 1.0), t(1.5, 1.0)), 1
    )


@pytest.mark.parametrize("p, q", pairs())
def test_divergences_are_those_of_samples(p, q):
    G.manual_seed(0)
    x = p.sample((N,))
    assert np.allclose(
        float(D.kl_divergence(p, q)),
        float((p.log_prob(x) - q.log_prob(x)).mean()),
        rtol=0.03,
        atol=0.01,
    )
    assert abs(float(D.kl_divergence(p, p))) < 1e-9


def test_a_pair_that_is_not_there_and_one_of_ones_own():
    class Own(D.Normal):
        pass

    with pytest.raises(NotImplementedError, match="Normal and q type Uniform"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Uniform(0.0, 1.0))
    assert float(D.kl_divergence(Own(0.0, 1.0), D.Normal(1.0, 1.0))) == 0.5 and G.distributions is D
    D.register_kl(Own, D.Normal)(lambda p, q: 7)
    assert D.kl_divergence(Own(0.0, 1.0), D.Normal(1.0, 1.0)) == 7


def test_what_does_not_fit_is_told():
    with pytest.raises(ValueError, match="scale is to be above 0"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="either probs or logits"):
        D.Bernoulli()
    with pytest.raises(ValueError, match="in 0 .. 2"):
        D.Categorical(t(1.0, 1.0, 1.0)).log_prob(G.tensor(3))
    with pytest.raises(ValueError, match="exactly one"):
        D.MultivariateNormal(t(0.0))
    D.Normal(0.0, -1.0, validate_args=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_functions_record_them(backend):
    warnings.simplefilter("error")

    def vae(x, w):
        q = D.Normal(x @ w, (x @ w).exp())
        z = q.rsample()
        return (
            (z * z).sum()
            + D.kl_divergence(q, D.Normal(G.zeros_like(q.loc), G.ones_like(q.scale))).sum()
            - D.Independent(q, 1).log_prob(z).mean()
        )

    def policy(x, w):
        d = D.Categorical(logits=x @ w)
        action = d.sample()
        return d.log_prob(action).sum() + d.entropy().mean()

    def noise(x, w):
        return (
            (D.Uniform(x, x + 1).rsample() @ w).sum()
            + D.Bernoulli(logits=x @ w).sample().sum()
            + D.Laplace(0.0, 1.0).rsample((2,)).sum()
        )

    for f in (vae, policy, noise):
        found = []
        for g in (f, G.compile(f, backend=backend, fullgraph=True)):
            G.manual_seed(3)
            x, w = G.randn(5, 4), G.randn(4, 3, requires_grad=True)
            y = g(x, w)
            y.backward()
            found.append(
                [y.detach().numpy().tobytes(), w.grad.numpy().tobytes(), G.get_rng_state().tolist()]
            )
        assert found[0] == found[1], f.__name__


def test_small_concentrations():
    G.manual_seed(0)
    x = D.Gamma(t(0.1, 0.5), t(1.0, 1.0)).sample((N,))
    assert (
        (x > 0).all()
        and np.allclose(x.mean(0).numpy(), [0.1, 0.5], rtol=0.03)
        and np.allclose(x.var(0).numpy(), [0.1, 0.5], rtol=0.05)
    )
    y = D.Dirichlet(t(0.5, 2.0, 1.5)).sample((N,))
    assert np.allclose(y.sum(-1).numpy(), 1) and np.allclose(
        y.mean(0).numpy(), [0.125, 0.5, 0.375], atol=0.01
    )


def test_transformed_draws():
    G.manual_seed(0)
    base = D.Normal(t(0.25, -0.5), t(0.5, 1.0))
    exp, log = D.TransformedDistribution(base, D.ExpTransform()), D.LogNormal(
        t(0.25, -0.5), t(0.5, 1.0)
    )
    x = log.sample((9,))
    assert np.allclose(exp.log_prob(x).numpy(), log.log_prob(x).numpy())
    policy = D.TransformedDistribution(
        D.Independent(base, 1), [D.TanhTransform(), D.AffineTransform(1.0, 2.0)]
    )
    y = policy.rsample((N,))
    assert policy.event_shape == (2,) and (y > -1).all() and (y < 3).all()
    z = G.atanh((y - 1) / 2)
    want = base.log_prob(z).sum(-1) - ((1 - ((y - 1) / 2) ** 2).log() + math.log(2)).sum(-1)
    assert np.allclose(policy.log_prob(y).numpy(), want.numpy(), atol=1e-6)
    for transform in (
        D.SigmoidTransform(),
        D.PowerTransform(3.0),
        D.ComposeTransform([D.ExpTransform(), D.AffineTransform(0.5, -2.0)]),
        D.TanhTransform().inv,
    ):
        x = t(0.25, 0.75).requires_grad_()
        y = transform(x)
        (slope,) = G.autograd.grad(y.sum(), x)
        assert np.allclose(
            transform.log_abs_det_jacobian(x, y).detach().numpy(), slope.abs().log().numpy()
        )
        assert np.allclose(transform.inv(y).detach().numpy(), x.detach().numpy())


def test_mixtures():
    G.manual_seed(0)
    d = D.MixtureSameFamily(D.Categorical(t(0.25, 0.75)), D.Normal(t(-2.0, 1.0), t(0.5, 1.0)))
    x = d.sample((N,))
    assert (
        abs(float(x.mean() - d.mean)) < 0.02
        and abs(float(x.var() - d.variance)) < 0.05
        and abs(float(d.cdf(x).mean()) - 0.5) < 0.01
    )
    assert np.allclose(
        d.log_prob(t(0.5)).exp().numpy(),
        (
            0.25 * D.Normal(-2.0, 0.5).log_prob(t(0.5)).exp()
            + 0.75 * D.Normal(1.0, 1.0).log_prob(t(0.5)).exp()
        ).numpy(),
    )
    v = D.MixtureSameFamily(
        D.Categorical(G.ones(3)), D.Independent(D.Normal(G.randn(3, 2), 1.0), 1)
    )
    assert (
        v.sample((5,)).shape == (5, 2)
        and v.log_prob(G.zeros(5, 2)).shape == (5,)
        and v.event_shape == (2,)
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_rejected_draws_are_a_loop_of_the_graph(backend):
    f = lambda a: D.Gamma(a, 1.0).sample((3,)) + D.Beta(a, a + 1).sample((3,))
    found = []
    for g in (f, G.compile(f, backend=backend, fullgraph=True)):
        for seed in range(5):
            G.manual_seed(seed)
            found.append([g(G.tensor([0.5, 2.5, 1.0])).tolist(), G.get_rng_state().tolist()])
    assert found[:5] == found[5:]


def test_between_binomials_of_different_numbers_of_trials():
    few, many = D.Binomial(3, G.tensor(0.4)), D.Binomial(5, G.tensor(0.4))
    assert (
        float(D.kl_divergence(many, few)) == math.inf
        and abs(float(D.kl_divergence(few, few))) < 1e-6
    )
    with pytest.raises(NotImplementedError, match="take the mean of p.log_prob"):
        D.kl_divergence(few, many)
