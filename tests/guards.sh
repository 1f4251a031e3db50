#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The traced programs once more; an entry that fits is passed over once for each of its guards, as if that guard did not hold.
GM_RANDOM_PROGRAMS=${GM_RANDOM_PROGRAMS:-100}
export GM_RANDOM_PROGRAMS
GM_STRESS=guards exec sh "${top_srcdir:-.}/tests/pytest.sh" trace
