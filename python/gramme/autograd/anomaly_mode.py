# SPDX-License-Identifier: Apache-2.0
"""Finding what makes a NaN in a backward.

With the mode on, a backward in which a function returns NaN raises RuntimeError, which names the
function and where the forward called it; a warning has the whole way there, also for any other
error of a backward.  Compiled functions run as plain Python meanwhile; one that was called before
is taken apart in the backward.  The mode is the whole process's.
"""

import os
import warnings

from gramme import _core, _ready
from gramme.grad_mode import no_grad

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def is_anomaly_enabled():
    """Whether the mode is on."""
    return _core.get_anomaly()[0]


def is_anomaly_check_nan_enabled():
    """Whether what functions return is looked at, with the mode on."""
    return _core.get_anomaly()[1]


def set_anomaly_enabled(enabled, check_nan=True):
    """Sets the mode at once."""
    _core.set_anomaly(enabled, check_nan)


class set_detect_anomaly:
    """set_detect_anomaly(mode, check_nan=True): sets the mode at once; as a context it puts the old
    one back at the end."""

    def __init__(self, mode, check_nan=True):
        self.before = _core.get_anomaly()
        _core.set_anomaly(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        _core.set_anomaly(*self.before)


class detect_anomaly:
    """A context with the mode on.  check_nan=False: nothing is looked at, but errors are told of as
    above."""

    def __init__(self, check_nan=True):
        self.check_nan, self.before = check_nan, _core.get_anomaly()
        warnings.warn(
            (
                "Anomaly Detection has been enabled. This mode will increase the runtime and "
                "should only be enabled for debugging."
            ),
            stacklevel=2,
        )

    def __enter__(self):
        self.before = _core.get_anomaly()
        _core.set_anomaly(True, self.check_nan)

    def __exit__(self, *exception):
        _core.set_anomaly(*self.before)


# -- What the engine asks for


def _where():
    traceback = _ready.module("traceback")  # it takes longer than the rest of autograd
    frames = [
        frame for frame in traceback.extract_stack() if not frame.filename.startswith(_PACKAGE)
    ]
    if not frames:
        return None
    last = frames[-1]
    return f'"{last.filename}", line {last.lineno}, in {last.name}: {last.line}\n' + "".join(
        traceback.format_list(frames)
    )


def _has_nan(gradient):
    with no_grad():
        return bool(gradient.isnan().any())


def _tell(node, where):
    if where is None:
        way = (
            " No forward pass information available. Enable detect anomaly during forward pass for "
            "more information."
        )
    else:
        way = " Traceback of forward call that caused the error:\n" + where.partition("\n")[2]
    warnings.warn(f"Error detected in {node}.{way}", stacklevel=2)
