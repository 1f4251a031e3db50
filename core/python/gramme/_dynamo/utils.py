# SPDX-License-Identifier: Apache-2.0
"""counters: what the recorder and the cache have done since the start or the last reset.

counters["frames"]["total"], ["ok"]: frames that were handed to the recorder, and those that became a compiled entry; what is left of a function
    after a graph break is a frame of its own.
counters["entries"]["hit"], ["missed"]: calls that an entry answered, and calls that none fitted.
counters["functions"]["total"], ["captured"], ["whole"]: functions that were recorded; those with an entry; those of them that never broke.
counters["recompiles"]["total"]: entries made for functions that had one.
counters["backend"]["compiles"]: graphs, with their backwards, that a back end in C was given to compile; one that serves all sizes counts once.
counters["graph_break"]["CALL_C: call of ..."]: breaks by reason; counters["graph_break_id"]["CALL_C"]: by the reason's id.
counters["compiled_autograd"]["captures"], ["recompiles"], ["hits"], ["eager"]: stretches of backward passes that were compiled; those of them
    whose operations were there already, for other shapes; those that found what was compiled; those that ran operation by operation.
counters["compiled_autograd_reason"]["saved1 was f32[4] and is f32[8]"]: why a stretch was compiled again, or is not compiled.
"""

import collections
from collections.abc import Mapping

from gramme import _core


class _Counters(Mapping):
    """Read when asked: an item is a collections.Counter of that moment, an empty one for a section that there is not."""

    def __getitem__(self, section):
        return collections.Counter(_core.counters().get(section, {}))

    def __iter__(self):
        return iter(_core.counters())

    def __len__(self):
        return len(_core.counters())

    def clear(self):
        """All are 0 again."""
        _core.counters_reset()

    def __repr__(self):
        return f"counters({_core.counters()!r})"


counters = _Counters()
