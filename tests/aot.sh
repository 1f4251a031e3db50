#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
exec sh "${top_srcdir:-.}/tests/pytest.sh" aot
