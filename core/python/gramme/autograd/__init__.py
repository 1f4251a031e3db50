# SPDX-License-Identifier: Apache-2.0
"""Gradients by hand: backward() for many tensors, grad() for gradients as results; operations of one's own; saved tensors."""

from gramme._core import autograd_backward as backward
from gramme._core import autograd_grad as grad
from gramme.autograd import graph
from gramme.autograd.function import Function
from gramme.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

__all__ = ["Function", "backward", "grad", "graph", "enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]
