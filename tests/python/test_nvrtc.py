# SPDX-License-Identifier: Apache-2.0
"""The back end nvrtc, from Python to a simulated GPU: results and gradients beside plain execution,
and what is said when something fails.

tests/gpu has the driver and the compiler that stand in for CUDA's: the same text and the same
launches as on a GPU."""

import os
import subprocess
import sys
import threading

import pytest

import gramme
import gramme.nn.functional as F
from gpu import FAKE, REAL, fresh_numbers, near, on_gpu, same, simulated  # noqa: F401


def test_pointwise_kernels_have_the_bits_of_plain_execution():
    def f(x, m):
        return gramme.where(m, gramme.tanh(x) * gramme.exp(-x), x / 3) + x[:, :1]

    x = gramme.randn(33, 70)
    same(on_gpu(f)(x, x > 0), f(x, x > 0))


@pytest.mark.parametrize("columns", [3, 100, 1500])
def test_softmax_and_layer_norm_are_near_plain_execution(columns):
    def f(x, w, b):
        return F.softmax(x, -1), F.layer_norm(x, (columns,), w, b)

    x, w, b = gramme.randn(6, columns), gramme.randn(columns), gramme.randn(columns)
    for got, want in zip(on_gpu(f)(x, w, b), f(x, w, b)):
        near(got, want)


NUMBERS_THAT_ARE_SIZES = {
    "a factor": lambda x: x * x.shape[1],
    "a divisor": lambda x: x / x.shape[0],
    "a sum of both": lambda x: x + (x.shape[0] + x.shape[1]),
    "a mean": lambda x: x.mean(-1),
    "a variance": lambda x: x.var(-1),
    "filled": lambda x: gramme.full_like(x, x.shape[1]) - x,
    "counted from": lambda x: x + gramme.arange(x.shape[1], 2 * x.shape[1], device=x.device),
    "counted by": lambda x: x
    + gramme.arange(0, x.shape[0] * x.shape[1], x.shape[0], device=x.device),
}


@pytest.mark.parametrize("program", NUMBERS_THAT_ARE_SIZES)
def test_a_size_that_is_computed_with_is_the_size_of_the_run(program):
    f = NUMBERS_THAT_ARE_SIZES[program]
    compiled = gramme.compile(f, backend="nvrtc", fullgraph=True, dynamic=True)
    for shape in ((6, 5), (3, 7), (2, 100)):
        x = gramme.randn(*shape)
        near(compiled(x.cuda()).cpu(), f(x))


def test_attention_with_a_causal_mask_is_near_plain_execution():
    def attention(q, k, v, mask):
        scores = q @ k.transpose(-1, -2) * 0.25
        return F.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v

    q, k, v = (gramme.randn(2, 3, 20, 16) for _ in range(3))
    mask = gramme.triu(gramme.ones(20, 20), 1) > 0
    near(on_gpu(attention)(q, k, v, mask), attention(q, k, v, mask))


def test_training_steps_are_near_plain_execution():
    def run(compiled):
        gramme.manual_seed(1)
        model = gramme.nn.Sequential(
            gramme.nn.Linear(12, 40), gramme.nn.ReLU(), gramme.nn.Linear(40, 5)
        )
        optimizer = gramme.optim.SGD(model.parameters(), lr=0.1)
        x, t = gramme.randn(30, 12), gramme.randint(0, 5, (30,))

        def loss(x, t):
            return F.cross_entropy(model(x), t)

        step = on_gpu(loss) if compiled else loss
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            value = step(x, t)
            value.backward()
            optimizer.step()
            losses.append(float(value))
        return losses, [p.detach() for p in model.parameters()]

    (plain, weights), (losses, compiled) = run(False), run(True)
    assert plain == pytest.approx(losses, rel=1e-5)
    assert losses[-1] < losses[0]
    for a, b in zip(weights, compiled):
        near(a, b)


def test_a_convolutional_net_trains_on_the_device_and_compiled():
    def run(place):
        gramme.manual_seed(1)
        model = gramme.nn.Sequential(
            gramme.nn.Conv2d(2, 6, 3, padding=1),
            gramme.nn.ReLU(),
            gramme.nn.MaxPool2d(2),
            gramme.nn.Conv2d(6, 4, 3, groups=2),
            gramme.nn.Flatten(),
            gramme.nn.Linear(4 * 4 * 4, 5),
        )
        x, t = gramme.randn(3, 2, 12, 12), gramme.randint(0, 5, (3,))
        if place == "cuda":
            model, x, t = model.to("cuda"), x.cuda(), t.cuda()

        def loss(x, t):
            return F.cross_entropy(model(x), t)

        value = (on_gpu(loss) if place == "compiled" else loss)(x, t)
        value.backward()
        return [value.detach().cpu()] + [p.grad.cpu() for p in model.parameters()]

    plain = run("cpu")
    for place in ("cuda", "compiled"):
        for want, got in zip(plain, run(place)):
            near(want, got, 1e-4)


def test_embeddings_and_their_gradients_are_near_plain_execution():
    weight = gramme.randn(11, 7, requires_grad=True)
    index = gramme.tensor([[1, 3, 3], [10, 0, 1]])

    def f(weight, index):
        return (F.embedding(index, weight) ** 2).sum()

    grads = []
    for fn in (f, on_gpu(f)):
        weight.grad = None
        fn(weight, index).backward()
        grads.append(weight.grad)
    near(*grads)


def test_random_numbers_are_the_cpus():
    def f(x):
        return F.dropout(x, 0.5), gramme.rand(5, 9), gramme.randn(300)

    x = gramme.ones(40, 10)
    gramme.manual_seed(7)
    plain = f(x)
    gramme.manual_seed(7)
    compiled = on_gpu(f)(x)
    same(plain[0], compiled[0])
    same(plain[1], compiled[1])
    (near if REAL else same)(
        plain[2], compiled[2]
    )  # the simulator's logarithm and cosine are the CPU's


def test_strided_results_and_operands_that_begin_anywhere():
    def f(x):
        return x.t() + 1, x[1:, 1:] * 2

    x = gramme.randn(31, 21)[:, 1:]
    for got, want in zip(on_gpu(f)(x), f(x)):
        same(got, want)
        assert got.stride() == want.stride()


def test_constants_and_whole_numbers():
    table = gramme.tensor([3, 1, 2])

    def f(i):
        return table * i // 2, gramme.arange(4) + i.sum(), i.argmax(), gramme.cumsum(i, 0)

    i = gramme.tensor([5, -7, 9])
    for got, want in zip(on_gpu(f)(i), f(i)):
        same(got, want)


def test_an_index_out_of_range_is_an_error_that_names_the_line():
    def f(x, i):
        y = gramme.exp(x)
        return y.index_select(0, i)

    compiled = on_gpu(f)
    x = gramme.randn(4, 3)
    same(compiled(x, gramme.tensor([3, 0])), f(x, gramme.tensor([3, 0])))
    with pytest.raises(RuntimeError, match="index 4 is out of bounds") as caught:
        compiled(x, gramme.tensor([0, 4]))
    assert str(caught.traceback[-1].statement).strip() == "return y.index_select(0, i)"
    same(compiled(x, gramme.tensor([1, 2])), f(x, gramme.tensor([1, 2])))


# -- Tensors on the device -------------------------------------------------------------------------


def test_tensors_move_and_eager_ops_run_there():
    x = gramme.randn(6, 5)
    y = x.to("cuda")
    assert (
        str(y.device) == "cuda"
        and y.device == gramme.device("cuda")
        and y.device.index == 0
        and x.device.type == "cpu"
    )
    assert y.to("cuda") is y and y.cuda() is y and x.cpu() is x
    z = gramme.tanh(y * 2 + 1).sum(0)
    assert z.device.type == "cuda"
    near(z.cpu(), gramme.tanh(x * 2 + 1).sum(0))
    near((y @ y.t()).to(gramme.device("cpu")), x @ x.t())
    same(y.to(device="cpu", dtype=gramme.float64), x.to(gramme.float64))
    same(y.to(gramme.float16).cpu(), x.to(gramme.float16))
    same(y[1:, 1].cpu(), x[1:, 1])
    assert float(y[2, 3]) == float(x[2, 3]) and repr(y.cpu()) == repr(x)
    y += 1
    same(y.cpu(), x + 1)


def test_devices_do_not_mix_and_memory_is_not_read_by_the_cpu():
    x = gramme.randn(3)
    y = x.cuda()
    with pytest.raises(RuntimeError, match="some on 'cuda' and some on 'cpu'"):
        x + y
    with pytest.raises(RuntimeError, match="some on 'cuda' and some on 'cpu'"):
        on_gpu(lambda x, y: gramme.tanh(x) * y)(x, y)
    for read in (lambda: y.numpy(), lambda: memoryview(y), lambda: x.to("mars")):
        with pytest.raises((TypeError, BufferError, RuntimeError)):
            read()


def test_a_compiled_function_takes_and_gives_device_tensors():
    def f(x, w):
        return F.softmax(x @ w, -1) * 2

    x, w = gramme.randn(9, 12), gramme.randn(12, 7)
    compiled = on_gpu(f)
    got = compiled(x.cuda(), w.cuda())
    assert got.device.type == "cuda"
    near(got.cpu(), f(x, w))
    near(compiled(x, w), f(x, w))  # another entry: the CPU's tensors


def test_a_copy_inside_of_a_function_is_no_part_of_a_graph():
    def f(x):
        return (x * 2).cpu() + 1

    x = gramme.randn(4)
    got = gramme.compile(f, backend="nvrtc")(x.cuda())
    assert got.device.type == "cpu"
    same(got, f(x))


def test_gradients_of_device_tensors_stay_there():
    x, w = gramme.randn(6, 4), gramme.randn(4, 3)
    grads = []
    for device in ("cpu", "cuda"):
        a = w.clone().to(device).requires_grad_()
        (gramme.tanh(x.to(device) @ a)).sum().backward()
        assert str(a.grad.device) == device
        grads.append(a.grad.cpu())
    near(*grads)


def test_memory_is_counted():
    before = gramme.cuda.memory_allocated()
    x = gramme.ones(1000).cuda()
    assert gramme.cuda.is_available() and gramme.cuda.device_count() == 1
    assert before + 4000 <= gramme.cuda.memory_allocated() <= before + 4608
    assert gramme.cuda.max_memory_allocated() >= gramme.cuda.memory_allocated()
    gramme.cuda.synchronize()
    del x
    assert gramme.cuda.memory_allocated() == before <= gramme.cuda.memory_reserved()


# -- Streams ---------------------------------------------------------------------------------------


def test_attention_is_near_plain_execution():
    q, k, v = (gramme.randn(2, 3, 40, 32) for _ in range(3))
    for causal in (False, True):
        f = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        near(on_gpu(f)(q, k, v), f(q, k, v))


def test_streams_are_ordered_by_events_and_each_thread_has_its_own():
    cuda, x = gramme.cuda, gramme.randn(1000)
    s, own = cuda.Stream(), cuda.default_stream()
    assert cuda.current_stream() == own != s
    with cuda.stream(s):
        assert cuda.current_stream() == s
        y = on_gpu(lambda x: gramme.tanh(x) * 2)(x.cuda()) + 1
        done = s.record_event()
    assert cuda.current_stream() == own
    own.wait_event(done)
    cuda.record_stream(y, own)
    same((y * 3).cpu(), (gramme.tanh(x) * 2 + 1) * 3)
    own.synchronize()
    assert done.query() and s.query() and own.query()
    seen = []
    with cuda.stream(s):
        thread = threading.Thread(target=lambda: seen.append(cuda.current_stream()))
        thread.start()
        thread.join()
    assert seen == [own]


@simulated
def test_who_does_not_wait_for_another_stream_reads_rubbish():
    x, s = gramme.randn(1000), gramme.cuda.Stream()
    with gramme.cuda.stream(s):
        y = x.cuda() * 2
    early = (y + 1).cpu()
    gramme.cuda.synchronize()
    assert not bool((early == x * 2 + 1).all())
    same((y + 1).cpu(), x * 2 + 1)


@simulated
@pytest.mark.parametrize("recorded", [True, False])
def test_memory_that_another_stream_uses_waits_for_it(recorded):
    cuda, x, s = gramme.cuda, gramme.randn(5000), gramme.cuda.Stream()
    with cuda.stream(s):
        y = x.cuda() * 2
    cuda.current_stream().wait_stream(s)
    z = y + 1  # not begun yet: nobody waits for it
    if recorded:
        cuda.record_stream(y, cuda.current_stream())
    del y
    with cuda.stream(s):
        other = gramme.zeros(5000).cuda() * 1
    s.synchronize()
    assert bool((z.cpu() == x * 2 + 1).all()) == recorded  # if not, the memory has been given away
    assert float(other.cpu().sum()) == 0


def test_events_tell_time_and_wait():
    a, b = gramme.cuda.Event(enable_timing=True), gramme.cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        a.elapsed_time(b)
    a.record()
    y = gramme.randn(100).cuda() + 1
    b.record()
    b.synchronize()
    assert a.elapsed_time(b) >= 0 and b.query() and y.device.type == "cuda"


def test_dlpack_goes_with_a_stream():
    x, s = gramme.randn(1000), gramme.cuda.Stream()
    y = x.cuda() * 2
    assert y.__dlpack_device__() == (2, 0)
    capsule = y.__dlpack__(
        stream=s.cuda_stream, max_version=(1, 0)
    )  # s waits for what y's stream was given
    with gramme.cuda.stream(s):
        z = gramme.from_dlpack(capsule)
        assert z.device.type == "cuda"
        same((z + 1).cpu(), x * 2 + 1)
    same(gramme.from_dlpack(y).cpu(), x * 2)
    y.__dlpack__(stream=-1), y.__dlpack__(stream=1), y.__dlpack__()
    with pytest.raises(ValueError, match="stream=0"):
        y.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="where it is"):
        y.__dlpack__(dl_device=(1, 0))


def test_a_stream_of_another_library_is_taken_by_its_handle():
    s = gramme.cuda.Stream()
    with gramme.cuda.stream(gramme.cuda.ExternalStream(s.cuda_stream)):
        assert gramme.cuda.current_stream() == s


# -- What fails ends a process's use of the GPU: processes of their own ----------------------------

PROGRAM = """
import gramme
def f(x):
    return gramme.tanh(x * 2)
x = gramme.ones(5)
c = gramme.compile(f, backend="nvrtc"OPTIONS)
for _ in range(2):
    try:
        print("result", c(x))
    except Exception as e:
        print(type(e).__name__, e)
print("still", float(f(x)[0]) > 0.9)
"""


def run(tmp_path, options="", **environment):
    (tmp_path / "program.py").write_text(PROGRAM.replace("OPTIONS", options))
    env = {
        **os.environ,
        "GRAMME_CUDA_DRIVER": FAKE,
        "GRAMME_NVRTC": FAKE,
        "GRAMME_CUBLASLT": FAKE,
        **environment,
    }
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        capture_output=True,
        text=True,
        env=env,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@simulated
def test_a_fault_of_a_kernel_names_it_and_the_line_and_the_cpu_goes_on(tmp_path):
    out = run(tmp_path, GM_FAKE_FAIL="kernel:1")
    first, second, still = out.splitlines()
    assert "illegal memory access" in first and "f0_mul_tanh (mul at program.py:4)" in first
    assert second.startswith("BackendError") and "is lost to this process" in second
    assert still == "still True"


@simulated
def test_a_call_for_which_the_device_has_no_memory_is_plain_pythons_and_passes(tmp_path):
    first, second, still = run(tmp_path, GM_FAKE_FAIL="alloc:1").splitlines()
    assert first.startswith("result")
    assert second.startswith("result") and still == "still True"


@simulated
def test_no_driver_is_said_and_what_to_do(tmp_path):
    first, _, still = run(tmp_path, GRAMME_CUDA_DRIVER="/nonexistent/libcuda.so.1").splitlines()
    assert "GRAMME_CUDA_DRIVER=/nonexistent/libcuda.so.1 cannot be opened" in first
    assert still == "still True"


@simulated
def test_without_a_driver_a_named_architecture_compiles_and_the_run_fails(tmp_path):
    first, _, still = run(
        tmp_path, ', options={"arch": "sm_90"}', GRAMME_CUDA_DRIVER="/nonexistent/libcuda.so.1"
    ).splitlines()
    assert first.startswith("BackendError") and "run: GRAMME_CUDA_DRIVER" in first
    assert still == "still True"


@simulated
def test_no_compiler_is_said_and_what_to_install(tmp_path):
    first, _, still = run(tmp_path, GRAMME_NVRTC="relative.so").splitlines()
    assert "GRAMME_NVRTC=relative.so is no absolute path" in first
    assert still == "still True"


@simulated
def test_inspect_tells_what_the_machine_has():
    def inspect(**environment):
        env = {**os.environ, **environment}
        return subprocess.run(
            [os.environ["GM_PROGRAM"], "inspect", "nvrtc"], capture_output=True, text=True, env=env
        ).stdout

    there = inspect()
    assert (
        "compiler   NVRTC 13.0" in there
        and "cuda:0     simulated GPU 0, compute capability 9.0" in there
    )
    missing = inspect(GRAMME_CUDA_DRIVER="/nonexistent/a.so", GRAMME_NVRTC="/nonexistent/b.so")
    assert "compiler   none: GRAMME_NVRTC=/nonexistent/b.so cannot be opened" in missing
    assert "devices    none: GRAMME_CUDA_DRIVER=/nonexistent/a.so cannot be opened" in missing


@simulated
def test_opt_shows_the_cuda_text(tmp_path):
    (tmp_path / "x.gm").write_text("f (%x: f32[8]) -> (%0) {\n  %0 = tanh %x\n}\n")
    argv = [
        os.environ["GM_PROGRAM"],
        "opt",
        "--backend",
        "nvrtc",
        "--emit",
        "cuda",
        "--option",
        "arch=sm_90",
        str(tmp_path / "x.gm"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "GM_KERNEL (f0_tanh, 2, 1, 256)" in done.stdout and "V4_f32" in done.stdout


# GPH-21
def test_the_child_of_a_fork_is_told_that_it_has_no_gpu_and_its_parent_goes_on(tmp_path):
    (tmp_path / "fork.py").write_text(
        """
import os
import gramme

x = gramme.ones(5)
c = gramme.compile(lambda x: gramme.tanh(x * 2), backend="nvrtc")
y = c(x).cuda()
read, write = os.pipe()
if os.fork() == 0:
    said = []
    for use in (lambda: c(x), lambda: c(gramme.ones(7)), lambda: y + 1, lambda: y.cpu(), lambda: x.cuda()):
        try:
            said.append(f"worked: {use()}")
        except Exception as e:
            said.append(f"{type(e).__name__}: {e}")
    said.append(str(gramme.tanh(x)[0] > 0.7))
    del y, c
    os.write(write, "\\n".join(said).encode())
    os._exit(0)
os.close(write)
print(os.fdopen(read).read())
os.wait()
print("parent", float((y + 1).cpu()[0]) > 1.9, float(c(x)[0]) > 0.9)
"""
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "fork.py")], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    *refused, cpu, parent = done.stdout.splitlines()
    assert len(refused) == 5 and "True" in cpu and parent == "parent True True", done.stdout
    for line in refused:
        assert "forked after the back end had opened its device" in line and "spawn" in line, line


# -- Kernels that are kept on disk -----------------------------------------------------------------

KEPT = """
import time
import gramme as g
x = (g.arange(100.0) / 7).requires_grad_()
fn = g.compile(lambda x: (g.tanh(x) * FACTOR).sum(), backend="nvrtc")
before = time.perf_counter()
y = fn(x)
y.backward()
print(round((time.perf_counter() - before) * 1e3, 3), float(y), float(x.grad[3]), str(g.exp(x.detach().cuda()).cpu()[1]))
"""


@pytest.fixture
def kept(tmp_path):
    """Runs KEPT with a cache in this folder: how many compilers ran, what was printed, what was
    said."""
    log = tmp_path / "log"
    counted = tmp_path / "counted-cc"
    counted.write_text(f'#!/bin/sh\necho run >>{log}\nexec cc "$@"\n')
    counted.chmod(0o755)

    def run(factor=3, **environment):
        before = log.read_text().count("run") if log.exists() else 0
        env = {
            **os.environ,
            "GRAMME_CUDA_DRIVER": FAKE,
            "GRAMME_NVRTC": FAKE,
            "GRAMME_CUBLASLT": FAKE,
            "GM_SIM_CC": str(counted),
            "GRAMME_LOGS": "cache",
            "GRAMME_CACHE_DIR": str(tmp_path / "cache"),
            "GRAMME_CACHE": "1",
            **environment,
        }
        done = subprocess.run(
            [sys.executable, "-c", KEPT.replace("FACTOR", str(factor))],
            capture_output=True,
            text=True,
            env=env,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        ms, *numbers = done.stdout.split(maxsplit=1)
        return (log.read_text().count("run") if log.exists() else 0) - before, numbers, done.stderr

    run.entries = lambda: sorted(p for p in (tmp_path / "cache").iterdir() if len(p.name) == 64)
    return run


@simulated
def test_a_second_process_finds_its_kernels_and_compiles_nothing(kept):
    first, numbers, _ = kept()
    assert first >= 2  # forward and backward in one, the eager exp in another
    assert kept()[:2] == (0, numbers)
    assert kept(factor=4)[0] >= 1


@simulated
def test_the_architecture_and_the_driver_are_part_of_the_key(kept):
    first, numbers, _ = kept()
    for other in ({"GM_FAKE_CAPABILITY": "80"}, {"GM_FAKE_VERSION": "13010"}):
        assert kept(**other)[:2] == (first, numbers)
        assert kept(**other)[:2] == (0, numbers)
    assert kept()[:2] == (0, numbers)


@simulated
def test_a_damaged_entry_is_refused_and_compiled_again(kept):
    first, numbers, _ = kept()
    for entry in kept.entries():
        data = bytearray(entry.read_bytes())
        data[len(data) // 2] ^= 4
        entry.chmod(0o600)
        entry.write_bytes(data)
    again, same_numbers, said = kept()
    assert (again, same_numbers) == (first, numbers) and "compiled again" in said
    assert kept()[:2] == (0, numbers)
