# SPDX-License-Identifier: Apache-2.0
"""Matrix products on device cuda by cuBLASLt and by gramme's own kernels, and launches that become
CUDA graphs, beside plain execution."""

import subprocess
import sys

import pytest

import gramme
import gramme.nn.functional as F
from gpu import FAKE, fresh_numbers, near, on_gpu, simulated  # noqa: F401

TOLERANCES = {
    gramme.float32: 1e-5,
    gramme.float64: 1e-12,
    gramme.float16: 2e-3,
    gramme.bfloat16: 1.6e-2,
}

# Shapes of the operands, and what is made of them.  The letters of a name are what the library has
# to know: transposed operands, batches.
PRODUCTS = {
    "a product": (lambda a, b: a @ b, (5, 7), (7, 9)),
    "one row": (lambda a, b: a @ b, (1, 7), (7, 9)),
    "one column": (lambda a, b: a @ b, (6, 7), (7, 1)),
    "a depth of one": (lambda a, b: a @ b, (6, 1), (1, 4)),
    "a transposed": (lambda a, b: a.t() @ b, (7, 5), (7, 9)),
    "b transposed": (lambda a, b: a @ b.t(), (5, 7), (9, 7)),
    "both transposed": (lambda a, b: a.t() @ b.t(), (7, 5), (9, 7)),
    "parts of rows": (lambda a, b: a[1:, 2:] @ b[2:], (6, 8), (8, 10)),
    "every other column": (lambda a, b: a @ b[:, ::2], (6, 8), (8, 10)),
    "an odd address": (lambda a, b: a.flatten()[1:36].reshape(5, 7) @ b, (6, 7), (7, 9)),
    "a repeated row": (lambda a, b: a.expand(5, 7) @ b, (1, 7), (7, 3)),
    "itself": (lambda a: a @ a, (5, 5)),
    "itself transposed": (lambda a: a @ a.t(), (5, 8)),
    "a matrix and a vector": (lambda a, b: a @ b, (5, 7), (7,)),
    "two vectors": (lambda a, b: a @ b, (7,), (7,)),
    "batches": (lambda a, b: a @ b, (3, 5, 7), (3, 7, 4)),
    "many times one": (lambda a, b: a @ b, (3, 5, 7), (7, 4)),
    "one times many": (lambda a, b: a @ b, (5, 7), (3, 7, 4)),
    "batches of batches": (lambda a, b: a @ b, (2, 3, 5, 7), (2, 3, 7, 4)),
    "batches that are not one after the other": (
        lambda a, b: a.transpose(1, 2) @ b.transpose(1, 2),
        (2, 5, 3, 7),
        (2, 7, 3, 4),
    ),
    "no rows": (lambda a, b: a @ b, (0, 7), (7, 9)),
    "no depth": (lambda a, b: a @ b, (4, 0), (0, 9)),
    "a row is added": (lambda a, b, c: F.linear(a, b, c), (5, 7), (9, 7), (9,)),
    "a row is added, then relu": (lambda a, b, c: F.relu(F.linear(a, b, c)), (5, 7), (9, 7), (9,)),
    "a row is added to batches": (
        lambda a, b, c: F.relu(F.linear(a, b, c)),
        (2, 5, 7),
        (9, 7),
        (9,),
    ),
    "a row is added to separate batches": (lambda a, b, c: a @ b + c, (3, 5, 7), (3, 7, 4), (4,)),
    "a column is added": (lambda a, b, c: a @ b + c, (5, 7), (7, 9), (5, 1)),
    "a matrix is added": (lambda a, b, c: a @ b + c, (5, 7), (7, 9), (5, 9)),
    "to a matrix, then relu": (lambda a, b, c: F.relu(c + a @ b), (4, 5, 7), (7, 9), (4, 5, 9)),
    "relu": (lambda a, b: F.relu(a @ b), (5, 7), (7, 9)),
    "relu twice": (lambda a, b, c: F.relu(F.relu(a @ b + c) @ b.t()), (5, 7), (7, 9), (9,)),
    "two products are added": (lambda a, b, c: a @ b + a @ c, (5, 7), (7, 9), (7, 9)),
    "others want the product, too": (
        lambda a, b, c: (F.relu(a @ b + c), a @ b),
        (5, 7),
        (7, 9),
        (9,),
    ),
    "something else follows": (lambda a, b: F.gelu(a @ b) * 2, (5, 7), (7, 9)),
}


@pytest.mark.parametrize("who", ["cublas", "own"])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_products_are_near_plain_execution(dtype, who):
    for name, (f, *shapes) in PRODUCTS.items():
        operands = [gramme.randn(*shape).to(dtype) for shape in shapes]
        got, want = on_gpu(f, products=who)(*operands), f(*operands)
        for g, w in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, want))):
            try:
                near(g, w, TOLERANCES[dtype])
            except AssertionError as e:
                raise AssertionError(name) from e


@pytest.mark.parametrize("who", ["cublas", "own"])
def test_one_compilation_of_products_serves_all_sizes(who):
    linear = gramme.compile(
        lambda a, b, c: F.relu(F.linear(a, b, c)),
        backend="nvrtc",
        fullgraph=True,
        dynamic=True,
        options={"products": who},
    )
    for rows in (5, 6, 1, 9, 0, 130):
        a, b, c = gramme.randn(rows, 7), gramme.randn(9, 7), gramme.randn(9)
        near(linear(a, b, c), F.relu(F.linear(a, b, c)))
    batches = gramme.compile(
        lambda a, b: a @ b, backend="nvrtc", fullgraph=True, dynamic=True, options={"products": who}
    )
    for n, rows, depth, columns in (
        (2, 3, 4, 5),
        (3, 4, 5, 6),
        (4, 7, 1, 2),
        (1, 2, 8, 1),
        (2, 6, 0, 3),
        (5, 1, 3, 4),
    ):
        a, b = gramme.randn(n, rows, depth), gramme.randn(n, depth, columns)
        near(batches(a, b), a @ b)


@pytest.mark.parametrize("who", ["cublas", "own"])
def test_relu_of_a_product_lets_nan_through(who):
    a, b = gramme.ones(4, 4), gramme.ones(4, 4)
    a[1, 2] = float("nan")
    row = on_gpu(lambda a, b, c: F.relu(a @ b + c), products=who)(a, b, gramme.ones(4))
    assert bool((row[1] != row[1]).all()) and float(row[0, 0]) == 5


def test_large_products_are_near_plain_execution():
    """Of sizes for which the library has other kernels, with a workspace of its own."""
    for rows, depth, columns in ((257, 300, 129), (64, 1024, 64), (33, 65, 1000)):
        a, b, c = gramme.randn(rows, depth), gramme.randn(columns, depth), gramme.randn(columns)
        near(
            on_gpu(lambda a, b, c: F.relu(F.linear(a, b, c)))(a, b, c),
            F.relu(F.linear(a, b, c)),
            1e-4,
        )


def test_who_makes_products_is_an_option_with_three_values():
    with pytest.raises(ValueError, match="products.*auto, cublas, own"):
        gramme.compile(lambda a: a @ a, backend="nvrtc", options={"products": "mine"})(
            gramme.ones(2, 2)
        )


PROGRAM = """
import gramme, gramme.nn.functional as F
f = gramme.compile(lambda a, b, c: F.relu(a @ b + c), backend="nvrtc", fullgraph=True, options={"products": "WHO"})
a, b, c = gramme.ones(3, 4), gramme.ones(4, 5), gramme.ones(5)
try:
    print(float(f(a, b, c).sum()))
except Exception as e:
    print(type(e).__name__, e)
"""


def run(program, **environment):
    import os

    env = {
        **os.environ,
        "GRAMME_CUDA_DRIVER": FAKE,
        "GRAMME_NVRTC": FAKE,
        "GRAMME_CUBLASLT": FAKE,
        "GRAMME_CACHE": "0",
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@simulated
def test_what_follows_a_product_is_a_part_of_it():
    out, log = run(PROGRAM.replace("WHO", "cublas"), GRAMME_LOGS="output_code")
    assert out == "75.0\n"
    assert "cuBLASLt, f32, a row is added, relu" in log and "GM_KERNEL (f" not in log


@simulated
def test_without_cublas_kernels_of_grammes_own_do_it_and_asking_for_it_says_what_to_install():
    missing = {"GRAMME_CUBLASLT": "/nonexistent/libcublasLt.so"}
    assert run(PROGRAM.replace("WHO", "auto"), **missing)[0] == "75.0\n"
    said = run(PROGRAM.replace("WHO", "cublas"), **missing)[0]
    assert (
        said.startswith("BackendError")
        and "GRAMME_CUBLASLT=/nonexistent/libcublasLt.so cannot be opened" in said
    )


# -- CUDA graphs -----------------------------------------------------------------------------------


def step(x, w, b):
    return F.softmax(F.relu(F.linear(x, w, b)), -1) @ w


def test_launches_that_come_again_give_the_results_of_plain_ones():
    x, w, b = gramme.randn(5, 7), gramme.randn(9, 7), gramme.randn(9)
    X, W, B = x.cuda(), w.cuda(), b.cuda()
    compiled = gramme.compile(step, backend="nvrtc", fullgraph=True, mode="reduce-overhead")
    kept = []
    for i in range(12):
        got = compiled(X, W, B)
        near(got.cpu(), step(x, w, b))
        if i % 3 == 0:
            kept.append((got, step(x, w, b)))  # its memory does not come again
        x.mul_(1.1)
        X.mul_(1.1)
    for got, want in kept:
        near(got.cpu(), want)


def test_training_with_graphs_is_training():
    def model():
        return gramme.nn.Sequential(
            gramme.nn.Linear(12, 40), gramme.nn.ReLU(), gramme.nn.Linear(40, 5)
        )

    here, there = model(), model()
    there.load_state_dict(here.state_dict())
    there = there.cuda()
    loss = gramme.compile(
        lambda x, t: F.mse_loss(there(x), t), fullgraph=True, mode="reduce-overhead"
    )
    optimizers = [gramme.optim.SGD(m.parameters(), lr=0.1) for m in (here, there)]
    for _ in range(20):
        x, t = gramme.randn(30, 12), gramme.randn(30, 5)
        for o in optimizers:
            o.zero_grad()
        want, got = F.mse_loss(here(x), t), loss(x.cuda(), t.cuda())
        want.backward()
        got.backward()
        for o in optimizers:
            o.step()
        near(got.detach().cpu(), want.detach(), 1e-4)


def test_graphs_of_one_function_share_what_they_compute_in():
    def f(x, w):
        for _ in range(3):
            x = F.softmax(x @ w, -1)
        return x.sum()

    x, w = gramme.randn(256, 64).cuda(), gramme.randn(64, 64).cuda()
    compiled = gramme.compile(f, backend="nvrtc", fullgraph=True, mode="reduce-overhead")
    compiled(x, w)
    gramme.cuda.synchronize()
    before, held = gramme.cuda.memory_allocated(), []
    for i in range(8):  # each place of an operand is a graph of its own
        held.append(x.clone())
        for _ in range(3):
            near(compiled(held[-1], w).cpu(), f(x.cpu(), w.cpu()), 1e-4)
    assert gramme.cuda.memory_allocated() - before < 8 * 256 * 64 * 4 + 3 * 256 * 64 * 4 + 65536


GRAPHS = """
import gramme, gramme.nn.functional as F
def step(x, w, b):
    return F.softmax(F.relu(F.linear(x, w, b)), -1) @ w
compiled = gramme.compile(step, backend="nvrtc", fullgraph=True, mode="MODE")
x, w, b = (gramme.ones(*s).cuda() for s in ((5, 7), (9, 7), (9,)))
for _ in range(20):
    y = compiled(x, w, b)
held = [compiled(x, w, b) for _ in range(300)]
print(float(y.sum()))
"""


@simulated
def test_calls_that_come_again_are_one_launch_and_those_that_do_not_are_plain():
    sums, said = zip(
        *(
            run(GRAPHS.replace("MODE", mode), GM_FAKE_VERBOSE="1")
            for mode in ("default", "reduce-overhead")
        )
    )
    assert sums[0] == sums[1]
    launched = [text.count("a graph is launched") for text in said]
    assert launched[0] == 0 and 15 <= launched[1] < 40


@simulated
def test_where_nothing_can_be_captured_all_runs_are_plain():
    out, said = run(
        GRAPHS.replace("MODE", "reduce-overhead"), GM_FAKE_VERBOSE="1", GM_FAKE_CAPTURE="0"
    )
    assert out == run(GRAPHS.replace("MODE", "default"))[0] and "a graph is launched" not in said


def test_modes_have_names_and_exclude_options():
    with pytest.raises(ValueError, match="mode must be one of 'default', 'reduce-overhead'"):
        gramme.compile(step, mode="fast")
    with pytest.raises(RuntimeError, match="mode or options"):
        gramme.compile(step, mode="reduce-overhead", options={"products": "own"})
    x = gramme.ones(3)
    for mode in ("default", "reduce-overhead", "max-autotune"):
        assert (
            float(gramme.compile(lambda x: x + 1, mode=mode)(x).sum()) == 6
        )  # on the CPU it means nothing


def test_the_default_back_end_takes_device_tensors_to_nvrtc():
    from gramme._dynamo.utils import counters

    def f(x, w):
        return F.softmax(F.relu(x @ w), -1)

    x, w = gramme.randn(5, 7), gramme.randn(7, 9)
    compiled = gramme.compile(f, backend="auto", fullgraph=True)
    X, W = x.cuda(), w.cuda()
    assert gramme.compiler.wait(
        100
    )  # what others left to be done in the background is no compilation of this
    before = counters["backend"]["compiles"]
    near(compiled(X, W).cpu(), f(x, w))
    near(compiled(X, W).cpu(), f(x, w))
    assert (
        counters["backend"]["compiles"] == before + 1
    )  # one graph, not a kernel for each operator
    near(compiled(x, w), f(x, w))  # and the CPU's are the CPU's
