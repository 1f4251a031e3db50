# SPDX-License-Identifier: Apache-2.0
"""What GM_STRESS does to the numbers that a test may count."""

import os

ON = {word.split(":")[0] for word in os.environ.get("GM_STRESS", "").split(",")}
# Breaks and misses where nobody asked for one: how many graphs, breaks and hits there are says nothing then.
FORCED = not ON.isdisjoint({"break", "guards"})
