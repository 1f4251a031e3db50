# SPDX-License-Identifier: Apache-2.0
"""Why the extension module cannot be imported, for people who have more than one Python."""

import os
import sys


def explain(error):
    """Returns the ImportError to raise: which Pythons the package was built for, if this is none of
    them; else `error` itself."""
    folder = os.path.dirname(os.path.abspath(__file__))
    built = sorted(
        name.split(".")[1]
        for name in os.listdir(folder)
        if name.startswith("_core.") and name.endswith(".so")
    )
    tag = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"
    if any(name.split("-")[:2] == tag.split("-") for name in built):
        return error
    versions = ", ".join(
        f"3.{name.split('-')[1][1:].rstrip('t')}" for name in built if name.startswith("cpython-3")
    )
    has = f"is built for CPython {versions}" if versions else "has no extension module"
    here = f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    return ImportError(
        f"gramme in {folder} {has}; this is {here} ({sys.executable}). Run that version, "
        f"or build for this one: ./configure PYTHON={sys.executable}"
    )
