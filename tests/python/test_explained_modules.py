# SPDX-License-Identifier: Apache-2.0
"""explain() of programs with modules: what it calls them, which lines it names, and which guards it
lists."""

import os
import re
import subprocess

import pytest

import gramme as G

HERE = os.path.basename(__file__)


class Small(G.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = G.nn.Linear(3, 4)
        self.norm = G.nn.BatchNorm1d(4)
        self.scale = 2.0

    def forward(self, x):
        x = G.relu(self.norm(self.first(x)))
        return x * self.scale


class Worded(Small):
    word = ""

    def forward(self, x):
        return x if self.word else x + 1


LINE = Small.forward.__code__.co_firstlineno


def explained(model=None):
    return G.compiler.explain(model or Small(), backend="eager")(G.ones(2, 3))


def listed(text):
    return text.split("  guards:\n")[1].split("  ms by stage")[0]


def test_a_module_is_called_by_its_class():
    assert str(explained()).startswith("Small: 1 graph, 0 breaks")


def test_warnings_call_a_module_by_its_class():
    model = G.compile(Worded(), backend="eager")
    with pytest.warns(UserWarning, match=r"Worded\(\)"):
        for k in range(20):
            model.word = str(k)
            model(G.ones(2, 3))


def test_nodes_of_layers_have_the_line_of_the_program_first():
    text = str(explained())
    nodes = re.findall(r"^ +%\d+ = (\w+) .*?# (\S+)(?: \((\S+)\))?$", text, flags=re.M)
    assert nodes and all(
        line in (f"{HERE}:{LINE + 1}", f"{HERE}:{LINE + 2}") for _, line, _ in nodes
    )
    by_op = {op: inner for op, _, inner in nodes}
    assert by_op["matmul"].startswith("layers.py:") and by_op["rsqrt"].startswith(
        "normalization.py:"
    )
    assert by_op["relu"] == ""


def test_guards_of_layers_are_counted_and_those_of_arguments_listed():
    report = explained()
    text, whole = str(report), report.full()
    guards, every = listed(text), listed(whole)
    assert "L['args'][0]: TENSOR f32[2, 3]" in guards
    assert f"L['self'].scale == 2.0  # {__file__}:{LINE + 2}" in guards
    assert "CLASS_LOOKUP Linear" not in guards and "norm.running_mean" not in guards
    assert (
        "CLASS_LOOKUP Linear.forward" in every
        and "L['self'].norm.running_mean: TENSOR f32[4]" in every
    )
    assert not re.search(r"^\s*:", every, flags=re.M)  # no name where there is no value to name
    counted = int(re.search(r"and (\d+) about layers and how names are found", guards)[1])
    assert (
        counted == len(every.splitlines()) - (len(guards.splitlines()) - 1)
        and len(guards.splitlines()) < 15
    )


def test_guards_of_a_function_without_modules_are_all_listed():
    def f(box, x):
        return x * box["k"]

    report = G.compiler.explain(f, backend="eager")({"k": 3}, G.ones(2))
    assert listed(str(report)) == listed(report.full()) and "about layers" not in str(report)
    assert "TYPE dict" in str(report)


def test_a_page_holds_the_report_and_escapes_it():
    def f(x):
        return x + 1 if x.sum() > 0 else x

    f.__name__ = "<f>"
    report = G.compiler.explain(f, backend="eager")(G.ones(2))
    page = report.to_html()
    assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>")
    assert "<h1>&lt;f&gt;</h1>" in page and "<f>" not in page and "TENSOR f32[2]" in page
    assert page.count("<details>") == page.count("</details>") >= 1
    assert "<h2>break</h2>" in page and "DATA_DEPENDENT_BRANCH" in page
    assert "all guards" in explained().to_html()


def test_the_tool_lists_what_was_compiled_first(tmp_path):
    script = tmp_path / "two.py"
    script.write_text(
        "import gramme as G\n"
        "class One(G.nn.Module):\n    def forward(self, x): return x + 1\n"
        "class Two(G.nn.Linear):\n    pass\n"
        "models = One(), Two(3, 2)\n"
        "for model in models: G.compile(model, backend='eager')(G.ones(2, 3))\n"
    )

    def run(*options):
        done = subprocess.run(
            ["gramme", "explain", *options, str(script)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    folded, whole = run(), run("--full")
    assert re.match(r"compiled functions:\n  One: 1 graph.*\n  Two: 1 graph.*\n\n", folded)
    assert "CLASS_LOOKUP" in whole and len(whole.splitlines()) > len(folded.splitlines())
    assert run("--full", "--backend", "eager").startswith("compiled functions:")
