# SPDX-License-Identifier: Apache-2.0
"""Sums of rows, running sums and products: the bits do not depend on how lines and results lie in
memory."""

import itertools

import numpy as np
import pytest

import gramme

DTYPES = [
    gramme.float64,
    gramme.float32,
    gramme.float16,
    gramme.bfloat16,
    gramme.int64,
    gramme.int32,
    gramme.int16,
    gramme.int8,
    gramme.uint8,
]


def bits(t):
    t = t.detach().contiguous()
    return (t.view(gramme.int16) if t.dtype == gramme.bfloat16 else t).numpy().tobytes()


def numbers(*shape, dtype):
    gramme.manual_seed(7)
    return (gramme.randn(*shape) * 3).to(dtype)


# Row lengths on both sides of a block, of more blocks, and more rows than are rounded at once.
@pytest.mark.parametrize("shape", [(3, 5, 700), (150, 600), (70, 3), (2, 2, 1025), (1, 513)])
@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
def test_sums_of_rows_are_those_of_each_row_alone(shape, dtype):
    x = numbers(*shape, dtype=dtype)
    rows = x.reshape(-1, shape[-1])
    want = b"".join(bits(rows[i].sum()) for i in range(len(rows)))
    assert bits(x.sum(-1)) == want
    for order in itertools.permutations(range(x.dim())):  # results that come in another order
        turned = x.permute(order).contiguous().permute(np.argsort(order).tolist())
        assert bits(turned.sum(-1)) == want
    wide = gramme.zeros(len(rows), shape[-1] + 3, dtype=dtype)
    wide[:, 1:-2] = rows
    assert bits(wide[:, 1:-2].sum(1)) == want
    gramme._dynamo.reset()
    for backend in ("eager", "tcc"):
        assert bits(gramme.compile(lambda t: t.sum(-1), backend=backend)(x)) == want


# Lines that are gathered, and lines that are walked one by one.
@pytest.mark.parametrize("n", [1, 15, 16, 17, 300])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_running_results_do_not_depend_on_where_lines_lie(n, dtype):
    x = numbers(5, n, dtype=dtype)
    columns = x.t().contiguous()
    for f in (gramme.cumsum, gramme.cumprod):
        want = bits(f(x, 1))
        assert want == bits(f(columns, 0).t())
        assert want == bits(f(columns.t(), 1))
        assert want == b"".join(bits(f(x[i], 0)) for i in range(5))
        spread = gramme.zeros(5, 2 * n, dtype=dtype)
        spread[:, ::2] = x
        assert want == bits(f(spread[:, ::2], 1))


def test_running_sums_from_the_end_are_gradients_of_running_sums():
    for shape, dim in (((4, 40), 1), ((40, 4), 0), ((3, 20, 5), 1)):
        gramme.manual_seed(1)
        x, g = gramme.randn(*shape, requires_grad=True), gramme.randn(*shape)
        (got,) = gramme.autograd.grad(x.cumsum(dim), x, g)
        assert bits(got) == bits(g.flip(dim).cumsum(dim).flip(dim))
