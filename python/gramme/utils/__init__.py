# SPDX-License-Identifier: Apache-2.0
"""Tools around training."""

from gramme.utils import checkpoint

__all__ = ["checkpoint", "data"]


def __getattr__(name):
    """Modules that not every program needs are imported when they are first used."""
    from gramme import _absent

    return _absent.find(__name__, name, ("_pytree", "data", "dlpack", "hooks"))
