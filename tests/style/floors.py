#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the order of the rooms: a room uses headers and symbols of rooms below it alone.

The limits in floors.txt allow what is left of an older order, and only fall:

    include ROOM ABOVE   includes of a header of a room above
    symbol ROOM ABOVE    uses of a symbol that a room above defines, once for each pair of files
    lines                lines of C of the largest room
    knot                 files of the largest set whose files all need each other, by symbols
    names                files of C that have the name of another one in core, plugins and tools
    unused               symbols of core that core, plugins and tools never use: tests alone do, or
                         builds with debug checks

Symbols are read from the objects of a build, by `nm`: in $top_builddir, or in the current folder.
Without objects only includes, lines and names are checked.

    floors.py             the counts that are over their limits
    floors.py --show      all that counts as well
    floors.py --write     lowers the limits, but that of lines, to the counts; none is ever raised
"""

import collections
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
LIMITS = os.path.join(ROOT, "tests", "style", "floors.txt")

# Room -> rooms that it may use (itself always).
BASE = {"base"}
MAY = {
    "base": set(),
    "tiles": set(),
    "cache": BASE,
    "plugin-api": set(),
    "sym": BASE,
    "tensor": BASE | {"sym"},
    "ops": BASE | {"tensor", "tiles", "sym"},
    "api": BASE | {"ops", "tensor", "sym"},
    "autograd": BASE | {"api", "ops", "sym", "tensor"},
    "graph": BASE | {"ops", "sym", "tensor", "plugin-api"},
    "aot": BASE | {"graph", "ops", "sym", "tensor", "autograd"},
    "plugin": BASE | {"ops", "tensor", "plugin-api"},
    "run": BASE | {"plugin", "graph", "ops", "sym", "tensor", "tiles", "cache", "plugin-api"},
}
MAY["compile"] = set(MAY) - {"tiles", "cache", "plugin-api"}
MAY["objects"] = set(MAY)
MAY["bytecode"] = BASE | {"objects"}
MAY["guard"] = BASE | {"objects", "bytecode", "graph", "ops", "api", "sym", "tensor"}
MAY["trace"] = MAY["guard"] | {"guard"}
MAY["models"] = MAY["trace"] | {"trace"}
MAY["capture"] = set(MAY)
ORDER = list(MAY)  # from below

# A room that knows one table of another one, and no more of it.
ONLY = {
    ("ops", "plugin-api"): {"gramme-ops.def"},
    ("api", "plugin-api"): {"gramme-ops.def"},
    ("tiles", "plugin-api"): {"gramme-ops.def"},
    ("tiles", "tensor"): {"dtypes.def"},
}

# The counts that need the objects of a build.
BUILT = ("symbol", "knot", "unused")

# Headers that belong to some places.
PYTHON = tuple(
    f"core/{room}/" for room in ("objects", "bytecode", "guard", "trace", "models", "capture")
)
HEADERS = {
    "Python.h": PYTHON,
    "libtcc.h": ("plugins/tcc/",),
    "cuda.h": ("plugins/nvrtc/",),
    "nvrtc.h": ("plugins/nvrtc/",),
    "cblas.h": ("core/tiles/",),
    "sleef.h": ("core/tiles/",),
}


def sources():
    for top in ("core", "plugins", "plugin-api", "tools"):
        for folder, _, names in sorted(os.walk(os.path.join(ROOT, top))):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".def")):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def room_of(path):
    parts = path.split("/")
    if parts[0] == "core":
        if len(parts) == 2:
            return "breaks" if parts[1] == "breaks.def" else "compile"
        return parts[1]
    return parts[0]


def allowed(room, target, path):
    if room == target or target == "breaks":
        return True
    if room == "plugins":
        return target == "plugin-api"
    if room not in MAY:  # tools, tests
        graphs = ("tests/fuzz/random_graph.", "tests/fuzz/symbolic_graph.")
        return target in MAY or path.startswith(graphs)
    if (room, target) in ONLY:
        return os.path.basename(path) in ONLY[room, target]
    return target in MAY[room]


# -- Includes


def included(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
            if match:
                yield number, match[1], match[2]


def target_of(path, kind, name):
    """The path of an included file of this tree, or None."""
    if kind == "<" and not name.startswith("core/"):
        return None
    for folder in ("", os.path.dirname(path), "plugin-api"):
        if os.path.exists(os.path.join(ROOT, folder, name)):
            return os.path.normpath(os.path.join(folder, name))
    return None


def include_faults(path):
    """(key of a limit or None, text) of each include that is against the order."""
    room = room_of(path)
    for number, kind, name in included(path):
        base = os.path.basename(name)
        if base in HEADERS and not path.startswith(HEADERS[base]) and room != "tests":
            yield None, f"{path}:{number}: <{base}> belongs to {', '.join(HEADERS[base])}"
        target = target_of(path, kind, name)
        if target and not allowed(room, room_of(target), target):
            known = room in MAY and room_of(target) in MAY
            key = f"include {room} {room_of(target)}" if known else None
            yield key, f"{path}:{number}: {room} may not include {target}"


# -- Symbols


def objects():
    """Source in core -> its object in the build; empty without a build."""
    build = os.environ.get("top_builddir") or os.getcwd()
    found = {}
    for path in sources():
        if not path.startswith("core/") or not path.endswith(".c"):
            continue
        folder, name = os.path.split(path[:-2])
        for prefix in ("", "_core_la-", "libtiles_avx2_la-", "libtiles_avx512_la-"):
            file = os.path.join(build, folder, ".libs", prefix + name + ".o")
            if os.path.exists(file):
                found[path] = file
                break
    return found


def symbols(found):
    """(symbol -> the sources that define it, source -> the symbols that it uses)."""
    source = {file: path for path, file in found.items()}
    done = subprocess.run(["nm", "-A", *source], capture_output=True, text=True, check=True)
    defined, used = collections.defaultdict(set), collections.defaultdict(set)
    for line in done.stdout.splitlines():
        file, _, rest = line.partition(".o:")
        kind, name = rest.split()[-2:]
        path = source[file + ".o"]
        if kind == "U":
            used[path].add(name)
        elif kind in "BCDRTVW":
            defined[name].add(path)
    return defined, used


def unused(defined):
    """The symbols of core without a relocation in the objects of core, plugins and tools."""
    build = os.environ.get("top_builddir") or os.getcwd()
    files = []
    for top in ("core", "plugins", "tools"):
        for folder, _, names in os.walk(os.path.join(build, top)):
            if top == "tools" or folder.endswith(".libs"):
                files += [os.path.join(folder, name) for name in names if name.endswith(".o")]
    done = subprocess.run(["readelf", "-rW", *files], capture_output=True, text=True, check=True)
    used = set(re.findall(r"^[0-9a-f]{12,} .* R_\S+ +[0-9a-f]+ (\w+)", done.stdout, re.M))
    public = ("gramme_", "PyInit_")
    return sorted(name for name in defined if name not in used and not name.startswith(public))


def needs(defined, used):
    """Source -> source -> the symbols that the first uses of the second."""
    edges = collections.defaultdict(lambda: collections.defaultdict(set))
    for path, names in used.items():
        for name in names:
            for owner in defined.get(name, ()):
                if owner != path:
                    edges[path][owner].add(name)
    return edges


def knots(edges):
    """The sets of files that need each other, the largest first (Tarjan's algorithm)."""
    index, low, stack, inside, out = {}, {}, [], set(), []
    for root in list(edges):
        if root in index:
            continue
        work = []

        def enter(node):
            index[node] = low[node] = len(index)
            stack.append(node)
            inside.add(node)
            work.append((node, iter(edges[node] if node in edges else ())))

        enter(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    enter(other)
                    break
                if other in inside:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    knot = []
                    while not knot or knot[-1] != node:
                        knot.append(stack.pop())
                        inside.discard(knot[-1])
                    out.append(sorted(knot))
    return sorted(out, key=len, reverse=True)


def symbol_faults(edges):
    for path in sorted(edges):
        for owner, names in sorted(edges[path].items()):
            if not allowed(room_of(path), room_of(owner), owner):
                for name in sorted(names):
                    yield f"symbol {room_of(path)} {room_of(owner)}", f"{path}: {name} of {owner}"


# -- Counts


def lines_of_rooms():
    lines = collections.Counter()
    for path in sources():
        if path.startswith("core/"):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                lines[room_of(path)] += sum(1 for _ in file)
    return lines


def same_names():
    by_name = collections.defaultdict(list)
    for path in sources():
        if not path.startswith("plugin-api/"):
            by_name[os.path.basename(path)].append(path)
    return [paths for paths in by_name.values() if len(paths) > 1]


def main():
    counts, texts, passed, failed = collections.Counter(), collections.defaultdict(list), 0, 0
    for path in sources():
        bad = False
        for key, text in include_faults(path):
            if key:
                counts[key] += 1
                texts[key].append(text)
            else:
                print(text)
                bad = True
        passed, failed = passed + (not bad), failed + bad

    lines = lines_of_rooms()
    counts["lines"] = max(lines.values())
    texts["lines"] = [f"core/{room}: {n}" for room, n in lines.most_common()]
    texts["names"] = [" and ".join(paths) for paths in same_names()]
    counts["names"] = sum(len(paths) for paths in same_names())

    found = objects()
    if found:
        defined, used = symbols(found)
        edges = needs(defined, used)
        for key, text in symbol_faults(edges):
            counts[key] += 1
            texts[key].append(text)
        largest = knots(edges)[0]
        counts["knot"] = len(largest)
        texts["knot"] = largest
        texts["unused"] = unused(defined)
        counts["unused"] = len(texts["unused"])
        for name, paths in sorted(defined.items()):
            if len(paths) > 1:
                print(f"{name} is defined by {' and '.join(sorted(paths))}: one name, one thing")
                failed += 1
    else:
        print("no objects in this folder or $top_builddir: symbols are not checked")

    with open(LIMITS, encoding="utf-8") as file:
        rows = (line.rsplit(None, 1) for line in file if not line.startswith("#"))
        limits = {key: int(value) for key, value in rows}
    for key in sorted(set(counts) | set(limits)):
        limit, known = limits.get(key, 0), found or not key.startswith(BUILT)
        over = counts[key] > limit
        if over or "--show" in sys.argv:
            print("\n".join(texts[key]))
            print(f"{key}: {counts[key]}, limit {limit}" + (": more than before" if over else ""))
        passed, failed = passed + (not over), failed + over
        if known and key != "lines":
            limits[key] = min(limit, counts[key]) if key in limits else limit
    if "--write" in sys.argv:
        rows = (f"{key} {value}\n" for key, value in sorted(limits.items()) if value)
        with open(LIMITS, "w", encoding="utf-8") as file:
            file.write("# Limits of floors.py, which only fall.\n" + "".join(rows))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
