# SPDX-License-Identifier: Apache-2.0
"""torch.onnx's names: models are not written as ONNX.  export() raises NotImplementedError, which
says what to do."""

from gramme import _absent


def is_in_onnx_export():
    """False: nothing is exported."""
    return False


def is_onnxrt_backend_supported():
    """False: there is no back end of that kind."""
    return False


def __getattr__(name):
    return _absent.find(__name__, name)
