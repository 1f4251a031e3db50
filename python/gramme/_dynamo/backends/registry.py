# SPDX-License-Identifier: Apache-2.0
"""lookup_backend: a back end by its name, for a back end in Python that hands its graph on."""

from gramme import _core
from gramme._dynamo.backends.common import plan
from gramme.compiler import _registered, list_backends


def lookup_backend(name):
    """Returns the back end of this name as a function (graph, example_inputs) -> callable.

    name: of register_backend() or of a plugin ("tcc"); a callable is returned as it is.  What the
    function returns takes the inputs of the graph and gives a tuple of tensors, with gradients
    where inputs require them.  ValueError for a name that is not installed; TypeError for a graph
    that was edited.

        def mine(graph, example_inputs):
            look_at(graph)
            return gramme._dynamo.lookup_backend("tcc")(graph, example_inputs)
    """
    if callable(name):
        return name
    if name in _registered:
        return _registered[name]
    if name not in _core.list_backends():
        raise ValueError(
            f"there is no back end {name!r}; installed: "
            f"{', '.join(list_backends(exclude_tags=None))}"
        )

    def compile_graph(graph, example_inputs, options=None):
        words = [
            f"{key}={str(value).lower() if isinstance(value, bool) else value}"
            for key, value in (options or {}).items()
        ]
        return plan(graph, name, words or None)

    compile_graph.__name__ = name
    return compile_graph
