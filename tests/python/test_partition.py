# SPDX-License-Identifier: Apache-2.0
"""What is saved for the backward is a matter of memory and time, never of bits."""

import os
import subprocess
import sys

import gramme
import pytest
from gramme import nn
from gramme.nn import functional as F

OPTIONS = [None, {"partition": "min-cut"}, *({"memory-budget": b} for b in (0, 0.25, 0.5, 0.75, 1))]


class Block(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False, is_causal=True)[0]
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.2)


def loss_of(model, x):
    return (model(x) ** 2).mean()


def step(fn):
    gramme.manual_seed(2)
    model, x = Block(), gramme.randn(3, 7, 16, requires_grad=True)
    for _ in range(2):
        x.grad = None
        for p in model.parameters():
            p.grad = None
        loss = fn(model, x)
        loss.backward()
    return [
        t.detach().numpy().tobytes() for t in (loss, x.grad, *(p.grad for p in model.parameters()))
    ]


@pytest.mark.parametrize(
    "backend", [b for b in ("eager", "tcc") if b in gramme.compiler.list_backends()]
)
@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_gives_the_bits_of_the_plain_call(backend, options):
    compiled = gramme.compile(loss_of, backend=backend, options=options, fullgraph=True)
    assert step(compiled) == step(loss_of)


@pytest.mark.parametrize(
    "options",
    [
        {"partition": "least"},
        {"memory-budget": 2},
        {"memory-budget": "half"},
        {"memory-budget": -0.5},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="partition|memory-budget"):
        gramme.compile(loss_of, backend="eager", options=options)(Block(), gramme.randn(3, 7, 16))


PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import gramme, test_partition
f = gramme.compile(test_partition.loss_of, backend="eager", options={{"memory-budget": 0.5}})
f(test_partition.Block(), gramme.randn(3, 7, 16, requires_grad=True))
"""


def test_graphs_are_the_same_in_every_process():
    texts = set()
    for seed in ("0", "1", "77"):
        env = dict(os.environ, PYTHONHASHSEED=seed, GRAMME_LOGS="aot_graphs")
        program = PROGRAM.format(folder=os.path.dirname(__file__))
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert "backward (" in done.stderr
        texts.add(done.stderr)
    assert len(texts) == 1
