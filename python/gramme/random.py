# SPDX-License-Identifier: Apache-2.0
"""Random numbers: the process's generator, and generators beside it, `generator=` of all functions
that draw."""

import contextlib

import gramme
from gramme._core import DEFAULT_SEED, get_rng_state, initial_seed, manual_seed, set_rng_state
from gramme.python_functions import seed, seed_of_system


class Generator:
    """Generator(device="cpu"): a stream of random numbers with a state of its own.  What it gives
    is the same on every device, and it serves tensors of all, whatever device it names.

    The state is an int64 tensor of two elements, seed and next draw.  A function that is given the
    generator reads it and writes it, in eager and in compiled code.  Equal seeds give equal
    numbers.  Threads that share one must take turns.
    """

    def __init__(self, device="cpu"):
        self._device = gramme.device(device)
        self._state = gramme.tensor([DEFAULT_SEED, 0], device="cpu")

    @property
    def device(self):
        return self._device

    @property
    def __gramme_tensor__(self):
        """What functions take for the generator."""
        return self._state

    def manual_seed(self, seed):
        """Begins the stream of this seed, and returns the generator."""
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise RuntimeError(f"a seed has 64 bits, and {seed} has more")
        self._state.copy_(
            gramme.tensor([seed - 2**64 if seed >= 2**63 else seed, 0], device="cpu")
        )
        return self

    def seed(self):
        """Begins the stream of a seed from the system, and returns the seed."""
        value = seed_of_system()
        self.manual_seed(value)
        return value

    def initial_seed(self):
        """The seed that the stream began with."""
        return self._state[0].item() % 2**64

    def get_state(self):
        """The state: a tensor that set_state() takes."""
        return self._state.clone()

    def set_state(self, new_state):
        """Goes on where get_state() was called, of this generator or another."""
        if tuple(new_state.shape) != (2,) or new_state.dtype != gramme.int64:
            raise RuntimeError(
                "the state of a generator is an int64 tensor of 2 elements, as get_state() returns "
                "it"
            )
        self._state.copy_(new_state)
        return self

    def clone_state(self):
        """Another generator in the same state."""
        return Generator(self._device).set_state(self._state)

    def __getstate__(self):
        return [*self._state.tolist(), str(self._device)]

    def __setstate__(self, state):
        self.__init__(state[2])
        self._state.copy_(gramme.tensor(state[:2], device="cpu"))


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True):
    """Inside the block the process's generator may be used; afterwards it is where it was."""
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
