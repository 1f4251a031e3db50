# SPDX-License-Identifier: Apache-2.0
"""Tools for parameters, gradients and sequences."""

from gramme.nn.utils import parametrizations, parametrize, rnn, stateless
from gramme.nn.utils.gradients import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from gramme.nn.utils.vectors import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector", "parametrizations", "parametrize",
    "rnn", "stateless", "vector_to_parameters",
]  # fmt: skip
