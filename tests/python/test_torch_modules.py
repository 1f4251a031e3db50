# SPDX-License-Identifier: Apache-2.0
"""Modules of torch's that programs ask whether something is there: jit, distributed, profiler,
devices, backends; and small tools.

The expected values are torch 2.13's, in the state that each test names.
"""

import collections
import importlib
import math
import pickle
import sys

import pytest

import gramme as G


def said(function, error, text):
    with pytest.raises(error, match=text):
        function()


# -- jit, as in torch with PYTORCH_JIT=0


def test_script_gives_back_what_it_gets():
    f, layer = lambda x: x + 1, G.nn.Linear(1, 1)
    for mark in (
        G.jit.script,
        G.jit.trace,
        G.jit.unused,
        G.jit.export,
        G.jit.ignore,
        G.jit.script_method,
        G.jit.script_if_tracing,
        G.jit.interface,
    ):
        assert mark(f) is f
    assert (
        G.jit.ignore(drop=True)(f) is f
        and G.jit.script(layer) is layer
        and G.jit.trace(layer, (G.ones(1, 1),)) is layer
    )
    assert (
        not G.jit.is_scripting()
        and not G.jit.is_tracing()
        and G.jit.annotate(int, 3) == 3
        and not isinstance(layer, G.jit.ScriptModule)
    )
    assert issubclass(G.jit.ScriptModule, G.nn.Module) and issubclass(G.jit.TracerWarning, Warning)
    said(
        lambda: G.jit.save(layer, "x"), NotImplementedError, "gramme has no jit.save: .*gramme.save"
    )


@pytest.mark.parametrize(
    "value, kind, want",
    [
        ([1], list[int], True),
        ([1, "a"], list[int], False),
        ({"a": [1]}, dict[str, list[int]], True),
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        (None, int | None, True),
        (2.0, int | None, False),
        (2, (int, str), True),
    ],
)
def test_isinstance_looks_into_containers(value, kind, want):
    assert G.jit.isinstance(value, kind) is want


def test_a_scripted_function_is_recorded():
    @G.jit.script
    def twice(x):
        return x * 2 if G.jit.is_scripting() or G.jit.is_tracing() else x * 3

    assert G.compile(lambda x: twice(x) + 1, backend="eager", fullgraph=True)(
        G.ones(2)
    ).tolist() == [4.0, 4.0]


# -- distributed, before init_process_group()


def test_there_is_no_group_of_processes():
    d = G.distributed
    assert (
        not d.is_available()
        and not d.is_initialized()
        and not d.is_nccl_available()
        and d.group.WORLD is None
        and d.GroupMember.WORLD is None
    )
    for name in (
        "get_rank",
        "get_world_size",
        "barrier",
        "get_backend",
        "all_reduce",
        "broadcast",
        "all_gather_object",
        "destroy_process_group",
    ):
        said(
            getattr(d, name),
            ValueError,
            (
                f"distributed.{name}\\(\\): there is no group of processes.*ask "
                "distributed.is_initialized\\(\\)"
            ),
        )
    said(d.init_process_group, NotImplementedError, "gramme works in one process")
    said(d.ProcessGroup, NotImplementedError, "gramme works in one process")
    assert (
        not isinstance(None, d.ProcessGroup)
        and pickle.loads(pickle.dumps(d.ReduceOp.SUM)) is d.ReduceOp.SUM
    )
    assert [
        getattr(d.ReduceOp, name).value for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX")
    ] == [0, 1, 2, 3, 4]
    assert d.Backend("NCCL") == d.Backend.NCCL == "nccl"
    said(
        lambda: G.nn.parallel.DistributedDataParallel(G.nn.Linear(1, 1)),
        RuntimeError,
        "needs several processes",
    )


PARTS = [  # n, drop_last, what each of three gets
    (10, False, [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]),
    (10, True, [[0, 3, 6], [1, 4, 7], [2, 5, 8]]),
    (2, False, [[0], [1], [0]]),
    (2, True, [[], [], []]),
    (7, False, [[0, 3, 6], [1, 4, 0], [2, 5, 1]]),
    (0, False, [[], [], []]),
]


@pytest.mark.parametrize("n, drop_last, want", PARTS)
def test_each_process_takes_its_part(n, drop_last, want):
    from gramme.utils.data import DistributedSampler

    make = lambda rank, **more: DistributedSampler(
        range(n), num_replicas=3, rank=rank, drop_last=drop_last, **more
    )
    assert [list(make(rank, shuffle=False)) for rank in range(3)] == want
    mixed = [make(rank, seed=5) for rank in range(3)]
    assert (
        [len(list(part)) for part in mixed]
        == [len(part) for part in want]
        == [len(part) for part in mixed]
    )
    if n == 10:
        before = [list(part) for part in mixed]
        assert {i for part in before for i in part} <= set(range(n)) and before == [
            list(part) for part in mixed
        ]
        for part in mixed:
            part.set_epoch(1)
        assert [list(part) for part in mixed] != before
    said(lambda: make(3), ValueError, "Invalid rank 3, rank should be in the interval \\[0, 2\\]")
    said(lambda: DistributedSampler(range(n)), ValueError, "there is no group of processes")


# -- The profiler


def test_schedules_say_what_to_do_in_each_step():
    action = G.profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    names = [
        "NONE",
        "NONE",
        "WARMUP",
        "RECORD",
        "RECORD_AND_SAVE",
        "NONE",
        "WARMUP",
        "RECORD",
        "RECORD_AND_SAVE",
        "NONE",
        "NONE",
        "NONE",
    ]
    assert [action(i).name for i in range(12)] == names
    said(
        lambda: G.profiler.schedule(wait=0, warmup=0, active=0), ValueError, "active is at least 1"
    )
    assert G.profiler.ProfilerActivity.CPU in G.profiler.supported_activities()
    with G.profiler.record_function("label"):
        assert G.autograd.profiler.record_function("other")(lambda: 3)() == 3
    said(G.profiler.profile, NotImplementedError, "operators are not timed: use Python's cProfile")


# -- Devices


@pytest.mark.parametrize("kind", ["xpu", "mps"])
def test_other_kinds_of_device_are_not_there(kind):
    module = importlib.import_module("gramme." + kind)
    assert (
        module is getattr(G, kind)
        and module.is_available() is False
        and module.device_count() == 0
        and module.memory_allocated() == 0
    )
    assert module.empty_cache() is None and module.manual_seed(1) is None
    said(module.synchronize, RuntimeError, f"there is no device '{kind}'")
    said(
        lambda: module.nothing, AttributeError, f"module 'gramme.{kind}' has no attribute 'nothing'"
    )


def test_the_accelerator_is_the_gpu():
    a = G.accelerator
    assert a.is_available() == G.cuda.is_available() and a.device_count() == G.cuda.device_count()
    if not a.is_available():
        assert a.current_accelerator() is None
        for ask in (a.current_device_index, a.synchronize, a.empty_cache, a.memory_allocated):
            said(ask, RuntimeError, "there is no GPU: .*accelerator.is_available")
        assert G.cuda.is_bf16_supported() is False and not isinstance(G.ones(1), G.cuda.FloatTensor)
        said(lambda: G.cuda.FloatTensor(2), RuntimeError, "cuda")
    assert (G.version.cuda, G.version.hip, G.version.__version__) == (None, None, G.__version__)


def test_switches_of_libraries_are_modules():
    import gramme.backends.cudnn as cudnn
    from gramme.backends import cuda

    cudnn.benchmark = True
    assert (
        G.backends.cudnn.benchmark
        and sys.modules["gramme.backends.cudnn"] is cudnn
        and cudnn.version() is None
        and not cudnn.is_available()
    )
    assert not G.backends.mps.is_built() and cuda.matmul.allow_tf32 is False
    cudnn.benchmark = False
    with cuda.sdp_kernel(enable_flash=False):
        assert not cuda.flash_sdp_enabled() and cuda.math_sdp_enabled()
    assert cuda.flash_sdp_enabled()
    cuda.enable_flash_sdp(False)
    assert not cuda.flash_sdp_enabled()
    cuda.enable_flash_sdp(True)


def test_attention_has_one_kernel_for_every_choice():
    from gramme.nn.attention import SDPBackend, sdpa_kernel

    q = G.randn(1, 2, 3, 4)
    plain = G.nn.functional.scaled_dot_product_attention(q, q, q)
    for choice in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
        with sdpa_kernel(choice):
            assert G.nn.functional.scaled_dot_product_attention(q, q, q).equal(plain)
    said(lambda: sdpa_kernel("math").__enter__(), TypeError, "takes an SDPBackend or several")
    assert [backend.value for backend in SDPBackend] == [-1, 0, 1, 2, 3, 4]


# -- Processes


def _succeeds(index, folder):
    with open(f"{folder}/{index}", "w") as file:
        file.write(str(G.ones(index + 1).sum().item()))


def _raises(index):
    if index == 1:
        raise KeyError("no such thing")


def _exits(index):
    sys.exit(3)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_are_started_and_waited_for(method, tmp_path):
    assert (
        G.multiprocessing.start_processes(
            _succeeds, (str(tmp_path),), nprocs=2, start_method=method
        )
        is None
    )
    assert [(tmp_path / str(i)).read_text() for i in range(2)] == ["1.0", "2.0"]


def test_a_process_that_fails_is_an_error():
    mp = G.multiprocessing
    with pytest.raises(
        mp.ProcessRaisedException,
        match="Process 1 terminated with the following error:(.|\n)*no such thing",
    ) as caught:
        mp.start_processes(_raises, nprocs=2, start_method="fork")
    assert caught.value.error_index == 1 and caught.value.error_pid > 0
    context = mp.start_processes(_exits, nprocs=1, join=False, start_method="fork")
    with pytest.raises(
        mp.ProcessExitedException, match="process 0 terminated with exit code 3"
    ) as caught:
        context.join()
    assert (
        caught.value.exit_code == 3
        and "fork" in mp.get_all_start_methods()
        and mp.get_context("fork").Queue
    )
    assert issubclass(mp.ProcessExitedException, mp.ProcessException) and mp.Manager and mp.Process


# -- Frequencies

FREQUENCIES = [
    (lambda: G.fft.fftfreq(5), [0.0, 0.2, 0.4, -0.4, -0.2]),
    (lambda: G.fft.fftfreq(4, 0.5), [0.0, 0.5, -1.0, -0.5]),
    (lambda: G.fft.fftfreq(4, dtype=G.float16), [0.0, 0.25, -0.5, -0.25]),
    (lambda: G.fft.rfftfreq(5), [0.0, 0.2, 0.4]),
    (lambda: G.fft.rfftfreq(4, 2.0), [0.0, 0.125, 0.25]),
    (lambda: G.fft.rfftfreq(1), [0.0]),
    (lambda: G.fft.fftfreq(0), []),
    (lambda: G.fft.fftshift(G.arange(5)), [3, 4, 0, 1, 2]),
    (
        lambda: G.fft.fftshift(G.arange(12).reshape(3, 4), 1),
        [[2, 3, 0, 1], [6, 7, 4, 5], [10, 11, 8, 9]],
    ),
    (
        lambda: G.fft.ifftshift(G.arange(15).reshape(3, 5)),
        [[7, 8, 9, 5, 6], [12, 13, 14, 10, 11], [2, 3, 4, 0, 1]],
    ),
    (lambda: G.fft.ifftshift(G.fft.fftshift(G.arange(7))), list(range(7))),
]


@pytest.mark.parametrize("run, want", FREQUENCIES)
def test_frequencies_and_shifts(run, want):
    found = run()
    assert found.shape == G.tensor(want).shape and G.allclose(
        found.double(), G.tensor(want, dtype=G.float64), rtol=1e-6, atol=0
    )
    assert G.compile(run, backend="eager")().equal(found)


def test_frequencies_need_a_length_and_a_floating_dtype():
    assert all(math.isnan(x) or math.isinf(x) for x in G.fft.fftfreq(3, 0.0).tolist())
    said(lambda: G.fft.fftfreq(-1), RuntimeError, "the length is not negative, and is -1")
    said(lambda: G.fft.fftfreq(4, dtype=G.int64), RuntimeError, "requires a floating point dtype")
    said(lambda: G.fft.fftshift(G.ones(2), 1), IndexError, "")
    x = G.ones(3, requires_grad=True)
    (G.fft.fftshift(x) * G.arange(3.0)).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 0.0]
    said(lambda: G.fft.rfft(x), NotImplementedError, "gramme has no fft.rfft: .*numpy.fft")


# -- Tools of distributions


def test_tools_of_distributions():
    from gramme.distributions import utils as U
    from gramme.distributions.normal import Normal

    assert (
        Normal is G.distributions.Normal
        and G.distributions.multinomial.Multinomial is G.distributions.Multinomial
    )
    a, b = U.broadcast_all(1.0, G.ones(2, dtype=G.float64))
    assert a.dtype == b.dtype == G.float64 and a.tolist() == [1.0, 1.0]
    assert [x.shape for x in U.broadcast_all(G.ones(2, 1), G.zeros(3))] == [(2, 3), (2, 3)]
    said(lambda: U.broadcast_all("a", 1), ValueError, "takes tensors and numbers")
    logits = G.tensor([0.5, -1.0, 2.0])
    close = lambda x, want: G.allclose(x, G.tensor(want), atol=1e-4)
    assert close(U.logits_to_probs(logits), [0.1753, 0.0391, 0.7856]) and close(
        U.logits_to_probs(logits, True), [0.6225, 0.2689, 0.8808]
    )
    probs = G.tensor([0.0, 0.3, 1.0])
    assert close(U.probs_to_logits(probs), [-15.9424, -1.2040, 0.0]) and close(
        U.probs_to_logits(probs, True), [-15.9424, -0.8473, 15.9424]
    )
    square = G.arange(9.0).reshape(3, 3)
    assert [U.tril_matrix_to_vec(square, d).tolist() for d in (0, -1, 1)] == [
        [0, 3, 4, 6, 7, 8],
        [3, 6, 7],
        [0, 1, 3, 4, 5, 6, 7, 8],
    ]
    assert U.vec_to_tril_matrix(G.arange(6.0)).tolist() == [[0, 0, 0], [1, 2, 0], [3, 4, 5]]
    assert U.vec_to_tril_matrix(G.arange(3.0), -1).tolist() == [[0, 0, 0], [0, 0, 0], [1, 2, 0]]
    said(lambda: U.vec_to_tril_matrix(G.arange(4.0)), ValueError, "4 which cannot be expressed")
    said(lambda: U.tril_matrix_to_vec(square, 3), ValueError, "outside")


def test_a_lazy_property_is_computed_once():
    from gramme.distributions.utils import lazy_property

    counts = collections.Counter()

    class Owner:
        @lazy_property
        def twice(self):
            """Two."""
            counts["twice"] += 1
            return G.ones(1, requires_grad=True) * 2

    owner = Owner()
    with G.no_grad():
        assert owner.twice is owner.twice and owner.twice.requires_grad and counts["twice"] == 1
    assert "twice" in vars(owner) and Owner.twice.__doc__ == "Two."


def test_a_normal_distribution_of_low_rank_is_the_dense_one():
    G.manual_seed(1)
    loc, factor, diag = (
        G.randn(2, 4, dtype=G.float64),
        G.randn(2, 4, 2, dtype=G.float64),
        G.rand(4, dtype=G.float64) + 0.5,
    )
    leaves = [x.requires_grad_() for x in (loc, factor, diag)]
    low = G.distributions.LowRankMultivariateNormal(loc, factor, diag)
    dense = G.distributions.MultivariateNormal(
        loc, factor @ factor.mT + G.diag_embed(diag.expand(2, 4))
    )
    value = G.randn(3, 2, 4, dtype=G.float64)
    for ask in (
        lambda d: d.log_prob(value), lambda d: d.entropy(), lambda d: d.variance,
        lambda d: d.covariance_matrix, lambda d: d.precision_matrix,
        lambda d: d.scale_tril, lambda d: d.mean, lambda d: d.expand((3, 2)).log_prob(value),
    ):  # fmt: skip
        assert G.allclose(ask(low), ask(dense))
        pairs = [
            G.autograd.grad(ask(d).sin().sum(), leaves, allow_unused=True, retain_graph=True)
            for d in (low, dense)
        ]
        for a, b in zip(*pairs):
            assert (a is None or a.abs().max().item() == 0) if b is None else G.allclose(a, b)
    assert (
        low.batch_shape == (2,) and low.event_shape == (4,) and low.rsample((5,)).shape == (5, 2, 4)
    )
    draws = low.sample((20000,))
    assert G.allclose(draws.mean(0), loc, atol=0.1) and G.allclose(
        draws.var(0), low.variance, rtol=0.1
    )
    run = lambda x: G.distributions.LowRankMultivariateNormal(
        loc.detach(), factor.detach(), diag.detach()
    ).log_prob(x)
    assert G.compile(run, backend="eager")(value).equal(run(value))
    said(
        lambda: G.distributions.LowRankMultivariateNormal(loc, factor, -diag),
        ValueError,
        "cov_diag is to be above 0",
    )
    said(
        lambda: G.distributions.LowRankMultivariateNormal(loc, factor[..., :3, :], diag),
        ValueError,
        "cov_factor is",
    )


# -- Other small names


def test_small_names():
    assert (
        G.SymInt is G.fx.SymInt and not isinstance(3, G.SymInt) and not isinstance(1.0, G.SymFloat)
    )
    layer = G.nn.Linear(1, 1)
    assert (
        not isinstance(G.compile(layer), G._dynamo.OptimizedModule)
        and G._dynamo.eval_frame.OptimizedModule is G._dynamo.OptimizedModule
    )
    assert (
        G.nn.parameter.UninitializedParameter is G.nn.UninitializedParameter
        and G.nn.parameter.is_lazy(G.nn.LazyLinear(1).weight)
    )
    assert (
        G.utils.checkpoint.get_device_states(G.ones(1)) == ([], [])
        and G.utils.checkpoint.set_device_states([], []) is None
    )
    assert (
        type(G.cummax(G.ones(2), 0)) is G.return_types.cummax
        and type(G.topk(G.ones(2), 1)) is G.return_types.topk
    )
    assert G.onnx.is_in_onnx_export() is False


def test_arguments_of_to_are_read():
    parse = G._C._nn._parse_to
    assert parse(G.float16) == (None, G.float16, False, None)
    assert parse("cpu", dtype=G.float64, non_blocking=True) == (
        G.device("cpu"),
        G.float64,
        True,
        None,
    )
    assert parse(G.ones(1), memory_format=G.contiguous_format) == (
        G.device("cpu"),
        G.float32,
        False,
        G.contiguous_format,
    )
    assert G._C._nn.gelu is G.nn.functional.gelu


def test_it_is_known_whether_a_function_of_func_is_running():
    seen = []
    active = G._C._are_functorch_transforms_active
    G.func.grad(lambda x: (seen.append(active()), x * x)[1])(G.tensor(2.0))
    assert seen == [True] and active() is False


def test_safe_globals_are_kept():
    s = G.serialization
    s.add_safe_globals([int])
    with s.safe_globals([str]):
        assert s.get_safe_globals() == [int, str]
    assert s.get_safe_globals() == [int]
    s.clear_safe_globals()
    assert s.get_safe_globals() == []
