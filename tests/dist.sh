#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Python tests that start processes, read the sources' files or leave some: what read-only sources, or a build elsewhere, could break.
exec sh "${top_srcdir:-.}/tests/pytest.sh" python/test_cache.py python/test_cc.py python/test_data.py python/test_first_calls.py \
  python/test_left_behind.py python/test_other_pythons.py python/test_process.py python/test_said_mistakes.py python/test_saved_files.py \
  python/test_testing.py python/test_tools.py python/test_pip_backend.py python/test_described_program.py python/test_moved_installation.py
