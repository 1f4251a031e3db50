# SPDX-License-Identifier: Apache-2.0
"""The `gramme` program, as a user types it."""
import json
import os
import shutil
import subprocess

import pytest

import gramme
from stress import undisturbed


def run(*args, check=True, **env):
    done = subprocess.run(
        ["gramme", *args], capture_output=True, text=True, env={**os.environ, **env}
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def test_inspect_lists_every_plugin_with_its_state():
    lines = run("inspect").stdout.splitlines()
    rows = {line.split()[0]: line for line in lines[1:]}
    assert set(gramme.compiler.list_backends()) == {
        name for name, line in rows.items() if " ok " in line
    }
    assert "eager" in rows and "null" in rows


def test_inspect_describes_one_plugin():
    text = run("inspect", "eager").stdout
    for word in ("org.gramme.eager", "dtypes", "f32", "libgramme-eager.so"):
        assert word in text


def test_inspect_speaks_json():
    rows = json.loads(run("inspect", "--json").stdout)
    names = {row["name"] for row in (rows["plugins"] if isinstance(rows, dict) else rows)}
    assert "eager" in names


def test_why_says_of_each_back_end_that_it_is_used():
    for name in ("auto", "eager", "null"):
        done = run("why", name)
        assert done.returncode == 0 and "  used; " in done.stdout and "null)" not in done.stdout
    assert "used; part of gramme, no file to be tried" in run("why", "auto").stdout
    assert "installed: auto, " in run("why", "nosuch", check=False).stderr


@pytest.mark.parametrize(
    "damage, word", [("truncated", "truncated"), ("writable", "chmod"), ("no-note", "manifest")]
)
def test_inspect_says_why_a_file_is_refused(tmp_path, damage, word):
    source = os.path.join(os.environ["GRAMME_PLUGIN_PATH"].split(":")[0], "libgramme-eager.so")
    file = tmp_path / "libgramme-broken.so"
    shutil.copy(source, file)
    file.chmod(0o755)
    if damage == "truncated":
        os.truncate(file, 300)
    elif damage == "writable":
        file.chmod(0o777)
    else:
        subprocess.run(["strip", "--remove-section=.note.gramme.plugin", str(file)], check=True)
    tmp_path.chmod(0o755)
    done = run("inspect", GRAMME_PLUGIN_PATH=str(tmp_path), GRAMME_PLUGIN_TRUST=str(tmp_path))
    row = next(line for line in done.stdout.splitlines() if str(file) in line)
    assert " ok " not in row
    assert word.lower() in done.stdout.lower()


def test_run_sets_the_default_back_end_and_passes_arguments_and_status(tmp_path):
    script = tmp_path / "s.py"
    script.write_text(
        "import sys, gramme\nprint(gramme.compile(lambda x: x).backend, "
        "sys.argv[1:])\nsys.exit(7)\n"
    )
    done = run("run", "--backend", "eager", str(script), "a", "b", check=False)
    assert done.stdout == "eager ['a', 'b']\n"
    assert done.returncode == 7


def test_run_refuses_an_unknown_back_end_and_names_the_near_one(tmp_path):
    done = run("run", "--backend", "eagr", str(tmp_path / "s.py"), check=False)
    assert done.returncode != 0
    assert 'did you mean "eager"' in done.stderr


@undisturbed
def test_explain_shows_graph_guards_and_breaks(tmp_path):
    script = tmp_path / "s.py"
    script.write_text(
        "import gramme, warnings\nwarnings.simplefilter('ignore')\n"
        "f = gramme.compile(lambda x: x + 1)\nf(gramme.ones(2))\n"
        "g = gramme.compile(lambda x: x if x.sum() > 0 else -x)\ng(gramme.ones(2))\n"
    )
    text = run("explain", str(script)).stdout
    for word in ("add %x", "L['x']: TENSOR f32[2]", "DATA_DEPENDENT_BRANCH", "hint:"):
        assert word in text


def test_opt_prints_what_it_parsed():
    graph = "graph (%x: f32[2]) -> (%0) {\n  %0 = tanh %x : f32[2]\n}\n"
    done = subprocess.run(["gramme", "opt", "-"], input=graph, capture_output=True, text=True)
    assert done.stdout == graph, done.stderr


def test_bench_lists_and_runs_a_case_by_name(tmp_path):
    bench = os.path.join(os.path.dirname(__file__), "..", "..", "bench")
    listed = run("bench", "--list", GM_BENCHDIR=bench).stdout
    for name in (
        "warm_call",
        "cold_compile",
        "guards_values",
        "cc_builds",
        "from_disk",
        "steadiness",
        "package_size",
    ):
        assert f"\n{name} " in f"\n{listed}", name
    report = tmp_path / "r.json"
    run("bench", "--json", str(report), "--rounds", "1", "mark", GM_BENCHDIR=bench)
    rows = json.loads(report.read_text())["cases"]["mark"]
    assert [row["side"] for row in rows] == [
        f"{w} writes, {n} live variables" for w in ("no", 8) for n in (10, 1000, 100000)
    ]


def test_bench_compares_with_other_libraries_accuracy_first(tmp_path):
    pytest.importorskip("numpy")
    bench = os.path.join(os.environ["top_srcdir"], "bench")
    report, drawn = tmp_path / "report.json", tmp_path / "bars.svg"
    listed = run("bench", "--list", GM_BENCHDIR=bench).stdout
    for name in (
        "call cold guards pointwise rows matmul mlp convnet lstm block memory by_hand triad chains "
        "convolve pool warm_start"
    ).split():
        assert f"\nvs_{name} " in listed, name
    text = run(
        "bench",
        "--json",
        str(report),
        "--plot",
        str(drawn),
        "--rounds",
        "1",
        "vs_call",
        GM_BENCHDIR=bench,
    ).stdout
    rows = {row["peer"]: row for row in json.loads(report.read_text())["rows"]}
    assert set(rows) == {"numpy", "torch", "torch.compile", "jax"}
    assert rows["numpy"]["case"] == "add one, 16 numbers" and rows["numpy"]["ours_error"] <= 1
    assert rows["numpy"]["ratio"] == pytest.approx(rows["numpy"]["theirs"] / rows["numpy"]["ours"])
    for row in rows.values():
        assert "ratio" in row or row["not_run"]  # what was not run says why
    assert "numpy" in text and drawn.read_text().startswith("<svg")


def test_bench_writes_its_tables_into_a_file_and_leaves_the_rest(tmp_path):
    bench, file = os.path.join(os.environ["top_srcdir"], "bench"), tmp_path / "RESULTS.md"
    file.write_text(
        "# Results\n\nWords.\n\n### mark\n\nOld.\n\n| old |\n|---|\n| 1 |\n\nWhat people say of "
        "it.\n\n## Other\n\n| kept |\n|---|\n| 2 |\n"
    )
    for _ in range(2):
        run("bench", "--results", str(file), "--rounds", "1", "mark", GM_BENCHDIR=bench)
    text = file.read_text()
    assert (
        "old" not in text.lower()
        and text.count("### mark") == 1
        and text.count("| no writes, 10 live variables |") == 1
    )
    assert (
        text.startswith("# Results\n\nWords.\n\n### mark\n")
        and "|\n\nWhat people say of it.\n\n## Other\n\n| kept |\n|---|\n| 2 |\n" in text
    )
    pytest.importorskip("numpy")
    for _ in range(2):
        run("bench", "--results", str(file), "--rounds", "1", "vs_call", GM_BENCHDIR=bench)
    text = file.read_text()
    assert (
        text.count("### vs_call") == 1
        and text.count("| add one, 16 numbers |") == 1
        and "What people say of it." in text
    )
    assert "| case | ours, least | numpy | torch |" in text


def test_bench_runs_its_cases_on_a_gpu(tmp_path):
    pytest.importorskip("numpy")
    build = os.path.dirname(os.path.dirname(os.environ["GM_PROGRAM"]))
    fake = os.path.join(build, "tests", "gpu", ".libs", "libgramme-fake-cuda.so")
    if not os.path.exists(fake):
        pytest.skip("the simulated GPU is not built: make check builds it")
    report = tmp_path / "report.json"
    gpu = {
        "GM_BENCHDIR": os.path.join(os.environ["top_srcdir"], "bench"),
        "GRAMME_CUDA_DRIVER": fake,
        "GRAMME_NVRTC": fake,
    }
    text = run(
        "bench",
        "--device",
        "cuda",
        "--quick",
        "--rounds",
        "1",
        "--json",
        str(report),
        "pointwise",
        "layer_norm",
        "matmul",
        **gpu,
    ).stdout
    assert "simulated GPU" in text
    rows = json.loads(report.read_text())["rows"]
    assert {row["case"].split(",")[0] for row in rows} == {
        "x sigmoid(x) + 2 tanh(x)",
        "layer norm",
        "x w",
        "gelu (x w + b)",
    }
    assert {row["case"].split(", ")[-1] for row in rows} == {"float32", "bfloat16"}
    for row in rows:
        assert row["peer"] != "gramme", row[
            "not_run"
        ]  # ours took part: near enough to the reference in double precision
        assert "ratio" in row or row["not_run"]
        assert "ratio" not in row or 0 <= row["ours_error"] <= 256
    assert [
        row["peer"] for row in rows if row["case"].startswith("layer norm") and "ratio" in row
    ].count("a copy") == 2
    assert (
        "no GPU can be used"
        in run(
            "bench",
            "--device",
            "cuda",
            check=False,
            GM_BENCHDIR=gpu["GM_BENCHDIR"],
            GRAMME_CUDA_DRIVER="",
        ).stderr
    )


def test_an_unknown_subcommand_lists_the_known_ones():
    done = run("frobnicate", check=False)
    assert done.returncode != 0
    assert "inspect" in done.stderr + done.stdout


GRAPH = "forward (%x: f32[4]) -> (%1) {\n %0 = exp %x  # a.py:1\n %1 = neg %0\n}\n"


def test_inspect_shows_where_each_node_of_a_graph_runs_and_why(tmp_path):
    file = tmp_path / "x.gm"
    file.write_text(GRAPH)
    text = run("inspect", "--graph", str(file), "null").stdout
    assert text.startswith("forward: 0 of 2 nodes in 0 regions of null\n")
    assert "0 exp at a.py:1" in text and "eager: it does not know this operator" in text
    text = run("inspect", "--graph", str(file), "eager").stdout
    assert (
        "2 of 2 nodes in 1 region of eager, nothing in eager" in text and "eager, region 0" in text
    )
    assert run("inspect", "--graph", str(file), check=False).returncode == 2
    assert "no-such" in run("inspect", "--graph", str(file), "no-such", check=False).stderr


@undisturbed
def test_explain_says_which_nodes_the_host_runs_and_why():
    @gramme.compile(backend="null")
    def f(x):
        return gramme.exp(x).sum()

    text = str(gramme.compiler.explain(f)(gramme.ones(3)))
    assert "forward: 0 of 2 nodes in 0 regions of null" in text
    assert "eager: exp at " in text and ": it does not know this operator" in text
    assert f.entries()[0]["places"].startswith("forward: ")
