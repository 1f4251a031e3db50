#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/plugin-reference.md, from the comments of plugin-api/, the rules of tools/kit/kit_rules.def
and tools/options.def: reference.py [--write].

Without --write it is an error if the file is not what would be written.  So are: a function in a
record of the ABI without a thread tag, a record, enumerator or function without a comment, a rule
that is cited and does not exist, a plugin's rule without a case in tools/kit/kit_cases.def, and a
case whose failure tests/plugin/kit.py does not provoke.
"""
import os
import re
import sys

import statements

ROOT = statements.ROOT
REFERENCE = os.path.join("docs", "plugin-reference.md")
HEADERS = (
    "gramme-plugin.h",
    "gramme-graph.h",
    "gramme-ext.h",
    "gramme-ext-draft.h",
    "gramme-plugin-util.h",
)
TAG = re.compile(r"\[(any|load|compile|run)\]")

problems = []


# -- Headers ---------------------------------------------------------------------------------------


def words(comment):
    """The text of a C comment, its lines joined where they flow."""
    text = re.sub(r"^/\*+ ?|\s*\*+/$", "", comment.strip(), flags=re.DOTALL)
    lines = [
        re.sub(r"^\s*\* ?", "", line).rstrip() if i else line.strip()
        for i, line in enumerate(text.splitlines())
    ]
    out = []
    for line in lines:
        line = line.strip() if not line.startswith("|") else line
        joins = (
            out
            and out[-1]
            and line
            and not line.startswith(("|", "-", "*"))
            and not out[-1].startswith("|")
        )
        if joins:
            out[-1] += " " + line
        else:
            out.append(line)
    return re.sub(r"  +", " ", "\n".join(out)).strip()


DIRECTIVE = r"#(?:\\\n|/\*.*?\*/|[^\n])*"
TOKEN = re.compile(rf"/\*.*?\*/|{DIRECTIVE}|[^/#]+|/", re.DOTALL)


def chunks(text):
    """(comment, declaration) at the top level; a comment by itself has no declaration."""
    comment, code, depth, found = "", "", 0, []
    for match in TOKEN.finditer(text):
        piece = match[0]
        if piece.startswith("/*"):
            if code.strip():
                code += piece
                continue
            line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
            if line.endswith(";") and found:
                found[-1][0] += piece
                continue
            if comment:
                found.append([comment, ""])
            comment = piece
            continue
        if piece.startswith("#"):
            if code.strip():
                code += piece
            elif re.match(r"#\s*define\s+\w+", piece) and not piece.rstrip().endswith("_H"):
                found.append([comment, piece])
                comment = ""
            continue
        for part in re.split(r"([{};])", piece):
            code += part
            if part == "{":
                depth += 1
            elif part == "}":
                depth -= 1
                if depth == 0 and re.match(r"\s*(static inline|GRAMME_EXPORT)[^;]*\{", code):
                    found.append([comment, code.strip()])
                    comment = code = ""
            elif part == ";" and depth == 0:
                found.append([comment, code.strip()])
                comment = code = ""
        if depth == 0 and not code.strip():
            code = ""
    if comment:
        found.append([comment, ""])
    return found


def split_members(body):
    """(text of a member, its comment) of a record or an enumeration."""
    out, comment, code, depth = [], "", "", 0
    for match in re.finditer(
        rf"/\*.*?\*/|{DIRECTIVE}|[(){{}}]|[;,\n]|[^/#(){{}};,\n]+|/", body, re.DOTALL
    ):
        piece = match[0]
        if piece.startswith("#"):
            continue
        if piece.startswith("/*"):
            before = body[: match.start()]
            trailing = out and not code.strip() and before[before.rfind("\n") + 1 :].strip()
            if trailing or (code.strip() and depth == 0):
                if trailing:
                    out[-1][1] = (out[-1][1] + " " + words(piece)).strip()
                else:
                    comment = (comment + " " + words(piece)).strip()
            else:
                comment = (comment + " " + words(piece)).strip()
            continue
        depth += (piece in "({") - (piece in ")}")
        if (
            piece in ";,"
            and depth == 0
            and (piece == ";" or "=" in code or re.fullmatch(r"\s*\w+\s*", code))
        ):
            out.append([re.sub(r"\s+", " ", code).strip(), comment])
            comment = code = ""
        elif piece == "\n" and not code.strip():
            continue
        else:
            code += piece
    if code.strip():
        out.append([re.sub(r"\s+", " ", code).strip(), comment])
    return out


def cell(text):
    return text.replace("\n", " ").replace("|", "\\|")


def name_of(declaration):
    for pattern in (
        r"^#\s*define\s+(\w+)",
        r"\}\s*(\w+)\s*;$",
        r"typedef .*?\(\*(\w+)\)",
        r"typedef struct \w+\s+(\w+)\s*;",
        r"(gramme_\w+)\s*\(",
        r"typedef .*?(\w+)\s*\(",
    ):
        match = re.search(pattern, declaration, re.DOTALL)
        if match:
            return match[1]
    return None


def struct_table(header, name, comment, body):
    lines = ["| member | what |", "|---|---|"]
    all_tagged = re.search(r"\ball (functions: )?\[", comment, re.I)
    pending = ""
    for member, said in split_members(body):
        function = re.search(r"\(\*(\w+)\)", member)
        if function:
            if not all_tagged and not TAG.search(said):
                problems.append(f"{header}: {name}.{function[1]} has no thread tag")
            if not said and not all_tagged:
                problems.append(f"{header}: {name}.{function[1]} has no comment")
        lines.append(f"| `{cell(member)}` | {cell(said)} |")
        pending = said
    return lines


def render_item(header, comment, declaration):
    """The lines of one item, or None for what is not for readers."""
    name, said = name_of(declaration), words(comment) if comment else ""
    if (
        not name
        or name.startswith("GRAMME_STATIC_ASSERT")
        or declaration.startswith(("GRAMME_STATIC_ASSERT", "#undef", "#else"))
    ):
        return None
    if declaration.startswith("#"):
        if re.search(
            r"_ROW3?$|_FACTS$|_EXPORT$|_PRINTF$|_SECTION_$|_TEXT_?$|_SANITIZERS$", name
        ) or name in (
            "POINTWISE",
            "CAST",
            "REDUCE",
            "ARGREDUCE",
            "MOVEMENT",
            "CONTRACT",
            "INDEX",
            "SCAN",
            "RANDOM",
            "CREATE",
            "ATTR",
        ):
            return None
        value = re.sub(r"\s*\\\n\s*", " ", declaration)
        trailing = re.search(r"/\*.*?\*/", value, re.DOTALL)
        value = re.sub(r"/\*.*", "", value, flags=re.DOTALL).strip()
        return ("define", name, said or (words(trailing[0]) if trailing else ""), value)
    body = re.search(r"\{(.*)\}", declaration, re.DOTALL)
    if re.match(r"typedef struct", declaration) and body:
        first = re.match(r"[ \t]*(/\*.*?\*/)", body[1], re.DOTALL)  # beside the brace: of the whole
        if first:
            return (
                "struct",
                name,
                (said + " " + words(first[1])).strip(),
                struct_table(header, name, said, body[1][first.end() :]),
            )
        return ("struct", name, said, struct_table(header, name, said, body[1]))
    if declaration.startswith("enum") and body:
        return None
    signature = re.sub(
        r"\s+", " ", re.sub(r"/\*.*?\*/", "", declaration.split("{")[0], flags=re.DOTALL)
    ).strip(" ;")
    if not said:
        problems.append(f"{header}: {name} has no comment") if declaration.startswith(
            ("static inline", "GRAMME_EXPORT")
        ) and header != "gramme-graph.h" else None
    return ("function", name, said, signature)


def render_enum(comment, declaration):
    body = re.search(r"\{(.*)\}", declaration, re.DOTALL)[1]
    if "#include" in body:
        return [words(comment)] if comment else []
    lines = [words(comment), ""] if comment else []
    lines += ["| enumerator | what |", "|---|---|"]
    return lines + [f"| `{cell(member)}` | {cell(said)} |" for member, said in split_members(body)]


def render_header(header):
    text = re.sub(
        (
            r"^#ifdef __cplusplus\n(?:#define.*\n)?extern \"C\" \{\n(#else\n.*\n)?#endif\n|^#ifdef "
            r"__cplusplus\n\}\n#endif\n"
        ),
        "",
        statements.read(os.path.join("plugin-api", header)),
        flags=re.MULTILINE,
    )
    opening = re.match(r"/\*.*?\*/", text, re.DOTALL)
    lines = [
        f"## {header}",
        "",
        re.sub(r"^SPDX[^\n]*?(?=gramme-)", "", words(opening[0])).replace(f"{header} -- ", "", 1),
        "",
    ]
    for comment, declaration in chunks(text[opening.end() :]):
        section = re.match(r"/\* -- (.*?) -+ ?\*/", comment.replace("\n", " "))
        if section:
            lines += [f"### {section[1]}", ""]
            comment = ""
        if not declaration:
            if comment and not section and not comment.startswith("/* clang"):
                lines += [words(comment), ""]
            continue
        if declaration.startswith("enum"):
            lines += render_enum(comment, declaration) + [""]
            continue
        item = render_item(header, comment, declaration)
        if not item:
            continue
        kind, name, said, rest = item
        if kind == "struct":
            lines += [f"#### {name}", ""] + ([said, ""] if said else []) + rest + [""]
        else:
            lines += [f"* `{rest}`" + (f"  \n  {cell(said)}" if said else ""), ""]
    return lines


# -- Rules -----------------------------------------------------------------------------------------


def rules():
    return dict(
        re.findall(
            r'^RULE \("(GP[PH]-\d+)", "(.*)"\)$',
            statements.read("tools/kit/kit_rules.def"),
            re.MULTILINE,
        )
    )


def cases():
    found = re.findall(
        r'^CASE \((\d+),\s*(\w+),\s*(\w+),\s*"(GPP-\d+)",\s*"((?:[^"\\]|\\.)*)"\)',
        statements.read("tools/kit/kit_cases.def"),
        re.MULTILINE,
    )
    return [
        (int(level), f"{group}/{name}".replace("_", "-"), rule, what)
        for level, group, name, rule, what in found
    ]


def provoked():
    """Cases and rules that a broken plugin of tests/plugin/kit.py fails."""
    return set(
        re.findall(
            r'(?:row|full)\(\s*"[\w-]+",\s*"([\w/-]+)",\s*"(GPP-\d+)"',
            statements.read("tests/plugin/kit.py"),
        )
    )


def rule_tables():
    rows, kit, broken = rules(), cases(), provoked()
    cited, unknown = statements.citations(rows, r"\d{1,2}")
    problems.extend(f"{where} is no rule" for where in unknown)
    problems.extend(
        f"no broken plugin of tests/plugin/kit.py fails {name}"
        for _, name, _, _ in kit
        if name not in {case for case, _ in broken}
    )
    lines = [
        "## The cases of `gramme check-plugin`",
        "",
        "| level | case | rule | what it shows |",
        "|---|---|---|---|",
    ]
    lines += [f"| {level} | {name} | {rule} | {what} |" for level, name, rule, what in kit]
    lines += ["", "| option | what it does |", "|---|---|"]
    options = re.findall(
        r'^OPTION \(check-plugin,\s*"([^"]*)",\s*"([^"]*)"\)',
        statements.read("tools/options.def"),
        re.MULTILINE,
    )
    lines += [f"| `{option}` | {cell(what)} |" for option, what in options]
    for side, kind in (("plugin", "GPP"), ("host", "GPH")):
        lines += ["", f"## The rules of a {side}", "", "| rule | what | tests |", "|---|---|---|"]
        for number, text in rows.items():
            if not number.startswith(kind):
                continue
            found = sorted(
                {name for _, name, rule, _ in kit if rule == number}
                | {name for name, rule in broken if rule == number}
            )
            tests = ["`gramme check-plugin`: " + ", ".join(found)] if found else []
            tests += [
                "`" + where.removesuffix(": -") + "`"
                for where in cited[number]
                if where != "tests/plugin/kit.py: -" or not found
            ]
            if not tests:
                problems.append(f"{number} has no test")
            lines.append(f"| {number} | {text} | {'<br>'.join(tests) or 'no test'} |")
    return lines


# -- Operators -------------------------------------------------------------------------------------


def words_of_operators():
    """The meanings of the names in gramme-ops.def, and its pointwise rows; a name without a meaning
    is an error."""
    text = statements.read("plugin-api/gramme-ops.def")
    meanings = re.findall(r'^WORD \("([^"]+)",\s*"([^"]*)"\)', text, re.MULTILINE)
    known = set(re.findall(r"\b[A-Z][A-Z0-9_]*\b", " ".join(word for word, _ in meanings)))
    rows = [
        [field.strip() for field in split_row(row)]
        for row in re.findall(r"^(?:POINTWISE|REDUCE) +\((.*)\)$", text, re.MULTILINE)
    ]
    lines = [
        "## gramme-ops.def",
        "",
        (
            "The operators are rows of this table, which is installed with the headers; what the "
            "names in their formulas mean:"
        ),
        "",
        "| word | meaning |",
        "|---|---|",
    ] + [f"| `{word}` | {cell(meaning)} |" for word, meaning in meanings]
    lines += ["", "| code | operator | types | value |", "|---|---|---|---|"]
    for code, _, name, *more in rows:
        formula = ", then ".join(more[1:3]) if not more[0].isdigit() else more[2]
        lines.append(
            f"| {code} | {name} | {more[0] if not more[0].isdigit() else more[1]} | "
            f"`{cell(formula)}` |"
        )
        problems.extend(
            f"gramme-ops.def: {name} uses {word}, which has no WORD row"
            for word in set(re.findall(r"\b[A-Z][A-Z0-9_]*\b", formula)) - known
        )
    return lines + [""]


def split_row(row):
    """The fields of a row, at commas outside of parentheses."""
    fields, depth = [""], 0
    for c in row:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            fields.append("")
        else:
            fields[-1] += c
    return fields


# -- The file --------------------------------------------------------------------------------------


def main():
    lines = [
        "# The plugin ABI: reference",
        "",
        (
            "Made by `tests/style/reference.py --write` from the comments of `plugin-api/`, "
            "`tools/kit/kit_cases.def`, `tools/kit/kit_rules.def` and the"
        ),
        "tests; do not edit. [plugin-guide.md](plugin-guide.md) is where to begin.",
        "",
        "Contents: the rules, the cases that check them, then "
        + ", ".join(f"[{h}](#{h.replace('.', '')})" for h in HEADERS)
        + ", and [gramme-ops.def](#gramme-opsdef).",
        "",
    ]
    lines += rule_tables() + [""]
    for header in HEADERS:
        lines += render_header(header)
    lines += words_of_operators()
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"
    path = os.path.join(ROOT, REFERENCE)
    if "--write" in sys.argv[1:]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    stale = not os.path.exists(path) or statements.read(REFERENCE) != text
    if stale:
        problems.append(
            f"{REFERENCE} is not what the headers and tests say: run tests/style/reference.py "
            "--write and commit it"
        )
    print(
        "\n".join(problems)
        if problems
        else "every rule has a test, every function of the ABI a thread tag"
    )
    print(f"{not problems:d} passed, {len(problems)} failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
