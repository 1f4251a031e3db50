#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no code decides by the text of a message: messages are for readers, and may change.

A decision is a call that compares or searches texts (strcmp, strstr, sscanf ...) of which an
argument is a message: the member `message` or `why` of an error or a refusal, a variable that holds
what was said (said, reason, complaint), or the result of a function that prints (gm_..._text).
What decides is a code, an enumerator, a column of a table or a field.

tools/kit is left out: that a plugin's messages name what is wrong is a rule which it checks.
"""

import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
COMPARES = re.compile(
    r"\b(strcmp|strncmp|strcasecmp|strstr|strpbrk|sscanf|g_strcmp0|g_str_equal|g_str_has_prefix"
    r"|g_str_has_suffix|g_strstr_len|g_regex_match\w*|PyUnicode_CompareWithASCIIString) \("
)
MESSAGE = re.compile(
    r"(->|\.)(message|why|reason)\b|\b(said|reason|complaint|question|message)\b|\bgm_\w+_text \("
)


def sources():
    for top in ("core", "plugins", "tools", "plugin-api"):
        for folder, inner, names in os.walk(os.path.join(ROOT, top)):
            inner[:] = sorted(name for name in inner if name not in ("released", "kit"))
            for name in sorted(names):
                if name.endswith((".c", ".h", ".def")):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def arguments(text, start):
    """The text of a call's arguments, from behind its parenthesis; strings are left out."""
    depth = 1
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return text[start:i]
    return text[start:]


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def decisions(text):
    """(line, call) of each decision by a message in a source."""
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)
    for call in COMPARES.finditer(text):
        words = arguments(text, call.end())
        if MESSAGE.search(words):
            yield text.count("\n", 0, call.start()) + 1, f"{call[1]} ({' '.join(words.split())})"


# The rule finds these, and leaves those alone.
BAD = (
    'if (strstr (e->message, "not known"))',
    'return g_str_has_prefix (\n    error->message, "x[mask]");',
    'if (strcmp (gm_guards_text (g), "x") == 0)',
    'found = strstr (said, "past") != NULL;',
)
GOOD = ('if (e->code == 3 && strcmp (name, "message") == 0)', "/* strstr (e->message) */")


def main():
    passed = failed = 0
    for text in BAD:
        failed += not list(decisions(text))
    for text in GOOD:
        failed += bool(list(decisions(text)))
    if failed:
        print("the rule itself does not find what it should")
    for path in sources():
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            found = list(decisions(file.read()))
        for line, call in found:
            print(f"{path}:{line}: decides by a message: {call}")
        passed, failed = passed + (not found), failed + bool(found)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
