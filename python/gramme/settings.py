# SPDX-License-Identifier: Apache-2.0
"""Settings of the process: how tensors are printed, and switches that programs set.

What a switch would change holds here always: results are deterministic, to the bit, and float32
products are computed in float32.  Those are kept so that a program can set and read them.
"""

import contextlib
import functools
import importlib.machinery
import sys

from gramme import _core

_PROFILES = {
    "default": (4, 1000, 3, 80),
    "short": (2, 1000, 2, 80),
    "full": (4, sys.maxsize, 3, 80),
}
_print = dict(
    zip(("precision", "threshold", "edgeitems", "linewidth"), _PROFILES["default"]), sci_mode=None
)
_kept = {"deterministic": False, "warn_only": False, "matmul": "highest", "warn_always": False}


def set_printoptions(
    precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None
):
    """How tensors are printed: digits behind the point (4), from how many elements on a tensor is
    summarised (1000), how many are shown at each edge then (3), characters a line (80), and whether
    numbers are scientific (None: as they ask for).

    profile: "default", "short" or "full", before the others.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile is 'default', 'short' or 'full', not {profile!r}")
        _print.update(zip(("precision", "threshold", "edgeitems", "linewidth"), _PROFILES[profile]))
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    wanted = {
        **_print,
        **{name: value for name, value in given.items() if value is not None},
        "sci_mode": sci_mode,
    }
    _core.set_print_options(
        wanted["precision"],
        min(wanted["threshold"], sys.maxsize),
        wanted["edgeitems"],
        wanted["linewidth"],
        -1 if sci_mode is None else int(sci_mode),
    )
    _print.update(wanted)


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Kept for are_deterministic_algorithms_enabled(): all algorithms are deterministic."""
    _kept["deterministic"], _kept["warn_only"] = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled():
    """What use_deterministic_algorithms() was told."""
    return _kept["deterministic"]


def is_deterministic_algorithms_warn_only_enabled():
    """What use_deterministic_algorithms() was told."""
    return _kept["warn_only"]


def set_float32_matmul_precision(precision):
    """Kept for get_float32_matmul_precision(): float32 products are computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"the precision is 'highest', 'high' or 'medium', not {precision!r}")
    _kept["matmul"] = precision


def get_float32_matmul_precision():
    """What set_float32_matmul_precision() was told; "highest" before."""
    return _kept["matmul"]


def set_warn_always(b):
    """Kept for is_warn_always_enabled()."""
    _kept["warn_always"] = bool(b)


def is_warn_always_enabled():
    """What set_warn_always() was told."""
    return _kept["warn_always"]


def get_deterministic_debug_mode():
    """0: nothing is checked, 1: warnings, 2: errors, as use_deterministic_algorithms() was told."""
    return (1 if _kept["warn_only"] else 2) if _kept["deterministic"] else 0


def set_deterministic_debug_mode(debug_mode):
    """use_deterministic_algorithms() by a number, 0, 1 or 2, or "default", "warn" or "error"."""
    modes = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    if debug_mode not in modes:
        raise RuntimeError(
            f"the mode is 0, 1 or 2, or 'default', 'warn' or 'error', not {debug_mode!r}"
        )
    use_deterministic_algorithms(modes[debug_mode] > 0, warn_only=modes[debug_mode] == 1)


def get_num_interop_threads():
    """1: operations are not run beside each other."""
    return 1


def set_num_interop_threads(threads):
    """Changes nothing: operations are not run beside each other.  Errors: RuntimeError for less
    than 1."""
    if threads < 1:
        raise RuntimeError(f"set_num_interop_threads() takes a positive number, not {threads}")


def compiled_with_cxx11_abi():
    """True: there is no C++ in the library that could be of the older ABI."""
    return True


def set_flush_denormal(mode):
    """Returns False: subnormal numbers are never flushed."""
    return False


_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")


class _Switches:
    """Attributes that can be set and read, and do nothing; `import gramme.backends.cudnn` finds
    them like a module."""

    def __init__(self, name, **values):
        self.__name__ = f"gramme.backends{name}"
        self.__spec__ = importlib.machinery.ModuleSpec(self.__name__, None)
        vars(self).update(values)
        sys.modules[self.__name__] = self

    def __repr__(self):
        return f"<module {self.__name__!r}>"

    def is_available(self):
        """False: the library is not used."""
        return False

    is_built = is_available

    def version(self):
        """None: the library is not used."""
        return None


class _Attention(_Switches):
    """torch's choice between kernels of attention: kept, as there is one here."""

    def __init__(self, name, **values):
        super().__init__(name, **values)
        for kind in _ATTENTION:
            vars(self)[f"_{kind}"] = True
            vars(self)[f"enable_{kind}_sdp"] = functools.partial(vars(self).__setitem__, f"_{kind}")
            vars(self)[f"{kind}_sdp_enabled"] = functools.partial(
                vars(self).__getitem__, f"_{kind}"
            )

    @contextlib.contextmanager
    def sdp_kernel(
        self, enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True
    ):
        """A context in which *_sdp_enabled() say this; results are the same in it.
        nn.attention.sdpa_kernel() is the newer form."""
        before = {kind: vars(self)[f"_{kind}"] for kind in _ATTENTION}
        given = dict(
            zip(_ATTENTION, (enable_flash, enable_mem_efficient, enable_math, enable_cudnn))
        )
        try:
            vars(self).update({f"_{kind}": bool(on) for kind, on in given.items()})
            yield
        finally:
            vars(self).update({f"_{kind}": on for kind, on in before.items()})


class _Backends(_Switches):
    """gramme.backends: torch's switches of libraries that are not used here; setting them changes
    nothing."""

    def __init__(self):
        super().__init__("")
        self.cudnn = _Switches(
            ".cudnn", enabled=False, benchmark=False, deterministic=True, allow_tf32=False
        )
        matmul = _Switches(
            ".cuda.matmul", allow_tf32=False, allow_fp16_reduced_precision_reduction=False
        )
        self.cuda = _Attention(".cuda", matmul=matmul)
        self.mkl, self.mkldnn, self.mps, self.openmp = (
            _Switches(".mkl"),
            _Switches(".mkldnn", enabled=False),
            _Switches(".mps"),
            _Switches(".openmp"),
        )


backends = _Backends()
