# SPDX-License-Identifier: Apache-2.0
"""Padding, convolution, pooling and recurrent cells, against their definitions written with
loops."""

import itertools
import math

import pytest

import gramme as G
import gramme.nn.functional as F

BACKENDS = [name for name in ("eager", "tcc", "cc") if name in G.compiler.list_backends()]


def values(*shape, seed=0):
    G.manual_seed(seed)
    return G.randn(*shape).requires_grad_()


def close(a, b, what=""):
    assert a.shape == b.shape, (what, a.shape, b.shape)
    assert G.allclose(a, b, rtol=1e-4, atol=1e-5), (what, (a - b).abs().max())


def same_with_gradients(one, two, *inputs):
    """Both functions give the same values and gradients."""
    found = []
    for fn in (one, two):
        for x in inputs:
            x.grad = None
        y = fn(*inputs)
        scale = G.arange(float(max(y.numel(), 1)))[: y.numel()].reshape(y.shape) * 0.1 - 1
        (y * scale).sum().backward()
        found.append([y.detach()] + [x.grad for x in inputs])
    for a, b in zip(*found):
        close(a, b)


def padded(x, pad, value=0.0):
    """Constant padding by one write into a larger tensor; pad: one number for each dimension, on
    both sides."""
    y = G.full([n + 2 * p for n, p in zip(x.shape, pad)], value)
    y[tuple([slice(p, p + n) for n, p in zip(x.shape, pad)])] = x
    return y


def windows(x, kernel, stride, pad, dilation, value):
    """(place in the output, what the kernel sees there), one after the other."""
    space = len(kernel)
    x = padded(x, [0, 0] + pad, value)
    sizes = [
        (x.shape[2 + d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in range(space)
    ]
    for place in itertools.product(*[range(n) for n in sizes]):
        cut = tuple(
            [
                slice(
                    place[d] * stride[d],
                    place[d] * stride[d] + dilation[d] * (kernel[d] - 1) + 1,
                    dilation[d],
                )
                for d in range(space)
            ]
        )
        yield sizes, x[(slice(None), slice(None)) + cut]


def plain_conv(x, w, bias, stride, pad, dilation, groups):
    space, n_in, n_out = w.dim() - 2, w.shape[1], w.shape[0] // groups
    columns, sizes = [], None
    for sizes, seen in windows(x, list(w.shape[2:]), stride, pad, dilation, 0.0):
        parts = []
        for g in range(groups):
            part = seen[:, g * n_in : (g + 1) * n_in].unsqueeze(1) * w[
                g * n_out : (g + 1) * n_out
            ].unsqueeze(0)
            parts.append(part.flatten(2).sum(2))
        columns.append(G.cat(parts, 1) + bias)
    return G.stack(columns, 2).reshape(x.shape[0], w.shape[0], *sizes)


CONVS = [
    (1, 3, 1, 0, 1, 1), (1, 3, 2, 1, 1, 2), (1, 1, 1, 0, 1, 1), (1, 2, 1, 2, 3, 1),
    (2, 3, 1, 1, 1, 1), (2, 2, 2, 0, 1, 2), (2, 3, 1, 2, 2, 1), (2, 1, 2, 0, 1, 4),
    (3, 2, 1, 1, 1, 1), (3, 2, 2, 0, 1, 2),
]  # fmt: skip


@pytest.mark.parametrize("space, kernel, stride, pad, dilation, groups", CONVS)
def test_convolution_is_its_definition(space, kernel, stride, pad, dilation, groups):
    conv = getattr(F, f"conv{space}d")
    x, w, b = (
        values(2, 4, *[5] * space),
        values(8, 4 // groups, *[kernel] * space, seed=1),
        values(8, seed=2),
    )
    plain = lambda x, w, b: plain_conv(
        x, w, b, [stride] * space, [pad] * space, [dilation] * space, groups
    )
    same_with_gradients(
        lambda x, w, b: conv(x, w, b, stride, pad, dilation, groups), plain, x, w, b
    )


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_padding_same_and_valid(kernel):
    x, w = values(1, 2, 7), values(3, 2, kernel, seed=1)
    assert F.conv1d(x, w, padding="same").shape == (1, 3, 7)
    all_pad = kernel - 1
    close(
        F.conv1d(x, w, padding="same"),
        F.conv1d(F.pad(x, (all_pad // 2, all_pad - all_pad // 2)), w),
    )
    close(F.conv1d(x, w, padding="valid"), F.conv1d(x, w))


def test_an_image_without_a_batch():
    x, w = values(2, 6, 5), values(3, 2, 3, 3, seed=1)
    close(F.conv2d(x, w, padding=1), F.conv2d(x.unsqueeze(0), w, padding=1).squeeze(0))


@pytest.mark.parametrize("space", [1, 2, 3])
@pytest.mark.parametrize(
    "kernel, stride, pad, dilation", [(2, None, 0, 1), (3, 1, 1, 1), (3, 2, 1, 1), (2, 1, 0, 2)]
)
def test_pools_are_their_definitions(space, kernel, stride, pad, dilation):
    step = kernel if stride is None else stride

    def plain_max(x):
        best, sizes = [], None
        for sizes, seen in windows(
            x, [kernel] * space, [step] * space, [pad] * space, [dilation] * space, -math.inf
        ):
            best.append(seen.flatten(2).max(2)[0])
        return G.stack(best, 2).reshape(*x.shape[:2], *sizes)

    def plain_mean(x):
        means, sizes = [], None
        for sizes, seen in windows(
            x, [kernel] * space, [step] * space, [pad] * space, [1] * space, 0.0
        ):
            means.append(seen.flatten(2).mean(2))
        return G.stack(means, 2).reshape(*x.shape[:2], *sizes)

    x = values(2, 3, *[6] * space)
    same_with_gradients(
        lambda x: getattr(F, f"max_pool{space}d")(x, kernel, stride, pad, dilation), plain_max, x
    )
    same_with_gradients(
        lambda x: getattr(F, f"avg_pool{space}d")(x, kernel, stride, pad), plain_mean, x
    )


def test_the_gradient_of_a_pool_goes_to_the_first_of_equal_elements():
    x = G.ones(1, 1, 4, requires_grad=True)
    F.max_pool1d(x, 2).sum().backward()
    assert x.grad.tolist() == [[[1.0, 0.0, 1.0, 0.0]]]


def test_padding_that_does_not_count():
    x = G.ones(1, 1, 4)
    assert F.avg_pool1d(x, 3, 1, 1, count_include_pad=False).tolist() == [[[1.0] * 4]]
    assert (
        F.avg_pool1d(x, 3, 1, 1).tolist()[0][0][1:3] == [1.0, 1.0]
        and F.avg_pool1d(x, 3, 1, 1).tolist()[0][0][0] < 0.67
    )


@pytest.mark.parametrize("out", [(1, 1), (2, 3), (5, 7), (3, 1)])
def test_adaptive_pool_has_cells_as_equal_as_they_can_be(out):
    x = values(2, 3, 5, 7)

    def plain(x):
        rows = []
        for i, j in itertools.product(range(out[0]), range(out[1])):
            r, c = (i * 5 // out[0], -(-(i + 1) * 5 // out[0])), (
                j * 7 // out[1],
                -(-(j + 1) * 7 // out[1]),
            )
            rows.append(x[:, :, r[0] : r[1], c[0] : c[1]].flatten(2).mean(2))
        return G.stack(rows, 2).reshape(2, 3, *out)

    same_with_gradients(lambda x: F.adaptive_avg_pool2d(x, out), plain, x)


@pytest.mark.parametrize(
    "mode, want",
    [
        ("constant", [9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 9.0]),
        ("reflect", [3.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0]),
        ("replicate", [1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 4.0]),
        ("circular", [3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0]),
    ],
)
def test_pad(mode, want):
    x = G.tensor([[1.0, 2.0, 3.0, 4.0]])
    assert F.pad(x, (2, 1), mode, 9.0 if mode == "constant" else None).tolist() == [want]
    assert F.pad(x, (-1, -1)).tolist() == [[2.0, 3.0]]
    assert F.pad(x, (0, 0, 1, 0)).shape == (2, 4)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: F.conv2d(G.ones(2, 3), G.ones(1, 3, 3, 3)), "expected an input"),
        (lambda: F.conv2d(G.ones(1, 3, 5, 5), G.ones(1, 2, 3, 3)), "does not fit a weight"),
        (lambda: F.conv2d(G.ones(1, 3, 2, 2), G.ones(1, 3, 3, 3)), "the kernel covers 3"),
        (lambda: F.conv2d(G.ones(1, 3, 5, 5), G.ones(1, 3, 3, 3), stride=0), "stride is 0"),
        (
            lambda: F.conv2d(G.ones(1, 3, 5, 5), G.ones(1, 3, 3, 3), stride=(1, 2, 3)),
            "3 numbers for 2 dimensions",
        ),
        (lambda: F.conv2d(G.ones(1, 3, 5, 5), G.ones(1, 3, 3, 3), G.ones(2)), "bias needs 1"),
        (lambda: F.max_pool2d(G.ones(1, 1, 4, 4), 2, padding=2), "at most half"),
        (lambda: F.pad(G.ones(3), (1, 1, 1, 1)), "4 widths for a tensor of 1"),
        (lambda: F.pad(G.ones(3), (3, 0), "reflect"), "does not fit dimension 0"),
    ],
)
def test_bad_arguments(call, text):
    with pytest.raises(Exception, match=text):
        call()


class Net(G.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = G.nn.Sequential(
            G.nn.Conv2d(1, 4, 3, padding=1),
            G.nn.BatchNorm2d(4),
            G.nn.ReLU(),
            G.nn.MaxPool2d(2),
            G.nn.Conv2d(4, 6, 3, stride=2),
            G.nn.AvgPool2d(1),
            G.nn.Flatten(),
        )
        self.head = G.nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.body(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_convolutional_net_trains_the_same_in_every_back_end(backend):
    runs = []
    for compiled in (False, True):
        G.manual_seed(3)
        net = Net()
        optimizer = G.optim.SGD(net.parameters(), lr=0.1)
        call = G.compile(net, backend=backend) if compiled else net
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(call(G.randn(5, 1, 10, 10)), G.tensor([0, 1, 2, 1, 0]))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        runs.append((losses, [p.tolist() for p in net.parameters()]))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells_unrolled_scanned_and_compiled(backend, kind):
    G.manual_seed(5)
    cell = getattr(G.nn, kind)(3, 4)
    xs = G.randn(6, 2, 3)
    start = (G.zeros(2, 4), G.zeros(2, 4)) if kind == "LSTMCell" else G.zeros(2, 4)

    def unrolled(xs):
        h = start
        for i in range(6):
            h = cell(xs[i], h)
        return h[0] if kind == "LSTMCell" else h

    def scanned(xs):
        h = G.scan(lambda h, x: (cell(x, h), x), start, xs)[0]
        return h[0] if kind == "LSTMCell" else h

    found = []
    for fn in (
        unrolled,
        G.compile(unrolled, backend=backend),
        G.compile(scanned, backend=backend, fullgraph=True),
    ):
        cell.zero_grad()
        y = fn(xs)
        (y * y).sum().backward()
        found.append([y.detach()] + [p.grad for p in cell.parameters()])
    for other in found[1:]:
        assert found[0][0].tolist() == other[0].tolist()
        for a, b in zip(found[0], other):
            close(a, b)


def test_one_step_of_a_cell_without_state():
    cell = G.nn.LSTMCell(3, 4)
    h, c = cell(G.randn(2, 3))
    assert h.shape == (2, 4) and c.shape == (2, 4)
    with pytest.raises(ValueError, match=r"\(N, 3\)"):
        cell(G.randn(2, 5))


@pytest.mark.parametrize(
    "sizes, cells", [((7,), (3,)), ((5, 8), (2, 3)), ((5, 8), (5, None)), ((4, 3, 5), (3, 2, 4))]
)
def test_adaptive_pools_find_mean_and_largest_of_each_cell(sizes, cells):
    space = len(sizes)
    x = values(2, 3, *sizes)
    average = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[space - 1]
    largest = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[space - 1]
    n = [c or s for c, s in zip(cells, sizes)]
    blocks = []
    for at in itertools.product(*[range(c) for c in n]):
        part = tuple(slice(i * s // c, -(-(i + 1) * s // c)) for i, s, c in zip(at, sizes, n))
        blocks.append(x[(slice(None), slice(None)) + part].reshape(2, 3, -1))
    close(average(x, cells), G.stack([b.mean(2) for b in blocks], 2).reshape(2, 3, *n))
    got, at = largest(x, cells, return_indices=True)
    close(got, G.stack([b.amax(2) for b in blocks], 2).reshape(2, 3, *n))
    assert (
        G.gather(x.reshape(2, 3, -1), 2, at.reshape(2, 3, -1)).reshape(got.shape).tolist()
        == got.tolist()
    )
    assert largest(x, cells).tolist() == got.tolist()
    for backend in BACKENDS:
        found = []
        for fn in (
            largest,
            G.compile(lambda t: largest(t, cells), backend=backend, fullgraph=True),
        ):
            x.grad = None
            (fn(x) if fn is not largest else largest(x, cells)).square().sum().backward()
            found.append(x.grad.numpy().tobytes())
        assert found[0] == found[1]


@pytest.mark.parametrize("space", [1, 2, 3])
def test_a_last_window_may_go_beyond(space):
    """ceil_mode: as many windows as begin in the input or the padding before it; what is beyond
    counts for nothing."""
    largest = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[space - 1]
    average = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[space - 1]
    size = {1: 11, 2: 6, 3: 5}[space]
    x = values(2, 2, *(size,) * space)
    for kernel, stride, pad in ((2, 2, 0), (3, 2, 1), (2, 3, 1), (3, 3, 0)):
        n = -(-(size + 2 * pad - kernel) // stride) + 1
        n -= (n - 1) * stride >= size + pad
        cells = []
        for at in itertools.product(range(n), repeat=space):
            lows = [i * stride - pad for i in at]
            inside = [slice(max(low, 0), min(low + kernel, size)) for low in lows]
            with_padding = math.prod(min(low + kernel, size + pad) - low for low in lows)
            cells.append((x[(slice(None), slice(None), *inside)].reshape(2, 2, -1), with_padding))
        shape = (2, 2) + (n,) * space
        close(
            largest(x, kernel, stride, pad, ceil_mode=True),
            G.stack([c.amax(2) for c, _ in cells], 2).reshape(shape),
            (kernel, stride, pad),
        )
        got = average(x, kernel, stride, pad, ceil_mode=True)
        close(
            got, G.stack([c.sum(2) / k for c, k in cells], 2).reshape(shape), (kernel, stride, pad)
        )
        got = average(x, kernel, stride, pad, ceil_mode=True, count_include_pad=False)
        close(got, G.stack([c.mean(2) for c, _ in cells], 2).reshape(shape), (kernel, stride, pad))


@pytest.mark.parametrize("space", [1, 2, 3])
def test_places_of_the_largest_are_in_the_flattened_space(space):
    largest = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[space - 1]
    x = values(2, 2, *(6,) * space)
    y, at = largest(x, 3, 2, 1, dilation=1, ceil_mode=True, return_indices=True)
    assert y.tolist() == largest(x, 3, 2, 1, ceil_mode=True).tolist()
    assert (
        G.gather(x.reshape(2, 2, -1), 2, at.reshape(2, 2, -1)).tolist()
        == y.reshape(2, 2, -1).tolist()
    )


def test_average_by_another_divisor():
    x = values(1, 1, 4, 4)
    close(F.avg_pool2d(x, 2, divisor_override=3), F.avg_pool2d(x, 2) * 4 / 3)
    with pytest.raises(RuntimeError, match="divisor"):
        F.avg_pool2d(x, 2, divisor_override=0)
