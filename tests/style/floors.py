#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the direction of includes: who may know whom.  Nothing points up, there are no circles.

Prints every include that breaks a rule, then "N passed, N failed" with one count per file.
"""

import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

# Room -> rooms that it may include (itself always).
BASE = {"base"}
MAY = {
    "base": set(),
    "tiles": set(),
    "cache": BASE,
    "plugin-api": set(),
    "tensor": BASE | {"sym"},
    "sym": BASE,
    "ops": BASE | {"tensor", "tiles", "sym"},
    "autograd": BASE | {"ops", "sym", "tensor"},
    "graph": BASE | {"ops", "sym", "tensor", "plugin-api"},
    "aot": BASE | {"graph", "ops", "sym", "tensor", "autograd"},
    "plugin": BASE | {"graph", "ops", "sym", "tensor", "tiles", "cache", "plugin-api"},
    "trace": BASE | {"graph", "ops", "sym", "tensor"},
}
COMPILE = BASE | {"aot", "plugin", "graph", "ops", "tensor", "sym", "autograd"}
ABOVE = set(MAY) | {"compile", "python"}

# What has more to know than its room says, and why.
ALLOWED = {
    ("ops", "plugin-api"),  # the op table itself
    ("tiles", "plugin-api"),  # the op table itself
    ("tiles", "tensor"),  # dtypes.def alone, checked below
}
ONLY = {("ops", "plugin-api"): {"gramme-ops.def"}, ("tiles", "plugin-api"): {"gramme-ops.def"}, ("tiles", "tensor"): {"dtypes.def"}}

# Headers that belong to one place.
HEADERS = {
    "Python.h": ("core/trace/", "core/python/"),
    "libtcc.h": ("plugins/tcc/",),
    "cuda.h": ("plugins/nvrtc/",),
    "nvrtc.h": ("plugins/nvrtc/",),
    "cblas.h": ("core/tiles/",),
    "sleef.h": ("core/tiles/",),
}


def room_of(path):
    parts = path.split("/")
    if parts[0] == "core":
        if len(parts) == 2:
            return "breaks" if parts[1] == "breaks.def" else "compile"
        return parts[1]
    return parts[0]


def allowed(room, path, target, target_path):
    if room == target or target == "breaks":
        return True
    if room in ("python", "tools", "tests", "examples"):
        return target in ABOVE or target == room or (room == "tests" and target in ("tests", "tools")) or target_path in ("tests/fuzz/random_graph.h", "tests/fuzz/symbolic_graph.h")
    if room == "plugins":
        return target in ("plugin-api", "plugins")
    if room == "compile":
        return target in COMPILE
    if (room, target) in ALLOWED:
        return os.path.basename(target_path) in ONLY[room, target]
    return target in MAY[room]


def includes(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
            if match:
                yield number, match[1], match[2]


def check(path):
    room, faults = room_of(path), []
    folder = os.path.dirname(path)
    for number, kind, name in includes(path):
        base = os.path.basename(name)
        if base in HEADERS and not path.startswith(HEADERS[base]) and room != "tests":
            faults.append(f"{path}:{number}: <{base}> belongs to {', '.join(HEADERS[base])}")
        if kind == "<" and not name.startswith("core/"):
            continue
        target = name
        if not os.path.exists(os.path.join(ROOT, target)):
            beside = os.path.join(folder, name)
            api = os.path.join("plugin-api", name)
            target = beside if os.path.exists(os.path.join(ROOT, beside)) else api
            if not os.path.exists(os.path.join(ROOT, target)):
                continue
        target = os.path.normpath(target)
        if not allowed(room, path, room_of(target), target):
            faults.append(f"{path}:{number}: {room} may not include {target}")
    return faults


def main():
    passed = failed = 0
    for top in ("core", "plugins", "plugin-api", "tools"):
        for folder, _, names in sorted(os.walk(os.path.join(ROOT, top))):
            for name in sorted(names):
                if not name.endswith((".c", ".h", ".def")):
                    continue
                faults = check(os.path.relpath(os.path.join(folder, name), ROOT))
                for fault in faults:
                    print(fault)
                passed, failed = passed + (not faults), failed + bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
