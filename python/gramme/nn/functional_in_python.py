# SPDX-License-Identifier: Apache-2.0
"""Functions of nn.functional that are compositions of others."""

import gramme
from gramme.nn import functional as F


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """input where positive, else input times a slope: in training one drawn in [lower, upper) for
    each element, else their mean."""
    if lower > upper:
        raise RuntimeError(f"rrelu(): lower is at most upper, and they are {lower} and {upper}")
    if training:
        slope = gramme.rand_like(input) * (upper - lower) + lower
        result = gramme.where(input >= 0, input, input * slope)
    else:
        result = F.leaky_relu(input, (lower + upper) / 2)
    return input.copy_(result) if inplace else result


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """rrelu, written into its input."""
    return rrelu(input, lower, upper, training, True)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """triplet_margin_loss with a distance of one's own, a function of two tensors (None:
    pairwise_distance)."""
    distance = F.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    loss = (near - far + margin).clamp(min=0)
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode "nearest"."""
    return F.interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode "bilinear", corners on corners."""
    return F.interpolate(input, size, scale_factor, "bilinear", True)


def _with_indices(pool):
    def with_indices(*args, **kwargs):
        return pool(*args, **{**kwargs, "return_indices": True})

    with_indices.__name__ = with_indices.__qualname__ = pool.__name__ + "_with_indices"
    with_indices.__doc__ = f"{pool.__name__} with return_indices."
    return with_indices


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = [
    _with_indices(gramme._core.nn_functions[f"max_pool{d}d"]) for d in (1, 2, 3)
]
(
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d_with_indices,
) = [_with_indices(gramme._core.nn_functions[f"adaptive_max_pool{d}d"]) for d in (1, 2, 3)]
