# SPDX-License-Identifier: Apache-2.0
"""The script ./quickstart, with programs that stand in for dpkg, configure and make: what it runs,
and what it says."""

import os
import pathlib
import shutil
import subprocess

import pytest

TOP = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2]))

PROGRAMS = {
    # Says that the packages that the file `packages` names are installed.
    "dpkg-query": """
format=$3
shift 3
for name; do
  if grep -qx "$name" "$STATE/packages"; then
    case $format in
    *Package*) echo "$name 1 install ok installed" ;;
    *) printf 'install ok installed' ;;
    esac
  fi
done
""",
    "apt-get": """
for word; do
  case $word in -*|install|update) ;; *) echo "$word" >>"$STATE/packages" ;; esac
done
echo "apt-get $*" >>"$STATE/log"
""",
    "autoreconf": "touch configure",
    "id": "echo 0",
    "nproc": "echo 2",
    "make": """
case $* in
-n) printf '%s\\n' 'echo "  CC      " one.lo' 'echo "  CC      " two.lo' ;;
*tally*) echo "3 passed, 0 failed" ;;
*) echo "make $*" >>"$STATE/log" ;;
esac
""",
}
CONFIGURE = """#!/bin/sh
echo "configure $*" >>"$STATE/log"
printf '#!/bin/sh\\necho "config.status $*" >>"$STATE/log"\\ntouch config.status\\n' >config.status
chmod +x config.status
printf '#!/bin/sh\\necho "in-tree $*" >>"$STATE/log"\\n' >in-tree
chmod +x in-tree
"""


@pytest.fixture
def tree(tmp_path):
    clone, state, bin_ = tmp_path / "clone", tmp_path / "state", tmp_path / "bin"
    for folder in (clone, state, bin_):
        folder.mkdir()
    shutil.copy(TOP / "quickstart", clone)
    (clone / "configure.ac").write_text("")
    (clone / "configure").write_text(CONFIGURE)
    (clone / "configure").chmod(0o755)
    os.utime(clone / "configure.ac", (1, 1))
    for name, text in PROGRAMS.items():
        (bin_ / name).write_text("#!/bin/sh\n" + text)
        (bin_ / name).chmod(0o755)
    (state / "packages").write_text("build-essential\n")
    (state / "log").write_text("")

    def run(*arguments, **variables):
        environment = {
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "STATE": str(state),
            "HOME": str(tmp_path),
            **variables,
        }
        done = subprocess.run(
            ["bash", str(clone / "quickstart"), *arguments],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        log = (state / "log").read_text().splitlines()
        (state / "log").write_text("")
        return done.stdout, [line.split()[0] for line in log], log

    run.state = state
    return run


def test_the_first_run_configures_and_the_second_does_not(tree):
    assert tree("build")[1].count("configure") == 1
    said, programs, _ = tree("build")
    assert (
        "configure" not in programs
        and "config.status" not in programs
        and "apt-get" not in programs
    )
    assert "all needed packages are installed" in said


def test_packages_for_tests_are_seen_by_configure(tree):
    tree()
    said, programs, log = tree("check")
    assert "installing check" in said
    assert "config.status --recheck" in log and programs.index("config.status") < programs.index(
        "make"
    )
    assert "3 passed, 0 failed" in said
    assert "config.status" not in tree("check")[1]


def test_a_package_that_came_in_between_is_seen_by_configure(tree):
    tree("build")
    with open(tree.state / "packages", "a") as packages:
        packages.write("check\n")
    assert "config.status --recheck" in tree("build")[2]


def test_another_python_is_configured_anew(tree):
    assert "configure PYTHON=/usr/bin/python3" in tree("build")[2]
    assert "configure PYTHON=/opt/python3" in tree("build", PYTHON="/opt/python3")[2]


@pytest.mark.parametrize("arguments", [(), ("build",)], ids=["digits", "build"])
def test_the_last_line_says_how_to_go_on(tree, arguments):
    said, _, log = tree(*arguments)
    assert said.splitlines()[-1].startswith("quickstart: next: ./build/in-tree python3 yours.py")
    assert "make -C build install" in said.splitlines()[-1]
    assert "2 files to compile" in said
    assert any(line.startswith("in-tree python3 ../examples/digits.py") for line in log) == (
        not arguments
    )
