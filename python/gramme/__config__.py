# SPDX-License-Identifier: Apache-2.0
"""The build as text: show() and parallel_info(), as programs print them into reports of faults."""

from gramme import _core


def show():
    """The version and the back ends that are installed."""
    from gramme.compiler import list_backends

    return f"gramme {_core.__version__}\nback ends: {', '.join(list_backends())}\n"


def parallel_info():
    """The number of threads that one large operation uses at most."""
    return f"gramme.get_num_threads(): {_core.get_num_threads()}\n"
