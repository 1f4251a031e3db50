# SPDX-License-Identifier: Apache-2.0
"""The manual page gramme(1) and the completion for bash: both are made of the help's tables."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

TOP = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ["GM_PROGRAM"]).parent.parent


def rows(name, pattern):
    return re.findall(pattern, (TOP / "tools" / name).read_text(), re.MULTILINE)


TOOLS = rows("tools.def", r'^TOOL \("([\w-]+)"')
OPTIONS = rows("options.def", r'^OPTION \(([\w-]+), *"(--[\w-]+)( ?[^"]*)"')
VARIABLES = rows("variables.def", r'^VARIABLE \("(\w+)"')


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def test_the_manual_page_has_each_subcommand_option_and_variable():
    page = output("gramme", "help", "--man")
    assert page == (BUILD / "tools/gramme.1").read_text(), "that of the build is another"
    shown = page.replace("\\-", "-")
    assert len(TOOLS) > 8 and len(OPTIONS) > 20 and len(VARIABLES) > 10
    for word in [*TOOLS, *(option for _, option, _ in OPTIONS), *VARIABLES]:
        assert f"\\fB{word}\\fR" in shown


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_roff_has_nothing_to_say_about_it():
    page = BUILD / "tools/gramme.1"
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and "User Commands" in done.stdout


def complete(*words):
    """The words that bash offers at the end of a command line."""
    line = " ".join(f"'{word}'" for word in words)
    text = f"source {BUILD}/tools/completions/gramme; COMP_WORDS=({line})"
    text += f"; COMP_CWORD={len(words) - 1}; _gramme"
    return output("bash", "-c", f'{text}; printf "%s\\n" "${{COMPREPLY[@]}}"').split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_subcommands_options_and_back_ends(tmp_path, monkeypatch):
    assert set(complete("gramme", "")) == {*TOOLS, "--help", "--version"}
    assert complete("gramme", "ins") == ["inspect"]
    for tool in TOOLS:
        assert set(complete("gramme", tool, "--")) == {
            "--help",
            *(option for of, option, _ in OPTIONS if of == tool),
        }
    assert {"eager", "auto"} <= set(complete("gramme", "inspect", ""))
    assert complete("gramme", "run", "--backend", "eag") == ["eager"]
    assert complete("gramme", "cache", "cl") == ["clear"]
    assert complete("gramme", "help", "che") == ["check-plugin"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("")
    assert complete("gramme", "run", "scr") == ["script.py"]
    assert complete("gramme", "opt", "--option", "") == []


def test_the_page_on_running_has_the_same_variables():
    table = (
        (TOP / "docs/running.md")
        .read_text()
        .partition("| variable | what it does |")[2]
        .partition("\n\n")[0]
    )
    named = [
        name
        for line in table.splitlines()
        for name in re.findall(r"`(\w+)`", line.split("|")[1] if "|" in line else "")
    ]
    assert named == VARIABLES
    assert all(name in output("gramme", "--help") for name in VARIABLES)


def test_no_other_variable_is_read():
    """GRAMME_EXPLAIN is the program's own word to the package."""
    found = set()
    for folder in ("core", "python", "plugins", "tools"):
        for path in (TOP / folder).rglob("*.[cp]*"):
            if path.suffix in (".c", ".py"):
                found |= set(re.findall(r'"(GRAMME_[A-Z_]+)"', path.read_text(errors="replace")))
    assert found - {"GRAMME_EXPLAIN"} == set(VARIABLES)
