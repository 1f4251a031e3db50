# SPDX-License-Identifier: Apache-2.0
"""Distributions: samples, samples that gradients flow through, logarithms of densities, entropies,
divergences.

All is written over the tensors' own functions, so compiled functions record it.  Arguments and
values are checked as validate_args says, by default (None) in Python run plainly and not while a
function is being compiled: the checks would ask for numbers there.
"""

import sys

from gramme.distributions import (
    constraints,
    continuous,
    counts,
    derived,
    discrete,
    distribution,
    gamma,
    kl,
    mixture,
    multivariate,
    relaxed,
    transforms,
    utils,
)
from gramme.distributions.constraint_registry import biject_to, transform_to
from gramme.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from gramme.distributions.counts import Binomial, Multinomial, NegativeBinomial, Poisson
from gramme.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from gramme.distributions.distribution import Distribution, Independent
from gramme.distributions.gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
from gramme.distributions.kl import kl_divergence, register_kl
from gramme.distributions.derived import (
    FisherSnedecor,
    HalfCauchy,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    Pareto,
    VonMises,
    Weibull,
)
from gramme.distributions.mixture import MixtureSameFamily
from gramme.distributions.multivariate import LowRankMultivariateNormal, MultivariateNormal
from gramme.distributions.relaxed import (
    OneHotCategoricalStraightThrough,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)

from gramme.distributions.transforms import (
    AbsTransform, AffineTransform, CatTransform, ComposeTransform, CumulativeDistributionTransform,
    ExpTransform, IndependentTransform,
    LowerCholeskyTransform, PositiveDefiniteTransform, PowerTransform, ReshapeTransform,
    SigmoidTransform, SoftmaxTransform, SoftplusTransform,
    StackTransform, StickBreakingTransform, TanhTransform, Transform, TransformedDistribution,
    identity_transform,
)  # fmt: skip

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform",
    "Categorical", "Cauchy", "Chi2", "ComposeTransform",
    "CumulativeDistributionTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential",
    "FisherSnedecor", "Gamma", "Geometric", "Gumbel",
    "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform", "InverseGamma",
    "Kumaraswamy", "Laplace", "LogNormal", "LogisticNormal",
    "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli",
    "RelaxedOneHotCategorical", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "biject_to",
    "constraints", "identity_transform", "kl_divergence", "register_kl", "transform_to",
    "transforms",
]  # fmt: skip

# torch's files: which of these here stands for each; gramme.distributions.normal.Normal is
# gramme.distributions.Normal.
PLACES = {
    "bernoulli": discrete, "beta": gamma, "binomial": counts, "categorical": discrete,
    "cauchy": continuous, "chi2": gamma, "dirichlet": gamma,
    "exponential": continuous, "fishersnedecor": derived, "geometric": discrete,
    "gumbel": continuous, "half_cauchy": derived, "half_normal": continuous,
    "independent": distribution, "inverse_gamma": derived, "kumaraswamy": derived,
    "laplace": continuous, "log_normal": continuous, "logistic_normal": derived,
    "lowrank_multivariate_normal": multivariate, "mixture_same_family": mixture,
    "multinomial": counts, "multivariate_normal": multivariate,
    "negative_binomial": counts, "normal": continuous, "one_hot_categorical": discrete,
    "pareto": derived, "poisson": counts,
    "relaxed_bernoulli": relaxed, "relaxed_categorical": relaxed, "studentT": gamma,
    "transformed_distribution": transforms, "uniform": continuous,
    "von_mises": derived, "weibull": derived,
}  # fmt: skip
globals().update(PLACES)
sys.modules.update({f"{__name__}.{name}": place for name, place in PLACES.items()})


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
