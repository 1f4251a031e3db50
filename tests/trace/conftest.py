# SPDX-License-Identifier: Apache-2.0
collect_ignore_glob = ["programs_*.py"]
