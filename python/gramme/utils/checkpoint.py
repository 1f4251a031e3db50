# SPDX-License-Identifier: Apache-2.0
"""Less memory for more time: functions whose intermediate results are computed again in the
backward."""

import contextlib

from gramme import _core


def noop_context_fn():
    """Two contexts that do nothing, for the forward and for the recomputation."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function, *args, use_reentrant=False, preserve_rng_state=True, context_fn=noop_context_fn,
    determinism_check="default", debug=False,
    early_stop=True, **kwargs,
):  # fmt: skip
    """function(*args, **kwargs), which keeps no intermediate results for the backward and runs once
    more there.

    Results, gradients and the order in which they are added are those of the plain call, to the
    bit.  The second run draws the same random numbers, whatever preserve_rng_state says.  The
    function must do the same again: depend on nothing but its arguments, and not change them.
    Raises RuntimeError in the backward if an argument was changed in place since, or if the second
    run did something else.  use_reentrant, determinism_check, debug and early_stop are there for
    torch's sake and change nothing.  Errors: NotImplementedError for a context_fn: write the
    contexts into the function.
    """
    if context_fn is not noop_context_fn:
        raise NotImplementedError(
            "checkpoint(): a context_fn is not there: write the contexts into the function"
        )
    return _core.checkpoint(function, args, kwargs)


def get_device_states(*args):
    """(numbers of the GPUs that tensors of args are on, their generators' states): ([], []) for
    tensors of the CPU.

    One generator serves all devices, so that a state is gramme.get_rng_state().
    """
    from gramme.utils import _pytree

    there = any(
        [isinstance(leaf, _core.Tensor) and leaf.is_cuda for leaf in _pytree.tree_leaves(args)]
    )
    return ([0], [_core.get_rng_state()]) if there else ([], [])


def set_device_states(devices, states, *, device_type=None):
    """Puts the generators of these GPUs into these states, as get_device_states() gave them."""
    for _, state in zip(devices, states):
        _core.set_rng_state(state)


def checkpoint_sequential(
    functions, segments, input, use_reentrant=False, preserve_rng_state=True, **kwargs
):
    """The functions, one after the other, in `segments` checkpointed parts; the last part is not
    checkpointed, because it would run again at once.

    functions: a sequence of callables (nn.Sequential is one).  The other keywords are
    checkpoint()'s.
    """
    functions = list(functions)
    if not 1 <= segments <= max(len(functions), 1):
        raise ValueError(
            f"segments must be between 1 and the {len(functions)} functions, not {segments}"
        )

    def part(start, stop):
        def run(x):
            for function in functions[start:stop]:
                x = function(x)
            return x

        return run

    size = len(functions) // segments
    for k in range(segments - 1):
        input = checkpoint(part(k * size, (k + 1) * size), input, **kwargs)
    return part((segments - 1) * size, len(functions))(input)


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
