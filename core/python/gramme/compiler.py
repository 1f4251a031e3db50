# SPDX-License-Identifier: Apache-2.0
"""gramme.compiler: look at and control compilation."""

import atexit
import os

from gramme import _core
from gramme._core import BackendError, GraphBreakWarning, Unsupported

__all__ = ["BackendError", "GraphBreakWarning", "Unsupported", "explain", "is_compiling", "list_backends", "reset"]


def list_backends():
    """Names of the back ends that can be used, sorted.  Found through the plugins' manifests: loads nothing."""
    return _core.list_backends()


def reset(fn=None):
    """Forgets everything compiled: of one compiled function, or of all."""
    if fn is None:
        _core.reset_all()
    else:
        fn.reset()


def is_compiling():
    """False here; True inside a function while it is being recorded."""
    return False


class Explanation:
    """What explain() found; str() of it is the report."""

    def __init__(self, name, result, status, entries):
        self.name = name
        self.result = result
        self.status = status
        self.entries = entries
        self.graph_count = len(entries)
        self.graph_break_count = len(status["breaks"])
        self.break_reasons = status["breaks"]

    def __str__(self):
        lines = [
            f"{self.name}: {self.graph_count} graph{'' if self.graph_count == 1 else 's'}, "
            f"{self.graph_break_count} break{'' if self.graph_break_count == 1 else 's'}, "
            f"back end {self.status['backend']}, {self.status['compile_ms']:.2f} ms compiled, "
            f"{self.status['hits']} hits, {self.status['misses']} misses"
        ]
        for i, entry in enumerate(reversed(self.entries)):
            lines.append(f"graph {i}: {entry['nodes']} nodes, {entry['n_guards']} guards, {entry['hits']} hits, "
                         f"{entry['effects']} side effects, {entry['frames_inlined']} calls inlined")
            if entry["reason"]:
                lines.append(f"  compiled because: {entry['reason']}")
            if entry["fallback"]:
                lines.append(f"  run by the host: {entry['fallback']}")
            lines += ["  " + line for line in (entry["graph"] or "").splitlines()]
            lines.append("  guards:")
            lines += ["    " + line for line in entry["guards"].splitlines()]
            times = "  ".join(f"{letter} {ms:.3f}" for letter, ms in entry["stages"].items())
            lines.append(f"  ms by stage: {times}")
        for reason in self.break_reasons:
            lines.append("break: " + reason)
        return "\n".join(lines)

    __repr__ = __str__


def explain(fn, *, backend=None):
    """explain(fn)(*args) calls fn compiled, and returns an Explanation: graphs, guards, breaks with reasons and hints.

    fn: a function, or a function that is compiled already (then its own entries are shown, those of earlier calls included).
    """
    from gramme._compile import compile

    compiled = fn if isinstance(fn, _core.CompiledFunction) else compile(fn, backend=backend)

    def run(*args, **kwargs):
        result = compiled(*args, **kwargs)
        return Explanation(getattr(fn, "__name__", repr(fn)), result, compiled.status(), compiled.entries())

    return run


def _report_at_exit():
    for name, status, entries in _core.live_functions():
        print(Explanation(name, None, status, entries))


if os.environ.get("GRAMME_EXPLAIN") == "1":
    atexit.register(_report_at_exit)
