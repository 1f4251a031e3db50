# SPDX-License-Identifier: Apache-2.0
"""torch's functions of numbers that may be sizes of a graph: here they are Python's, which the
recorder follows."""

import builtins
import math


def sym_int(a):
    """A number as an int, towards zero."""
    return math.trunc(a)


def sym_float(a):
    """A number as a float."""
    return builtins.float(a)


def sym_max(a, b):
    """The larger number; a float if one of the two is."""
    found = builtins.max(a, b)
    return (
        builtins.float(found)
        if isinstance(a, builtins.float) or isinstance(b, builtins.float)
        else found
    )


def sym_min(a, b):
    """The smaller number; a float if one of the two is."""
    found = builtins.min(a, b)
    return (
        builtins.float(found)
        if isinstance(a, builtins.float) or isinstance(b, builtins.float)
        else found
    )


def sym_not(a):
    """not a."""
    return not a


def sym_sum(args):
    """The sum of numbers."""
    return builtins.sum(args)


def sym_sqrt(a):
    """The root of a number, as a float."""
    return math.sqrt(a)


def sym_ite(b, t, f):
    """t if b, else f."""
    return t if b else f
