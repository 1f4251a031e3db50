# SPDX-License-Identifier: Apache-2.0
"""Gradients that are too large, made smaller in place (Pascanu et al. 2013)."""

import math

import gramme
from gramme._core import Tensor
from gramme.grad_mode import no_grad


def _listed(tensors):
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors as one vector.  Result: no dimensions.  Errors: RuntimeError if it is
    not finite and should be."""
    tensors = _listed(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return gramme.tensor(0.0)
    with no_grad():
        norms = gramme.stack([tensor.detach().norm(norm_type) for tensor in tensors])
        total = norms.max() if norm_type == math.inf else norms.norm(norm_type)
    if error_if_nonfinite and not total.isfinite().item():
        raise RuntimeError(
            f"the total norm of order {norm_type} is {total.item()}, and the gradients cannot be "
            "clipped by it"
        )
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Multiplies all gradients by max_norm / total_norm if that is below 1."""
    with no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(
            max=1.0
        )  # without asking whether it is 1: that would need the value
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.mul_(factor)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales all gradients so that their norm as one vector is at most max_norm, and returns what
    it was."""
    parameters = _listed(parameters)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits all gradients to [-clip_value, clip_value]."""
    limit = float(clip_value)
    with no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.clamp_(-limit, limit)
