# SPDX-License-Identifier: Apache-2.0
"""Settings of the process: how tensors are printed, and switches that programs set.

What a switch would change holds here always: results are deterministic, to the bit, and float32 products are computed in float32.  Those
are kept so that a program can set and read them.
"""

import sys

from gramme import _core

_PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, sys.maxsize, 3, 80)}
_print = dict(zip(("precision", "threshold", "edgeitems", "linewidth"), _PROFILES["default"]), sci_mode=None)
_kept = {"deterministic": False, "warn_only": False, "matmul": "highest", "warn_always": False}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors are printed: digits behind the point (4), from how many elements on a tensor is summarised (1000), how many are shown at
    each edge then (3), characters a line (80), and whether numbers are scientific (None: as they ask for).

    profile: "default", "short" or "full", before the others.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile is 'default', 'short' or 'full', not {profile!r}")
        _print.update(zip(("precision", "threshold", "edgeitems", "linewidth"), _PROFILES[profile]))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    wanted = {**_print, **{name: value for name, value in given.items() if value is not None}, "sci_mode": sci_mode}
    _core.set_print_options(
        wanted["precision"], min(wanted["threshold"], sys.maxsize), wanted["edgeitems"], wanted["linewidth"], -1 if sci_mode is None else int(sci_mode)
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


def set_flush_denormal(mode):
    """Returns False: subnormal numbers are never flushed."""
    return False


class _Switches:
    """Attributes that can be set and read, and do nothing."""

    def __init__(self, **values):
        vars(self).update(values)

    def is_available(self):
        return False


class _Backends:
    """gramme.backends: torch's switches of libraries that are not used here; setting them changes nothing."""

    def __init__(self):
        self.cudnn = _Switches(enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
        self.cuda = _Switches(matmul=_Switches(allow_tf32=False, allow_fp16_reduced_precision_reduction=False))
        self.mkl, self.mkldnn, self.mps, self.openmp = _Switches(), _Switches(enabled=False), _Switches(), _Switches()


backends = _Backends()
