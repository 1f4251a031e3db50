# SPDX-License-Identifier: Apache-2.0
"""Gradients by hand: backward() for many tensors, grad() for gradients as results; operations of
one's own; saved tensors."""

from types import SimpleNamespace

from gramme._core import Tensor
from gramme._core import autograd_backward as backward
from gramme._core import autograd_grad as grad
from gramme._core import queue_callback as _queue_callback
from gramme.autograd import anomaly_mode, functional, graph
from gramme.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from gramme.autograd.function import Function
from gramme.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from gramme.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled


class _OfTensors(type):
    def __instancecheck__(cls, value):
        return isinstance(value, Tensor)

    def __call__(cls, data=None, requires_grad=False, volatile=False):
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)


class Variable(metaclass=_OfTensors):
    """torch's older name: Variable(tensor, requires_grad=False) is a tensor of the same memory
    without history, and each tensor is an instance.

    Variable._execution_engine.queue_callback(fn) calls fn at the end of the backward that is
    running.
    """

    _execution_engine = SimpleNamespace(queue_callback=_queue_callback)


__all__ = [
    "Function", "GradcheckError", "Variable", "anomaly_mode", "backward", "detect_anomaly",
    "functional", "grad", "gradcheck", "gradgradcheck", "graph",
    "enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_detect_anomaly",
    "set_grad_enabled",
]  # fmt: skip


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name, ("profiler",))
