# SPDX-License-Identifier: Apache-2.0
"""Switches of the recorder, read when a function is compiled.

side_effect_replay_policy: what to do when a compiled function changes objects that existed before
the call.  "silent"; "info" writes each change with its place to the log, "warn" warns, "error"
raises RuntimeError.

replay_side_effects: whether these changes are made at all.  False: a function compiled with
fullgraph=True leaves lists, dicts, objects, globals, captured variables and hooks that existed
before as they are, and returns what it would have returned.  In-place writes to tensors are part of
the graph and made as ever.  Without fullgraph it says nothing: after a break the rest of a function
would see old values.

capture_scalar_outputs: whether item() and int() of an integer tensor are recorded, as an integer
that only the run knows: what does not depend on its value goes on in the same graph.  False: the
graph breaks there.

capture_dynamic_output_shape_ops: whether nonzero, masks, unique and their kin, whose result is as
large as data says, stay in the graph; what comes after is compiled for all sizes.  True, unlike
torch, because nothing is slower for it and the answer is the same.  What is asked of such a size is
decided by what gramme._check() says of it, else the graph breaks there.  False: the graph breaks at
the call.

recompile_limit (also cache_size_limit): how many entries a function may have for each back end;
calls that none of them fits then run as plain Python.

accumulated_recompile_limit (also accumulated_cache_size_limit): how many it may have in all.

fail_on_recompile_limit_hit: True: where a limit is reached, FailOnRecompileLimitHit instead of
plain Python.

error_on_recompile: True: a call that would compile a function again, because none of its entries
fits, raises RecompileError, which says why.

automatic_dynamic_shapes: whether a size that was seen to change becomes a symbol, where
gramme.compile is not told `dynamic`.  False: each size has an entry of its own, but for those of
mark_dynamic().

assume_static_by_default: False: all sizes are symbols from the start, as with dynamic=True, where
gramme.compile is not told `dynamic`.

force_parameter_static_shapes: True: sizes of a module's parameters and buffers stay numbers, but
for those of mark_dynamic(), because each module has its own.  False: they become symbols as others
do.

automatic_dynamic_local_pgo: whether the sizes that a function was called with are kept on disk, so
that another process knows which of them change.

disable: read by gramme.compile.  True: it gives functions and modules back as they are.  At the
start what GRAMME_COMPILE_DISABLE says, 1 or 0, or, where that is not set, torch's
TORCH_COMPILE_DISABLE or TORCHDYNAMO_DISABLE.  To stop what was compiled already:
set_stance('force_eager') of gramme.compiler.

suppress_errors: True: a function that a back end cannot compile runs as plain Python, with a
warning; not under fullgraph=True.

verbose: kept; messages say all that is known with either value.

verify_correctness: read by gramme.compile.  True: what a back end makes of a graph is run once on
copies of the inputs that the graph was recorded
with, and compared with the graph itself, run operation by operation: RuntimeError if a result
differs in a bit.

patch(...): other values for a while.

compiled_autograd: whether backward() and grad() run through the back end of the compiled function
that calls them, or the default one outside
of any: see gramme._dynamo.compiled_autograd.  Read at every backward.
"""

import os

from gramme._switches import make_switches


def _disabled():
    """True if a variable says that nothing is to be compiled: gramme's own, else one of torch's."""
    said = os.environ.get("GRAMME_COMPILE_DISABLE", "")
    if said not in ("", "0", "1"):
        import warnings

        warnings.warn(
            f"GRAMME_COMPILE_DISABLE is 1 or 0, not {said!r}: functions are compiled", stacklevel=2
        )
    return (
        said == "1"
        or not said
        and "1" in (os.environ.get("TORCH_COMPILE_DISABLE"), os.environ.get("TORCHDYNAMO_DISABLE"))
    )


disable = _disabled()
del os
side_effect_replay_policy = "silent"
replay_side_effects = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = True
recompile_limit = 8
accumulated_recompile_limit = 256
fail_on_recompile_limit_hit = False
error_on_recompile = False
automatic_dynamic_shapes = True
assume_static_by_default = True
force_parameter_static_shapes = True
automatic_dynamic_local_pgo = True
suppress_errors = False
verbose = False
verify_correctness = False
compiled_autograd = False

make_switches(
    __name__,
    choices={"side_effect_replay_policy": ("silent", "info", "warn", "error")},
    aliases={
        "cache_size_limit": (__name__, "recompile_limit"),
        "accumulated_cache_size_limit": (__name__, "accumulated_recompile_limit"),
    },
    instead={
        "dynamic_shapes": "dynamic= of gramme.compile says whether sizes become symbols",
        "guard_nn_modules": "modules are guarded, always",
        "inline_inbuilt_nn_modules": "modules are recorded like any other object, always",
        "log_level": "the variable GRAMME_LOGS opens logs",
        "optimize_ddp": "there is one process and one device",
        "specialize_float": (
            "a float that changes becomes an input of the graph after it was seen to"
        ),
        "specialize_int": (
            "mark_static of gramme._dynamo, or dynamic=False of gramme.compile, fixes numbers"
        ),
    },
)
