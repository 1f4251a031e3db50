# SPDX-License-Identifier: Apache-2.0
"""The device beside the CPU, whatever its kind: the GPU, where there is one.  Errors: RuntimeError
where a function needs one and there is none."""

from gramme import _core, cuda


def is_available():
    """True if there is a GPU."""
    return cuda.is_available()


def device_count():
    """The number of GPUs that are used: one, or none."""
    return cuda.device_count()


def current_accelerator(check_available=False):
    """The GPU's device; None where there is none, whatever check_available says."""
    return _core.device("cuda") if cuda.is_available() else None


def _there(name):
    if not cuda.is_available():
        raise RuntimeError(
            f"accelerator.{name}(): there is no GPU: {cuda.why_not()}; ask "
            "accelerator.is_available() before"
        )
    return cuda


def current_device_index():
    """The number of the GPU that is used, 0."""
    return _there("current_device_index").current_device()


current_device_idx = current_device_index


def set_device_index(device):
    """There is one GPU to choose, number 0.  Errors: RuntimeError for another one."""
    _there("set_device_index").set_device(device)


set_device_idx = set_device_index


def current_stream(device=None):
    """The thread's current stream of the GPU."""
    return _there("current_stream").current_stream(device)


def set_stream(stream):
    """Makes it the thread's current stream."""
    _there("set_stream").set_stream(stream)


def synchronize(device=None):
    """Waits until all work of the GPU is done."""
    _there("synchronize").synchronize(device)


def empty_cache():
    """gramme.cuda.empty_cache()."""
    _there("empty_cache").empty_cache()


def memory_allocated(device_index=None):
    """Bytes of the GPU's memory that are in use."""
    return _there("memory_allocated").memory_allocated(device_index)


def memory_reserved(device_index=None):
    """The same, with what is kept for later."""
    return _there("memory_reserved").memory_reserved(device_index)


def max_memory_allocated(device_index=None):
    """gramme.cuda.max_memory_allocated()."""
    return _there("max_memory_allocated").max_memory_allocated(device_index)


def memory_stats(device_index=None):
    """gramme.cuda.memory_stats()."""
    return _there("memory_stats").memory_stats(device_index)


def reset_peak_memory_stats(device_index=None):
    """max_memory_allocated() begins anew."""
    _there("reset_peak_memory_stats").reset_peak_memory_stats(device_index)
