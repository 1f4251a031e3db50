#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs CPython's own test modules with every function captured, and compares test by test with
plain Python.

    run.py [--short | --all] [--verbose] [MODULE ...]      default: all of modules.txt

Each module runs twice, plain and captured, each in a process of its own.  A test that passes
plainly and not when captured is a failure, and so is a process that dies or hangs.  Printed per
module: its tests, the functions that were captured, and how many of them without a graph break.
--all takes every module that the interpreter has, and passes over those that plain Python does not
end within two minutes.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 600
LIMIT_PLAIN_S = 120


# -- In the child: one module, plain or captured


def run_child(module, captured, out):
    import unittest

    class Result(unittest.TestResult):
        outcomes = {}

        def startTest(self, test):
            super().startTest(test)
            with open(out + ".now", "w") as file:
                file.write(test.id())
            self.outcomes[test.id()] = ("ok", "")

        def note(self, test, kind, text):
            self.outcomes[test.id()] = (kind, text)

        def addError(self, test, err):
            self.note(
                test,
                "error",
                self._exc_info_to_string(err, test)
                if hasattr(test, "failureException")
                else str(err[1]),
            )

        def addFailure(self, test, err):
            self.note(test, "failure", self._exc_info_to_string(err, test))

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.note(test, "failure", self._exc_info_to_string(err, test))

        def addSkip(self, test, reason):
            self.note(test, "skip", reason)

        def addExpectedFailure(self, test, err):
            self.note(test, "expected failure", "")

        def addUnexpectedSuccess(self, test):
            self.note(test, "unexpected success", "")

    from test import support

    # Not what needs a network, a screen or gigabytes.
    support.use_resources = ["cpu", "decimal", "subprocess", "tzdata", "walltime"]

    def run():
        suite = unittest.defaultTestLoader.loadTestsFromName("test." + module)
        suite.run(Result())

    counters = {}
    start = time.monotonic()
    if captured:
        from gramme._dynamo import capture_all
        from gramme._dynamo.utils import counters as live

        with capture_all(backend="eager"):
            run()
        counters = {section: dict(live[section]) for section in live}
    else:
        run()
    with open(out, "w") as file:
        json.dump(
            {
                "outcomes": Result.outcomes,
                "counters": counters,
                "seconds": time.monotonic() - start,
            },
            file,
        )


# -- In the parent


def run_module(module, captured, folder):
    """(what the child wrote, or None; why it wrote nothing)."""
    out = os.path.join(folder, f"{module}.{'captured' if captured else 'plain'}.json")
    limit_s = LIMIT_S if captured else LIMIT_PLAIN_S
    command = [
        sys.executable,
        os.path.abspath(__file__),
        "--child",
        "captured" if captured else "plain",
        out,
        module,
    ]
    environment = dict(os.environ, PYTHONHASHSEED="0")
    with open(out + ".said", "w+b") as said:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = child.wait(limit_s)
            said.seek(0)
            why = f"ended with status {status}\n{said.read()[-3000:].decode(errors='replace')}"
        except subprocess.TimeoutExpired:
            status, why = None, f"still running after {limit_s} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # it, and what it has started
            child.wait()
    if status == 0 and os.path.exists(out):
        with open(out) as file:
            return json.load(file), ""
    if os.path.exists(out + ".now"):
        with open(out + ".now") as file:
            why = f"in {file.read()}: {why}"
    return None, why


def compare(plain, captured):
    """(test, what it did plainly, what it did captured, the text) of each test that did better in
    plain Python."""
    good = ("ok", "skip", "expected failure")
    for test, (kind, _) in plain["outcomes"].items():
        got, text = captured["outcomes"].get(test, ("missing", ""))
        if kind in good and got != kind:
            yield test, kind, got, text
    for test, (got, text) in captured["outcomes"].items():
        if test not in plain["outcomes"] and got not in good:
            yield test, "no such test", got, text


def share(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else "-"


def all_modules():
    import test

    names = (os.path.splitext(entry)[0] for entry in os.listdir(os.path.dirname(test.__file__)))
    return sorted(name for name in names if name.startswith("test_"))


def chosen_modules(names, short):
    rows = []
    with open(os.path.join(HERE, "modules.txt")) as file:
        for line in file:
            words = line.split("#")[0].split()
            if words and (not short or "*" in words):
                rows.append(words[0])
    return names or rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="the marked modules only")
    parser.add_argument("--all", action="store_true", help="all that the interpreter has")
    parser.add_argument("--verbose", action="store_true", help="show the most frequent breaks")
    parser.add_argument("--child", nargs=2, metavar=("MODE", "OUT"), help=argparse.SUPPRESS)
    parser.add_argument("modules", nargs="*")
    args = parser.parse_args()
    if args.child:
        mode, out = args.child
        return run_child(args.modules[0], mode == "captured", out)

    import importlib.util

    def exists(module):
        return importlib.util.find_spec("test." + module) is not None

    if importlib.util.find_spec("test") is None or not exists("test_list"):
        print(
            f"SKIP: {sys.executable} has no test modules of CPython's (Debian: apt-get install "
            "libpython3.11-testsuite)"
        )
        return 77
    bad = 0
    total = {
        "modules": 0,
        "ended": 0,
        "tests": 0,
        "functions": 0,
        "captured": 0,
        "whole": 0,
        "missing": [],
    }
    breaks = {}
    print(
        f"{'module':<18}{'tests':>7}{'functions':>11}{'captured':>10}{'unbroken':>10}{'share':>8}{'hits':>9}{'s plain':>9}{'s':>7}"
    )
    for module in all_modules() if args.all else chosen_modules(args.modules, args.short):
        if not exists(module):
            total["missing"].append(module)
            continue
        with tempfile.TemporaryDirectory() as folder:
            plain, why = run_module(module, False, folder)
            if plain is None:
                print(f"{module:<18} cannot be run by plain Python: {why}")
                continue
            captured, why = run_module(module, True, folder)
        total["modules"] += 1
        total["tests"] += len(plain["outcomes"])
        if captured is None:
            bad += 1
            total["ended"] += 1
            print(f"{module:<18} FAILED {why}")
            continue
        functions, entries = captured["counters"]["functions"], captured["counters"]["entries"]
        for key in ("captured", "whole"):
            total[key] += functions[key]
        total["functions"] += functions["total"]
        for text, n in captured["counters"]["graph_break"].items():
            breaks[text] = breaks.get(text, 0) + n
        print(
            f"{module:<18}{len(plain['outcomes']):>7}{functions['total']:>11}{functions['captured']:>10}{functions['whole']:>10}"
            f"{share(functions['whole'], functions['total']):>8}{entries['hit']:>9}{plain['seconds']:>9.2f}{captured['seconds']:>7.1f}",
            flush=True,
        )
        for test, kind, got, text in compare(plain, captured):
            bad += 1
            print(
                f"  FAILED {test}: {kind} in plain Python, {got} when captured\n{text}", flush=True
            )
    print(
        f"{'total':<18}{total['tests']:>7}{total['functions']:>11}{total['captured']:>10}{total['whole']:>10}"
        f"{share(total['whole'], total['functions']):>8}"
    )
    if total["missing"]:
        print("not there: " + ", ".join(total["missing"]))
    if args.verbose:
        for text, n in sorted(breaks.items(), key=lambda item: -item[1])[:60]:
            print(f"{n:>7}  {text}")
    print(
        f"{total['modules']} modules, {total['tests']} tests, {total['ended']} modules that die or "
        "hang"
    )
    print(
        f"{bad} failures that plain Python does not have"
        if bad
        else "no failure that plain Python does not have"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
