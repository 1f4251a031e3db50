# SPDX-License-Identifier: Apache-2.0
"""gramme: tensors, autograd and compiled functions.

The API uses torch's names: `import gramme as torch` runs what exists here.
"""

import os
from math import e, inf, nan, pi

# GLib before 2.76 has an allocator of its own.  The child of a fork finds its locks taken if a
# thread that compiles in the background just allocated; malloc's are free there.  GLib asks when it
# is loaded, so the variable is there for that long.
_as_it_was = os.environ.get("G_SLICE")
os.environ.setdefault("G_SLICE", "always-malloc")
try:
    from gramme import _core
except ImportError as error:
    from gramme._built_for import explain

    raise explain(error) from None

_core.check_interpreter()
if _as_it_was is None:
    del os.environ["G_SLICE"]
del os, _as_it_was

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
    get_default_device,
    get_default_dtype,
    get_num_threads,
    get_rng_state,
    initial_seed,
    is_tensor,
    manual_seed,
    promote_types,
    set_default_device,
    set_default_dtype,
    set_num_threads,
    set_rng_state,
    tensor,
)

globals().update(
    _core.functions
)  # add, matmul, zeros ...: one function for each row of the API table
globals().update(
    _core.dtypes
)  # float32, int64 ... and their aliases; from here on `float` is a dtype
globals().update(
    _core.dtype_names
)  # complex64, uint16 ...: names that can be compared; no tensor has such a dtype

from gramme import _absent, _ready, autograd, compiler
from gramme._compile import compile
from gramme.autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
)
from gramme.amp import autocast, get_autocast_dtype, is_autocast_available, is_autocast_enabled
from gramme.compare import allclose, equal, is_floating_point, isclose, numel

from gramme.copies import (
    alias_copy, as_strided_, as_strided_copy, as_strided_scatter, detach_, detach_copy,
    diagonal_copy, empty_permuted, empty_strided, expand_copy, fill_,
    permute_copy, resize_as_, select_copy, slice_copy, split_copy, split_with_sizes_copy,
    squeeze_copy, t_copy, transpose_copy, unbind_copy,
    unfold_copy, unsafe_chunk, unsafe_split, unsafe_split_with_sizes, unsqueeze_copy, view_copy,
    zero_,
)  # fmt: skip
from gramme.python_functions import (
    angle, bartlett_window, batch_norm, binary_cross_entropy_with_logits, blackman_window,
    broadcast_shapes, can_cast, combinations,
    clear_autocast_cache, constant_pad_nd, cosine_embedding_loss, embedding, frexp,
    get_autocast_cpu_dtype, get_autocast_gpu_dtype, get_device_module,
    hamming_window, hann_window, hinge_embedding_loss, instance_norm, is_autocast_cache_enabled,
    is_autocast_cpu_enabled, is_complex, is_conj,
    is_inference, is_neg, is_storage, is_nonzero, is_same_size, is_signed, kl_div,
    margin_ranking_loss,
    mvlgamma, polygamma, result_type, scalar_tensor, seed, typename, unravel_index,
)  # fmt: skip
from gramme.higher_order import associative_scan, cond, scan, while_loop
from gramme.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

from gramme.python_algorithms import (
    gradient, gru_cell, histogram, index_reduce, kaiser_window, lstm_cell, nonzero_static,
    pca_lowrank, rnn_relu_cell, rnn_tanh_cell, svd_lowrank,
)  # fmt: skip
from gramme.legacy import (
    BFloat16Tensor, BoolTensor, ByteTensor, CharTensor, DoubleTensor, FloatTensor, HalfTensor,
    IntTensor, LongTensor, ShortTensor,
    set_default_tensor_type,
)  # fmt: skip
from gramme.limits import finfo, iinfo
from gramme.storage import TypedStorage, UntypedStorage
from gramme.python_methods import METHODS, adjoint, itself, narrow_copy, split_with_sizes

from gramme.settings import (
    are_deterministic_algorithms_enabled, backends, compiled_with_cxx11_abi,
    get_deterministic_debug_mode, get_float32_matmul_precision,
    get_num_interop_threads, set_deterministic_debug_mode, set_num_interop_threads,
    is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled, set_float32_matmul_precision, set_flush_denormal, set_printoptions,
    set_warn_always, use_deterministic_algorithms,
)  # fmt: skip

from gramme import linalg, special
from gramme.special import gammainc as igamma, gammaincc as igammac
from gramme.linalg import lu_unpack, nuclear_norm

_core.add_methods({**METHODS, **linalg.OLDER, "igamma": igamma, "igammac": igammac})
globals().update(linalg.OLDER)  # det, inverse, cholesky ...
newaxis = None
preserve_format, contiguous_format = "preserve_format", "contiguous_format"  # of memory_format=
channels_last, channels_last_3d, memory_format = "channels_last", "channels_last_3d", str
strided, layout = "strided", str  # of layout=; of the others a call says that they are not there
sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = (
    "sparse_coo",
    "sparse_csr",
    "sparse_csc",
    "sparse_bsr",
    "sparse_bsc",
    "jagged",
)
conj = conj_physical = resolve_conj = resolve_neg = real = itself
del METHODS, itself
from gramme.python_functions import (
    inclusive_range as range,
)  # the last import: from here on `range` is torch's


_LATER = (
    "_C", "__config__", "_dynamo", "accelerator", "cpu", "cuda", "distributed", "distributions",
    "fft", "func", "fx", "jit", "library", "mps", "multiprocessing", "nn", "onnx", "ops", "optim",
    "profiler", "random", "return_types", "serialization", "symbols", "testing", "types", "utils",
    "version", "xpu",
)  # fmt: skip
_FROM = {  # name: the module that has it
    "Generator": "random", "SymInt": "fx", "binomial": "distributions.counts",
    "load": "serialization", "poisson": "distributions.counts",
    "save": "serialization", "vmap": "func", "GradScaler": "amp", "OutOfMemoryError": "cuda",
    "Stream": "cuda", "Event": "cuda", "to_dlpack": "utils.dlpack",
    "embedding_bag": "nn.functional", "rrelu": "nn.functional", "rrelu_": "nn.functional",
    "ctc_loss": "nn.functional",
    **{name: "symbols" for name in ("sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum")},
}  # fmt: skip


def __getattr__(name):
    """Modules that not every program needs are imported when they are first used."""
    if name in _LATER or name in _FROM:
        import importlib

        with _ready.lock:
            module = importlib.import_module("gramme." + _FROM.get(name, name))
        return globals().setdefault(name, getattr(module, name) if name in _FROM else module)
    return _absent.find("gramme", name, (*_LATER, *_FROM))
