# SPDX-License-Identifier: Apache-2.0
"""torch.profiler's names that mean something without a profiler: labels, schedules, kinds of
activity.  profile itself raises NotImplementedError."""

import contextlib
import enum

from gramme import _absent, cuda

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "record_function",
    "schedule",
    "supported_activities",
]


class ProfilerActivity(enum.Enum):
    """The kinds of work that a profiler would count."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """The action of a profiler in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function of a step's number that returns its ProfilerAction: `skip_first` steps are passed
    over, then come rounds of `wait` steps of NONE, `warmup` of WARMUP and `active` of RECORD, whose
    last one is RECORD_AND_SAVE; after `repeat` rounds (0: without end) there is NONE.
    skip_first_wait: not 0: the first round has no steps of waiting.

    Errors: ValueError unless wait, warmup, repeat and skip_first are at least 0, and active at
    least 1.
    """
    if min(wait, warmup, repeat, skip_first, skip_first_wait) < 0 or active < 1:
        raise ValueError(
            "schedule(): wait, warmup, repeat and skip_first are not negative, and active is at "
            "least 1"
        )

    def action(step):
        if step < 0:
            raise ValueError(f"schedule(): a step's number is not negative, and is {step}")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        number, at = divmod(step, length)
        if repeat and number >= repeat:
            return ProfilerAction.NONE
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == length - 1 else ProfilerAction.RECORD

    return action


class record_function(contextlib.ContextDecorator):
    """record_function(name): a context or decorator that labels what runs in it for a profiler.
    There is none, so that it changes nothing."""

    def __init__(self, name, args=None):
        self.name, self.args = name, args

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


def kineto_available():
    """False: Kineto is not used."""
    return False


def supported_activities():
    """The kinds of activity that there are here: of the CPU, and of the GPU where there is one."""
    return (
        {ProfilerActivity.CPU, ProfilerActivity.CUDA}
        if cuda.is_available()
        else {ProfilerActivity.CPU}
    )


def __getattr__(name):
    return _absent.find(__name__, name)
