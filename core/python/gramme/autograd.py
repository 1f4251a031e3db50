# SPDX-License-Identifier: Apache-2.0
"""Gradients by hand: backward() for many tensors, grad() for gradients as results."""

from gramme._core import autograd_backward as backward
from gramme._core import autograd_grad as grad
from gramme.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

__all__ = ["backward", "grad", "enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]
