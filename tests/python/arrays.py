# SPDX-License-Identifier: Apache-2.0
"""Tensors beside arrays of numpy."""

import numpy as np

import gramme as G


def ours(array):
    return G.from_numpy(np.ascontiguousarray(array))


def close(tensor, array, tolerance=1e-10):
    """Of the same shape, and near it."""
    assert tuple(tensor.shape) == np.shape(array)
    assert np.allclose(tensor.detach().numpy(), array, rtol=tolerance, atol=tolerance)
