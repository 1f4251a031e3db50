# SPDX-License-Identifier: Apache-2.0
import os
import sys

sys.path.append(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "trace")
)  # stress.py
os.environ.setdefault(
    "GRAMME_AUTO", "then=none"
)  # no test starts a C compiler but those that are about it
os.environ.setdefault("GRAMME_CACHE", "0")  # nor finds what another has left

import gramme
import pytest


@pytest.fixture(autouse=True)
def defaults():
    gramme.manual_seed(0)
    yield
    assert gramme.is_grad_enabled()
