#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what the test logs count, and prints one line: "N passed, N failed, N skipped".

Understands Check ("100%: Checks: 12, Failures: 0, Errors: 0"), pytest ("57 passed, 2 skipped in
1.2s") and the line that our own scripts end with.  A log without any of them counts as one test, by
its .trs result.
"""

import re
import sys


def counts(log):
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    with open(log[: -len(".log")] + ".trs", encoding="utf-8") as file:
        result = re.search(r":test-result: (\w+)", file.read())[1]
    passed = failed = skipped = 0
    for checks, failures, errors in re.findall(
        r"Checks: (\d+), Failures: (\d+), Errors: (\d+)", text
    ):
        passed += int(checks) - int(failures) - int(errors)
        failed += int(failures) + int(errors)
    for line in text.splitlines():
        if re.fullmatch(r"\d+ passed, \d+ failed", line) or re.match(
            r"(=+ )?\d+ (passed|failed|skipped|error)", line
        ):
            for number, what in re.findall(r"(\d+) (passed|failed|skipped|errors?)", line):
                if what == "passed":
                    passed += int(number)
                elif what == "skipped":
                    skipped += int(number)
                else:
                    failed += int(number)
    if result in ("FAIL", "ERROR") and failed == 0:
        failed = 1
    elif result == "SKIP":
        skipped = max(skipped, 1)
    elif passed + failed == 0:
        passed = 1
    return passed, failed, skipped


def main():
    rows = [counts(log) for log in sys.argv[1:]]
    passed, failed, skipped = (sum(column) for column in zip(*rows)) if rows else (0, 0, 0)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))


main()
