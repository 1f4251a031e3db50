# SPDX-License-Identifier: Apache-2.0
"""Switches of the recorder, read when a function is compiled.

side_effect_replay_policy: what to do when a compiled function changes objects that existed before the call.  "silent"; "info" writes each
change with its place to the log, "warn" warns, "error" raises RuntimeError.

replay_side_effects: whether these changes are made at all.  False: a function compiled with fullgraph=True leaves lists, dicts, objects, globals,
captured variables and hooks that existed before as they are, and returns what it would have returned.  In-place writes to tensors are part
of the graph and made as ever.  Without fullgraph it says nothing: after a break the rest of a function would see old values.

capture_scalar_outputs: whether item() and int() of an integer tensor are recorded, as an integer that only the run knows: what does not
depend on its value goes on in the same graph.  False: the graph breaks there.

capture_dynamic_output_shape_ops: whether nonzero, masks, unique and their kin, whose result is as large as data says, stay in the graph; what
comes after is compiled for all sizes.  True, unlike torch, because nothing is slower for it and the answer is the same.  What is asked of such a size is
decided by what gramme._check() says of it, else the graph breaks there.  False: the graph breaks at the call.

recompile_limit: how many entries a function may have for each back end; calls that none of them fits then run as plain Python.

patch(...): other values for a while; see there.

compiled_autograd: whether backward() and grad() run through the back end of the compiled function that calls them, or the default one outside
of any: see gramme._dynamo.compiled_autograd.  Read at every backward.
"""

import contextlib

side_effect_replay_policy = "silent"
replay_side_effects = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = True
recompile_limit = 8
compiled_autograd = False


class _Patch(contextlib.ContextDecorator):
    """What patch() returns: a context manager, and a decorator of functions; may be entered again while it is open."""

    def __init__(self, changes):
        self._changes, self._before = changes, []

    def __enter__(self):
        here = globals()
        self._before.append({name: here[name] for name in self._changes})
        here.update(self._changes)
        return self

    def __exit__(self, *raised):
        globals().update(self._before.pop())
        return False


def patch(changes=None, value=None, **more):
    """Gives switches other values in a `with` block, or while a decorated function runs.

    patch(recompile_limit=2), patch("recompile_limit", 2) and patch({"recompile_limit": 2}) mean the same.  AttributeError for a name that is no
    switch.  The values hold for the process, not for the thread.
    """
    changes = {changes: value} if isinstance(changes, str) else dict(changes or {})
    changes.update(more)
    for name in changes:
        if name not in _SWITCHES:
            raise AttributeError(f"there is no switch {name!r} in gramme._dynamo.config; there are: {', '.join(sorted(_SWITCHES))}")
    return _Patch(changes)


_SWITCHES = {name for name, switch in globals().items() if not name.startswith("_") and isinstance(switch, (bool, int, str))}
