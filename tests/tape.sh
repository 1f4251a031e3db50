#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of gradients once more with every backward through compiled autograd.  Left out: what counts bytes that are left behind, among
# which is then what was compiled.
src=${top_srcdir:-.}/tests/python
python=${PYTHON:-/usr/bin/python3}
if ! "$python" -c 'import pytest, numpy' 2>/dev/null; then
  echo "SKIP: no pytest or no numpy for $python"
  exit 77
fi
GM_STRESS=tape exec "$python" -B -m pytest -q -p no:cacheprovider -k "not freed" "$src/test_autograd.py" "$src/test_checkpoint.py" \
  "$src/test_function.py" "$src/test_nn.py" "$src/test_optim.py" "$src/test_saved_tensors_hooks.py"
