# SPDX-License-Identifier: Apache-2.0
"""gramme: tensors, autograd and compiled functions.

The API uses torch's names: `import gramme as torch` runs what exists here.
"""

from math import e, inf, nan, pi

from gramme import _core
from gramme._core import (
    Size,
    Tensor,
    __version__,
    _check,
    as_tensor,
    asarray,
    device,
    dtype,
    from_dlpack,
    from_numpy,
    frombuffer,
    get_default_dtype,
    get_num_threads,
    get_rng_state,
    initial_seed,
    is_tensor,
    manual_seed,
    promote_types,
    set_default_dtype,
    set_num_threads,
    set_rng_state,
    tensor,
)

globals().update(_core.functions)  # add, matmul, zeros ...: one function for each row of the API table
globals().update(_core.dtypes)  # float32, int64 ... and their aliases; from here on `float` is a dtype

from gramme import autograd, compiler
from gramme._compile import compile
from gramme.amp import autocast, get_autocast_dtype, is_autocast_available, is_autocast_enabled
from gramme.compare import allclose, equal, is_floating_point, isclose, numel
from gramme.higher_order import associative_scan, cond, scan, while_loop
from gramme.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from gramme.limits import finfo, iinfo


def __getattr__(name):
    """Modules that not every program needs are imported when they are first used."""
    if name in ("nn", "optim", "func", "_dynamo", "testing", "serialization", "utils", "fx", "cuda", "random"):
        import importlib

        return importlib.import_module("gramme." + name)
    if name == "Generator":
        from gramme.random import Generator

        return Generator
    if name in ("save", "load"):
        from gramme import serialization

        return getattr(serialization, name)
    raise AttributeError(f"module 'gramme' has no attribute {name!r}")
