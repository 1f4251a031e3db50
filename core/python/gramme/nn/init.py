# SPDX-License-Identifier: Apache-2.0
"""Initial values of parameters, written in place without being recorded.

Sources: Glorot and Bengio 2010 (xavier), He et al. 2015 (kaiming).
"""

import math

from gramme.grad_mode import no_grad


def uniform_(tensor, a=0.0, b=1.0):
    """Uniform in [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b)


def normal_(tensor, mean=0.0, std=1.0):
    """Normal with that mean and standard deviation."""
    with no_grad():
        return tensor.normal_(mean, std)


def constant_(tensor, val):
    """One number everywhere."""
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor):
    return constant_(tensor, 0)


def ones_(tensor):
    return constant_(tensor, 1)


def calculate_gain(nonlinearity, param=None):
    """By how much a nonlinearity shrinks a signal: what the standard deviation must make up for."""
    if nonlinearity in ("linear", "sigmoid"):
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"no gain is known for {nonlinearity!r}: linear, sigmoid, tanh, relu or leaky_relu")


def _fans(tensor):
    if tensor.dim() < 2:
        raise ValueError(f"fan in and fan out need at least 2 dimensions, and this tensor has {tensor.dim()}")
    field = 1
    for size in tensor.shape[2:]:
        field *= size
    return tensor.shape[1] * field, tensor.shape[0] * field


def _kaiming_std(tensor, a, mode, nonlinearity):
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode must be 'fan_in' or 'fan_out', not {mode!r}")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu"):
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu"):
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity))


def _xavier_std(tensor, gain):
    fan_in, fan_out = _fans(tensor)
    return gain * math.sqrt(2.0 / (fan_in + fan_out)) if fan_in + fan_out else 0.0


def xavier_uniform_(tensor, gain=1.0):
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor, gain=1.0):
    return normal_(tensor, 0.0, _xavier_std(tensor, gain))
