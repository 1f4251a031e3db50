# SPDX-License-Identifier: Apache-2.0
"""Assertions about tensors."""

import gramme
from gramme._core import Tensor

_TOLERANCES = (
    {  # rtol, atol: torch's; for the 8-bit floats half a step, relative, and of the subnormals
        gramme.float8_e4m3fn: (0.0625, 0.001),
        gramme.float8_e5m2: (0.125, 1e-5),
        gramme.float16: (1e-3, 1e-5),
        gramme.bfloat16: (1.6e-2, 1e-5),
        gramme.float32: (1.3e-6, 1e-5),
        gramme.float64: (1e-7, 1e-7),
    }
)


def _as_tensor(value):
    return value.detach() if isinstance(value, Tensor) else gramme.as_tensor(value)


def _check_kind(actual, expected, check_dtype):
    if actual.shape != expected.shape:
        raise AssertionError(f"shapes differ: {list(actual.shape)} is not {list(expected.shape)}")
    if check_dtype and actual.dtype != expected.dtype:
        raise AssertionError(f"dtypes differ: {actual.dtype} is not {expected.dtype}")


def _flat(tensor):
    values = tensor.tolist()
    for _ in range(tensor.dim() - 1):
        values = [value for row in values for value in row]
    return values if tensor.dim() else [values]


def _position(index, shape):
    position = []
    for size in reversed(shape):
        index, remainder = divmod(index, size)
        position.append(remainder)
    return tuple(reversed(position))


def assert_close(actual, expected, *, rtol=None, atol=None, equal_nan=False, check_dtype=True):
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Tensors, arrays, numbers, or lists, tuples and dicts of them.  Tolerances default to the dtype's
    (0 for integers).
    """
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        if len(actual) != len(expected):
            raise AssertionError(f"lengths differ: {len(actual)} is not {len(expected)}")
        for a, e in zip(actual, expected):
            assert_close(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype)
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        if actual.keys() != expected.keys():
            raise AssertionError(f"keys differ: {sorted(actual)} is not {sorted(expected)}")
        for key in expected:
            assert_close(
                actual[key],
                expected[key],
                rtol=rtol,
                atol=atol,
                equal_nan=equal_nan,
                check_dtype=check_dtype,
            )
        return
    actual, expected = _as_tensor(actual), _as_tensor(expected)
    _check_kind(actual, expected, check_dtype)
    if (rtol is None) != (atol is None):
        raise ValueError("give both rtol and atol, or none")
    if rtol is None:
        tolerances = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = (max(column) for column in zip(*tolerances))
    worst, worst_at, wrong = -1.0, 0, 0
    pairs = list(zip(_flat(actual), _flat(expected)))
    for i, (a, e) in enumerate(pairs):
        if a == e or (equal_nan and a != a and e != e):
            continue
        difference = abs(a - e)
        if difference <= atol + rtol * abs(e) and abs(e) != float("inf"):
            continue
        wrong += 1
        if difference > worst or difference != difference:
            worst, worst_at = difference, i
    if wrong:
        a, e = pairs[worst_at]
        raise AssertionError(
            f"{wrong} of {len(pairs)} elements are not close (rtol {rtol}, atol {atol}); the "
            "worst, at "
            f"{_position(worst_at, expected.shape)}, is {a} and should be {e}: off by {worst}"
        )


def assert_bits_equal(actual, expected):
    """AssertionError unless shape, dtype and every bit are equal: NaN equals the same NaN, and 0.0
    is not -0.0."""
    actual, expected = _as_tensor(actual), _as_tensor(expected)
    _check_kind(actual, expected, True)
    a = b"".join([actual.contiguous()])
    e = b"".join([expected.contiguous()])
    if a == e:
        return
    size = expected.element_size()
    wrong = [
        i
        for i in range(expected.numel())
        if a[i * size : (i + 1) * size] != e[i * size : (i + 1) * size]
    ]
    at = wrong[0]
    raise AssertionError(
        f"{len(wrong)} of {expected.numel()} elements differ in their bits; the first, at "
        f"{_position(at, expected.shape)}, is "
        f"{_flat(actual)[at]!r} and should be {_flat(expected)[at]!r}"
    )


class CompileCounter:
    """A back end that runs the graphs as they are, and counts: frame_count graphs, op_count
    operations in them."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.frame_count = self.op_count = 0
        self.graphs = []

    def __call__(self, graph, example_inputs):
        self.frame_count += 1
        self.op_count += sum(node.op == "call_function" for node in graph.nodes)
        self.graphs.append(graph)
        return graph
