# SPDX-License-Identifier: Apache-2.0
"""Switches of the recorder, read when a function is compiled.

side_effect_replay_policy: what to do when a compiled function changes objects that existed before the call.  "silent"; "info" writes each
change with its place to the log, "warn" warns, "error" raises RuntimeError.
"""

side_effect_replay_policy = "silent"
