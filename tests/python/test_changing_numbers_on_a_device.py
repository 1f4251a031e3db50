# SPDX-License-Identifier: Apache-2.0
"""Floats that change from call to call beside tensors of a GPU, simulated or real: compiled for two of them, as on the CPU."""

import types

import pytest

import gramme as G
from gpu import near, on_gpu, simulated  # noqa: F401
from gramme.testing import CompileCounter

USES = {
    "product": lambda x, k: x * k + 1,
    "sum, both ways": lambda x, k: (k - x) / k,
    "of two floats": lambda x, k: x * (k * 2 + 0.5),
    "as a value": lambda x, k: G.where(x > 0, x, k),
    "filled": lambda x, k: G.full_like(x, k) + x,
    "an integer tensor": lambda x, k: x.long() * k,
    "half": lambda x, k: x.half() * k,
    "in place": lambda x, k: x.clone().mul_(k),
}


@pytest.mark.parametrize("use", USES)
def test_a_float_that_changes_is_a_number_beside_tensors_of_the_device(use):
    f, count = USES[use], CompileCounter()
    x = G.tensor([0.5, -1.25, 3.0, 8.0])
    run, planned = (G.compile(types.FunctionType(f.__code__.replace(), globals()), backend=b, fullgraph=True) for b in (count, "nvrtc"))
    for i in range(5):
        k = 1.5 + i / 4
        for compiled in (run, planned):
            y = compiled(x.to("cuda"), k)
            assert y.is_cuda and y.dtype == f(x, k).dtype
            near(y.cpu().double(), f(x, k).double(), 1e-6)
    assert count.frame_count == (5 if use == "filled" else 2)
