# SPDX-License-Identifier: Apache-2.0
"""The functions behind the layers: every row of the API table that belongs here, and compositions
of them."""

from gramme import _core

globals().update(_core.nn_functions)
unfold, fold = (
    _core.nn_functions["im2col"],
    _core.nn_functions["col2im"],
)  # Tensor.unfold is another function

from gramme.nn.alignment import ctc_loss
from gramme.overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)
from gramme.nn.attention_function import multi_head_attention_forward
from gramme.nn.bags import embedding_bag

from gramme.nn.functional_in_python import (
    adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d_with_indices, max_pool1d_with_indices,
    max_pool2d_with_indices, max_pool3d_with_indices, rrelu, rrelu_,
    triplet_margin_with_distance_loss, upsample_bilinear, upsample_nearest,
)  # fmt: skip
from gramme.nn.sampling import affine_grid, grid_sample

from gramme.nn.unpooling import (
    fractional_max_pool2d, fractional_max_pool3d, lp_pool1d, lp_pool2d, lp_pool3d, max_unpool1d,
    max_unpool2d, max_unpool3d,
)  # fmt: skip
