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

import gc

import pytest
from hypothesis import settings

import gramme

settings.register_profile("gramme", database=None, deadline=None)  # leaves no files behind
settings.load_profile("gramme")


@pytest.fixture
def no_leak():
    """The test leaves no tensor memory behind."""
    gc.collect()
    before = gramme._core.live_bytes()
    yield
    gc.collect()
    assert gramme._core.live_bytes() == before


@pytest.fixture(autouse=True)
def defaults():
    """Each test starts with grad mode on, float32 and one seed."""
    gramme.manual_seed(0)
    yield
    assert gramme.is_grad_enabled()
    assert gramme.get_default_dtype() is gramme.float32
