# SPDX-License-Identifier: Apache-2.0
"""Python's multiprocessing, all of it, and spawn() and start_processes() beside it.

Tensors go to another process as copies, by pickle: memory is not shared.  The child of a fork may
compute, on the CPU.
"""

import multiprocessing
import signal
import tempfile
from multiprocessing import *  # noqa: F403
from multiprocessing import connection

from gramme import _absent

__all__ = [*multiprocessing.__all__, "ProcessContext", "ProcessException", "ProcessExitedException",
"ProcessRaisedException", "SpawnContext", "spawn",
           "start_processes"]  # fmt: skip


class ProcessException(Exception):
    """A process that start_processes() started has failed: error_index says which, error_pid its
    number."""

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    @property
    def error_pid(self):
        return self.pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """Its function raised; the message has the traceback."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """It ended by a signal or with an exit code that is not 0."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn, index, args, error_file):
    import pickle
    import sys
    import traceback

    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent has it too
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """The processes that start_processes() started: join() waits for them, pids() says which they
    are."""

    def __init__(self, processes, folder):
        self.processes, self._folder = processes, folder
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self):
        return [int(process.pid) for process in self.processes]

    def join(self, timeout=None, grace_period=None):
        """True when all have ended well; False if `timeout` seconds pass, or one of several has
        ended and others run.

        The first that fails ends the others: they get grace_period seconds (none, if None), then
        SIGTERM, and half a minute later SIGKILL.
        Errors: ProcessRaisedException, ProcessExitedException.
        """
        if not self.sentinels:
            return True
        ready = connection.wait(self.sentinels.keys(), timeout=timeout)
        failed = None
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0 and failed is None:
                failed = index
        if failed is None:
            return not self.sentinels
        if grace_period is not None:
            connection.wait(
                [process.sentinel for process in self.processes if process.is_alive()],
                timeout=grace_period,
            )
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(30)
            if process.is_alive():
                process.kill()
                process.join()
        self._raise_of(failed)

    def _raise_of(self, index):
        import os
        import pickle

        process, path = self.processes[index], os.path.join(self._folder.name, str(index))
        if os.path.exists(path):
            with open(path, "rb") as file:
                text = pickle.load(file)
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}",
                index,
                process.pid,
            )
        if process.exitcode < 0:
            try:
                name = signal.Signals(-process.exitcode).name
            except ValueError:
                name = f"<Unknown signal {-process.exitcode}>"
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}",
                index,
                process.pid,
                process.exitcode,
                name,
            )
        raise ProcessExitedException(
            f"process {index} terminated with exit code {process.exitcode}",
            index,
            process.pid,
            process.exitcode,
        )


SpawnContext = ProcessContext


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Starts `nprocs` processes, which call fn(i, *args), i from 0 on; with join waits for all of
    them and returns None, else returns a ProcessContext.

    fn: a function at the top level of a module, as it is pickled; start_method: "spawn", "fork" or
    "forkserver".
    Errors: ProcessRaisedException with its traceback if one raises, ProcessExitedException if one
    ends otherwise.
    """
    mp, folder = multiprocessing.get_context(start_method), tempfile.TemporaryDirectory(
        prefix="gramme-processes-"
    )
    processes = []
    for index in range(nprocs):
        process = mp.Process(
            target=_run, args=(fn, index, args, f"{folder.name}/{index}"), daemon=daemon
        )
        process.start()
        processes.append(process)
    context = ProcessContext(processes, folder)
    if not join:
        return context
    while not context.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """start_processes() by its usual name."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies():
    """An empty set: memory is not shared between processes."""
    return set()


def __getattr__(name):
    if hasattr(multiprocessing, name) and not name.startswith("__"):
        return getattr(multiprocessing, name)
    return _absent.find(__name__, name)
