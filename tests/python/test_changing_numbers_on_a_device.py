# SPDX-License-Identifier: Apache-2.0
"""Floats that change from call to call beside tensors of a GPU, simulated or real: compiled for two
of them, as on the CPU."""

import types
import warnings

import pytest

import gramme as G
from gpu import near, same
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
    run, planned = (
        G.compile(types.FunctionType(f.__code__.replace(), globals()), backend=b, fullgraph=True)
        for b in (count, "nvrtc")
    )
    for i in range(5):
        k = 1.5 + i / 4
        for compiled in (run, planned):
            y = compiled(x.to("cuda"), k)
            assert y.is_cuda and y.dtype == f(x, k).dtype
            near(y.cpu().double(), f(x, k).double(), 1e-6)
    assert count.frame_count == (5 if use == "filled" else 2)


WRITES = {
    "fill_": lambda x: x.clone().fill_(1.5),
    "zero_": lambda x: x.clone().zero_() + 1,
    "fill_ of an argument": lambda x: (x.fill_(2.5), x * 2),
    "of a part": lambda x: (lambda y: (y[:2].fill_(3.0), y)[1])(x.clone()),
    "of an item": lambda x: (lambda y: (y.__setitem__(1, 7.0), y)[1])(x.clone()),
    "copy_ of a tensor of the CPU": lambda x: x.clone().copy_(G.tensor([1.0, 2.0, 3.0, 4.0])) * 2,
    "copy_ of an element of the CPU": lambda x: x.clone().copy_(G.tensor(4.0)),
}


@pytest.mark.parametrize("backend", ["eager", "nvrtc"])
@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_in_place_stays_on_the_device(write, backend):
    f = WRITES[write]
    x = G.tensor([0.5, -1.25, 3.0, 8.0])
    run = G.compile(types.FunctionType(f.__code__.replace(), globals()), backend=backend)
    flat = lambda y: y if isinstance(y, tuple) else (y,)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = flat(run(x.to("cuda")))
    for a, b in zip(got, flat(f(x.clone())), strict=True):
        assert a.is_cuda
        same(a.cpu(), b)
