# SPDX-License-Identifier: Apache-2.0
"""affine_grid and grid_sample: values of an image at any places (Jaderberg et al., "Spatial
Transformer Networks", 2015).

A grid's last dimension has one coordinate for each dimension of the image, the last dimension's
first, from -1 to 1: the centres of the outer elements with align_corners, else their outer edges.
"""

import itertools

import gramme
from gramme.python_functions import need_floats


def _centres(n, align_corners, dtype, device):
    """Coordinates of n elements."""
    if align_corners:
        return (
            gramme.linspace(-1, 1, n, dtype=dtype, device=device)
            if n > 1
            else gramme.zeros(n, dtype=dtype, device=device)
        )
    return (gramme.arange(n, dtype=dtype, device=device) * 2 + 1) / n - 1


def affine_grid(theta, size, align_corners=None):
    """The grid (N, sizes ..., d) that the affine maps theta (N, d, d + 1) take the coordinates of
    an image of size (N, C, sizes ...) to."""
    space = len(size) - 2
    if space not in (2, 3) or theta.dim() != 3 or tuple(theta.shape[1:]) != (space, space + 1):
        raise ValueError(
            f"affine_grid(): theta {list(theta.shape)} does not fit the size {list(size)}: (N, 2, "
            "3) and (N, C, H, W), or (N, 3, 4) and (N, C, D, H, W)"
        )
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid(): theta has a floating dtype, not {theta.dtype}")
    axes = [_centres(n, align_corners, theta.dtype, theta.device) for n in size[2:]]
    grids = gramme.meshgrid(*axes, indexing="ij")
    base = gramme.stack([*reversed(grids), gramme.ones_like(grids[0])], space)
    return (base.reshape(1, -1, space + 1) @ theta.transpose(1, 2)).reshape(
        theta.shape[0], *size[2:], space
    )


def _reflected(x, low, high):
    """x mirrored at both bounds until it is between them; bounds are doubled, so that they are
    whole."""
    if low == high:
        return x * 0
    least, span = low / 2, (high - low) / 2
    distance = (x - least).abs()
    rest = gramme.fmod(distance, span)
    odd = gramme.fmod(gramme.floor(distance / span), 2.0) == 1
    return gramme.where(odd, span - rest, rest) + least


def _inside(x, n, padding_mode, align_corners):
    """The place that padding gives for one beyond the edges."""
    if padding_mode == "reflection":
        x = _reflected(x, 0, 2 * (n - 1)) if align_corners else _reflected(x, -1, 2 * n - 1)
    return x if padding_mode == "zeros" else x.clamp(0, n - 1)


def _take(flat, places, sizes):
    """Elements of flat (N, C, numel) at whole places, one tensor (N, ...) a dimension; zeros
    outside: (N, C, ...)."""
    valid, index = None, 0
    for place, n in zip(places, sizes):
        inside = (place >= 0).logical_and(place < n)
        valid = inside if valid is None else valid.logical_and(inside)
        index = index * n + gramme.where(inside, place, 0.0).to(gramme.int64)
    shape = index.shape
    index = index.reshape(shape[0], 1, -1).expand(flat.shape[0], flat.shape[1], -1)
    found = flat.gather(2, index).reshape(flat.shape[0], flat.shape[1], *shape[1:])
    return gramme.where(valid.unsqueeze(1), found, 0.0)


def _cubic_weights(t):
    """Of the four neighbours of a place, t beyond the second of them: Keys' convolution with a =
    -0.75."""
    a = -0.75

    def near(d):
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """input (N, C, H, W) or (N, C, D, H, W) at the places of grid (N, sizes ..., 2 or 3): (N, C,
    sizes ...).

    mode: "bilinear" (also of three dimensions), "nearest" or "bicubic" (two); padding_mode, beyond
    the edges: "zeros", "border" or "reflection".  Gradients flow to the input and to the grid.
    """
    space = input.dim() - 2
    if (
        space not in (2, 3)
        or grid.dim() != input.dim()
        or grid.shape[-1] != space
        or grid.shape[0] != input.shape[0]
    ):
        raise ValueError(
            f"grid_sample(): a grid {list(grid.shape)} does not fit an input {list(input.shape)}"
        )
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and space == 3):
        raise ValueError(
            "grid_sample(): mode is 'bilinear', 'nearest' or, for 4 dimensions, 'bicubic', not "
            f"{mode!r}"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "grid_sample(): padding_mode is 'zeros', 'border' or 'reflection', not "
            f"{padding_mode!r}"
        )
    need_floats("grid_sample", input)
    if grid.dtype != input.dtype and gramme.is_autocast_enabled(input.device.type):
        wide = gramme.promote_types(input.dtype, grid.dtype)
        input, grid = input.to(wide), grid.to(wide)
    if grid.dtype != input.dtype:
        dtypes = f"{input.dtype} and {grid.dtype}"
        raise RuntimeError(f"grid_sample(): input and grid have one dtype, not {dtypes}")
    sizes = list(input.shape[2:])
    flat = input.reshape(input.shape[0], input.shape[1], -1)
    places = []
    for i, n in enumerate(sizes):
        x = grid[..., space - 1 - i]
        places.append((x + 1) * ((n - 1) / 2) if align_corners else ((x + 1) * n - 1) / 2)
    if mode == "bicubic":
        return _bicubic(flat, places, sizes, padding_mode, align_corners)
    places = [_inside(x, n, padding_mode, align_corners) for x, n in zip(places, sizes)]
    if mode == "nearest":
        return _take(flat, [x.detach().round() for x in places], sizes)
    lows = [x.detach().floor() for x in places]
    parts = [x - low for x, low in zip(places, lows)]
    result = 0
    for corner in itertools.product((0, 1), repeat=space):
        weight = 1
        for up, part in zip(corner, parts):
            weight = weight * (part if up else 1 - part)
        result = result + _take(
            flat, [low + up for low, up in zip(lows, corner)], sizes
        ) * weight.unsqueeze(1)
    return result


def _bicubic(flat, places, sizes, padding_mode, align_corners):
    lows = [x.detach().floor() for x in places]
    weights = [_cubic_weights(x - low) for x, low in zip(places, lows)]
    result = 0
    for i, j in itertools.product(range(4), repeat=2):
        at = [
            _inside(low + k - 1, n, padding_mode, align_corners)
            for low, k, n in zip(lows, (i, j), sizes)
        ]
        result = result + _take(flat, at, sizes) * (weights[0][i] * weights[1][j]).unsqueeze(1)
    return result
