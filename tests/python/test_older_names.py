# SPDX-License-Identifier: Apache-2.0
"""Names of torch's that older and larger programs import: nn.modules.utils, autograd.Variable,
averages, sizes as symbols, and others.

The expected values are torch 2.13's.
"""

import importlib

import pytest

import gramme as G


def said(run, error, text):
    with pytest.raises(error, match=text):
        run()


def test_a_variable_is_a_tensor():
    x = G.ones(2)
    v = G.autograd.Variable(x, requires_grad=True)
    assert (
        type(v) is G.Tensor
        and v.requires_grad
        and v.is_leaf
        and v.data_ptr() == x.data_ptr()
        and not G.autograd.Variable(x).requires_grad
    )
    assert isinstance(x, G.autograd.Variable) and not isinstance(3, G.autograd.Variable)
    said(lambda: G.autograd.Variable(3), TypeError, "Variable data has to be a tensor, but got int")


def test_tools_for_layers():
    from gramme.nn.modules import utils as U

    assert (U._pair(3), U._pair([1, 2]), U._triple((1,)), U._ntuple(4)(2), U._single(0)) == (
        (3, 3),
        (1, 2),
        (1,),
        (2, 2, 2, 2),
        (0,),
    )
    assert (
        U._list_with_default([None, 3], [5, 6, 7]) == [6, 3] and U._list_with_default(3, [1]) == 3
    )
    said(lambda: U._list_with_default([1], [1]), ValueError, "should be at least 2")
    assert U._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    state = {"module.a": 1, "b": 2}
    U.consume_prefix_in_state_dict_if_present(state, "module.")
    assert state == {"b": 2, "a": 1}


@pytest.mark.parametrize(
    "place, name",
    [
        ("batchnorm", "_BatchNorm"),
        ("linear", "Bilinear"),
        ("rnn", "LSTMCell"),
        ("activation", "MultiheadAttention"),
        ("conv", "Tensor"),
    ],
)
def test_files_of_layers_have_what_torchs_have(place, name):
    module = importlib.import_module(f"gramme.nn.modules.{place}")
    found = getattr(module, name)
    assert (
        found is (G.Tensor if name == "Tensor" else getattr(G.nn, name, found))
        and getattr(G.nn.modules, place) is module
    )
    said(lambda: module.nothing, AttributeError, "has no attribute")


def test_sizes_are_numbers():
    assert (
        G.sym_int(3.7),
        G.sym_int(-3.7),
        G.sym_float(3),
        G.sym_max(1, 2),
        G.sym_not(True),
        G.sym_ite(True, 1, 2),
    ) == (3, -3, 3.0, 2, False, 1)
    found = (G.sym_min(1, 2.0), G.sym_max(1, 2.0), G.sym_sqrt(4), G.sym_sum([1, 2]))
    assert found == (1.0, 2.0, 2.0, 3) and [type(x) for x in found] == [float, float, float, int]
    assert (
        G.compile(lambda x: x * G.sym_max(x.shape[0], 2), backend="eager", fullgraph=True)(
            G.ones(3)
        ).tolist()
        == [3.0] * 3
    )


def test_averages_are_exponential_or_means():
    S = G.optim.swa_utils
    one, two = G.tensor([1.0]), G.tensor([2.0])
    assert (
        abs(S.get_ema_avg_fn(0.9)(one, two, 3).item() - 1.1) < 1e-6
        and S.get_swa_avg_fn()(one, two, G.tensor(3)).item() == 1.25
    )
    said(lambda: S.get_ema_avg_fn(2.0), ValueError, "between 0 and 1")
    said(
        lambda: S.AveragedModel(
            G.nn.Linear(1, 1), avg_fn=S.get_swa_avg_fn(), multi_avg_fn=S.get_swa_multi_avg_fn()
        ),
        ValueError,
        "takes one of",
    )
    for single, several in (
        (S.get_ema_avg_fn(0.5), S.get_ema_multi_avg_fn(0.5)),
        (S.get_swa_avg_fn(), S.get_swa_multi_avg_fn()),
    ):
        G.manual_seed(0)
        model = G.nn.Linear(2, 2)
        averaged = [
            S.AveragedModel(model, avg_fn=single),
            S.AveragedModel(model, multi_avg_fn=several),
        ]
        for step in range(3):
            with G.no_grad():
                model.weight.add_(step + 1.0)
            for each in averaged:
                each.update_parameters(model)
        assert (
            averaged[0].module.weight.equal(averaged[1].module.weight)
            and int(averaged[0].n_averaged) == 3
        )


def test_batch_norms_lose_their_running_values():
    model = G.nn.Sequential(G.nn.Linear(2, 2), G.nn.BatchNorm1d(2))
    assert G.func.replace_all_batch_norm_modules_(model) is model
    norm = model[1]
    assert (
        norm.running_mean is None
        and norm.num_batches_tracked is None
        and not norm.track_running_stats
    )
    assert model.eval()(G.randn(4, 2)).mean(0).abs().max().item() < 1e-5


def test_checkpoints_take_torchs_keywords():
    from gramme.utils import checkpoint as C

    x = G.ones(2, requires_grad=True)
    C.checkpoint(
        lambda x: (x * x).sin(),
        x,
        use_reentrant=False,
        determinism_check="none",
        debug=False,
        early_stop=True,
        context_fn=C.noop_context_fn,
    ).sum().backward()
    C.checkpoint_sequential(
        [G.sin, G.cos], 2, x, use_reentrant=False, determinism_check="none"
    ).sum().backward()
    assert x.grad.isfinite().all()
    said(
        lambda: C.checkpoint(G.sin, x, context_fn=lambda: None),
        NotImplementedError,
        "write the contexts into the function",
    )


def test_questions_about_the_process():
    assert (
        G.get_device_module("cpu") is G.cpu
        and G.get_device_module(G.device("cpu")).device_count() == 1
        and G.cpu.current_device() == "cpu"
    )
    assert G.get_device_module() is (G.cuda if G.cuda.is_available() else G.cpu)
    assert (
        G.get_autocast_cpu_dtype(),
        G.get_autocast_gpu_dtype(),
        G.is_autocast_cpu_enabled(),
    ) == (G.bfloat16, G.float16, False)
    assert (
        G.get_num_interop_threads() == 1
        and G.compiled_with_cxx11_abi()
        and G.compiler.is_exporting() is False
    )
    assert (
        G.compiler.is_dynamo_compiling is G.compiler.is_compiling
        and G._dynamo.is_dynamo_supported()
        and "eager" in G._dynamo.list_backends()
    )
    before = G.get_deterministic_debug_mode()
    G.set_deterministic_debug_mode("warn")
    assert (
        G.get_deterministic_debug_mode() == 1 and G.is_deterministic_algorithms_warn_only_enabled()
    )
    G.set_deterministic_debug_mode(before)
    said(
        lambda: G.set_deterministic_debug_mode("loud"),
        RuntimeError,
        "'warn' or 'error', not 'loud'",
    )
    assert (
        G.GradScaler is G.amp.GradScaler
        and issubclass(G.cuda.OutOfMemoryError, RuntimeError)
        and G.OutOfMemoryError is G.cuda.OutOfMemoryError
    )
    if not G.cuda.is_available():
        assert G.cuda.get_rng_state_all() == [] and G.cuda.set_rng_state_all([]) is None


def test_other_small_names():
    assert G.constant_pad_nd(G.ones(1, 2), (1, 1), 3.0).tolist() == [[3.0, 1.0, 1.0, 3.0]]
    x = G.ones(2)
    assert (
        G.is_storage(x.storage())
        and not G.is_storage(x)
        and not G.is_conj(x)
        and G.from_dlpack(G.to_dlpack(x)).data_ptr() == x.data_ptr()
    )
    assert G.utils.dlpack.from_dlpack is G.from_dlpack and G._dynamo.optimize("eager")(
        lambda x: x + 1
    )(x).tolist() == [2.0, 2.0]
    assert isinstance(3.0, G.types.Number) and G.types._int is int and G.types.Tensor is G.Tensor
    assert not G.nn.functional.has_torch_function((x,))


@pytest.mark.parametrize(
    "name, use",
    [
        ("sym_min", lambda x: x * G.sym_min(x.shape[0], 2)),
        ("jit", lambda x: x if G.jit.is_scripting() else x + 1),
    ],
)
def test_a_name_that_is_found_late_is_recorded(name, use):
    vars(G).pop(name, None)
    compiled = G.compile(use, backend="eager", fullgraph=True)
    assert compiled(G.ones(3)).equal(use(G.ones(3))) and name in vars(G)


def test_switches_are_read_in_compiled_functions():
    f = lambda x: x + 1 if G.backends.cudnn.benchmark else x - 1
    compiled = G.compile(f, backend="eager", fullgraph=True)
    assert compiled(G.ones(1)).item() == 0.0
    G.backends.cudnn.benchmark = True
    try:
        assert compiled(G.ones(1)).item() == 2.0
    finally:
        G.backends.cudnn.benchmark = False
