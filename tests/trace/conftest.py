# SPDX-License-Identifier: Apache-2.0
import os

os.environ.setdefault("GRAMME_AUTO", "then=none")  # no test starts a C compiler but those that are about it
os.environ.setdefault("GRAMME_CACHE", "0")  # nor finds what another has left

collect_ignore_glob = ["programs_*.py"]
