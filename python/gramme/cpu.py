# SPDX-License-Identifier: Apache-2.0
"""The CPU by the names that other devices have: it is there, it is one, and work on it is done when
a call returns."""

import contextlib


def is_available():
    """True."""
    return True


def is_initialized():
    """True."""
    return True


def device_count():
    """1."""
    return 1


def current_device():
    """The string "cpu"."""
    return "cpu"


def set_device(device):
    """Nothing: there is one CPU."""


def synchronize(device=None):
    """Nothing: work is done when a call returns."""


class Stream:
    """The order of work on the CPU, that of the calls."""

    def wait_stream(self, stream):
        """Nothing."""

    def synchronize(self):
        """Nothing."""


def current_stream(device=None):
    """The Stream."""
    return Stream()


def stream(stream):
    """A context that changes nothing."""
    return contextlib.nullcontext()
