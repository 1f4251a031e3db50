# SPDX-License-Identifier: Apache-2.0
"""The device "cuda": whether there is one, its memory, and waiting for it.

Nothing is looked for before the first question.  tensor.to("cuda") puts a tensor there."""

from gramme import _core


def is_available():
    """Whether tensors can be put on device "cuda"; why_not() says what is missing."""
    return _core.cuda_available()[0]


def why_not():
    """What is missing, and what to install; an empty string if nothing is."""
    return _core.cuda_available()[1]


def device_count():
    return 1 if is_available() else 0


def get_device_name(device=None):
    return _core.cuda_name()


def synchronize(device=None):
    """Waits until all work of the device is done, and raises what failed in it."""
    _core.cuda_synchronize()


def memory_allocated(device=None):
    """Bytes of the device's memory that are in use."""
    return _core.cuda_memory()[0]


def memory_reserved(device=None):
    """The same, with what is kept for later."""
    in_use, cached, _ = _core.cuda_memory()
    return in_use + cached


def max_memory_allocated(device=None):
    """The most that was in use."""
    return _core.cuda_memory()[2]
