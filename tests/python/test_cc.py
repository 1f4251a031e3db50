# SPDX-License-Identifier: Apache-2.0
"""The back end cc: bits of plain execution, builds in the background, what is said when there is no
compiler, nothing left behind."""

import os
import subprocess
import sys

import pytest

import gramme
import gramme.nn.functional as F

if "cc" not in gramme.compiler.list_backends():
    pytest.skip("the back end cc is not installed", allow_module_level=True)


def same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    assert bool(((a == b) | ((a != a) & (b != b))).all())


def layer_norm(x, w, b):
    d = x - x.mean(-1, keepdim=True)
    return d * gramme.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5) * w + b


def cross_entropy(x):
    return F.cross_entropy(x, gramme.arange(x.shape[0]) % x.shape[1])


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 511, 512, 513, 1500])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_fused_rows_have_the_bits_of_plain_execution_at_even_and_odd_widths(columns, dtype):
    gramme.compiler.reset()  # the limit on kinds of calls is for the code objects below
    x = gramme.randn(5, columns).to(getattr(gramme, dtype))
    w, b = gramme.randn(columns).to(x.dtype), gramme.randn(columns).to(x.dtype)
    functions = [
        lambda x, w, b: gramme.softmax(x, -1),
        lambda x, w, b: gramme.log_softmax(x, -1),
        lambda x, w, b: cross_entropy(x),
        layer_norm,
    ]
    # All four builds run at once: each is waited for at its first call.
    compiled = [gramme.compile(f, backend="cc") for f in functions]
    for f, c in zip(functions, compiled):
        same(c(x, w, b), f(x, w, b))


def kept_until_stored(x):
    e = gramme.exp(x - gramme.amax(x, -1, keepdim=True))
    return e * e.sum(-1, keepdim=True)


def kept_twice(x):
    m = gramme.amax(x, -1, keepdim=True)
    a, b = gramme.exp(x - m), gramme.sin(x * m)
    return a * b.sum(-1, keepdim=True) + b * a.sum(-1, keepdim=True), gramme.tanh(a) * b.sum(
        -1, keepdim=True
    )


def read_after_the_store(x):
    e = gramme.exp(x - gramme.amax(x, -1, keepdim=True))
    y = gramme.sqrt(e * e.sum(-1, keepdim=True))
    return y, e - y.sum(-1, keepdim=True)


def stored_turned(x):
    e = gramme.exp(x - gramme.amax(x, -1, keepdim=True))
    return (e * e.sum(-1, keepdim=True)).t().contiguous()


@pytest.mark.parametrize("backend", ["tcc", "cc"])
@pytest.mark.parametrize("columns", [7, 16, 513, 1024, 1500])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_row_that_lies_in_an_outputs_memory_until_that_is_stored_has_the_bits_of_plain_execution(
    backend, columns, dtype
):
    gramme.compiler.reset()
    x = gramme.randn(5, columns).to(getattr(gramme, dtype))
    functions = [kept_until_stored, kept_twice, read_after_the_store, stored_turned]
    compiled = [gramme.compile(f, backend=backend) for f in functions]
    for f, c in zip(functions, compiled):
        got, want = c(x), f(x)
        for g, w in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want))):
            same(g, w)


def test_rows_that_come_from_memory_have_the_bits_of_plain_execution():
    """More than the caches hold: such rows are walked in another way."""
    x = gramme.randn(1030, 2500)
    x[3, 7], x[1029, 2499] = float("nan"), float("inf")
    functions = [
        lambda x: gramme.amax(x, -1),
        lambda x: x.sum(-1),
        lambda x: gramme.softmax(x, -1),
        lambda x: F.layer_norm(x, (2500,)),
    ]
    compiled = [gramme.compile(f, backend="cc") for f in functions]
    for f, c in zip(functions, compiled):
        same(c(x), f(x))


@pytest.mark.parametrize("columns", [3, 8, 799, 1000, 1024, 1031, 1540, 2048, 2500])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8"])
def test_reductions_of_long_and_short_rows_have_the_bits_of_plain_execution(columns, dtype):
    gramme.compiler.reset()

    def reductions(x):
        return (
            x.sum(-1),
            x.prod(-1),
            (x - 1).amax(-1),
            (-x).amin(-1),
            x.any(-1),
            (x * x).sum(-1, keepdim=True) - x,
        )

    def signs(x):  # the extremes are zeros of both signs: which one stays is a matter of order
        high, low = x.amax(-1), x.amin(-1)
        return gramme.copysign(gramme.ones_like(high), high), gramme.copysign(
            gramme.ones_like(low), low
        )

    gramme.manual_seed(columns)
    x = (gramme.randn(7, columns) * 3).to(getattr(gramme, dtype))
    for got, want in zip(gramme.compile(reductions, backend="cc")(x), reductions(x)):
        same(got, want)
    if x.is_floating_point():
        zeros = x * 0
        for got, want in zip(gramme.compile(signs, backend="cc")(zeros), signs(zeros)):
            same(got, want)


def test_gradients_have_the_bits_of_plain_execution():
    x = gramme.randn(64, 33, requires_grad=True)

    def f(x):
        return (gramme.tanh(x) * F.gelu(x)).sum()

    grads = []
    for fn in (f, gramme.compile(f, backend="cc")):
        x.grad = None
        fn(x).backward()
        grads.append(x.grad)
    same(*grads)


def run(text, **env):
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=dict(os.environ, **env)
    )
    return done.returncode, done.stdout + done.stderr


CALL = (
    "import gramme as g; f = g.compile(lambda x: g.tanh(x) * x, backend='cc'{}); "
    "print(float(f(g.ones(3)).sum()))"
)


@pytest.mark.parametrize(
    "compiler, said", [("/nowhere/cc", "GRAMME_CC"), ("cc -bogus-flag", "-bogus-flag")]
)
def test_a_compiler_that_does_not_work_is_named_with_what_it_said(compiler, said):
    code, text = run(CALL.format(""), GRAMME_CC=compiler)
    assert code != 0 and said in text and compiler.split()[0] in text


def test_the_folder_for_temporary_files_is_empty_afterwards(tmp_path):
    code, text = run(CALL.format(", options={'wait': 'true'}"), TMPDIR=str(tmp_path))
    assert code == 0, text
    assert list(tmp_path.iterdir()) == []
