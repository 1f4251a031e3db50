# SPDX-License-Identifier: Apache-2.0
"""Tools for distributions of one's own, with torch's names."""

import numbers

import gramme
from gramme import Tensor, enable_grad
from gramme.distributions.discrete import _clamped as clamp_probs
from gramme.distributions.distribution import broadcast

euler_constant = 0.57721566490153286060

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs",
    "probs_to_logits", "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip


def broadcast_all(*values):
    """Tensors and numbers as a tuple of tensors of one shape; numbers get the dtype of the first
    tensor, or the default one.

    Errors: ValueError for what is neither.
    """
    if not all(
        [
            isinstance(value, (Tensor, numbers.Number)) or hasattr(value, "__torch_function__")
            for value in values
        ]
    ):
        raise ValueError("broadcast_all() takes tensors and numbers")
    return broadcast(*values)


class lazy_property:
    """A decorator of a method: its result, which is computed with gradients on at the first
    reading, is the attribute from then on."""

    def __init__(self, wrapped):
        self.wrapped, self.__name__, self.__doc__ = wrapped, wrapped.__name__, wrapped.__doc__

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


def logits_to_probs(logits, is_binary=False):
    """Probabilities: of one event each (is_binary), or of the events along the last dimension,
    where they add up to 1."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs, is_binary=False):
    """The inverse of logits_to_probs(), of probabilities that are not nearer to 0 and 1 than one
    epsilon."""
    probs = clamp_probs(probs)
    return probs.log() - gramme.log1p(-probs) if is_binary else probs.log()


def tril_matrix_to_vec(mat, diag=0):
    """The elements on and below diagonal number diag of [..., n, n], row by row: [..., m].  Errors:
    ValueError for a diag outside [-n, n)."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = gramme.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec, diag=0):
    """The inverse: [..., m] to [..., n, n], with zeros above the diagonal.  Errors: ValueError if m
    elements fill no such triangle."""
    m = vec.shape[-1]
    n = int(
        (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * m + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    )
    rows, columns = gramme.tril_indices(n, n, diag, device=vec.device)
    if len(rows) != m:
        raise ValueError(
            f"The size of last dimension is {m} which cannot be expressed as the lower triangular "
            "part of a square D x D matrix."
        )
    matrix = vec.new_zeros(vec.shape[:-1] + (n, n))
    matrix[..., rows, columns] = vec
    return matrix
