#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The traced programs once more, broken off and resumed before every instruction, then before every third.
GM_RANDOM_PROGRAMS=${GM_RANDOM_PROGRAMS:-40}
export GM_RANDOM_PROGRAMS
GM_STRESS=break sh "${top_srcdir:-.}/tests/pytest.sh" trace || exit
GM_STRESS=break:3 exec sh "${top_srcdir:-.}/tests/pytest.sh" trace
