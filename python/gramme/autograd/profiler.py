# SPDX-License-Identifier: Apache-2.0
"""torch's older place of gramme.profiler.record_function."""

from gramme import _absent
from gramme.profiler import kineto_available, record_function

__all__ = ["kineto_available", "record_function"]


def __getattr__(name):
    return _absent.find(__name__, name)
