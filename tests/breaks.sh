#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The traced programs once more, broken off and resumed before every instruction.
# GM_BREAKS: one run for each of these values of GM_STRESS; `make check-nightly` has break:3, before every third instruction, too.
GM_RANDOM_PROGRAMS=${GM_RANDOM_PROGRAMS:-40}
export GM_RANDOM_PROGRAMS
for stress in ${GM_BREAKS:-break}; do
  GM_STRESS=$stress sh "${top_srcdir:-.}/tests/pytest.sh" trace || exit
done
