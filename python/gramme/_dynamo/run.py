# SPDX-License-Identifier: Apache-2.0
"""python -m gramme._dynamo.run SCRIPT [ARGUMENT ...]: what `gramme run --capture-all` executes.

The script is __main__, as if Python had been started with it, but every function that its thread
calls is captured.
"""

import os
import sys


def main():
    import runpy

    from gramme._dynamo import capture_all

    del sys.argv[0]
    script = sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    with capture_all(backend=os.environ.get("GRAMME_BACKEND", "eager")):
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
