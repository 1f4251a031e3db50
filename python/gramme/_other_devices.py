# SPDX-License-Identifier: Apache-2.0
"""The functions of gramme.xpu and gramme.mps: kinds of device that torch knows and gramme does not
use, so that programs can ask whether they are there.

is_available() is False.  What counts gives 0, what seeds or cleans up does nothing, as in torch
where there is no such device; what needs one raises RuntimeError.
"""

_FALSE = "is_available is_initialized is_bf16_supported"
_ZERO = (
    "device_count memory_allocated max_memory_allocated memory_reserved max_memory_reserved "
    "current_allocated_memory driver_allocated_memory"
)
_NOTHING = "empty_cache manual_seed manual_seed_all seed seed_all"
_NEEDS = (
    "current_device set_device get_device_name get_device_capability get_device_properties "
    "current_stream set_stream stream Stream Event synchronize "
    "get_rng_state set_rng_state mem_get_info memory_stats reset_peak_memory_stats "
    "recommended_max_memory set_per_process_memory_fraction"
)


def _answer(kind, name, value):
    def answer(*args, **kwargs):
        return value

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"{value!r}: there is no device {kind!r}."
    return answer


def _needs(kind, name):
    def needs(*args, **kwargs):
        raise RuntimeError(
            f"{kind}.{name}(): there is no device {kind!r}: tensors live on 'cpu', and on 'cuda' "
            "where there is a GPU"
        )

    needs.__name__ = needs.__qualname__ = name
    needs.__doc__ = f"RuntimeError: there is no device {kind!r}."
    return needs


def names(kind):
    """The functions of the module gramme.xpu or gramme.mps, by name."""
    made = {name: _needs(kind, name) for name in _NEEDS.split()}
    for names, value in ((_FALSE, False), (_ZERO, 0), (_NOTHING, None)):
        made.update({name: _answer(kind, name, value) for name in names.split()})
    return made
