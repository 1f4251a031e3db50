# SPDX-License-Identifier: Apache-2.0
"""gramme._dynamo.exc: what a compiled function raises that its plain function does not, by torch's
names.

All are a TorchDynamoException, which is a RuntimeError: Unsupported (a graph break under
fullgraph=True), BackendCompilerFailed (a back end of Python raised while it compiled; BackendError,
too), RecompileError (error_on_recompile, or a stance that compiles no more) and
FailOnRecompileLimitHit (fail_on_recompile_limit_hit).
"""

from gramme._core import FailOnRecompileLimitHit, RecompileError, TorchDynamoException
from gramme.compiler import BackendCompilerFailed, Unsupported

__all__ = [
    "BackendCompilerFailed",
    "FailOnRecompileLimitHit",
    "RecompileError",
    "TorchDynamoException",
    "Unsupported",
]


def __getattr__(name):
    from gramme import _absent

    return _absent.find(__name__, name)
