# SPDX-License-Identifier: Apache-2.0
"""How many threads there are changes no bit, and no more than it says are used; the child of a fork
has its own."""

import os
import subprocess
import sys

import pytest

import gramme as G
import gramme.nn.functional as F

BACK_ENDS = [b for b in ("eager", "tcc", "cc") if b in G.compiler.list_backends()]

CASES = {
    "one stretch, odd length": (lambda x: x * G.sigmoid(x) + 2 * G.tanh(x), (300_003,)),
    "rows": (lambda x: G.softmax(x, -1), (301, 1001)),
    "rows and what they leave": (
        lambda x: (x - x.mean(-1, keepdim=True)).exp().sum(-1),
        (700, 513),
    ),
    "cheap, much memory": (lambda x: x * 2 + 1, (1_000_001,)),
    "crosswise": (lambda x: (x.t() * 2 + x).exp(), (600, 600)),
    "a row for all rows": (lambda x: (x * x[0] + x[:, :1]).tanh(), (400, 777)),
    "sums of rows": (lambda x: x.sum(-1), (1000, 700)),
    "sums of columns": (lambda x: x.exp().sum(0), (1000, 700)),
    "convolution": (
        lambda x: F.conv2d(
            x.reshape(2, 8, 60, 61), x[: 16 * 8 * 9].reshape(16, 8, 3, 3), padding=1
        ),
        (2 * 8 * 60 * 61,),
    ),
    "convolution of one image": (
        lambda x: F.conv2d(
            x.reshape(1, 32, 40, 41), x[: 32 * 32 * 9].reshape(32, 32, 3, 3), padding=1
        ),
        (32 * 40 * 41,),
    ),
    "convolution of many small images": (
        lambda x: F.conv2d(
            x.reshape(6, 70, 9, 10), x[: 50 * 70 * 9].reshape(50, 70, 3, 3), padding=1
        ),
        (6 * 70 * 9 * 10,),
    ),
    "pointwise convolution": (
        lambda x: F.conv2d(
            x.reshape(2, 200, 21, 22), x[: 300 * 200].reshape(300, 200, 1, 1), stride=2
        ),
        (2 * 200 * 21 * 22,),
    ),
    "two large products": (lambda x: x @ (x.t() @ x), (301, 517)),
    "a long product": (lambda x: x @ x.t(), (260, 5003)),
    "a flat product": (lambda x: x.t() @ x, (17, 1024)),
    "a batch of small products": (lambda x: x @ x.transpose(-1, -2), (6, 5, 65, 83)),
    "a batch that repeats": (lambda x: x @ x[0, :1].transpose(-1, -2), (3, 5, 165, 83)),
    "a linear layer": (lambda x: F.linear(x, x[0, :70], x[0, 0, :70]), (3, 311, 201)),
    "a matrix and a vector": (lambda x: x @ x[0], (1501, 1003)),
    "a vector and a matrix": (lambda x: x[:, 0] @ x, (1501, 1003)),
    "a row and a turned matrix": (lambda x: x[:1] @ x.t(), (1501, 1003)),
    "a product of half precision": (
        lambda x: (x.bfloat16() @ x.t().bfloat16()).float(),
        (301, 517),
    ),
    "maxima of windows": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 40, 63, 65)),
    "means of windows": (lambda x: F.avg_pool2d(x, 2), (2, 40, 63, 65)),
    "a batch norm": (
        lambda x: F.batch_norm(x, None, None, x[0, :, 0, 0], x[1, :, 0, 0], True),
        (4, 40, 33, 35),
    ),
    "a layer norm": (lambda x: F.layer_norm(x, (513,), x[0], x[1]), (700, 513)),
    "cross entropy": (lambda x: F.cross_entropy(x, G.arange(700) % 513), (700, 513)),
    "rows of an embedding": (lambda x: F.embedding(G.arange(3000) * 7 % 611, x), (611, 96)),
    "columns picked": (lambda x: x[:, G.arange(900) * 5 % 301], (611, 301)),
    "elements picked": (
        lambda x: x.gather(1, G.arange(511 * 400).reshape(511, 400) * 7 % 301),
        (511, 301),
    ),
    "sorted lines": (lambda x: x.sort(-1).values, (130, 311)),
    "running sums of lines": (lambda x: x.cumsum(-1), (600, 301)),
    "running products of columns": (lambda x: (x * 0.01 + 1).cumprod(0), (301, 1600)),
    "maxima of rows": (lambda x: x.amax(-1) * x.argmax(-1), (700, 513)),
    "maxima of columns": (lambda x: x.amax(0) + x.argmin(0), (700, 513)),
    "sums of the middle": (lambda x: x.sum(1) + x.to(G.float64).sum(1), (40, 65, 130)),
    "turned and copied": (
        lambda x: x.transpose(0, 2).contiguous() + x.flip(0).transpose(0, 2),
        (65, 70, 65),
    ),
    "parts joined": (lambda x: G.cat([x[:, :100], x.roll(3, 0)], 1), (611, 301)),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        (2, 3, 130, 40),
    ),
    "a factor": (lambda x: G.linalg.cholesky(x @ x.t() + 200 * G.eye(70)), (70, 70)),
    "depthwise": (
        lambda x: F.conv2d(
            x.reshape(2, 32, 60, 61), x[: 32 * 9].reshape(32, 1, 3, 3), padding=1, groups=32
        ),
        (2 * 32 * 60 * 61,),
    ),
}


@pytest.fixture(autouse=True)
def restore():
    before = G.get_num_threads()
    yield
    G.set_num_threads(before)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", BACK_ENDS)
def test_any_number_of_threads_gives_the_same_bits(name, backend):
    f, shape = CASES[name]
    x = G.randn(*shape).requires_grad_()
    compiled = G.compile(f, backend=backend)
    results = []
    for n in (1, 2, 3, 5):
        G.set_num_threads(n)
        for call in (f, compiled):
            x.grad = None
            y = call(x)
            (y * y).sum().backward()
            results.append((y.detach(), x.grad))
    for y, grad in results[1:]:
        assert bool((y == results[0][0]).all())
        assert bool((grad == results[0][1]).all())


def test_the_number_is_said_and_checked():
    G.set_num_threads(3)
    assert G.get_num_threads() == 3
    with pytest.raises(RuntimeError, match="at least 1"):
        G.set_num_threads(0)
    assert G.get_num_threads() == 3


@pytest.mark.parametrize("n", [1, 3])
def test_the_environment_says_how_many_and_no_more_are_made(n):
    code = """
import os, gramme as G
x = G.randn(2_000_003)
G.compile(lambda x: x.exp().tanh(), backend="tcc")(x)
print(G.get_num_threads(), len(os.listdir("/proc/self/task")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "GRAMME_NUM_THREADS": str(n)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(n), str(n)]


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_a_child_of_a_fork_computes_with_threads_of_its_own(backend):
    G.set_num_threads(2)
    x = G.randn(1000, 1000)
    f = G.compile(lambda x: G.softmax(x, -1).exp(), backend=backend)
    want = f(x)
    child = os.fork()
    if child == 0:
        good = bool((f(x) == want).all()) and bool((f(x) == want).all())
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bool((f(x) == want).all())
