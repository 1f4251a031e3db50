# SPDX-License-Identifier: Apache-2.0
"""All parameters as one vector, and back."""

import gramme
from gramme._core import Tensor


def parameters_to_vector(parameters):
    """The elements of all parameters, one after the other."""
    return gramme.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec, parameters):
    """Makes the parts of a vector the data of the parameters: they share its memory.  Errors:
    ValueError if it has another size."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"the vector is a Tensor, not a {type(vec).__name__}")
    parameters = list(parameters)
    total = sum([parameter.numel() for parameter in parameters])
    if vec.numel() != total:
        raise ValueError(f"the vector has {vec.numel()} elements, and the parameters {total}")
    place = 0
    for parameter in parameters:
        parameter.data = vec[place : place + parameter.numel()].detach().reshape(parameter.shape)
        place += parameter.numel()
