# SPDX-License-Identifier: Apache-2.0
"""Small tools of layers of one's own: one number, or one for each dimension."""

import collections.abc
import itertools


def _ntuple(n, name="parse"):
    """A function that makes a tuple of n equal items of one value, and a tuple of the items of what
    can be iterated."""

    def parse(x):
        return (
            tuple(x) if isinstance(x, collections.abc.Iterable) else tuple(itertools.repeat(x, n))
        )

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (
    _ntuple(1, "_single"),
    _ntuple(2, "_pair"),
    _ntuple(3, "_triple"),
    _ntuple(4, "_quadruple"),
)


def _reverse_repeat_tuple(t, n):
    """The items in reverse, each n times: ((1, 2), 2) gives (2, 2, 1, 1)."""
    return tuple([x for x in reversed(t) for _ in range(n)])


def _list_with_default(out_size, defaults):
    """out_size, an int or a list, with the last defaults in the place of None.  Errors: ValueError
    if there are not more defaults."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Takes a prefix off all keys of a dict that begin with it, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in [
        key for key in metadata or () if key == prefix.rstrip(".") or key.startswith(prefix)
    ]:
        metadata[key[len(prefix) :]] = metadata.pop(key)
