# SPDX-License-Identifier: Apache-2.0
"""Initial values of parameters, written in place without being recorded; generator: the random
numbers are of that gramme.Generator.

Sources: Glorot and Bengio 2010 (xavier), He et al. 2015 (kaiming), Saxe et al. 2014 (orthogonal),
Martens 2010 (sparse).
"""

import math

import gramme
from gramme.grad_mode import no_grad


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Uniform in [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normal with that mean and standard deviation."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


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
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 0.75
    raise ValueError(
        f"no gain is known for {nonlinearity!r}: linear, conv, sigmoid, tanh, relu, leaky_relu or "
        "selu"
    )


def _fans(tensor):
    if tensor.dim() < 2:
        raise ValueError(
            f"fan in and fan out need at least 2 dimensions, and this tensor has {tensor.dim()}"
        )
    field = 1
    for size in tensor.shape[2:]:
        field *= size
    return tensor.shape[1] * field, tensor.shape[0] * field


def _kaiming_std(tensor, a, mode, nonlinearity):
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode must be 'fan_in' or 'fan_out', not {mode!r}")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _xavier_std(tensor, gain):
    fan_in, fan_out = _fans(tensor)
    return gain * math.sqrt(2.0 / (fan_in + fan_out)) if fan_in + fan_out else 0.0


def xavier_uniform_(tensor, gain=1.0, generator=None):
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal, of which only what lies in [a, b] is taken: the inverse of the distribution at
    uniform places (Newton's method)."""

    def below(x):
        return (1 + math.erf(x / math.sqrt(2))) / 2

    low, high = below((a - mean) / std), below((b - mean) / std)
    with no_grad():
        if not high > low:
            return tensor.fill_(min(max(mean, a), b))
        places = gramme.empty(tensor.shape, dtype=gramme.float64, device=tensor.device).uniform_(
            low, high, generator=generator
        )
        return tensor.copy_((_normal_quantile(places) * std + mean).clamp(a, b))


def _normal_quantile(p):
    """Where the normal distribution is p, to float64's accuracy: Newton's method from a start that
    is right to 0.005 (Abramowitz and Stegun 26.2.23)."""
    tail = gramme.minimum(p, 1 - p).clamp(min=1e-300)
    t = (-2 * tail.log()).sqrt()
    x = t - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (
        1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t
    )
    x = gramme.where(p < 0.5, -x, x)
    for _ in range(4):
        error = (1 + gramme.erf(x / math.sqrt(2))) / 2 - p
        x = x - error * math.sqrt(2 * math.pi) * (x * x / 2).clamp(max=30).exp()
    return x


def eye_(tensor):
    """The identity matrix.  Errors: ValueError unless the tensor has 2 dimensions."""
    if tensor.dim() != 2:
        raise ValueError(f"eye_ fills matrices, and this tensor has {tensor.dim()} dimensions")
    with no_grad():
        return tensor.copy_(gramme.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor, groups=1):
    """The kernel of a convolution that returns its input, as far as there are channels: 1 in the
    middle.  3 to 5 dimensions."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(
            f"dirac_ fills kernels of 3 to 5 dimensions, and this tensor has {tensor.dim()}"
        )
    out, channels = tensor.shape[0], tensor.shape[1]
    if out % groups:
        raise ValueError(f"{out} channels cannot be divided into {groups} groups")
    middle = tuple([size // 2 for size in tensor.shape[2:]])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for i in range(min(out // groups, channels)):
                tensor[(group * (out // groups) + i, i) + middle] = 1
    return tensor


def orthogonal_(tensor, gain=1, generator=None):
    """Rows (or columns, if there are more rows) that are orthonormal, times gain; later dimensions
    count as columns.

    Q of the decomposition of a normal matrix, by Householder's reflections, with R's diagonal
    positive: uniform over all of them.
    """
    if tensor.dim() < 2:
        raise ValueError(
            f"orthogonal_ fills tensors of at least 2 dimensions, and this one has {tensor.dim()}"
        )
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    with no_grad():
        long, short = max(rows, columns), min(rows, columns)
        q = _orthonormal(
            gramme.empty(long, short, dtype=gramme.float64, device="cpu").normal_(
                generator=generator
            )
        )
        return tensor.copy_(((q if rows >= columns else q.T) * gain).reshape(tensor.shape))


def _orthonormal(a):
    """Q of a matrix with at least as many rows as columns (Golub and Van Loan, algorithm 5.2.1)."""
    rows, columns = a.shape
    reflections = []
    for j in range(columns):
        x = a[j:, j].clone()
        sign = -1.0 if x[0].item() < 0 else 1.0
        x[0] += sign * x.norm()
        x = x / x.norm()
        a[j:, j:] -= 2 * gramme.outer(x, x @ a[j:, j:])
        reflections.append((x, sign))
    q = gramme.eye(rows, columns, dtype=a.dtype, device=a.device)
    for j in reversed(range(columns)):
        x, sign = reflections[j]
        q[j:, j:] -= 2 * gramme.outer(x, x @ q[j:, j:])
        q[:, j] *= -sign  # R[j, j] is -sign times a norm
    return q


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal with that deviation, and ceil (sparsity * rows) zeros in each column of a matrix, at
    random rows."""
    if tensor.dim() != 2:
        raise ValueError(f"sparse_ fills matrices, and this tensor has {tensor.dim()} dimensions")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        order = (
            gramme.empty(rows, columns, device=tensor.device)
            .uniform_(generator=generator)
            .argsort(0)
        )
        return tensor.masked_fill_(order.argsort(0) < zeros, 0)
