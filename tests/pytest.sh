#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs Python tests (arguments: folders or files below tests/) with pytest, against the build tree.
# Without pytest it says so and counts as skipped.
src=${top_srcdir:-.}
n=$#
for name in "$@"; do set -- "$@" "$src/tests/$name"; done
shift "$n"
python=${PYTHON:-/usr/bin/python3}
if ! "$python" -c 'import pytest' 2>/dev/null; then
  echo "SKIP: no pytest for $python: apt-get install python3-pytest, or $python -m pip install pytest"
  exit 77
fi
"$python" -c 'import numpy' 2>/dev/null || echo "SKIP: no numpy for $python: tests that need it are skipped"
GRAMME_AUTO=${GRAMME_AUTO-then=none} # the default back end, without a C compiler for each function of a test
GRAMME_CACHE=${GRAMME_CACHE-0} # nothing on disk between tests
export GRAMME_AUTO GRAMME_CACHE
exec "$python" -B -m pytest -q -p no:cacheprovider "$@"
