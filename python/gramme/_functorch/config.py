# SPDX-License-Identifier: Apache-2.0
"""Switches of the layers between a recorded graph and a back end, read when a function is compiled.

Options of gramme.compile say the same for one function, and count before these.

activation_memory_budget: from 0 to 1, the part that is saved for the backward of what weighs least;
the rest is computed again.  1: all that the backward reads is saved, and nothing is cut.  The
option "memory-budget".

saved_tensors_hooks_filtering_mode: which saved tensors hooks that are part of the graphs get:
"donated", those that the caller cannot see, "no_static", all but a module's, or "all".  The option
"saved-tensors-hooks-filtering-mode".

patch(...): other values for a while.
"""

from gramme._switches import make_switches

activation_memory_budget = 1.0
saved_tensors_hooks_filtering_mode = "donated"

make_switches(
    __name__,
    kinds={"activation_memory_budget": (float, int)},
    choices={"saved_tensors_hooks_filtering_mode": ("donated", "no_static", "all")},
    instead={
        "cse": (
            "GM_DEBUG=f shows what stages make of a graph; equal nodes are merged by back ends "
            "alone"
        ),
        "debug_assert": "./configure --enable-debug-checks verifies every graph after every stage",
        "enable_autograd_cache": "GRAMME_CACHE=0 keeps nothing on disk",
        "functionalize_rng_ops": "random numbers are part of the graph, always",
    },
)
