#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`gramme new-plugin`, and docs/plugin-guide.md: every command of the guide is run, every output
that it shows must come.

    ./in-tree python3 tests/plugin/new_plugin.py

The program `gramme` and gramme-plugin-1.pc are found as a user finds them; a build tree has an
-uninstalled one.  The project is made in a new home folder, built, checked against eager to the bit
(its own check.py), used by name, changed, and removed.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(
    os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2])
).resolve()
FENCED = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLUGINS = ".local/share/gramme/plugins-1"
NEEDED = ("autoreconf", "automake", "libtoolize", "pkg-config", "make")

passed = failed = 0


def expect(holds, what, output=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok' if holds else 'FAILED'}: {what}")
    if not holds and output:
        print(output[-3000:])
    return holds


def environment(home):
    env = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(
            ("MAKE", "MFLAGS", "XDG_", "GRAMME_LOGS", "GRAMME_BACKEND", "GRAMME_CACHE")
        )
    }
    for name in ("top_srcdir", "top_builddir", "srcdir", "CFLAGS"):
        env.pop(name, None)
    program = pathlib.Path(os.environ.get("GM_PROGRAM", "/"))
    build = os.environ.get("top_builddir") or (
        program.parent.name == ".libs" and str(program.parent.parent)
    )
    if build:
        env["PKG_CONFIG_PATH"] = os.path.join(build, "plugin-api")
    # The guide lists what is needed: numpy is not among it.
    (home / "without").mkdir(exist_ok=True)
    (home / "without" / "numpy.py").write_text("raise ImportError('not needed')\n")
    places = [str(home / "without"), env.get("PYTHONPATH")]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    # The home folder lies where others can write beside it: trusted by name, as a user's own need
    # not be.
    env.update(
        HOME=str(home),
        GM_STATE=str(home / "state"),
        GRAMME_PLUGIN_TRUST=":".join(
            filter(None, [str(home), os.environ.get("GRAMME_PLUGIN_TRUST")])
        ),
    )
    return env


def run(command, folder, env):
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1200,
    )
    return done.returncode, done.stdout


def follow_the_guide(home, env):
    folder, output = home, ""
    for kind, text in FENCED.findall((ROOT / "docs/plugin-guide.md").read_text()):
        if kind == "text":
            for line in text.splitlines():
                expect(line in output, f"the guide shows: {line.strip()}", output)
            continue
        where = home / "where"
        status, output = run(["sh", "-euc", f'{text}pwd >"{where}"'], folder, env)
        if not expect(
            status == 0, f"the guide's commands: {'; '.join(text.splitlines())[:70]}", output
        ):
            return
        folder = where.read_text().strip()
    left = sorted(p.name for p in (home / PLUGINS).iterdir())
    expect(not left, f"nothing is left behind {left}")
    status, output = run(["gramme", "why", "fma"], home, env)
    expect(status == 1, "gramme knows it no longer", output)


def refuse(home, env):
    (home / "there").mkdir()
    for arguments, wants, word in [
        ([], 2, "say what the back end is called"),
        (["a/b"], 2, "letters, digits and dashes"),
        (["1st"], 2, "letters, digits and dashes"),
        (["ends-"], 2, "letters, digits and dashes"),
        ([""], 2, "letters, digits and dashes"),
        (["x" * 41], 2, "letters, digits and dashes"),
        (["a", "b"], 2, "one name at a time"),
        (["a", "--dir"], 2, "--dir wants a folder"),
        (["a", "--template", "large"], 2, "the templates are minimal and full"),
        (["a", "--frob"], 2, "there is no option --frob"),
        (["there"], 1, "nothing was written"),
        (["a", "--dir", "there"], 1, "nothing was written"),
        (["a", "--dir", "no/such"], 1, "make the folder that it is to lie in first"),
    ]:
        status, output = run(["gramme", "new-plugin", *arguments], home, env)
        expect(
            status == wants and word in output,
            f"gramme new-plugin {' '.join(arguments)[:30]}: {word}",
            output,
        )
    expect(
        not list((home / "there").iterdir()) and not (home / "a").exists(), "and nothing is written"
    )


def names_with_dashes(home, env):
    status, output = run(["gramme", "new-plugin", "My-2nd-one", "--dir", "other"], home, env)
    expect(status == 0, "a name with dashes", output)
    makefile = (home / "other/Makefile.am").read_text()
    expect(
        "libgramme_My_2nd_one_la_SOURCES = My-2nd-one.c" in makefile, "automake's spelling of it"
    )
    expect((home / "other/My-2nd-one.c").exists(), "and its file")
    left = [
        p.name
        for p in (home / "other").iterdir()
        if re.search(r"@(C_)?NAME@", p.name + p.read_text())
    ]
    expect(not left, f"no placeholder is left {left}")


def main():
    missing = [tool for tool in NEEDED if not shutil.which(tool)]
    if missing:
        print(f"skipped: {', '.join(missing)} not found")
        return 77
    with tempfile.TemporaryDirectory(prefix="new-plugin-") as folder:
        home = pathlib.Path(folder)
        env = environment(home)
        refuse(home, env)
        names_with_dashes(home, env)
        follow_the_guide(home, env)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
