# SPDX-License-Identifier: Apache-2.0
"""gramme._dynamo.convert_frame: torch's name for the part that rewrites bytecode.  Functions keep
theirs here."""

__all__ = ["register_bytecode_hook"]


def register_bytecode_hook(hook):
    """Is here to say what to use: NotImplementedError.  No code object of a function is replaced,
    so there is none to hand to a hook."""
    raise NotImplementedError(
        "gramme._dynamo.convert_frame.register_bytecode_hook: a compiled function keeps its code "
        "object, so there is none to hook; "
        "GRAMME_LOGS=bytecode shows the instructions that were read and the code that is "
        "assembled, and _debug_get_cache_entry_list of "
        "gramme._dynamo.eval_frame has the latter"
    )
