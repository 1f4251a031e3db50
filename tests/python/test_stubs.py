# SPDX-License-Identifier: Apache-2.0
"""The .pyi files that build-aux/stubs.py writes: they have every public name, and what they say of
results is so."""

import ast
import pathlib
import subprocess
import sys
import types

import pytest

import gramme as G
import gramme.nn.functional
import gramme.nn.modules
from gramme import _absent

PACKAGE = pathlib.Path(G.__file__).parent
STUBS = {
    "__init__.pyi": G,
    "nn/functional.pyi": G.nn.functional,
    "nn/modules/__init__.pyi": G.nn.modules,
}
if not (PACKAGE / "py.typed").exists() or "def add" not in (PACKAGE / "__init__.pyi").read_text():
    pytest.skip("this build has no stubs: sanitizers", allow_module_level=True)


def parsed(name):
    return ast.parse((PACKAGE / name).read_text())


def names(body):
    found = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
        elif isinstance(node, ast.ImportFrom):
            found.update({alias.asname or alias.name: node for alias in node.names})
    return found


@pytest.mark.parametrize("name", STUBS)
def test_each_public_name_of_a_module_is_in_its_stub(name):
    module = STUBS[name]
    for late in vars(module).get("_FROM", ()):
        getattr(module, late)
    public = {
        n
        for n, value in vars(module).items()
        if not n.startswith("_") and not isinstance(value, types.ModuleType)
    }
    public -= {
        n.rpartition(".")[2] for n in _absent.TABLE
    }  # an editor marks what raises when it is called
    assert public - set(names(parsed(name).body)) == set()


def test_each_public_name_of_tensor_is_in_the_stub():
    tensor = names(parsed("_core.pyi").body)["Tensor"]
    assert {n for n in dir(G.Tensor) if not n.startswith("_")} - set(names(tensor.body)) == set()


def test_lazy_modules_are_in_the_stub():
    assert {*G._LATER, *G._FROM} <= set(names(parsed("__init__.pyi").body))


def test_imports_of_stubs_can_be_imported():
    for name in STUBS:
        for node in parsed(name).body:
            if isinstance(node, ast.ImportFrom) and node.module.startswith("gramme"):
                for alias in node.names:
                    scope = {}
                    exec(f"from {node.module} import {alias.name}", scope)


def test_functions_of_one_tensor_give_what_the_stub_says():
    tried = 0
    for n, node in names(parsed("__init__.pyi").body).items():
        if (
            not isinstance(node, ast.FunctionDef)
            or node.returns.id != "Tensor"
            or [a.arg for a in node.args.args][:1] != ["input"]
        ):
            continue
        if len(node.args.args) - len(node.args.defaults) > 1:
            continue
        for argument in (G.full((2, 2), 0.5), G.full((3,), 0.5), G.ones(2, 2, dtype=G.int64)):
            try:
                result = getattr(G, n)(argument)
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
                continue
            assert isinstance(result, G.Tensor), n
            tried += 1
    assert tried > 200


def test_parameters_and_documentation_are_those_of_the_table():
    found = names(parsed("__init__.pyi").body)
    assert [a.arg for a in found["add"].args.args + found["add"].args.kwonlyargs] == [
        "input",
        "other",
        "alpha",
    ]
    assert "Shapes broadcast" in ast.get_docstring(found["add"])
    method = names(names(parsed("_core.pyi").body)["Tensor"].body)["add"]
    assert [a.arg for a in method.args.args] == ["self", "other"]
    assert [found[n].returns.id for n in ("add", "topk", "max_pool2d", "split", "tensor")] == [
        "Tensor",
        "Any",
        "Any",
        "Any",
        "Tensor",
    ]


def test_a_type_checker_reads_them(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(
        "import gramme as torch\nx = torch.ones(2, "
        "3)\nreveal_type(torch.tanh(x).sum())\nx.no_such_name\ntorch.nn.Linear(2, 3)\n"
    )
    said = subprocess.run(
        [sys.executable, "-m", "mypy", str(program)], capture_output=True, text=True, cwd=tmp_path
    ).stdout
    assert (
        'Revealed type is "gramme._core.Tensor"' in said
        and '"Tensor" has no attribute "no_such_name"' in said
    )
    assert "Found 1 error" in said
