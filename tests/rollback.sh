#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The traced programs once more, with every instruction executed, undone and executed again.  In the
# two files of programs of all kinds the arena is sealed after each instruction, too: that takes
# three times as long, most of it in the kernel, and `make check-nightly` does it for all files.
src=${top_srcdir:-.}
sealed="trace/test_programs.py trace/test_random_programs.py"
GM_STRESS=rollback,arena sh "$src/tests/pytest.sh" $sealed || exit
for file in $sealed; do
  PYTEST_ADDOPTS="$PYTEST_ADDOPTS --ignore=$src/tests/$file"
done
export PYTEST_ADDOPTS
GM_STRESS=rollback exec sh "$src/tests/pytest.sh" trace
