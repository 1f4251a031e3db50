# SPDX-License-Identifier: Apache-2.0
"""`gramme bench --results FILE`: the tables of the cases that ran, written into a file of results
(RESULTS.md).

A case's table stands under the heading "### NAME".  What is between that heading and the end of the
table is the bench's and is written anew; what stands behind the table is people's, as the rest of
the file, and stays.  A case without a heading gets one at the end of its chapter.
"""

import os
import re

CHAPTERS = {
    False: "## Cases: `gramme bench --json FILE [CASE...]`",
    True: "## Beside other libraries: `gramme bench vs_...`",
}


def ns_text(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.2f} {unit}"
    return f"{ns:.0f} ns" if ns >= 10 else f"{ns:.1f} ns"


def bytes_text(n):
    return f"{n / 1e6:.2f} MB"


def own_table(rows):
    """Of rows (side, min_ns, median_ns; bytes: these are bytes): the ratio is of the minima, to the
    first side."""
    first, text_of = rows[0]["min_ns"] or 1, bytes_text if rows[0].get("bytes") else ns_text
    lines = ["| side | minimum | median | ratio | limit |", "|---|---|---|---|---|"]
    for row in rows:
        limit = row.get("limit_ns")
        verdict = (
            ""
            if not limit
            else text_of(limit) + (": met" if row["min_ns"] <= limit else ": **missed**")
        )
        lines.append(
            f"| {row['side']} | {text_of(row['min_ns'])} | {text_of(row['median_ns'])} | "
            f"{row['min_ns'] / first:.3f} | {verdict} |"
        )
    return lines


def contest_table(rows):
    """A line for each case, a column for each peer: the peer's least time over ours.  Below 1 ours
    loses."""
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    lines = [
        "| case | ours, least | " + " | ".join(peers) + " |",
        "|---|---|" + "---|" * len(peers),
    ]
    reasons = {}
    for name in dict.fromkeys(row["case"] for row in rows):
        of = {row["peer"]: row for row in rows if row["case"] == name}
        ran = [row for row in of.values() if "ratio" in row]
        ours = (
            "not run"
            if not ran
            else f"{ran[0]['ours_min'] / 1e6:.1f} MB"
            if ran[0].get("bytes")
            else ns_text(ran[0]["ours_min"] * 1e9)
        )
        cells = []
        for peer in peers:
            row = of.get(peer)
            if row and "not_run" in row:
                reasons.setdefault(row["not_run"], []).append(peer)
            cells.append(
                ""
                if row is None
                else "not run"
                if "ratio" not in row
                else f"{row['ratio_min']:.2f}"
                if row["ratio_min"] >= 1
                else f"**{row['ratio_min']:.2f}**"
            )
        lines.append(f"| {name} | {ours} | " + " | ".join(cells) + " |")
    return (
        lines
        + [
            "",
            *(f"Not run: {', '.join(dict.fromkeys(who))}: {why}." for why, who in reasons.items()),
        ]
        if reasons
        else lines
    )


def wrapped(text, width=150):
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) >= width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line]


def conditions(report):
    machine = report["machine"]
    peers = [
        f"{name} {version}"
        for name, version in machine.get("peers", {}).items()
        if version and name != "torch.compile"
    ]
    said = [
        machine["isa"],
        f"CPython {machine['python']}",
        *peers,
        f"{report['rounds']} rounds",
        f"{report['threads']} thread{'s' * (report['threads'] > 1)}",
    ]
    return ", ".join(said + ["processor time"] * report["processor_time"]) + "."


def section(name, doc, table, report):
    return [
        f"### {name}",
        "",
        *wrapped(" ".join(doc.split())),
        *wrapped(conditions(report)),
        "",
        *table,
        "",
    ]


def end_of_table(lines, at):
    """Behind the first table at or after `at`, and what was not run; `at` if a heading comes
    first."""
    i = at
    while i < len(lines) and not lines[i].startswith(("#", "|")):
        i += 1
    if i == len(lines) or lines[i].startswith("#"):
        return at
    while i < len(lines) and (
        lines[i].startswith(("|", "Not run: "))
        or (not lines[i] and lines[i + 1 : i + 2] and lines[i + 1].startswith("Not run: "))
    ):
        i += 1
    return i


def put(lines, name, new, is_contest):
    heading = f"### {name}"
    if heading in lines:
        at = lines.index(heading)
        end = end_of_table(lines, at + 1)
        if end < len(lines) and not lines[end]:
            end += 1
        return lines[:at] + new + lines[end:]
    chapter = CHAPTERS[is_contest]
    if chapter not in lines:
        return [*lines, "", chapter, "", *new]
    end = next(
        (i for i in range(lines.index(chapter) + 1, len(lines)) if re.match("## ", lines[i])),
        len(lines),
    )
    return lines[:end] + new + lines[end:]


def write(path, report, ran):
    """ran: (name, doc, rows, whether it is a contest) of each case."""
    lines = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    for name, doc, rows, is_contest in ran:
        table = contest_table(rows) if is_contest else own_table(rows)
        lines = put(lines, name, section(name, doc, table, report), is_contest)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines).rstrip("\n") + "\n")
