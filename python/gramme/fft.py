# SPDX-License-Identifier: Apache-2.0
"""Frequencies for Fourier transforms, and shifts that make the middle the origin.

The transforms take or return complex numbers, which gramme has not: they raise NotImplementedError,
which says what to do.
"""

import gramme
from gramme import _absent
from gramme._core import get_default_dtype


def _frequencies(name, n, d, positions, dtype, device, requires_grad):
    if n < 0:
        raise RuntimeError(f"{name}(): the length is not negative, and is {n}")
    dtype = dtype or get_default_dtype()
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} requires a floating point dtype, not {dtype}")
    wide = dtype if dtype == gramme.float64 else gramme.float32
    scale = gramme.tensor(n * d, dtype=gramme.float64, device=device).reciprocal().to(wide)
    return (positions.to(wide) * scale).to(dtype).requires_grad_(requires_grad)


def fftfreq(n, d=1.0, *, dtype=None, device=None, requires_grad=False):
    """The frequencies of a transform of n samples, d apart: [0, 1 ... (n - 1) // 2, -(n // 2) ...
    -1] / (n d), a vector of n.

    Errors: RuntimeError for a negative n or a dtype that is not floating.
    """
    order = gramme.arange(n, device=device) if n >= 0 else gramme.zeros(0)
    order = gramme.where(order > (n - 1) // 2, order - n, order)
    return _frequencies("fftfreq", n, d, order, dtype, device, requires_grad)


def rfftfreq(n, d=1.0, *, dtype=None, device=None, requires_grad=False):
    """The frequencies of a real signal's half transform: [0, 1 ... n // 2] / (n d), a vector of n
    // 2 + 1.  Errors: as of fftfreq()."""
    order = gramme.arange(n // 2 + 1, device=device) if n >= 0 else gramme.zeros(0)
    return _frequencies("rfftfreq", n, d, order, dtype, device, requires_grad)


def _shifted(input, dim, half):
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if not dims:
        return input.clone()
    return input.roll([half(input.shape[d]) for d in dims], dims)


def fftshift(input, dim=None):
    """A copy with the first element moved to the middle, n // 2, of each dimension of dim: an int,
    a tuple, or None for all."""
    return _shifted(input, dim, lambda n: n // 2)


def ifftshift(input, dim=None):
    """A copy with the middle element, n // 2, moved to the beginning: the inverse of fftshift()."""
    return _shifted(input, dim, lambda n: (n + 1) // 2)


def __getattr__(name):
    return _absent.find(__name__, name)
