# SPDX-License-Identifier: Apache-2.0
"""The functions behind the layers: every row of the API table that belongs here."""

from gramme import _core

globals().update(_core.nn_functions)
unfold, fold = _core.nn_functions["im2col"], _core.nn_functions["col2im"]  # Tensor.unfold is another function
