# SPDX-License-Identifier: Apache-2.0
"""Names for annotations."""

import builtins
import os
import typing

from gramme import _core

Number = builtins.int | builtins.float | builtins.bool
Device = _core.device | builtins.str | builtins.int | None
FileLike = typing.Union[builtins.str, os.PathLike, typing.IO[bytes]]
Size, Tensor = _core.Size, _core.Tensor
_TensorOrTensors = typing.Union[Tensor, typing.Sequence[Tensor]]
_size = Size | list[builtins.int] | tuple[builtins.int, ...]
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _device, _layout = _core.dtype, _core.device, builtins.str
IntLikeType, FloatLikeType, BoolLikeType = builtins.int, builtins.float, builtins.bool
