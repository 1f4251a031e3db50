#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs with state, run plain and compiled, changed in one place and run again (fuzz/state_programs.py).
# GM_STATE_PROGRAMS: how many; GM_STATE_FIRST: the first seed.
exec "${PYTHON:-/usr/bin/python3}" -B "${top_srcdir:-.}/tests/fuzz/state_programs.py" --jobs 2 --first "${GM_STATE_FIRST:-0}" --count "${GM_STATE_PROGRAMS:-1000}"
