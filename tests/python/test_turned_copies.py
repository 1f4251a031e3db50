# SPDX-License-Identifier: Apache-2.0
"""Copies whose result is contiguous in another dimension than the source.

Every bit is moved, for any sizes, steps and number of threads.
"""

import itertools

import numpy as np
import pytest

import gramme as G


@pytest.fixture(autouse=True)
def restore():
    before = G.get_num_threads()
    yield
    G.set_num_threads(before)


def random_bits(dtype, *shape):
    size = (*shape, np.dtype(dtype).itemsize)
    return np.random.default_rng(5).integers(0, 256, size, np.uint8).view(dtype)[..., 0]


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int16", "uint8"])
@pytest.mark.parametrize(
    "shape", [(4, 4), (5, 7), (33, 64), (3, 40, 18), (2, 3, 17, 5), (1, 300, 1), (7, 2, 90)]
)
def test_every_order_of_dimensions_moves_all_bits(dtype, shape):
    a = random_bits(dtype, *shape)
    x = G.from_numpy(a.copy())
    for order in itertools.permutations(range(len(shape))):
        assert (bits(x.permute(order).contiguous().numpy()) == bits(a.transpose(order))).all()
        stepped = (slice(None, None, 2), *[slice(1, None)] * (len(shape) - 1))
        part = x[stepped].permute(order).contiguous()
        assert (bits(part.numpy()) == bits(a[stepped].transpose(order))).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_parts_of_a_large_one_fit_together(n):
    G.set_num_threads(n)
    a = random_bits("float32", 5, 401, 301)
    x = G.from_numpy(a.copy())
    for order in itertools.permutations(range(3)):
        assert (bits(x.permute(order).contiguous().numpy()) == bits(a.transpose(order))).all()
        into = G.zeros(5, 401, 301).permute(order)
        into.copy_(x.permute(order))
        assert (bits(into.numpy()) == bits(a.transpose(order))).all()
