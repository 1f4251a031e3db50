# SPDX-License-Identifier: Apache-2.0
"""Tools around training."""

from gramme.utils import checkpoint

__all__ = ["checkpoint", "data"]


def __getattr__(name):
    """data is imported when it is first used."""
    if name == "data":
        import importlib

        return importlib.import_module("gramme.utils.data")
    raise AttributeError(f"module 'gramme.utils' has no attribute {name!r}")
