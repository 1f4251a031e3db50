#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The traced programs once more, with every instruction executed, undone and executed again, and the arena sealed after it.
GM_STRESS=rollback,arena
export GM_STRESS
exec sh "${top_srcdir:-.}/tests/pytest.sh" trace
