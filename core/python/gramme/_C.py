# SPDX-License-Identifier: Apache-2.0
"""Names that programs take from torch._C."""

from gramme._core import _disabled_torch_function_impl
from gramme.overrides import DisableTorchFunction, DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]
