# SPDX-License-Identifier: Apache-2.0
"""`gramme SUBCOMMAND --help` tells each option that the subcommand takes, and the subcommand takes
each that it tells."""

import os
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2]))
ROWS = re.findall(
    r'^OPTION \(([\w-]+),\s*"(--[\w-]+) ?([^"]*)",\s*"([^"]*)"\)$',
    (TOP / "tools/options.def").read_text(),
    re.MULTILINE,
)
SOURCES = {
    "check-plugin": ["kit/kit.c"],
    "opt": ["opt.c"],
    "explain": ["explain.c", "run.c"],
    "run": ["run.c"],
    "inspect": ["inspect.c"],
}
VALUES = {
    "--filter": "^no-such-case$",
    "--json": "-",
    "--host-version": "0.1",
    "--stages": "s",
    "--rewrite": "dead",
    "--option": "partition=min-cut",
    "--backend": "eager",
    "--emit": "text",
}


def run(*words, **more):
    return subprocess.run(["gramme", *words], capture_output=True, text=True, **more)


@pytest.mark.parametrize("tool", sorted(SOURCES))
def test_help_has_each_option_of_the_source(tool):
    said = run(tool, "--help")
    assert said.returncode == 0
    taken = set()
    for name in SOURCES[tool]:
        text = (TOP / "tools" / name).read_text()
        taken |= set(
            re.findall(
                (
                    r"(?:take_value \(argv, argc, &i, |value_of \(|strcmp \((?:argv\[\w+\]|arg), "
                    r')"(--[\w-]+)"'
                ),
                text,
            )
        )
    told = {option for of, option, _, _ in ROWS if of == tool}
    assert told == taken - ({"--capture-all"} if tool == "explain" else set())
    for of, option, value, what in ROWS:
        assert (f"  {option} {value}".rstrip() in said.stdout and what in said.stdout) == (
            of == tool
        ) or what in said.stdout


@pytest.mark.parametrize(
    "tool, option, value",
    [row[:3] for row in ROWS if row[0] in ("check-plugin", "opt")],
    ids=lambda x: x or "-",
)
def test_an_option_that_is_told_is_taken(tool, option, value):
    words = [option] + ([VALUES.get(option, "1")] if value else [])
    file = "/no/such/file.so" if tool == "check-plugin" else "-"
    done = run(
        tool, *words, file, input="graph (%x: f32[2]) -> (%0) {\n  %0 = tanh %x : f32[2]\n}\n"
    )
    assert "usage:" not in done.stderr and "no option" not in done.stderr, done.stderr
    assert run(tool, "--no-such-option", file, input="").returncode == 2


def test_the_license_of_a_back_end_names_what_is_linked_into_it():
    said = run("inspect", "tcc")
    if said.returncode:
        pytest.skip("this build has no back end tcc")
    assert re.search(r"license +Apache-2\.0 AND LGPL-2\.1-or-later", said.stdout), said.stdout
    assert (
        "libgramme-tcc.so" in (TOP / "NOTICE").read_text()
        and "GNU LESSER GENERAL PUBLIC LICENSE" in (TOP / "licenses/LGPL-2.1.txt").read_text()
    )
