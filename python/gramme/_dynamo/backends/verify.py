# SPDX-License-Identifier: Apache-2.0
"""The back end that `verify_correctness` makes of another one."""

import gramme
from gramme._dynamo.backends.registry import lookup_backend


def _run(function, inputs):
    """The results on copies of the inputs, with the random numbers that come next; these come again
    afterwards."""
    state = gramme.get_rng_state()
    try:
        with gramme.no_grad():
            return function(*[t.detach().clone() for t in inputs])
    finally:
        gramme.set_rng_state(state)


def _same(a, b):
    if a is None or b is None:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(((a == b) | ((a != a) & (b != b))).all())


def verified(backend):
    """A back end that compares what `backend`, a name or a callable, makes of each graph with the
    graph: see gramme._dynamo.config."""
    name = backend if isinstance(backend, str) else getattr(backend, "__name__", repr(backend))

    def compile_graph(graph, example_inputs, **options):
        made = lookup_backend(backend)(graph, example_inputs, **options)
        wanted = _run(graph.forward, example_inputs)
        found = _run(made, example_inputs)
        for k, (want, got) in enumerate(zip(wanted, found, strict=True)):
            if not _same(want, got):
                raise RuntimeError(
                    f"incorrect results of backend {name}: result {k} of the graph is {got!r}, and "
                    f"{want!r} operation by operation"
                )
        return made

    compile_graph.__name__ = name
    return compile_graph
