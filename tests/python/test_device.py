# SPDX-License-Identifier: Apache-2.0
"""Tensors that are made on a device: constructors, modules, optimizers, files, compiled functions,
gramme.cuda; on a simulated GPU, or a real one.

The oracle is the CPU: the same program with device="cpu", the generator at the same place."""

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest

import gramme
import gramme.nn.functional as F
from gpu import REAL, fresh_numbers, near, on_gpu, same, simulated  # noqa: F401
from gramme import nn


def all_of(value):
    """The tensors of a result, in order."""
    if isinstance(value, gramme.Tensor):
        return [value]
    return [tensor for part in value if part is not None for tensor in all_of(part)]


def near_enough(name, half=False):
    """Normal numbers go through a logarithm and a cosine, of which a real GPU has its own: a last
    bit, which rounding to halves may show."""
    return (1e-2 if half else 1e-6) if REAL and name.startswith("randn") else 0.0


def on_both(make, tolerance=0.0):
    """make(device) gives the same on the CPU and on the GPU, there: equal bits, or within a
    tolerance."""
    state = gramme.get_rng_state()
    want = all_of(make("cpu"))
    gramme.set_rng_state(state)
    got = all_of(make("cuda"))
    assert len(want) == len(got) > 0
    for w, g in zip(want, got):
        assert (
            g.device == gramme.device("cuda")
            and g.is_cuda
            and w.device == gramme.device("cpu")
            and g.requires_grad == w.requires_grad
        )
        if w.numel():
            near(g.detach().cpu(), w.detach(), tolerance) if tolerance else same(
                g.detach().cpu(), w.detach()
            )
        else:
            assert g.shape == w.shape and g.dtype == w.dtype


# -- Constructors ----------------------------------------------------------------------------------

SIZED = ("zeros", "ones", "empty", "rand", "randn")


@pytest.mark.parametrize("name", SIZED)
def test_tensors_of_a_size_are_made_there(name):
    make = getattr(gramme, name)
    on_both(
        lambda d: [
            make(3, 5, device=d),
            make((4,), device=gramme.device(d)),
            make((), device=d),
            make(0, 4, device=d),
        ],
        near_enough(name),
    )
    on_both(
        lambda d: [
            make(33, device=d, dtype=t) for t in (gramme.float16, gramme.bfloat16, gramme.float64)
        ],
        near_enough(name, half=True),
    )
    on_both(lambda d: make(3, device=d, requires_grad=True), near_enough(name))


def test_tensors_of_numbers_are_made_there():
    on_both(
        lambda d: [
            gramme.full((4, 3), 2.5, device=d),
            gramme.full((2,), True, device=d),
            gramme.full((), 7, device=d),
        ]
    )
    on_both(lambda d: gramme.full((300,), -7, dtype=gramme.int8, device=d))
    on_both(
        lambda d: [
            gramme.tensor([[1, 2], [3, 4.0]], device=d, requires_grad=True),
            gramme.as_tensor([1, 2], device=d),
        ]
    )
    on_both(
        lambda d: [
            gramme.tensor(3, device=d),
            gramme.scalar_tensor(2, device=d),
            gramme.asarray([True], device=d),
        ]
    )


def test_sequences_are_counted_there():
    on_both(
        lambda d: [
            gramme.arange(7, device=d),
            gramme.arange(2, 30, 3, device=d),
            gramme.arange(9, -2, -2, device=d),
        ]
    )
    on_both(
        lambda d: [
            gramme.arange(0, 1, 0.1, device=d),
            gramme.arange(5, dtype=gramme.float32, device=d),
            gramme.arange(5, dtype=gramme.int8, device=d),
        ]
    )
    on_both(
        lambda d: [
            gramme.linspace(-1, 3, 11, device=d),
            gramme.linspace(2, 3, 1, device=d),
            gramme.range(1, 4, device=d),
        ]
    )
    on_both(lambda d: gramme.logspace(-1, 3, 11, device=d), 1e-6)
    on_both(
        lambda d: [
            gramme.eye(4, device=d),
            gramme.eye(2, 5, device=d, dtype=gramme.int64),
            gramme.tril_indices(3, 4, device=d),
        ]
    )
    windows = (gramme.hann_window, gramme.bartlett_window)
    on_both(lambda d: [window(8, device=d) for window in windows], 1e-6)


def test_random_tensors_are_the_cpus():
    on_both(
        lambda d: [
            gramme.randint(0, 10, (50,), device=d),
            gramme.randint(7, (5,), device=d),
            gramme.randperm(17, device=d),
        ]
    )
    on_both(lambda d: gramme.normal(gramme.zeros(5, device=d), 2.0), near_enough("randn"))
    on_both(lambda d: [gramme.bernoulli(gramme.full((9,), 0.5, device=d))])
    on_both(
        lambda d: [
            gramme.multinomial(gramme.ones(2, 9, device=d), 4),
            F.dropout(gramme.ones(40, device=d), 0.5),
        ]
    )
    on_both(
        lambda d: [
            gramme.empty(9, device=d).uniform_(-1, 1),
            gramme.empty(9, device=d).normal_(),
            gramme.empty(9, device=d).exponential_(),
        ],
        1e-6,
    )


def test_what_is_made_like_a_tensor_lies_beside_it():
    for name in SIZED:
        like = getattr(gramme, name + "_like")
        on_both(
            lambda d: [
                like(gramme.ones(3, 5).to(d)),
                like(gramme.ones(3), device=d),
                like(gramme.ones(2).to(d), dtype=gramme.float64),
            ],
            near_enough(name),
        )  # noqa: B023
        assert not like(gramme.ones(3, device="cuda"), device="cpu").is_cuda
    on_both(
        lambda d: [
            gramme.full_like(gramme.ones(3).to(d), 7),
            gramme.randint_like(gramme.ones(30).to(d), 7),
        ]
    )
    x = gramme.arange(6)
    for name, args in (
        ("zeros", (2, 3)),
        ("ones", (2,)),
        ("empty", (2,)),
        ("full", ((2, 3), 7)),
        ("tensor", ([1, 2],)),
    ):
        on_both(
            lambda d: [
                getattr(x.to(d), "new_" + name)(*args),
                getattr(x, "new_" + name)(*args, device=d),
            ]
        )  # noqa: B023
    on_both(lambda d: [x.to(d).new(2), x.to(d).new([1, 2])])


def test_a_device_is_named_in_all_ways_of_torch():
    assert (
        gramme.zeros(2).to(0).is_cuda
        and gramme.zeros(2).cuda(0).is_cuda
        and gramme.zeros(2, device=0).is_cuda
    )
    assert gramme.zeros(2, device="cuda:0").device == gramme.device("cuda", 0) == gramme.device(0)
    for bad in (1, "cuda:1", "mars"):
        for make in (
            lambda d: gramme.zeros(2, device=d),
            lambda d: gramme.tensor([1], device=d),
            lambda d: gramme.zeros(2).to(d),
            gramme.device,
        ):
            with pytest.raises(RuntimeError, match="there is no device"):
                make(bad)
    with pytest.raises(RuntimeError, match="there is no device 'cuda:1'"):
        gramme.device("cuda", 1)


# -- Writes, subscripts, moves ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        lambda b: b,
        lambda b: b.t(),
        lambda b: b[:, 1:3],
        lambda b: b[::2, ::3],
        lambda b: b[1:3].t(),
        lambda b: b[2],
    ],
)
def test_writes_into_part_of_a_tensor(part):
    def write(d, change):
        base = gramme.arange(24.0).reshape(4, 6).to(d)
        change(part(base), d)
        return base

    shape = part(gramme.zeros(4, 6)).shape
    value = gramme.randn(shape)
    turned = gramme.randn(tuple(reversed(shape))).permute(*reversed(range(len(shape))))
    for source in (value, turned, value.double(), gramme.tensor(3.0)):
        on_both(lambda d: write(d, lambda x, d: x.copy_(source.to(d))))  # noqa: B023
        on_both(lambda d: write(d, lambda x, d: x.copy_(source)))  # noqa: B023
        on_both(lambda d: write(d, lambda x, d: x.add_(source.to(d).float())))  # noqa: B023
    on_both(lambda d: write(d, lambda x, d: x.zero_()))
    on_both(lambda d: write(d, lambda x, d: x.mul_(2)))
    on_both(lambda d: write(d, lambda x, d: x.fill_(7)))


def test_indices_and_masks_of_either_device_select():
    x, i = gramme.randn(4, 6), gramme.tensor([2, 0])
    on_both(
        lambda d: [
            x.to(d)[i],
            x.to(d)[i.to(d)],
            x.to(d)[[1, 2]],
            x.to(d)[i, 1:3],
            x.to(d)[x > 0],
            x.to(d)[x.to(d) > 0],
        ]
    )

    def stores(d):
        y = x.to(d) * 1
        y[i] = 5.0
        y[:, i.to(d)] = gramme.ones(4, 2, device=d)
        y[y > 1] = 0.0
        return y

    on_both(stores)


def test_gradients_flow_through_copies_between_devices():
    x = gramme.randn(3, 4, requires_grad=True)
    y = x.to("cuda")
    assert y.requires_grad and not y.is_leaf and y.is_cuda
    (first,) = gramme.autograd.grad((y * y * y).sum(), x, create_graph=True)
    assert not first.is_cuda
    near(first, 3 * x * x)
    (second,) = gramme.autograd.grad(first.sum(), x)
    near(second, 6 * x)
    with gramme.no_grad():
        assert not x.to("cuda").requires_grad


def test_a_number_of_the_cpu_goes_along_and_gets_its_gradient_there():
    scale = gramme.tensor(2.0, requires_grad=True)
    x = gramme.randn(5)
    (x.cuda() * scale * scale).sum().backward()
    assert not scale.grad.is_cuda
    near(scale.grad, 4 * x.sum())


def test_gradients_of_writes_into_views():
    def f(d):
        x = gramme.arange(24.0).reshape(4, 6).to(d).requires_grad_()
        y = x * 1
        y[:, 1:3] = x[:, 3:5] * 2
        y.t()[0].mul_(3)
        (y * y).sum().backward()
        return x.grad

    on_both(f)


# -- Modules ---------------------------------------------------------------------------------------

LAYERS = {
    "Linear": (lambda **k: nn.Linear(6, 4, **k), [(3, 6)]),
    "Bilinear": (lambda **k: nn.Bilinear(6, 5, 3, **k), [(3, 6), (3, 5)]),
    "Conv1d": (lambda **k: nn.Conv1d(4, 4, 3, **k), [(2, 4, 8)]),
    "Conv2d": (lambda **k: nn.Conv2d(4, 4, 3, **k), [(2, 4, 6, 6)]),
    "ConvTranspose2d": (lambda **k: nn.ConvTranspose2d(4, 4, 3, **k), [(2, 4, 5, 5)]),
    "LayerNorm": (lambda **k: nn.LayerNorm(6, **k), [(3, 6)]),
    "RMSNorm": (lambda **k: nn.RMSNorm(6, **k), [(3, 6)]),
    "GroupNorm": (lambda **k: nn.GroupNorm(2, 4, **k), [(3, 4, 5)]),
    "BatchNorm1d": (lambda **k: nn.BatchNorm1d(6, **k), [(5, 6)]),
    "InstanceNorm2d": (
        lambda **k: nn.InstanceNorm2d(3, affine=True, track_running_stats=True, **k),
        [(2, 3, 4, 4)],
    ),
    "PReLU": (lambda **k: nn.PReLU(3, **k), [(2, 3)]),
    "RNN": (lambda **k: nn.RNN(4, 5, **k), [(3, 2, 4)]),
    "GRU": (lambda **k: nn.GRU(4, 5, **k), [(3, 2, 4)]),
    "LSTM": (lambda **k: nn.LSTM(4, 5, bidirectional=True, **k), [(3, 2, 4)]),
    "LSTMCell": (lambda **k: nn.LSTMCell(4, 5, **k), [(2, 4)]),
    "MultiheadAttention": (lambda **k: nn.MultiheadAttention(8, 2, **k), [(3, 2, 8)] * 3),
    "TransformerEncoderLayer": (
        lambda **k: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **k),
        [(3, 2, 8)],
    ),
    "TransformerDecoderLayer": (
        lambda **k: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, **k),
        [(3, 2, 8), (4, 2, 8)],
    ),
    "LazyLinear": (lambda **k: nn.LazyLinear(4, **k), [(3, 6)]),
    "LazyBatchNorm1d": (lambda **k: nn.LazyBatchNorm1d(**k), [(5, 6)]),
    "AdaptiveLogSoftmaxWithLoss": (
        lambda **k: nn.AdaptiveLogSoftmaxWithLoss(16, 10, [3, 6], **k),
        None,
    ),
}


RUN = (
    "Linear",
    "Conv2d",
    "BatchNorm1d",
    "LSTM",
    "TransformerDecoderLayer",
    "LazyLinear",
)  # the others' functions are run elsewhere


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_has_its_parameters_where_it_is_told(name):
    make, _ = LAYERS[name]
    state = gramme.get_rng_state()
    here = make().state_dict()
    gramme.set_rng_state(state)
    there = make(device="cuda").state_dict()
    assert list(here) == list(there) != []
    for w, g in zip(here.values(), there.values()):
        assert g.is_cuda
        if w.numel():
            near(g.cpu(), w, 1e-6)
    wide = make(device="cuda", dtype=gramme.float64)
    assert all(p.is_cuda and p.dtype == gramme.float64 for p in wide.parameters())


@pytest.mark.parametrize("name", RUN)
def test_a_layer_runs_and_is_differentiated_there(name):
    make, shapes = LAYERS[name]
    state = gramme.get_rng_state()
    here = make()
    gramme.set_rng_state(state)
    there = make(device="cuda")
    inputs = [gramme.randn(*shape) for shape in shapes]
    state = gramme.get_rng_state()
    want = all_of(here(*inputs))
    gramme.set_rng_state(state)
    got = all_of(there(*[x.cuda() for x in inputs]))
    for w, g in zip(want, got):
        assert g.is_cuda
        near(g.cpu(), w, 1e-4)
    sum([w.sum() for w in want]).backward()
    sum([g.sum() for g in got]).backward()
    for p, q in zip(here.parameters(), there.parameters()):
        assert q.grad.is_cuda
        near(q.grad.cpu(), p.grad, 1e-3)
    for w, g in zip(here.state_dict().values(), there.state_dict().values()):
        assert g.is_cuda
        near(g.cpu(), w, 1e-5)


def test_modules_move_whole():
    def places(module):
        return {str(t.device) for t in module.state_dict().values()}, {
            str(p.grad.device) for p in module.parameters() if p.grad is not None
        }

    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    model(gramme.randn(5, 4)).sum().backward()
    weight = model[0].weight
    assert model.to("cuda") is model and places(model) == ({"cuda"}, {"cuda"})
    assert model[0].weight is weight  # optimizers that know it go on
    assert model.to(gramme.float64)[1].num_batches_tracked.dtype == gramme.int64 and places(
        model
    ) == ({"cuda"}, {"cuda"})
    assert places(copy.deepcopy(model))[0] == {"cuda"}
    assert places(model.cpu()) == ({"cpu"}, {"cpu"}) and places(model.cuda(0)) == (
        {"cuda"},
        {"cuda"},
    )
    model.to(device="cpu", dtype=gramme.float32)
    assert places(model) == ({"cpu"}, {"cpu"}) and model[0].weight.dtype == gramme.float32
    assert places(model.to(gramme.ones(1, device="cuda")))[0] == {"cuda"} and places(
        model.to_empty(device="cpu")
    )[0] == {"cpu"}


def test_initial_values_are_the_cpus():
    init, shape = nn.init, (3, 4)
    on_both(
        lambda d: [
            init.kaiming_uniform_(gramme.empty(shape, device=d)),
            init.xavier_normal_(gramme.empty(shape, device=d)),
        ],
        1e-6,
    )
    on_both(
        lambda d: [
            init.trunc_normal_(gramme.empty(shape, device=d)),
            init.orthogonal_(gramme.empty(shape, device=d)),
        ],
        1e-5,
    )
    on_both(
        lambda d: [
            init.sparse_(gramme.empty(shape, device=d), 0.3),
            init.eye_(gramme.empty(shape, device=d)),
            init.dirac_(gramme.empty(3, 4, 3, device=d)),
        ],
        1e-6,
    )


def test_functions_of_layers_make_what_they_need_beside_their_input():
    x, image, log_probs = (
        gramme.randn(4, 6),
        gramme.randn(1, 1, 4, 4),
        gramme.randn(8, 2, 5).log_softmax(-1),
    )
    theta = gramme.tensor([[[1.0, 0, 0.1], [0, 1, 0]]])
    on_both(lambda d: F.max_unpool2d(*F.max_pool2d(image.to(d), 2, return_indices=True), 2), 1e-6)
    on_both(lambda d: F.affine_grid(theta.to(d), [1, 1, 4, 4], align_corners=False), 1e-5)
    on_both(
        lambda d: F.ctc_loss(
            log_probs.to(d),
            gramme.tensor([[1, 2, 3], [1, 2, 0]]).to(d),
            gramme.tensor([8, 7]),
            gramme.tensor([3, 2]),
        ),
        1e-5,
    )
    on_both(lambda d: F.one_hot(gramme.arange(4, device=d), 5))
    on_both(lambda d: [gramme.tril(x.to(d)), gramme.diag(x[0].to(d)), x.to(d).quantile(0.3)], 1e-6)
    on_both(
        lambda d: [
            nn.utils.rnn.pad_sequence([x[0].to(d), x[1, :2].to(d)]),
            gramme.func.jacrev(lambda v: v * v)(x[0].to(d)),
        ],
        1e-6,
    )


def test_linear_algebra_says_that_it_is_the_cpus():
    with pytest.raises(
        RuntimeError, match=r"linalg.cholesky: LAPACK computes it on the CPU.*\.cpu\(\)"
    ):
        gramme.linalg.cholesky(gramme.eye(3, device="cuda"))


# -- Optimizers ------------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "Adagrad": {},
    "Adadelta": {},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "Rprop": {},
    "ASGD": {},
    "LBFGS": {"max_iter": 4},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_train_there_as_on_the_cpu(name):
    x, t = gramme.randn(10, 6), gramme.randint(0, 3, (10,))

    def train(d):
        model = nn.Sequential(nn.Linear(6, 8, device=d), nn.Tanh(), nn.Linear(8, 3, device=d))
        optimizer = getattr(gramme.optim, name)(model.parameters(), **OPTIMIZERS[name])

        def loss():
            optimizer.zero_grad()
            value = F.cross_entropy(model(x.to(d)), t.to(d))
            value.backward()
            return value

        for _ in range(3):
            optimizer.step(loss)
        for p, memory in optimizer.state.items():
            assert all(
                str(value.device) == d
                for value in memory.values()
                if isinstance(value, gramme.Tensor) and value.dim()
            )
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.step(loss)
        return list(model.parameters())

    on_both(
        train, 1e-3 if name == "LBFGS" else 1e-4
    )  # its steps are as long as small differences of gradients say


def test_state_that_was_saved_elsewhere_goes_to_its_parameters():
    def one(d):
        p = nn.Parameter(gramme.ones(3, device=d))
        optimizer = gramme.optim.Adam([p])
        p.grad = gramme.ones(3, device=d)
        optimizer.step()
        return optimizer

    there = one("cuda")
    there.load_state_dict(one("cpu").state_dict())
    (memory,) = there.state.values()
    assert memory["exp_avg"].is_cuda and not memory["step"].is_cuda
    there.step()


def test_gradients_are_clipped_and_averages_kept_there():
    def clip(d):
        layer = nn.Linear(3, 2, device=d)
        (layer(gramme.ones(1, 3, device=d)) * 50).sum().backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        average = gramme.optim.swa_utils.AveragedModel(layer)
        average.update_parameters(layer)
        return [p.grad for p in layer.parameters()] + list(average.parameters())

    on_both(clip, 1e-6)


# -- Files, data -----------------------------------------------------------------------------------


def round_trip(value, **options):
    file = io.BytesIO()
    gramme.save(value, file)
    file.seek(0)
    return gramme.load(file, **options)


def test_saved_tensors_come_back_to_their_device():
    def f(d):
        x = gramme.arange(6.0).to(d)
        tree = round_trip({"list": [x, x], "p": nn.Parameter(x * 2), "here": gramme.ones(2)})
        assert (
            tree["list"][0] is tree["list"][1]
            and isinstance(tree["p"], nn.Parameter)
            and not tree["here"].is_cuda
        )
        return [
            *tree["list"],
            tree["p"],
            *round_trip(nn.Linear(3, 2, device=d).state_dict()).values(),
        ]

    on_both(f)
    on_both(
        lambda d: [
            pickle.loads(pickle.dumps(gramme.arange(6).to(d))),
            copy.deepcopy(nn.Parameter(gramme.ones(2, device=d))),
        ]
    )


def test_map_location_says_where_tensors_go():
    x = gramme.arange(3.0).cuda()
    for there in (
        "cpu",
        gramme.device("cpu"),
        {"cuda:0": "cpu"},
        {"cuda": "cpu"},
        lambda tensor, place: tensor,
    ):
        got = round_trip({"x": x}, map_location=there)["x"]
        assert not got.is_cuda
        same(got, x.cpu())
    assert (
        round_trip({"x": x.cpu()}, map_location="cuda")["x"].is_cuda
        and round_trip({"x": x}, map_location=lambda tensor, place: None)["x"].is_cuda
    )
    layer = nn.Linear(3, 2, device="cuda")
    layer.load_state_dict(
        round_trip(nn.Linear(3, 2).state_dict())
    )  # copied to where the parameters are
    assert layer.weight.is_cuda


def test_data_of_a_device_is_batched_there():
    def batches(d):
        data = gramme.utils.data.TensorDataset(
            gramme.arange(10).to(d), gramme.ones(10, 2, device=d)
        )
        return [
            part
            for batch in gramme.utils.data.DataLoader(data, batch_size=4, shuffle=True)
            for part in batch
        ]

    on_both(batches)
    data = gramme.utils.data.TensorDataset(gramme.arange(10))
    on_both(
        lambda d: [
            batch[0].to(d, non_blocking=True)
            for batch in gramme.utils.data.DataLoader(
                data, batch_size=4, shuffle=True, pin_memory=True
            )
        ]
    )


# -- Compiled functions ----------------------------------------------------------------------------


def as_plain(f, *args, backend="nvrtc", tolerance=1e-5):
    """The function, compiled as one graph, gives what it gives plainly, where it gives it."""
    state = gramme.get_rng_state()
    want = all_of(f(*args))
    gramme.set_rng_state(state)
    got = all_of(gramme.compile(f, backend=backend, fullgraph=True)(*args))
    for w, g in zip(want, got):
        assert w.device == g.device
        near(g.detach().cpu(), w.detach().cpu(), tolerance)


def test_constructors_inside_of_a_graph_make_tensors_there():
    x = gramme.randn(4, 6, device="cuda")
    as_plain(lambda x: x + gramme.ones(4, 6, device="cuda"), x)
    as_plain(
        lambda x: (
            gramme.zeros(3, device="cuda"),
            gramme.arange(5, device=x.device),
            gramme.full((2,), 3.5, device="cuda:0"),
            x * 2,
        ),
        x,
    )
    as_plain(
        lambda x: gramme.cat(
            [x, gramme.ones_like(x), x.new_zeros(2, 6), gramme.eye(3, 6, device=x.device)]
        ),
        x,
    )
    as_plain(
        lambda x: x * gramme.tensor([1.0, 2, 3, 3, 5, 6], device="cuda")
        + gramme.tensor(2.0, device=x.device),
        x,
    )
    as_plain(
        lambda x: (
            gramme.zeros_like(x, device="cpu") + 1,
            x[[2, 0]],
            x.to("cuda").to(x.device) + 1,
            gramme.tril(x),
        ),
        x,
    )
    as_plain(lambda c: (c * 2, gramme.zeros(3, device="cuda")), gramme.randn(3))


def test_random_numbers_of_a_graph_are_the_plain_ones_there():
    x = gramme.randn(4, 6, device="cuda")
    as_plain(lambda x: x + gramme.rand(4, 6, device="cuda") + gramme.randn_like(x), x)
    as_plain(
        lambda x: (
            gramme.randint(0, 9, (5,), device="cuda"),
            gramme.randperm(7, device=x.device),
            F.dropout(x, 0.5),
        ),
        x,
    )


@pytest.mark.parametrize("backend", ["eager", "tcc"])
def test_back_ends_of_the_cpu_leave_a_graph_of_a_gpu_to_it(backend):
    as_plain(
        lambda x: gramme.tanh(x) * 2 + gramme.ones(4, 6, device="cuda"),
        gramme.randn(4, 6, device="cuda"),
        backend=backend,
    )


def test_a_graph_names_the_device_of_what_it_makes():
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph

    x = gramme.randn(3, device="cuda")
    f = gramme.compile(lambda x: x + gramme.zeros(3, device="cuda"), backend=keep)
    same(f(x).cpu(), x.cpu())
    assert "device=2" in str(graphs[0])


def test_a_graph_that_mixes_devices_is_refused_with_both_named():
    x = gramme.randn(4, device="cuda")
    for f, arg in (
        (lambda x: x + gramme.zeros(4), x),
        (lambda c: c + gramme.zeros(4, device="cuda"), x.cpu()),
    ):
        with pytest.raises(RuntimeError, match="some on 'cuda' and some on 'cpu'"):
            gramme.compile(f, backend="nvrtc", fullgraph=True)(arg)
    as_plain(
        lambda x, s: x * s * 2.5 + gramme.tensor(3.0), x, gramme.tensor(2.0)
    )  # numbers go along


def test_a_tensor_of_many_numbers_is_made_before_the_graph():
    numbers = [float(i * i % 977) for i in range(300)]
    x = gramme.randn(300, device="cuda")
    with pytest.raises(RuntimeError, match="make it before, and pass it"):
        gramme.compile(
            lambda x: x + gramme.tensor(numbers, device="cuda"), backend="nvrtc", fullgraph=True
        )(x)
    same(
        gramme.compile(lambda x: x + gramme.tensor(numbers, device="cuda"), backend="nvrtc")(
            x
        ).cpu(),
        x.cpu() + gramme.tensor(numbers),
    )


def test_compiled_training_on_the_device_is_plain_training():
    x, t = gramme.randn(10, 6, device="cuda"), gramme.randint(0, 3, (10,), device="cuda")

    def train(compiled):
        gramme.manual_seed(1)
        model = nn.Sequential(
            nn.Linear(6, 8, device="cuda"),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(8, 3, device="cuda"),
        )
        optimizer = gramme.optim.Adam(model.parameters(), lr=0.01)
        loss = (
            on_gpu(lambda x, t: F.cross_entropy(model(x), t))
            if compiled
            else lambda x, t: F.cross_entropy(model(x), t)
        )
        step = (
            gramme.compile(lambda: optimizer.step(), backend="nvrtc")
            if compiled
            else optimizer.step
        )
        for _ in range(3):
            optimizer.zero_grad()
            loss(x, t).backward()
            step()
        return list(model.parameters())

    for w, g in zip(train(False), train(True)):
        assert g.is_cuda
        near(g.detach().cpu(), w.detach().cpu(), 1e-4)


# -- The default device, gramme.cuda ---------------------------------------------------------------


@pytest.fixture
def default_device():
    yield gramme.set_default_device
    gramme.set_default_device(None)


def test_a_default_device_holds_where_nothing_is_said(default_device):
    x = gramme.zeros(2)
    with gramme.device("cuda") as where:
        assert where == gramme.get_default_device() == gramme.device("cuda")
        made = [
            gramme.zeros(2),
            gramme.tensor([1]),
            gramme.rand(3),
            gramme.arange(2),
            nn.Linear(2, 2).weight,
            gramme.as_tensor([1.0]),
        ]
        assert all(tensor.is_cuda for tensor in made)
        assert not gramme.zeros_like(x).is_cuda and not gramme.ones(1, device="cpu").is_cuda
        with gramme.device("cpu"):
            assert not gramme.zeros(2).is_cuda
        assert gramme.zeros(2).is_cuda
    assert not gramme.zeros(2).is_cuda
    default_device("cuda")
    assert gramme.zeros(2).is_cuda and gramme.optim.optimizer.new_step().device.type == "cpu"
    default_device(None)
    assert gramme.get_default_device() == gramme.device("cpu") and not gramme.zeros(2).is_cuda


def test_a_compiled_function_serves_each_default_device():
    f = gramme.compile(lambda: gramme.ones(3) * 2, backend="nvrtc", fullgraph=True)
    assert not f().is_cuda
    with gramme.device("cuda"):
        assert f().is_cuda
    assert not f().is_cuda


def test_generators_of_a_device_give_the_same_numbers():
    a, b = gramme.Generator(device="cuda").manual_seed(5), gramme.Generator().manual_seed(5)
    assert a.device == gramme.device("cuda") and pickle.loads(pickle.dumps(a)).device == a.device
    same(gramme.rand(9, device="cuda", generator=a).cpu(), gramme.rand(9, generator=b))
    (near if REAL else same)(
        gramme.randn(9, device="cuda", generator=a.clone_state()).cpu(),
        gramme.randn(9, generator=b),
    )
    gramme.cuda.manual_seed_all(3)
    first = gramme.rand(4, device="cuda")
    state = gramme.cuda.get_rng_state()
    second = gramme.rand(4, device="cuda")
    gramme.cuda.set_rng_state(state)
    same(gramme.rand(4, device="cuda").cpu(), second.cpu())
    gramme.manual_seed(3)
    same(gramme.rand(4).cpu(), first.cpu())


def test_the_gpu_is_described_and_chosen():
    cuda = gramme.cuda
    assert cuda.current_device() == 0 and cuda.device_count() == 1 and cuda.is_initialized()
    about, (major, minor) = cuda.get_device_properties(0), cuda.get_device_capability()
    assert (
        about.name == cuda.get_device_name("cuda:0")
        and (about.major, about.minor) == (major, minor)
        and major >= 3
    )
    free, total = cuda.mem_get_info()
    assert 0 < free <= total == about.total_memory and about.name in repr(about)
    cuda.set_device(0)
    with cuda.device(0), cuda.device_of(gramme.zeros(1)):
        assert gramme.zeros(1).cuda().get_device() == 0
    for wrong, kind in ((1, RuntimeError), ("cpu", ValueError)):
        with pytest.raises(kind):
            cuda.set_device(wrong)


def test_the_peak_of_memory_is_counted_anew():
    cuda = gramme.cuda
    x = gramme.zeros(1 << 20, device="cuda")
    del x
    cuda.empty_cache()
    assert cuda.max_memory_allocated() >= cuda.memory_allocated() + (4 << 20)
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    assert cuda.max_memory_allocated() == before
    y = gramme.zeros(1 << 10, device="cuda")
    del y
    stats = cuda.memory_stats()
    assert before + 4096 <= stats["allocated_bytes.all.peak"] < before + (1 << 20)
    assert (
        stats["allocated_bytes.all.current"]
        == cuda.memory_allocated()
        <= stats["reserved_bytes.all.current"]
    )


def test_memory_of_the_cpu_is_pinned_as_it_is():
    x = gramme.ones(3)
    assert x.pin_memory() is x and not x.is_pinned() and x.is_cpu and not x.is_cuda
    with pytest.raises(RuntimeError, match="only tensors of the CPU"):
        x.cuda().pin_memory()


@simulated
def test_without_a_gpu_a_constructor_says_so_and_how_to_read_files_of_one(tmp_path):
    gramme.save({"x": gramme.ones(2, device="cuda")}, tmp_path / "x")
    text = f"""
import gramme
for make in (lambda: gramme.zeros(2, device="cuda"), lambda: gramme.tensor([1], device=0), lambda: gramme.nn.Linear(2, 2, device="cuda"),
             lambda: gramme.compile(lambda: gramme.ones(2, device="cuda"), backend="tcc")(), lambda: gramme.load({str(tmp_path / "x")!r})):
    try:
        make()
    except RuntimeError as error:
        assert "device 'cuda' cannot be used" in str(error), error
    else:
        raise AssertionError("there is no GPU")
assert gramme.load({str(tmp_path / "x")!r}, map_location="cpu")["x"].sum() == 2
"""
    env = {**os.environ, "GRAMME_CUDA_DRIVER": "/nowhere/libcuda.so"}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -- Mixed precision, memory of the host -----------------------------------------------------------


@pytest.mark.parametrize(
    "compile",
    [lambda f: f, lambda f: gramme.compile(f, backend="nvrtc")],
    ids=["plain", "compiled"],
)
def test_products_on_the_gpu_run_in_its_dtype(compile):
    a = gramme.randn(4, 4)
    f = compile(lambda a, b: (a @ a, b @ b))
    there = a.to("cuda")
    with gramme.autocast("cuda"):
        y, z = f(there, a)
        assert (y.dtype, z.dtype) == (gramme.float16, gramme.float32)
        assert y.cpu().tolist() == (there.half() @ there.half()).cpu().tolist()
    with gramme.autocast("cpu"):
        y, z = f(there, a)
        assert (y.dtype, z.dtype) == (gramme.float32, gramme.bfloat16)


def test_a_training_step_with_scaled_losses_on_the_gpu():
    model = nn.Linear(4, 2).to("cuda")
    optimizer, scaler = gramme.optim.SGD(model.parameters(), lr=0.1), gramme.cuda.amp.GradScaler(
        init_scale=256.0
    )
    x, y = gramme.randn(8, 4).to("cuda"), gramme.randn(8, 2).to("cuda")
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        with gramme.cuda.amp.autocast():
            out = model(x)
            assert out.dtype == gramme.float16
            loss = F.mse_loss(out, y)
        scaler.scale(loss).backward()
        assert scaler.step(optimizer) is None
        scaler.update()
        losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0] and model.weight.dtype == gramme.float32


def test_what_is_saved_goes_to_the_host_and_comes_back():
    x = gramme.randn(3, 3).to("cuda").requires_grad_()
    context = gramme.autograd.graph.save_on_cpu()
    pack, kept = context.pack_hook, []
    context.pack_hook = lambda t: kept.append(pack(t)) or kept[-1]
    with context:
        y = (x * x).exp()
    assert kept and all(device.type == "cuda" and t.device.type == "cpu" for device, t in kept)
    y.sum().backward()
    want = x.detach().clone().requires_grad_()
    (want * want).exp().sum().backward()
    assert x.grad.device.type == "cuda" and x.grad.cpu().tolist() == want.grad.cpu().tolist()
