# SPDX-License-Identifier: Apache-2.0
"""Distributions: samples, samples that gradients flow through, logarithms of densities, entropies, divergences.

All is written over the tensors' own functions, so compiled functions record it.  Arguments and values are checked as validate_args says, by
default (None) in Python run plainly and not while a function is being compiled: the checks would ask for numbers there.
"""

from gramme.distributions import transforms
from gramme.distributions.continuous import Cauchy, Exponential, Gumbel, HalfNormal, Laplace, LogNormal, Normal, Uniform
from gramme.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from gramme.distributions.distribution import Distribution, Independent
from gramme.distributions.gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
from gramme.distributions.kl import kl_divergence, register_kl
from gramme.distributions.mixture import MixtureSameFamily
from gramme.distributions.multivariate import MultivariateNormal
from gramme.distributions.transforms import (
    AffineTransform, ComposeTransform, ExpTransform, PowerTransform, SigmoidTransform, TanhTransform, Transform, TransformedDistribution,
)  # fmt: skip

__all__ = [
    "AffineTransform", "Bernoulli", "Beta", "Categorical", "Cauchy", "Chi2", "ComposeTransform", "Dirichlet", "Distribution", "ExpTransform",
    "Exponential", "Gamma", "Geometric", "Gumbel", "HalfNormal", "Independent", "Laplace", "LogNormal", "MixtureSameFamily", "MultivariateNormal",
    "Normal", "OneHotCategorical", "PowerTransform", "SigmoidTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution",
    "Uniform", "kl_divergence", "register_kl", "transforms",
]  # fmt: skip
