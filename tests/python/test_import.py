# SPDX-License-Identifier: Apache-2.0
"""`import gramme` reads what every program needs, and nothing else."""

import subprocess
import sys

# Of the standard library, modules that are slow to import and that few programs use; and parts of
# the package that are read when a name of theirs is first used.
LATER = (
    "asyncio", "ast", "dis", "hashlib", "inspect", "json", "logging", "numpy", "pathlib", "pickle",
    "random", "re", "shutil", "subprocess", "tempfile", "tokenize", "traceback", "typing",
    "zipfile",
    "gramme.distributions", "gramme.fft", "gramme.fx", "gramme.nn", "gramme.optim", "gramme.utils",
)  # fmt: skip


def modules_after(statement):
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_import_does_not_read_slow_modules_that_few_programs_use():
    alone = modules_after("pass")  # what the interpreter's own start has read
    assert not (modules_after("import gramme") - alone) & set(LATER)
