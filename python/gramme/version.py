# SPDX-License-Identifier: Apache-2.0
"""The package's version, and that of CUDA, HIP and XPU that it was built with: none, as nothing of
them is needed to build it."""

from gramme._core import __version__

cuda = hip = rocm = xpu = None
debug = False
git_version = None

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]
