# SPDX-License-Identifier: Apache-2.0
"""A batch is convolved as its images are, one by one, to the bit, by any number of threads.

Results, gradients of inputs and gradients of weights are compared.
"""

import pytest

import gramme as G
import gramme.nn.functional as F

# Name: the input's shape, the weight's shape, the arguments of the convolution.
CASES = {
    "panels across images": ((7, 24, 5, 7), (30, 24, 3, 3), dict(padding=1)),
    "images of four windows": ((9, 40, 2, 2), (70, 40, 1, 1), {}),
    "rows cut before panels": ((3, 300, 4, 4), (210, 300, 3, 3), dict(padding=1)),
    "more images than a round": ((5, 40, 130, 130), (8, 40, 3, 3), dict(padding=1)),
    "read where they are": ((4, 48, 17, 15), (50, 48, 1, 1), {}),
    "two apart": ((6, 33, 13, 14), (26, 33, 3, 3), dict(stride=2, padding=1)),
    "one place, two apart": ((6, 33, 13, 14), (26, 33, 1, 1), dict(stride=2)),
    "groups": ((5, 60, 9, 11), (28, 15, 3, 3), dict(padding=1, groups=4)),
    "three channels of many groups": ((2, 16, 64, 64), (48, 1, 3, 3), dict(padding=1, groups=16)),
    "two channels in a group": ((4, 24, 9, 11), (24, 2, 3, 3), dict(padding=1, groups=12)),
    "each channel alone": ((5, 70, 12, 9), (70, 1, 3, 3), dict(padding=1, groups=70)),
    "each channel alone, two apart": (
        (5, 70, 12, 9),
        (70, 1, 3, 3),
        dict(stride=2, padding=1, groups=70),
    ),
    "each channel alone, five places": ((2, 70, 12, 9), (70, 1, 5, 5), dict(padding=2, groups=70)),
    "dilated": ((3, 20, 15, 16), (25, 20, 3, 2), dict(dilation=(2, 3))),
    "planes": ((3, 9, 5, 6, 7), (25, 9, 2, 3, 2), dict(padding=1)),
    "a window longer than a block": ((2, 3, 40, 41), (5, 3, 3, 3), {}),
}


def results(x, weight, to, options):
    """The result, and the gradients of x and weight for the result's gradient `to`."""
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    y = (F.conv3d if x.dim() == 5 else F.conv2d)(x, weight, **options)
    gradients = G.autograd.grad(y, (x, weight), to)
    return y.detach(), *gradients


@pytest.fixture(autouse=True)
def restore():
    before = G.get_num_threads()
    yield
    G.set_num_threads(before)


@pytest.mark.parametrize("dtype", [G.float32, G.float64])
@pytest.mark.parametrize("name", CASES)
def test_a_batch_has_the_bits_of_its_images(name, dtype):
    shape, weight_shape, options = CASES[name]
    G.manual_seed(3)
    x, weight = G.randn(*shape, dtype=dtype), G.randn(*weight_shape, dtype=dtype)
    to = G.randn(*(F.conv3d if x.dim() == 5 else F.conv2d)(x, weight, **options).shape, dtype=dtype)
    G.set_num_threads(1)
    alone = [results(x[i : i + 1], weight, to[i : i + 1], options) for i in range(shape[0])]
    few = weight_shape[0] // options.get("groups", 1) <= 2
    want = [G.cat([a[0] for a in alone]), G.cat([a[1] for a in alone]), alone[0][2]]
    for other in alone[1:]:  # the chains of an image are added to those of the images before it
        want[2] = want[2] + other[2]
    for threads in (1, 2, 3, 5):
        G.set_num_threads(threads)
        got = results(x, weight, to, options)
        assert (got[0] == want[0]).all() and (got[1] == want[1]).all(), threads
        if few:  # the chains of few channels go on from image to image
            want[2] = got[2] if threads == 1 else want[2]
        assert (got[2] == want[2]).all(), threads
    exact = [t.double() for t in results(x.double(), weight.double(), to.double(), options)]
    for a, b in zip(got, exact):
        assert (a.double() - b).abs().max() <= 1e-4 * b.abs().max()


def test_gradients_of_weights_of_many_groups_take_little_memory():
    x, weight = G.randn(1, 32, 96, 96), G.randn(96, 1, 3, 3, requires_grad=True)
    y = F.conv2d(x, weight, padding=1, groups=32)
    to = G.ones_like(y)
    size = y.numel() * y.element_size()
    before = G._core.peak_bytes()
    G._core.reset_peak_bytes()
    held = G._core.peak_bytes()
    G.autograd.grad(y, [weight], to)
    assert before > 0 and G._core.peak_bytes() - held < 3 * size  # with all panels at once: 8 times
