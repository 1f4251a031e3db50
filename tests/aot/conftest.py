# SPDX-License-Identifier: Apache-2.0
import gramme
import pytest


@pytest.fixture(autouse=True)
def defaults():
    gramme.manual_seed(0)
    yield
    assert gramme.is_grad_enabled()
