# SPDX-License-Identifier: Apache-2.0
"""Whole models, one source for gramme and torch, beside plain gramme, torch eager and
torch.compile.

A model is a function of (nn, F) that returns a module of that library, with the same names of
parameters in both: all sides begin with the same weights.  A training step is the forward, the
loss, and the gradients of all parameters, without an optimiser.  --threads says how many threads
all sides have.
"""

import gc
import os
import time

import numpy as np

import gramme
from versus import Contest, Side, compete, library, own_code, rows_of

MODELS = {}


def model(name, inputs, slow=False):
    """Registers a model.  inputs: arrays of one call; slow: torch.compile takes minutes for it, and
    takes part only with GM_BENCH_SLOW=1."""

    def note(build):
        MODELS[name] = (build, inputs, slow)
        return build

    return note


def normal(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def tokens(*shape, n, seed=1):
    return np.random.default_rng(seed).integers(0, n, shape)


# -- Models


@model("MLP 64-128-128-10, batch 64", [normal(64, 64)])
def mlp(T, nn, F):
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )


@model("LSTM 2 x 256, 16 x 64 tokens", [normal(64, 16, 256)])
def lstm(T, nn, F):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(256, 256, 2)

        def forward(self, x):
            return self.lstm(x)[0]

    return Net()


@model("LSTM of 64, 16 x 64 tokens", [normal(64, 16, 64)])
def small_lstm(T, nn, F):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(64, 64)

        def forward(self, x):
            return self.lstm(x)[0]

    return Net()


@model("GRU 2 x 256, 16 x 64 tokens", [normal(64, 16, 256)])
def gru(T, nn, F):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(256, 256, 2)

        def forward(self, x):
            return self.gru(x)[0]

    return Net()


@model("TransformerEncoder 4 x 256, 8 x 64", [normal(8, 64, 256)], slow=True)
def encoder(T, nn, F):
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def gpt(T, nn, F, layers, width, heads, length, vocabulary):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = (
                p.view(batch, length, heads, width // heads).transpose(1, 2)
                for p in self.qkv(self.ln_1(x)).chunk(3, -1)
            )
            a = (
                F.scaled_dot_product_attention(q, k, v, is_causal=True)
                .transpose(1, 2)
                .reshape(batch, length, width)
            )
            x = x + self.out(a)
            return x + self.down(F.gelu(self.up(self.ln_2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, ids):
            x = self.token(ids) + self.place(T.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.ln(x))

    return Gpt()


@model("GPT 2 x 32, 4 x 32 tokens", [tokens(4, 32, n=64)], slow=True)
def small_gpt(T, nn, F):
    return gpt(T, nn, F, 2, 32, 4, 32, 64)


@model("GPT 4 x 256, 4 x 128 tokens", [tokens(4, 128, n=512)], slow=True)
def medium_gpt(T, nn, F):
    return gpt(T, nn, F, 4, 256, 4, 128, 512)


@model("ResNet18, 8 x 32 x 32", [normal(8, 3, 32, 32)], slow=True)
def resnet18(T, nn, F):
    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(
                before, after, 3, stride, 1, bias=False
            ), nn.BatchNorm2d(after)
            self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(
                after
            )
            self.down = nn.Sequential()
            if stride != 1 or before != after:
                self.down = nn.Sequential(
                    nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
                )

        def forward(self, x):
            return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.down(x))

    layers, before = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(before, after, stride), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


@model("MobileNetV2, 8 x 32 x 32", [normal(8, 3, 32, 32)], slow=True)
def mobilenet_v2(T, nn, F):
    def unit(before, after, size, stride=1, groups=1):
        return [
            nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU6(),
        ]

    class Inverted(nn.Module):
        def __init__(self, before, after, stride, wider):
            super().__init__()
            inner = before * wider
            layers = unit(before, inner, 1) if wider > 1 else []
            layers += unit(inner, inner, 3, stride, inner)
            self.layers = nn.Sequential(
                *layers, nn.Conv2d(inner, after, 1, bias=False), nn.BatchNorm2d(after)
            )
            self.adds = stride == 1 and before == after

        def forward(self, x):
            return x + self.layers(x) if self.adds else self.layers(x)

    layers, before = unit(3, 32, 3), 32
    for wider, after, n, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 1),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for k in range(n):
            layers.append(Inverted(before, after, stride if k == 0 else 1, wider))
            before = after
    return nn.Sequential(
        *layers, *unit(320, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 10)
    )


@model("U-Net with GroupNorm, 4 x 64 x 64", [normal(4, 3, 64, 64)], slow=True)
def unet(T, nn, F):
    def twice(before, after):
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1),
            nn.GroupNorm(8, after),
            nn.SiLU(),
            nn.Conv2d(after, after, 3, padding=1),
            nn.GroupNorm(8, after),
            nn.SiLU(),
        )

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down1, self.down2, self.middle = twice(3, 32), twice(32, 64), twice(64, 128)
            self.up2, self.up1 = nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)
            self.join2, self.join1 = twice(128, 64), twice(64, 32)
            self.head = nn.Conv2d(32, 1, 1)

        def forward(self, x):
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            h = self.middle(F.max_pool2d(b, 2))
            h = self.join2(T.cat((self.up2(h), b), 1))
            return self.head(self.join1(T.cat((self.up1(h), a), 1)))

    return Net()


# -- Sides


def weights_of(build):
    """Returns, per parameter and buffer, a numpy array: what gramme makes the model with from seed
    0."""
    gramme.manual_seed(0)
    return {
        name: tensor.detach().numpy().copy()
        for name, tensor in build(gramme, gramme.nn, gramme.nn.functional).state_dict().items()
    }


def made(T, build, weights):
    net = build(T, T.nn, T.nn.functional)
    net.load_state_dict({name: T.from_numpy(np.array(array)) for name, array in weights.items()})
    return net


def call_of(T, net, run, inputs, train):
    """The computation as a function of nothing, and its results as numpy arrays."""
    if not train:
        net.eval()

        def infer():
            with T.no_grad():
                return run(*inputs)

        return infer, lambda y: [y.detach().numpy()]
    parameters = list(net.parameters())

    def step():
        for p in parameters:
            p.grad = None
        loss = run(*inputs)
        loss.backward()
        return loss

    return step, lambda loss: [
        loss.detach().numpy(),
        np.concatenate([p.grad.numpy().ravel() for p in parameters]),
    ]


def side(T, build, weights, train, compiled, first):
    """make() of one side.  first: a list that gets how long the first call takes, by the clock on
    the wall."""

    def make(arrays):
        lib = library("torch") if T == "torch" else gramme
        lib.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        net = made(lib, build, weights)
        run = (lambda *args: net(*args).sin().mean()) if train else (lambda *args: net(*args))
        run = lib.compile(own_code(run)) if compiled else run
        call, to_numpy = call_of(lib, net, run, [lib.from_numpy(a.copy()) for a in arrays], train)
        start = time.perf_counter()
        call()
        first.append(time.perf_counter() - start)
        if lib is gramme and compiled:
            for _ in range(3):
                call()
            gramme.compiler.wait()
        return Side(call, to_numpy)

    return make


def reference(build, weights, arrays, train):
    net = made(gramme, build, weights).double()
    inputs = [
        gramme.from_numpy(a.astype(np.float64) if a.dtype == np.float32 else a.copy())
        for a in arrays
    ]
    run = (lambda *args: net(*args).sin().mean()) if train else (lambda *args: net(*args))
    call, to_numpy = call_of(gramme, net, run, inputs, train)
    return to_numpy(call())


def contest_of(name, train, rounds):
    build, arrays, slow = MODELS[name]
    weights, firsts = weights_of(build), {}
    kinds = {
        "gramme": ("gramme", True),
        "plain gramme": ("gramme", False),
        "torch": ("torch", False),
        "torch.compile": ("torch", True),
    }
    missing = {}
    if slow and os.environ.get("GM_BENCH_SLOW") != "1":
        del kinds["torch.compile"]
        missing["torch.compile"] = "it takes minutes to compile; GM_BENCH_SLOW=1 asks for it"
    sides = {}
    for peer, (lib, compiled) in kinds.items():
        sides[peer] = side(lib, build, weights, train, compiled, firsts.setdefault(peer, []))
    case = f"{name}: {'training step' if train else 'inference'}"
    # The tolerance is of the largest of all gradients.  Where a ReLU stands at 0, or a batch's
    # variance, float32 decides otherwise than float64 in all libraries.
    rows = compete(
        Contest(
            case,
            arrays,
            sides,
            reference(build, weights, arrays, train),
            tolerance=2.0**18 if train else 4096,
            missing=missing,
        ),
        rounds,
    )
    seen = {
        peer: times
        for peer, times in firsts.items()
        if times and peer in ("gramme", "torch.compile")
    }
    gc.collect()
    return rows + (
        rows_of(f"{name}: first call{' of a step' if train else ''}", seen, {})
        if len(seen) > 1
        else []
    )


def vs_models(rounds):
    """Whole models, inference and training step: beside plain gramme, torch eager and
    torch.compile; and their first calls.  GM_BENCH_MODELS: a word that the names of those to run
    contain."""
    rows = []
    for name in MODELS:
        if os.environ.get("GM_BENCH_MODELS", "") in name:
            for train in (False, True):
                rows += contest_of(name, train, max(3, rounds // 2))
    return rows
