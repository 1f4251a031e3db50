# SPDX-License-Identifier: Apache-2.0
"""Products of few rows: what is kept packed for all of a run changes no bit."""

import pytest

import gramme as G
import gramme.nn.functional as F


@pytest.fixture(autouse=True)
def restore():
    before = G.get_num_threads()
    yield
    G.set_num_threads(before)


def many_steps(x, w):
    h = x
    for _ in range(4):
        h = G.tanh(F.linear(h, w))
    return h


def rows_and_columns(x, w):
    h = G.tanh(x @ w)
    h = G.tanh(h @ w.t())
    h = G.tanh(h @ w)
    return h @ w.t() + h @ w


def two_halves(x, w):
    left, right = w[:, :96], w[:, 96:]
    for _ in range(3):
        x = G.tanh(G.cat([F.linear(x[:, :96], left), F.linear(x[:, 96:], right)], 1)[:, ::2])
    return x


def made_on_the_way(x, w):
    for k in range(4):
        by = w * (k + 1)  # each may take the memory of the one before
        x = G.tanh(x @ by) + G.tanh(x @ by + 1)
    return x


def written_between(x, w):
    h, by = x.detach(), w.detach().clone()
    for k in range(3):
        h = G.tanh(h @ by) + G.tanh(h @ by - 1)
        by.mul_(0.5 + k)
    return h + x @ w


def fewer_and_fewer_rows(x, w):
    parts = []
    for n in range(x.shape[0], 1, -5):
        x = G.tanh(F.linear(x[:n], w))
        parts.append(x)
    return G.cat(parts)


def more_than_are_kept(x, w):
    for k in range(11):
        by = G.tanh(w + k)
        x = x @ by * 0.01 + x @ by
    for k in range(3):
        x = G.tanh(x @ w)
    return x


PROGRAMS = [
    many_steps, rows_and_columns, two_halves, made_on_the_way, written_between,
    fewer_and_fewer_rows, more_than_are_kept,
]  # fmt: skip
# Products are the host's kernels for all back ends: cc, which takes longest to compile, is tried
# with one program.
BACK_ENDS = [b for b in ("eager", "tcc") if b in G.compiler.list_backends()]
WITH_CC = [*BACK_ENDS, *(["cc"] if "cc" in G.compiler.list_backends() else [])]
CASES = [(b, f, d) for b in BACK_ENDS for f in PROGRAMS for d in ("float32", "float64", "bfloat16")]
CASES += [(b, many_steps, "float32") for b in WITH_CC[len(BACK_ENDS) :]]


def results_of(call, x, w):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = call(x, w)
    (y.float() * y.float()).sum().backward()
    return y.detach(), x.grad, w.grad


def assert_equal(got, want):
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and bool((a == b).all())


@pytest.mark.parametrize(
    ("backend", "program", "dtype"), CASES, ids=lambda x: getattr(x, "__name__", x)
)
def test_compiled_has_the_bits_of_plain_for_any_number_of_threads(backend, program, dtype):
    G.manual_seed(3)
    x, w = (G.randn(*shape).to(getattr(G, dtype)) * 0.1 for shape in ((16, 192), (192, 192)))
    G.set_num_threads(1)
    want = results_of(program, x, w)
    compiled = G.compile(program, backend=backend)
    for n in (1, 2, 3, 5):
        G.set_num_threads(n)
        assert_equal(results_of(compiled, x, w), want)
        assert_equal(results_of(program, x, w), want)


@pytest.mark.parametrize("layer", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("backend", BACK_ENDS)
def test_a_recurrent_layer_has_them_for_any_batch(layer, backend):
    G.manual_seed(4)
    net = getattr(G.nn, layer)(24, 320, 1)
    compiled = G.compile(lambda x: net(x)[0], backend=backend, dynamic=True)
    for batch in (2, 7, 16, 33):
        x, results = G.randn(5, batch, 24), []
        for n, call in ((1, lambda x: net(x)[0]), (1, compiled), (2, compiled), (5, compiled)):
            G.set_num_threads(n)
            for p in net.parameters():
                p.grad = None
            y = call(x)
            y.sin().sum().backward()
            results.append([y.detach(), *[p.grad for p in net.parameters()]])
        for got in results[1:]:
            assert_equal(got, results[0])


def test_a_row_does_not_depend_on_how_many_there_are():
    x, w = G.randn(64, 300), G.randn(300, 210)
    whole = x @ w
    for n in (2, 3, 7, 16, 31, 63):
        assert bool((x[:n] @ w == whole[:n]).all())
        assert bool((F.linear(x[:n], w.t().contiguous()) == whole[:n]).all())
