# SPDX-License-Identifier: Apache-2.0
"""Tools around training."""

from gramme.utils import checkpoint

__all__ = ["checkpoint"]
