#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ABI gate: what was released in plugin-api/ stays where it is.

    tests/plugin/abi.py                checks (part of make check)
    tests/plugin/abi.py --release      writes core/plugin/released/MAJOR.MINOR.def and keeps a copy
        of the headers

Of every released minor there is a table of facts: sizes of records, offsets and sizes of fields,
values of constants, codes and versions of operators.  It is made once, by --release, and never
edited: today's headers are compiled against all of them.  Records may grow at the end (those in
FROZEN may not), versions of operators may rise, names may be added.  The
type of each field, parameters of functions included, is that of the copied headers: the compiler
compares them, too.

The second check is a tripwire for what neither sees: abidiff compares a library with a function per
public type, made from the headers of the newest release, with one made from today's.  A difference
is fine if GRAMME_ABI_MINOR is newer than that release and docs/CHANGELOG.abi has an entry for it.
Skipped, with a message, where abidiff (Debian: abigail-tools) is missing.

Both are tried on headers that were changed on purpose (MUTATIONS), so that they have teeth.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2]))
API = ROOT / "plugin-api"
TABLES = ROOT / "core/plugin/released"
COPIES = ROOT / "tests/plugin/released"
HEADERS = [
    "gramme-graph.h",
    "gramme-plugin.h",
    "gramme-ext.h",
]  # util is inline, draft is no promise
FROZEN = {"GrammeTensor", "GrammeOption", "GrammeTable", "GrammeVerdict"}
CC = os.environ.get("CC", "gcc").split()


# -- Reading headers ------------------------------------------------------------------------------


def plain(path):
    """The header without comments and continued lines."""
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S)
    return text.replace("\\\n", " ")


def records(text):
    """{name: [field]} of all `typedef struct { ... } Name;`."""
    found = {}
    for body, name in re.findall(r"typedef struct\s*\{([^{}]*)\}\s*(\w+)\s*;", text):
        fields = []
        for member in body.split(";"):
            function = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", member)
            if function:
                fields.append(function.group(1))
                continue
            for part in member.split(","):
                last = re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", part.strip())
                if last:
                    fields.append(last.group(1))
        found[name] = fields
    return found


def types(text):
    """[(record, field, its type as C has it)]: `void *(*) (void *ctx, size_t bytes)`."""
    found = []
    for body, name in re.findall(r"typedef struct\s*\{([^{}]*)\}\s*(\w+)\s*;", text):
        for member in body.split(";"):
            member = " ".join(member.split())
            function = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", member)
            if function:
                found.append(
                    (name, function[1], member[: function.start(1)] + member[function.end(1) :])
                )
                continue
            base = re.match(r"((?:const |struct )*\w+)\s*(.*)$", member)
            for part in base[2].split(",") if base else []:
                declarator = re.match(
                    r"\s*((?:\*\s*(?:const\b\s*)?)*)(\w+)\s*((?:\[[^\]]*\])?)\s*$", part
                )
                found.append((name, declarator[2], f"{base[1]} {declarator[1]}{declarator[3]}"))
    return found


def constants(text):
    """Names of enumerators and of numbers that are defined; not those that the op table makes."""
    names = []
    for body in re.findall(r"enum\s*\{([^{}]*)\}", text):
        if "#" not in body:
            names += [n for n in re.findall(r"(GRAMME_\w+)\s*=", body)]
    names += re.findall(r"#define (GRAMME_\w+)\s+(?:0x[0-9a-f]+|\d+|'.')u?\s*$", text, flags=re.M)
    return [
        n
        for n in names
        if n
        not in ("GRAMME_ABI_MINOR", "GRAMME_IMAGE_MINOR", "GRAMME_SANITIZERS", "GRAMME_VALUE_FLAGS")
    ]


def version(folder=API):
    text = (folder / "gramme-plugin.h").read_text()
    return tuple(
        int(re.search(rf"GRAMME_ABI_{part} (\d+)", text).group(1)) for part in ("MAJOR", "MINOR")
    )


# -- A release's table ----------------------------------------------------------------------------

OPS = (
    """#define ROW(code, version, name, ...) printf ("OP (%s, %d, %d)\\n", #name, code, version);
"""
    + "".join(
        f"#define {family} ROW\n"
        for family in (
            "POINTWISE CAST REDUCE ARGREDUCE MOVEMENT CONTRACT INDEX SCAN RANDOM CREATE"
        ).split()
    )
    + """
#define ATTR(code, NAME, type, field) printf ("ATTRIBUTE (%s, %d, '%s')\\n", #NAME, code, #type);
"""
)


def table(folder):
    """The text of a .def: made by a program that is compiled against the headers."""
    lines = []
    for header in HEADERS:
        text = plain(folder / header)
        for name, fields in records(text).items():
            lines.append(f'printf ("RECORD ({name}, %zu)\\n", sizeof ({name}));')
            for field in fields:
                lines.append(
                    f'printf ("FIELD ({name}, {field}, %zu, %zu)\\n", offsetof ({name}, {field}), '
                    f"sizeof ((({name} *) 0)->{field}));"
                )
        for name in constants(text):
            lines.append(f'printf ("CONSTANT ({name}, %lld)\\n", (long long) {name});')
    program = (
        "#include <stdio.h>\n#include <gramme-ext.h>\nint main (void)\n{\n"
        + "\n".join(lines)
        + "\n"
    )
    program += OPS + '#include "gramme-ops.def"\nreturn 0;\n}\n'
    with tempfile.TemporaryDirectory() as work:
        source, binary = pathlib.Path(work, "t.c"), pathlib.Path(work, "t")
        source.write_text(program)
        subprocess.run(
            [*CC, "-std=c11", "-I", str(folder), "-o", str(binary), str(source)], check=True
        )
        return subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout


HEAD = """/* SPDX-License-Identifier: Apache-2.0
 * %s.def -- what plugin-api/ promised when minor %d was released.  Made by tests/plugin/abi.py --release and never edited.
 */
#ifndef RECORD /* (name, bytes) */
#define RECORD(...)
#endif
#ifndef FIELD /* (record, name, offset, bytes) */
#define FIELD(...)
#endif
#ifndef CONSTANT /* (name, value) */
#define CONSTANT(...)
#endif
#ifndef OP /* (name, code, version) */
#define OP(...)
#endif
#ifndef ATTRIBUTE /* (name, code, type) */
#define ATTRIBUTE(...)
#endif
/* clang-format off */
"""
TAIL = """/* clang-format on */
#undef RECORD
#undef FIELD
#undef CONSTANT
#undef OP
#undef ATTRIBUTE
"""


def release(folder):
    name = "%d.%d" % version(folder)
    path = TABLES / f"{name}.def"
    if path.exists():
        sys.exit(
            f"{path} exists; what was released is not written again. Raise GRAMME_ABI_MINOR first."
        )
    path.write_text(HEAD % (name, version(folder)[1]) + table(folder) + TAIL)
    copies = COPIES / name
    if folder.resolve() != copies.resolve():
        copies.mkdir(parents=True)
        for file in sorted(folder.glob("gramme-*")):
            if file.suffix in (".h", ".def"):
                shutil.copy(file, copies)
    print(f"wrote {path}; name it in core/plugin/op_minors.c and in the makefiles")


# -- Checking -------------------------------------------------------------------------------------

ASSERTS = """#include <gramme-ext.h>
#define RECORD(T, n) _Static_assert (sizeof (T) >= n, #T " is not as large as it was");
#define FIELD(T, f, at, n) _Static_assert (offsetof (T, f) == at && sizeof (((T *) 0)->f) == n, #T "." #f " moved");
#define CONSTANT(name, value) _Static_assert ((long long) name == value, #name " has another value");
#define OP(name, code, version) \\
  _Static_assert (GRAMME_OP_##name == code && GRAMME_OP_VERSION_##name >= version, #name " is another operator");
#define ATTRIBUTE(name, code, type) \\
  _Static_assert (GRAMME_ATTR_##name == code && GRAMME_ATTR_TYPE_##name == type, #name " is another attribute");
"""


def type_asserts(copies):
    lines = []
    for header in HEADERS:
        for name, field, type_ in types(plain(copies / header)):
            lines.append(
                f"_Static_assert (__builtin_types_compatible_p (__typeof__ ((({name} *) "
                f"0)->{field}), {type_}), "
                f'"{name}.{field} has another type");'
            )
    return "\n".join(lines) + "\n"


def compiled(headers, def_path):
    """None, or what the compiler says of a released table and its headers' types against these
    headers."""
    rows = def_path.read_text() + type_asserts(COPIES / def_path.stem)
    for name in FROZEN:  # a record that may not grow
        rows = rows.replace(f"RECORD ({name},", f"EXACT ({name},")
    asserts = ASSERTS + '#define EXACT(T, n) _Static_assert (sizeof (T) == n, #T " is frozen");\n'
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work, "gate.c")
        path.write_text(asserts + rows)
        done = subprocess.run(
            [*CC, "-std=c11", "-fsyntax-only", "-I", str(headers), str(path)],
            capture_output=True,
            text=True,
        )
        return None if done.returncode == 0 else done.stderr


# What must be seen, and what must pass: (file, pattern, replacement, is it a break?, what the
# compiler has to name)
MUTATIONS = [
    (
        "gramme-plugin.h",
        r"(  void \*\(\*alloc\))",
        r"  void (*newcomer) (void *ctx);\n\1",
        True,
        "GrammeHost",
    ),
    (
        "gramme-plugin.h",
        r"uint32_t support, cluster",
        "uint32_t cluster, support",
        True,
        "GrammeVerdict",
    ),
    ("gramme-plugin.h", r"GRAMME_INVALID = 3", "GRAMME_INVALID = 33", True, "GRAMME_INVALID"),
    ("gramme-plugin.h", r"uint32_t region, n_regions;", "", False, ""),
    (
        "gramme-plugin.h",
        r"  uint32_t n_forward_constants, reserved;",
        "  uint32_t reserved, n_forward_constants;",
        True,
        "n_forward_constants",
    ),
    (
        "gramme-plugin.h",
        r"const void \*\(\*get_extension\) \(GrammeBackend[^;]*;",
        "",
        True,
        "get_extension",
    ),
    ("gramme-plugin.h", r"\} GrammeDeviceInfo;", "uint64_t later;\n} GrammeDeviceInfo;", False, ""),
    ("gramme-plugin.h", r"\} GrammeOption;", "uint64_t later;\n} GrammeOption;", True, "frozen"),
    (
        "gramme-plugin.h",
        r"int32_t device_type, device_id;\n  uint32_t max_threads;",
        "int32_t device_type; int64_t device_id;\n  uint32_t max_threads;",
        True,
        "device_id",
    ),
    (
        "gramme-plugin.h",
        r"\(\*alloc\) \(void \*ctx, size_t bytes, size_t align\)",
        "(*alloc) (void *ctx, size_t align, uint32_t bytes)",
        True,
        "GrammeHost.alloc has another type",
    ),
    (
        "gramme-plugin.h",
        r"void \(\*close\) \(GrammeBackend \*b\)",
        "int32_t (*close) (GrammeBackend *b)",
        True,
        "GrammeBackendApi.close",
    ),
    (
        "gramme-plugin.h",
        r"const GrammeTensor \*inputs, \*outputs;",
        "const GrammeTensor *inputs, **outputs;",
        True,
        "GrammeRunArgs.outputs",
    ),
    (
        "gramme-ext.h",
        r"int64_t \*bytes,",
        "uint64_t *bytes,",
        True,
        "GrammeKernels.view_offset has another type",
    ),
    ("gramme-graph.h", r"GRAMME_SIZE_MIN = 6", "GRAMME_SIZE_MIN = 8", True, "GRAMME_SIZE_MIN"),
    ("gramme-ops.def", r"POINTWISE \(1,  1, add", "POINTWISE (901, 1, add", True, "add"),
    ("gramme-ops.def", r"POINTWISE \(1,  1, add", "POINTWISE (1, 2, add", False, ""),
]


def strip_asserts(text):
    return re.sub(r"^GRAMME_STATIC_ASSERT \(.*?\);\n", "", text, flags=re.M | re.S)


def check_teeth(newest):
    """The gate sees insertion, swap, removal, renumbering and growth of a frozen row, and lets
    appends pass."""
    failures = []
    for file, pattern, replacement, breaks, names in MUTATIONS:
        with tempfile.TemporaryDirectory() as work:
            for header in API.glob("gramme-*"):
                if header.suffix in (".h", ".def"):
                    text = header.read_text()
                    if header.name == file:
                        changed, n = re.subn(pattern, replacement, text, count=1, flags=re.S)
                        if n != 1:
                            failures.append(f"mutation of {file} finds no {pattern!r}")
                        text = changed
                    pathlib.Path(work, header.name).write_text(
                        strip_asserts(text) if header.suffix == ".h" else text
                    )
            said = compiled(work, newest)
        if breaks and (said is None or names not in said):
            failures.append(f"{file}: {pattern!r} -> {replacement!r} is not seen: {said}")
        if not breaks and said is not None:
            failures.append(f"{file}: {pattern!r} -> {replacement!r} should pass: {said}")
    return failures


def anchor(folder, out):
    """A shared library with a function per record, and with debug information."""
    names = [n for h in HEADERS for n in records(plain(folder / h))]
    source = out.with_suffix(".c")
    source.write_text(
        "#include <gramme-ext.h>\n"
        + "".join(
            f"void anchor_{n} ({n} *p);\nvoid anchor_{n} ({n} *p) {{ (void) p; }}\n" for n in names
        )
    )
    subprocess.run(
        [*CC, "-g", "-shared", "-fPIC", "-std=c11", "-I", str(folder), "-o", str(out), str(source)],
        check=True,
    )


def check_abidiff(newest, headers=API):
    with tempfile.TemporaryDirectory() as work:
        old, new = pathlib.Path(work, "old.so"), pathlib.Path(work, "new.so")
        anchor(COPIES / newest.stem, old)
        anchor(headers, new)
        done = subprocess.run(["abidiff", str(old), str(new)], capture_output=True, text=True)
    if done.returncode & 3:
        return [f"abidiff failed: {done.stderr or done.stdout}"]
    if done.returncode == 0:
        return []
    today, last = version(headers), tuple(int(x) for x in newest.stem.split("."))
    if today <= last:
        return [
            (
                f"types of the ABI differ from release {newest.stem}, and the minor is still "
                f"{today[1]}; raise it:\n{done.stdout}"
            )
        ]
    changes = (ROOT / "docs/CHANGELOG.abi").read_text()
    if not re.search(rf"^{today[0]}\.{today[1]}\b", changes, flags=re.M):
        return [
            f"types of the ABI differ from release {newest.stem}; docs/CHANGELOG.abi has no entry "
            f"{today[0]}.{today[1]}:\n{done.stdout}"
        ]
    print(f"abidiff: differs from {newest.stem}, as {today[0]}.{today[1]} says it does")
    return []


def check_tripwire(newest):
    """abidiff on today's headers; and on those of the release, as they are and with the type of a
    parameter changed."""
    if not shutil.which("abidiff"):
        print(
            "SKIP: abidiff is not installed (Debian: apt-get install abigail-tools); the tripwire "
            "is off"
        )
        return []
    failures = check_abidiff(newest)
    with tempfile.TemporaryDirectory() as work:
        same = pathlib.Path(work, "released")
        shutil.copytree(COPIES / newest.stem, same)
        failures += check_abidiff(newest, same)
        header = same / "gramme-plugin.h"
        changed, n = re.subn(
            r"void \(\*close\) \(GrammeBackend \*b\)",
            "int32_t (*close) (GrammeBackend *b)",
            header.read_text(),
        )
        header.write_text(changed)
        if n != 1 or not check_abidiff(newest, same):
            failures.append(
                "abidiff does not see that GrammeBackendApi.close returns something else"
            )
    return failures


def check():
    """GPH-19: codes, fields, enumerators append-only within a major."""
    tables = sorted(TABLES.glob("*.def"), key=lambda p: [int(x) for x in p.stem.split(".")])
    failures = []
    for path in tables:
        said = compiled(API, path)
        if said:
            failures.append(f"the headers break what was released as {path.stem}:\n{said}")
        again = HEAD % (path.stem, int(path.stem.split(".")[1])) + table(COPIES / path.stem) + TAIL
        if again != path.read_text():
            failures.append(f"{path.name} is not what its headers give: it was edited")
    failures += check_teeth(tables[-1]) + check_tripwire(tables[-1])
    for failure in failures:
        print("FAIL:", failure)
    passed = 2 * len(tables) + len(MUTATIONS) + 3 - len(failures)
    print(f"abi: {passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--release", action="store_true")
    arguments.add_argument(
        "--of", type=pathlib.Path, default=API, help="a folder of headers other than plugin-api"
    )
    given = arguments.parse_args()
    sys.exit(release(given.of) if given.release else check())
