# SPDX-License-Identifier: Apache-2.0
"""Distributions: samples, samples that gradients flow through, logarithms of densities, entropies, divergences.

All is written over the tensors' own functions, so compiled functions record it.  Arguments and values are checked as validate_args says, by
default (None) in Python run plainly and not while a function is being compiled: the checks would ask for numbers there.
"""

from gramme.distributions.continuous import Cauchy, Exponential, Gumbel, Laplace, LogNormal, Normal, Uniform
from gramme.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from gramme.distributions.distribution import Distribution, Independent
from gramme.distributions.kl import kl_divergence, register_kl
from gramme.distributions.multivariate import MultivariateNormal

__all__ = [
    "Bernoulli", "Categorical", "Cauchy", "Distribution", "Exponential", "Geometric", "Gumbel", "Independent", "Laplace", "LogNormal",
    "MultivariateNormal", "Normal", "OneHotCategorical", "Uniform", "kl_divergence", "register_kl",
]  # fmt: skip
