#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A short part of `make check-cpython`; skipped where the interpreter has no test modules.
exec "${PYTHON:-/usr/bin/python3}" -B "${top_srcdir:-.}/tests/cpython/run.py" --short
