# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's names, as a program finds them that was not started as one of several
processes: there is no group.

gramme works in one process on one device.  is_available() and is_initialized() are False; what asks
the group, or sends something, raises ValueError as torch does before init_process_group(), and that
raises NotImplementedError.
"""

import os

from gramme import _absent

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "ReduceOp", "all_gather", "all_gather_into_tensor",
    "all_gather_object", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "destroy_process_group",
    "gather", "gather_object", "get_backend",
    "get_global_rank", "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size",
    "group", "irecv", "is_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available",
    "is_xccl_available", "isend", "monitored_barrier", "recv", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send",
]  # fmt: skip


def is_available():
    """False: there is one process."""
    return False


def is_initialized():
    """False: there is no group of processes."""
    return False


def _no(doc):
    def answer():
        return False

    answer.__doc__ = doc
    return answer


is_nccl_available = _no("False: NCCL is not used.")
is_gloo_available = _no("False: Gloo is not used.")
is_mpi_available = _no("False: MPI is not used.")
is_ucc_available = _no("False: UCC is not used.")
is_xccl_available = _no("False: XCCL is not used.")


def is_torchelastic_launched():
    """True if a launcher of torch's has started the process: it sets TORCHELASTIC_RUN_ID."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


class DistError(RuntimeError):
    """The base of torch's errors of this module, for `except`; none is raised here."""


class DistBackendError(DistError):
    """A class for `except`; it is not raised here."""


class DistNetworkError(DistError):
    """A class for `except`; it is not raised here."""


class ProcessGroup:
    """A class for annotations and isinstance(): nothing is an instance of it."""

    def __new__(cls, *args, **kwargs):
        raise NotImplementedError(
            "gramme has no distributed.ProcessGroup: "
            f"{_absent.TABLE['distributed.init_process_group'][1]}"
        )


class group:
    """group.WORLD, the group of all processes: None, as there is none."""

    WORLD = None


class GroupMember:
    """The same by another name; NON_GROUP_MEMBER is what a process has that is in no group."""

    WORLD = None
    NON_GROUP_MEMBER = -100


class ReduceOp:
    """How what the processes have is combined: names for calls of all_reduce(), reduce() and
    reduce_scatter()."""

    def __init__(self, name, number):
        self.name, self.value = name, number

    def __repr__(self):
        return f"<RedOpType.{self.name}: {self.value}>"

    def __reduce__(self):
        return f"ReduceOp.{self.name}"


for _number, _name in enumerate(
    ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM", "UNUSED")
):
    setattr(ReduceOp, _name, ReduceOp(_name, _number))
del _number, _name


class Backend(str):
    """The name of what carries messages, in lower case."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError(f"Backend() takes a name, not {name!r}")
        return str.__new__(cls, name.lower())


def _of_the_group(name):
    def ask(*args, **kwargs):
        raise ValueError(
            f"distributed.{name}(): there is no group of processes, as init_process_group() would "
            "make one: "
            "gramme works in one process; ask distributed.is_initialized() before"
        )

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = "ValueError: there is no group of processes.  Ask is_initialized() before."
    return ask


for _name in __all__:
    if _name not in globals():
        globals()[_name] = _of_the_group(_name)
del _name


def __getattr__(name):
    return _absent.find(__name__, name)
