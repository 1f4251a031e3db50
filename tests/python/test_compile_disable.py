# SPDX-License-Identifier: Apache-2.0
"""Variables and a switch with which nothing is compiled; what save() says of modules."""

import io
import subprocess
import sys

import pytest

import gramme as G
from gramme._dynamo import config
from gramme.testing import CompileCounter

SCRIPT = """
import gramme as g
count = g.testing.CompileCounter()
g.compile(lambda x: x + 1, backend=count)(g.ones(1))
model = g.nn.Linear(1, 1)
model.compile(backend=count)
model(g.ones(1))
print(count.frame_count)
"""


@pytest.mark.parametrize(
    "variables, graphs, warned",
    [
        ({}, 2, False),
        ({"GRAMME_COMPILE_DISABLE": "1"}, 0, False),
        ({"TORCH_COMPILE_DISABLE": "1"}, 0, False),
        ({"TORCHDYNAMO_DISABLE": "1"}, 0, False),
        ({"TORCH_COMPILE_DISABLE": "0", "TORCHDYNAMO_DISABLE": ""}, 2, False),
        ({"TORCH_COMPILE_DISABLE": "1", "GRAMME_COMPILE_DISABLE": "0"}, 2, False),
        ({"GRAMME_COMPILE_DISABLE": "yes"}, 2, True),
    ],
    ids=str,
)
def test_a_variable_says_that_nothing_is_compiled(monkeypatch, variables, graphs, warned):
    for name in ("GRAMME_COMPILE_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-B", "-c", SCRIPT], capture_output=True, text=True)
    assert done.stdout == f"{graphs}\n", done.stderr
    assert ("GRAMME_COMPILE_DISABLE is 1 or 0, not 'yes'" in done.stderr) == warned


def test_the_switch_is_read_by_compile_and_explain_goes_on():
    count = CompileCounter()
    f = lambda x: x * 2
    with config.patch(disable=True):
        assert G.compile(f, backend=count) is f
        assert "mul" in str(G.compiler.explain(f)(G.ones(3)))
    assert G.compile(f, backend=count)(G.ones(3)).tolist() == [2.0] * 3
    assert count.frame_count == 1


def test_save_says_how_a_module_is_saved():
    model = G.nn.Linear(1, 1)
    for value, path in ((model, "obj"), ({"m": model}, "obj.m")):
        said = rf"save {path}.state_dict\(\), which load_state_dict\(gramme.load\(...\)\)"
        with pytest.raises(TypeError, match=said):
            G.save(value, io.BytesIO())
    file = io.BytesIO()
    G.save(model.state_dict(), file)
    file.seek(0)
    other = G.nn.Linear(1, 1)
    other.load_state_dict(G.load(file))
    assert other.weight.tolist() == model.weight.tolist()
