# SPDX-License-Identifier: Apache-2.0
import os

os.environ.setdefault(
    "GRAMME_AUTO", "then=none"
)  # no test starts a C compiler but those that are about it
os.environ.setdefault("GRAMME_CACHE", "0")  # nor finds what another has left

import gramme
import pytest

collect_ignore_glob = ["programs_*.py"]


@pytest.fixture(autouse=True)
def seed():
    """Each test draws the same numbers in each run."""
    gramme.manual_seed(1871)


def pytest_collection_modifyitems(config, items):
    """What GM_STRESS disturbs ends before a back end begins: a C compiler has nothing more to show
    then, and takes most of the time."""
    if "GM_STRESS" not in os.environ:
        return
    dear = [
        item
        for item in items
        if hasattr(item, "callspec")
        and "cc" in [v for v in item.callspec.params.values() if isinstance(v, str)]
    ]
    config.hook.pytest_deselected(items=dear)
    gone = set(dear)
    items[:] = [item for item in items if item not in gone]
