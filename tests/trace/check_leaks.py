# SPDX-License-Identifier: Apache-2.0
"""References that stay behind: every program is compiled, run and forgotten again, and all
references of the process are counted.

Needs an interpreter that counts them (sys.gettotalrefcount: a build with --with-pydebug, Debian's
python3.11-dbg).  A program leaks if each of several rounds leaves more references than a round of
plain Python does.  Arguments: names of programs; default: all.
"""

import array
import gc
import glob
import importlib.util
import os
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
WARM, ROUNDS = 3, 4
# more than the recompile limit: functions of the library that are captured behind a break keep so
# many entries
WARM_LONG = 10


def programs():
    for path in sorted(glob.glob(os.path.join(HERE, "programs_*.py"))):
        name = os.path.splitext(os.path.basename(path))[0]
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for case in sorted(n for n in vars(module) if n.startswith("case_")):
            yield f"{name[9:]}-{case[5:]}", getattr(module, case)


def one_round(gramme, case, compiling):
    made = []

    def compile(fn):
        if not compiling:
            return fn
        made.append(gramme.compile(fn, backend="eager"))
        return made[-1]

    try:
        case(compile)
    except Exception:
        pass  # what a program raises is compared elsewhere
    for function in made:
        function.reset()


def left_per_round(gramme, case, compiling, count, warm):
    """What the most frugal of the rounds has left: a cache that fills now and then is no leak."""
    counts = array.array("q", bytes(8 * (ROUNDS + 1)))  # numbers in a list would be counted, too
    for k in range(warm + ROUNDS):
        one_round(gramme, case, compiling)
        gc.collect()
        if k >= warm - 1:
            counts[k - warm + 1] = count()
    return min(b - a for a, b in zip(counts, counts[1:]))


def left_by_compiling(gramme, case, count):
    for warm in (WARM, WARM_LONG):
        left = left_per_round(gramme, case, True, count, warm)
        if left > 0:
            left -= max(0, left_per_round(gramme, case, False, count, warm))
        if left <= 0:
            return 0
    return left


def main(names):
    import gramme

    warnings.simplefilter("ignore")
    n, leaks = 0, []
    for name, case in programs():
        if names and name not in names:
            continue
        n += 1
        # numpy is built for Pythons that do not count, and the references that it gives up stay in
        # the sum.
        blocks = name.startswith("numpy-")
        left = left_by_compiling(
            gramme, case, sys.getallocatedblocks if blocks else sys.gettotalrefcount
        )
        if left > 0:
            leaks.append(f"{name}: {left} {'blocks' if blocks else 'references'} in each round")
    print("\n".join(leaks + [f"{n} programs, {len(leaks)} leak"]))
    return 1 if leaks or not n else 0


if __name__ == "__main__":
    if not hasattr(sys, "gettotalrefcount"):
        sys.exit(
            "this Python does not count references: take python3.11-dbg (apt-get install "
            "python3.11-dbg)"
        )
    sys.exit(main(sys.argv[1:]))
