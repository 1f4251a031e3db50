# SPDX-License-Identifier: Apache-2.0
"""What tests of device "cuda" share: a GPU, simulated (tests/gpu) unless there is a real one, and
how results are compared.

Importing it chooses the driver, the compiler and cuBLAS of this process: before the first use,
since libraries are opened once."""

import os

import pytest

import gramme

BUILD = os.path.dirname(os.path.dirname(os.environ.get("GM_PROGRAM", "/nowhere/.libs/gramme")))
REAL = bool(os.environ.get("GM_REAL_GPU"))  # tests/gpu/run on a machine with one
FAKE = os.environ.get("GRAMME_CUDA_DRIVER") or os.path.join(
    BUILD, "tests", "gpu", ".libs", "libgramme-fake-cuda.so"
)
simulated = pytest.mark.skipif(REAL, reason="what fails is the simulated GPU")

if "nvrtc" not in gramme.compiler.list_backends() or not (REAL or os.path.exists(FAKE)):
    pytest.skip("the simulated GPU is not built: make check builds it", allow_module_level=True)

if not REAL:
    os.environ["GRAMME_CUDA_DRIVER"] = os.environ["GRAMME_NVRTC"] = os.environ[
        "GRAMME_CUBLASLT"
    ] = FAKE


@pytest.fixture(autouse=True)
def fresh_numbers():
    """The same numbers in each run and order of tests: what is compared within a tolerance is found
    within it again."""
    gramme.manual_seed(1)


def near(a, b, tolerance=1e-5):
    assert a.shape == b.shape and a.dtype == b.dtype
    if a.numel():
        assert float((a.double() - b.double()).abs().max()) <= tolerance * max(
            1.0, float(b.double().abs().max())
        )


def same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    assert bool(((a == b) | ((a != a) & (b != b))).all())


def on_gpu(f, **options):
    return gramme.compile(f, backend="nvrtc", fullgraph=True, options=options or None)
