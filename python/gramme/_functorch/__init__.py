# SPDX-License-Identifier: Apache-2.0
"""gramme._functorch: torch's name for the layers between a recorded graph and a back end; see
config."""

from gramme._functorch import config

__all__ = ["config"]
