#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs benchmark cases by name: gramme bench [OPTION...] [CASE...]; --help lists the options

Sides of a case are measured in one process, interleaved (A B A B ...), for several rounds; minimum
and median are reported, and the ratio of the minima to the case's first side.  Ratios hold on a
noisy machine, single times do not.  Rows that lose are printed as losing.

Cases whose names begin with vs_ are against other libraries, those that are installed of numpy,
numexpr, numba, torch and jax: results are compared with a reference first, and the ratio is the
peer's time over gramme's.  PYTHONPATH finds libraries in a virtual environment:
PYTHONPATH=venv/lib/python3.11/site-packages gramme bench vs_block

With --device cuda the cases are those of gpu.py: tensors on the GPU, beside torch, torch.compile,
jax, cupy, triton and a copy.
"""

import argparse
import json
import os
import platform
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cases  # noqa: E402
import gramme  # noqa: E402
import results  # noqa: E402
import start  # noqa: E402


def describe():
    import gramme

    model = "?"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next(
                (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")),
                "?",
            )
    except OSError:
        pass
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "isa": gramme._core.isa(),
        "python": platform.python_version(),
        "gramme": gramme.__version__,
    }


def gpu_name():
    """As `gramme inspect` has it."""
    text = subprocess.run(
        [os.environ.get("GM_PROGRAM", "gramme"), "inspect", "nvrtc"], capture_output=True, text=True
    ).stdout
    return next(
        (
            line.split(":", 1)[1].strip()
            for line in text.splitlines()
            if line.strip().startswith("cuda:")
        ),
        "?",
    )


def ns_text(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.2f} {unit}"
    return f"{ns:.1f} ns"


def contests_of(args):
    """The cases beside other libraries, by name."""
    if args.device == "cpu":
        import contests

        return contests.CONTESTS
    import gpu

    gpu.QUICK = args.quick
    return gpu.CONTESTS


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", nargs="*", help="names, default: all")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--plot", metavar="FILE", help="an SVG of the ratios to other libraries")
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="a file like RESULTS.md, whose tables of these cases are written anew",
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="of gramme and of the libraries that are compared with; default 1",
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="not what the clock on the wall says; for machines with other work",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--quick", action="store_true", help="with --device cuda: each case's smallest size only"
    )
    args = parser.parse_args()
    if args.quick and args.device == "cpu":
        parser.error("--quick is for --device cuda")
    if args.processor_time and args.device == "cuda":
        parser.error("--processor-time is not what a GPU takes")
    gramme.set_num_threads(args.threads)
    os.environ["GRAMME_NUM_THREADS"] = str(args.threads)  # of processes that a case starts
    if args.processor_time:
        cases.use_processor_time()
    contests, alone = {}, {**cases.CASES, **start.CASES} if args.device == "cpu" else {}
    if (
        args.device == "cuda"
        or args.list
        or not args.case
        or any(name.startswith("vs_") for name in args.case)
    ):
        try:
            import versus

            versus.use_threads(args.threads)
            if args.processor_time:
                versus.use_processor_time()
            contests = contests_of(args)
        except ImportError as error:  # numpy, of which the references are made
            print(f"no comparison with other libraries: {error}", file=sys.stderr)
    known = {**alone, **contests}
    if args.list:
        for name, case in known.items():
            print(f"{name:18} {(case.__doc__ or '').strip().splitlines()[0]}")
        return 0
    wanted = args.case or list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        parser.error(f"no case named {', '.join(unknown)}; there are {', '.join(known)}")
    machine = describe()
    if args.device == "cuda":
        if not gramme.cuda.is_available():
            parser.error("--device cuda: no GPU can be used; `gramme inspect nvrtc` says why")
        machine["gpu"] = gpu_name()
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    if contests:
        machine["peers"] = {
            peer: versus.version(peer)
            for peer in (versus.PEERS if args.device == "cpu" else versus.GPU_PEERS)
        }
        print(
            "peers: "
            + ", ".join(
                f"{peer} {found or 'not installed'}" for peer, found in machine["peers"].items()
            )
            + f"; {args.threads} thread(s)"
        )
    report = {
        "machine": machine,
        "rounds": args.rounds,
        "threads": args.threads,
        "processor_time": args.processor_time,
        "cases": {},
        "rows": [],
    }
    ran = []
    for name in wanted:
        if name in contests:
            print(f"\n{name}: {(known[name].__doc__ or '').strip().splitlines()[0]}")
            rows = known[name](args.rounds)
            versus.print_rows(rows)
            report["rows"] += rows
            ran.append((name, known[name].__doc__ or "", rows, True))
            continue
        rows = alone[name](args.rounds)
        first = rows[0]["min_ns"]
        print(f"\n{name}: {(alone[name].__doc__ or '').strip().splitlines()[0]}")
        for row in rows:
            text_of = results.bytes_text if row.get("bytes") else ns_text
            row["ratio"] = row["min_ns"] / first if first else None
            limit = f"  limit {text_of(row['limit_ns'])}" if row.get("limit_ns") else ""
            verdict = (
                "" if not limit else "  ok" if row["min_ns"] <= row["limit_ns"] else "  MISSED"
            )
            print(
                f"  {row['side']:34} min {text_of(row['min_ns']):>10}  median "
                f"{text_of(row['median_ns']):>10}  x{row['ratio']:.3f}{limit}{verdict}"
            )
        report["cases"][name] = rows
        ran.append((name, alone[name].__doc__ or "", rows, False))
        report["rows"] += [
            {
                "case": f"{name}: {row['side']}",
                "peer": rows[0]["side"],
                "ours": row["median_ns"] / 1e9,
                "theirs": rows[0]["median_ns"] / 1e9,
                "ratio": rows[0]["median_ns"] / row["median_ns"] if row["median_ns"] else None,
            }
            for row in rows[1:]
        ]
    if args.plot and contests:
        versus.plot(
            [row for row in report["rows"] if row["case"].split(":")[0] not in alone], args.plot
        )
    if args.results:
        results.write(args.results, report, ran)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
