# SPDX-License-Identifier: Apache-2.0
"""counters: what the recorder and the cache have done since the start or the last reset.

counters["frames"]["total"], ["ok"]: frames that were handed to the recorder, and those that became
a compiled entry; what is left of a function
    after a graph break is a frame of its own.
counters["entries"]["hit"], ["missed"]: calls that an entry answered, and calls that none fitted.
counters["functions"]["total"], ["captured"], ["whole"]: functions that were recorded; those with an
entry; those of them that never broke. counters["recompiles"]["total"]: entries made for functions
that had one. counters["backend"]["compiles"]: graphs, with their backwards, that a back end in C
was given to compile; one that serves all sizes counts once. counters["graph_break"]["CALL_C: call
of ..."]: breaks by reason; counters["graph_break_id"]["CALL_C"]: by the reason's id.
counters["stats"]["unique_graphs"], ["calls_captured"]: graphs that became entries, and the
operations in them. counters["aot_autograd"]["total"], ["ok"], ["not_ok"]: graphs that were made
functional, joined with their gradients and cut in two, and what came of it.
counters["compiled_autograd"]["captures"], ["recompiles"], ["hits"], ["eager"]: stretches of
backward passes that were compiled; those of them
    whose operations were there already, for other shapes; those that found what was compiled; those
    that ran operation by operation.
counters["compiled_autograd_reason"]["saved1 was f32[4] and is f32[8]"]: why a stretch was compiled
again, or is not compiled.
"""

import collections

from gramme import _core


class _Counters(collections.defaultdict):
    """A defaultdict of collections.Counter whose sections above are read from the core whenever it
    is looked at.

    Each of these items is a Counter of that moment: counting in it counts nothing.  A section of
    another name is the program's own, and is kept until clear().
    """

    def __init__(self):
        super().__init__(collections.Counter)

    def _refresh(self):
        super().update(
            {name: collections.Counter(section) for name, section in _core.counters().items()}
        )

    def __getitem__(self, section):
        self._refresh()
        return super().__getitem__(section)

    def __contains__(self, section):
        self._refresh()
        return super().__contains__(section)

    def __iter__(self):
        self._refresh()
        return super().__iter__()

    def __len__(self):
        self._refresh()
        return super().__len__()

    def __eq__(self, other):
        self._refresh()
        return super().__eq__(other)

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def get(self, section, default=None):
        self._refresh()
        return super().get(section, default)

    def keys(self):
        self._refresh()
        return super().keys()

    def values(self):
        self._refresh()
        return super().values()

    def items(self):
        self._refresh()
        return super().items()

    def copy(self):
        """A plain dict of Counters, of this moment."""
        return dict(self.items())

    def clear(self):
        """All are 0 again."""
        _core.counters_reset()
        super().clear()

    def __repr__(self):
        return f"counters({self.copy()!r})"


counters = _Counters()
