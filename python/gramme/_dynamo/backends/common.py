# SPDX-License-Identifier: Apache-2.0
"""aot_autograd: a back end of two compilers, one for forward graphs and one for backward graphs."""


from gramme import _core


def plan(graph, backend, options=None):
    """Compiles a GraphModule with another back end, a name or a callable.  options: "key=value"
    strings, or None.

    Returns a callable of the graph's inputs.  TypeError for what is no GraphModule, and for one
    that was edited.
    """
    if getattr(graph, "edited", False):
        raise TypeError(
            "the graph was edited, so its nodes are Python: return graph.forward, or edit it after "
            "it was compiled"
        )
    return _core.PlannedGraph(getattr(graph, "_core", graph), backend, options)


def default_partition(*args, **kwargs):
    """Stands for the partition that saves what the backward graph reads.  It is done in C: name it,
    do not call it."""
    raise TypeError("the graph is cut in C: give default_partition to aot_autograd, do not call it")


def min_cut_rematerialization_partition(*args, **kwargs):
    """Stands for the partition that saves what weighs least and computes the rest again.  It is
    done in C: name it, do not call it."""
    raise TypeError(
        "the graph is cut in C: give min_cut_rematerialization_partition to aot_autograd, do not "
        "call it"
    )


_PARTITIONS = {None: None, default_partition: None, min_cut_rematerialization_partition: "min-cut"}


class AotAutograd:
    """The back end that aot_autograd() makes."""

    aot = True

    def __init__(self, fw_compiler, bw_compiler, inference_compiler, partition):
        self.fw_compiler, self.bw_compiler, self.inference_compiler = (
            fw_compiler,
            bw_compiler,
            inference_compiler,
        )
        self.aot_partition = partition  # the option that gramme.compile adds
        self.__name__ = (
            f"aot_autograd({getattr(fw_compiler, '__name__', type(fw_compiler).__name__)})"
        )

    def __call__(self, graph, example_inputs, **options):
        """Compiles a recorded graph that another back end was given: `aot_autograd(...)(graph,
        example_inputs)`.

        Returns a callable of the graph's inputs that returns a tuple of tensors, with gradients
        where inputs require them.
        TypeError if the graph was edited: its nodes are Python then, and have no gradient to be
        joined.
        """
        return plan(
            graph, self, [f"partition={self.aot_partition}"] if self.aot_partition else None
        )

    def compile_forward(self, graph, example_inputs, **options):
        """Compiles a forward graph that has a backward; called by the core."""
        return self.fw_compiler(graph, example_inputs, **options)

    def compile_backward(self, graph, example_inputs, **options):
        """Compiles a backward graph; called by the core."""
        return (self.bw_compiler or self.fw_compiler)(graph, example_inputs, **options)

    def compile_inference(self, graph, example_inputs, **options):
        """Compiles a forward graph that has no backward; called by the core."""
        return (self.inference_compiler or self.fw_compiler)(graph, example_inputs, **options)


def aot_autograd(*, fw_compiler, bw_compiler=None, inference_compiler=None, partition_fn=None):
    """A back end for gramme.compile and register_backend.  Each compiler gets (graph,
    example_inputs) and returns a callable of the inputs that returns a tuple; graphs have no
    in-place writes.

    bw_compiler: for backward graphs, default fw_compiler.  inference_compiler: for forward graphs
    without a backward, default fw_compiler.
    partition_fn: default_partition or min_cut_rematerialization_partition, of this module.
    """
    for compiler in (fw_compiler, bw_compiler, inference_compiler):
        if compiler is not None and not callable(compiler):
            raise TypeError(f"a compiler must be callable, not {type(compiler).__name__}")
    if partition_fn not in _PARTITIONS:
        raise TypeError(
            "partition_fn must be default_partition or min_cut_rematerialization_partition: graphs "
            "are cut in C"
        )
    return AotAutograd(fw_compiler, bw_compiler, inference_compiler, _PARTITIONS[partition_fn])
