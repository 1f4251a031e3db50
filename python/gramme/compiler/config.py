# SPDX-License-Identifier: Apache-2.0
"""Switches of compilation as a whole, and torch's other names for some of gramme._dynamo.config.

job_id: None, or a text: which sizes of a function change is kept on disk for the processes that
have the same text, apart from all others.  Read when a function is compiled for the first time.

patch(...): other values for a while.
"""

from gramme._switches import make_switches

job_id = None

make_switches(
    __name__,
    kinds={"job_id": (str, type(None))},
    aliases={
        name: ("gramme._dynamo.config", name)
        for name in (
            "accumulated_recompile_limit", "assume_static_by_default", "automatic_dynamic_shapes",
            "capture_dynamic_output_shape_ops",
            "capture_scalar_outputs", "fail_on_recompile_limit_hit", "recompile_limit", "verbose",
        )
    },
    instead={
        "cache_key_tag": "the variable GRAMME_CACHE_DIR gives a process a cache of its own",
        "dynamic_shapes": "dynamic= of gramme.compile says whether sizes become symbols",
        "dynamic_sources": "mark_dynamic of gramme._dynamo marks a size of a tensor",
        "force_disable_caches": "the variable GRAMME_CACHE=0 keeps nothing on disk",
    },
)  # fmt: skip
