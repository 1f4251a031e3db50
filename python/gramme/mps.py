# SPDX-License-Identifier: Apache-2.0
"""The device "mps", which there is not: is_available() is False."""

from gramme import _absent, _other_devices

globals().update(_other_devices.names("mps"))


def __getattr__(name):
    return _absent.find(__name__, name)
