# SPDX-License-Identifier: Apache-2.0
"""The modules that compiling needs, imported before the first function is compiled.

An import inside of a first call would give other threads a turn in its middle, and the child of a
fork would wait for ever for the lock of an import that a thread of its parent's was in the middle
of.  So they are imported here at once, and a fork waits until that is done.
"""

import importlib
import os
import threading

lock = threading.RLock()  # held by whoever imports a module of the package late
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
_loaded = False

# What core/ names in gm_import and may come to while it compiles; `import gramme` has loaded the
# others.
MODULES = (
    "_string",
    "copy",
    "copyreg",
    "dis",
    "functools",
    "gc",
    "gramme._dynamo.comptime",
    "gramme._dynamo.config",
    "gramme.fx",
    "gramme.nn",
    "gramme.utils.hooks",
    "inspect",
    "linecache",
)


def module(name):
    """A module of the package, imported if it is not yet; a fork waits for that.  Thread: any."""
    with lock:
        return importlib.import_module(name)


def load():
    """Imports them, once.  Thread: any."""
    global _loaded
    if _loaded:
        return
    with lock:
        for name in MODULES:
            importlib.import_module(name)
        _loaded = True
