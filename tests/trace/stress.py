# SPDX-License-Identifier: Apache-2.0
"""What GM_STRESS does to what a test may count.

A break or a miss that nobody asked for changes no result, but how many graphs, breaks, hits and
compilations there are.  Results are compared all the same: a number goes through counted(), and
only a test that says nothing without its numbers is marked `undisturbed`.
"""

import os

import pytest

ON = {word.split(":")[0] for word in os.environ.get("GM_STRESS", "").split(",")}
FORCED = not ON.isdisjoint({"break", "guards"})
undisturbed = pytest.mark.skipif(
    FORCED, reason="counts, or asks what one graph has: breaks or misses are forced"
)


class AnyNumber:
    """Every comparison with it holds."""

    __hash__ = None

    def holds(self, other):
        return True

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = holds

    def __ne__(self, other):
        return True


def counted(n):
    """n, a number that forced breaks and misses change."""
    return AnyNumber() if FORCED else n
