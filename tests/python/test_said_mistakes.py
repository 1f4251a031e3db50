# SPDX-License-Identifier: Apache-2.0
"""Mistakes at a shell are said: variables that hold no number, a cache that cannot be cleared,
texts that a back end has not."""

import os
import pathlib
import subprocess
import sys

import pytest

import gramme

ROOT = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2]))


def run(*command, **env):
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, **env))
    return done.returncode, done.stdout, done.stderr


def gramme_tool(*arguments, **env):
    return run("gramme", *arguments, **env)


THREADS = (
    "import gramme as g; g.get_num_threads(); (g.ones(200, 200) @ g.ones(200, 200)).sum(); "
    "print('went on', g.get_num_threads() > 0)"
)


@pytest.mark.parametrize("value", ["2x", "0"])
def test_a_number_of_threads_that_is_none_is_named_and_not_used(value):
    code, out, err = run(sys.executable, "-c", THREADS, GRAMME_NUM_THREADS=value)
    assert (
        code == 0
        and "went on True" in out
        and err.count(f"GRAMME_NUM_THREADS={value} is not used") == 1
    ), err


STORES = (
    "import gramme as g; [g.compile(f, backend='cc', options={'wait': 'true'})(g.ones(3)) for f in "
    "(lambda x: x * 2 + 1, lambda x: x - 3)]"
)
needs_cc = pytest.mark.skipif(
    "cc" not in gramme.compiler.list_backends(), reason="the back end cc is not installed"
)


@needs_cc
@pytest.mark.parametrize("value", ["abc"])
def test_a_size_of_the_cache_that_is_no_number_is_named_and_not_used(value, tmp_path):
    code, _, err = run(
        sys.executable,
        "-c",
        STORES,
        GRAMME_CACHE_MB=value,
        GRAMME_CACHE="1",
        GRAMME_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert code == 0 and err.count(f"GRAMME_CACHE_MB={value} is not used") == 1, err
    assert (
        run(
            sys.executable,
            "-c",
            STORES,
            GRAMME_CACHE_MB="",
            GRAMME_CACHE="1",
            GRAMME_CACHE_DIR=str(tmp_path / "cache"),
        )[2]
        == ""
    )


@needs_cc
@pytest.mark.parametrize(
    "said",
    [
        *(f"GRAMME_CC_LIMIT={n}" for n in ("abc", "0", "5s")),
        "GRAMME_CACHE=no",
        "GRAMME_PROFILE=off",
    ],
)
def test_a_variable_with_another_value_than_it_takes_is_named_once(said, tmp_path):
    name, value = said.split("=")
    variables = {"GRAMME_CACHE": "1", "GRAMME_CACHE_DIR": str(tmp_path / "cache"), name: value}
    code, _, err = run(sys.executable, "-c", STORES, **variables)
    assert code == 0 and err.count(f"{said} is not used: it takes") == 1, err
    for fine in ("600" if name == "GRAMME_CC_LIMIT" else "1", ""):
        assert run(sys.executable, "-c", STORES, **{**variables, name: fine})[2] == ""


@needs_cc
def test_a_cache_that_cannot_be_cleared_is_an_error(tmp_path):
    folder = tmp_path / "cache"
    env = {"GRAMME_CACHE": "1", "GRAMME_CACHE_DIR": str(folder)}
    run(sys.executable, "-c", STORES, **env)
    (folder / ("0" * 64)).mkdir()  # no user can unlink a folder, root included
    code, out, err = gramme_tool("cache", "clear", **env)
    assert (
        code == 1
        and "4 entries removed" in out
        and "1 of 5 entries cannot be removed: Is a directory" in err
    )
    (folder / ("0" * 64)).rmdir()
    assert gramme_tool("cache", "clear", **env)[0] == 0


def test_a_back_end_without_texts_is_no_matter_of_an_option(tmp_path):
    graph = tmp_path / "x.gm"
    graph.write_text("f (%x: f32[3]) -> (%0) {\n %0 = exp %x\n}\n")
    code, _, err = gramme_tool("opt", "--backend", "tcc", "--emit", "c", str(graph))
    assert code != 0 and "back end tcc has no text to show" in err and "keep-text" not in err


def test_the_check_of_a_new_plugin_needs_no_numpy():
    text = (ROOT / "tools/new-plugin/check.py.in").read_text().replace("@NAME@", "tcc")
    code, _, err = run(
        sys.executable,
        "-c",
        "import sys; sys.modules['numpy'] = None\n" + text,
        GRAMME_BACKEND="tcc",
    )
    assert code == 0, err


def test_the_kit_prints_the_rule_that_is_broken():
    rules = (ROOT / "tools/kit/kit_rules.def").read_text()
    guide = (ROOT / "docs/plugin-guide.md").read_text()
    assert (
        'RULE ("GPP-8", "`run` writes every element' in rules
        and "# GPP-8: `run` writes every element" in guide
    )
