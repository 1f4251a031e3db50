# SPDX-License-Identifier: Apache-2.0
"""The types of results that are named tuples: return_types.max of max(input, dim), and so on."""

import gramme

_one = gramme.zeros(1, 1, device="cpu")
aminmax = type(gramme.aminmax(_one, dim=0))
cummax, cummin = type(gramme.cummax(_one, 0)), type(gramme.cummin(_one, 0))
kthvalue, mode = type(gramme.kthvalue(_one, 1, 0)), type(gramme.mode(_one, 0))
max, min = type(gramme.max(_one, 0)), type(gramme.min(_one, 0))
median, nanmedian = type(gramme.median(_one, 0)), type(gramme.nanmedian(_one, 0))
sort, topk = type(gramme.sort(_one, 0)), type(gramme.topk(_one, 1, 0))
del _one

__all__ = [
    "aminmax",
    "cummax",
    "cummin",
    "kthvalue",
    "max",
    "median",
    "min",
    "mode",
    "nanmedian",
    "sort",
    "topk",
]
