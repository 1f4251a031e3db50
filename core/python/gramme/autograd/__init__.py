# SPDX-License-Identifier: Apache-2.0
"""Gradients by hand: backward() for many tensors, grad() for gradients as results; operations of one's own; saved tensors."""

from types import SimpleNamespace

from gramme._core import autograd_backward as backward
from gramme._core import autograd_grad as grad
from gramme._core import queue_callback as _queue_callback
from gramme.autograd import anomaly_mode, functional, graph
from gramme.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from gramme.autograd.function import Function
from gramme.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from gramme.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled


class Variable:
    """torch's name for what the engine offers to hooks: Variable._execution_engine.queue_callback(fn) calls fn at the end of the backward that
    is running."""

    _execution_engine = SimpleNamespace(queue_callback=_queue_callback)


__all__ = [
    "Function", "GradcheckError", "Variable", "anomaly_mode", "backward", "detect_anomaly", "functional", "grad", "gradcheck", "gradgradcheck", "graph",
    "enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name, ("profiler",))
