# SPDX-License-Identifier: Apache-2.0
"""Switches of the recorder, read when a function is compiled.

side_effect_replay_policy: what to do when a compiled function changes objects that existed before the call.  "silent"; "info" writes each
change with its place to the log, "warn" warns, "error" raises RuntimeError.

replay_side_effects: whether these changes are made at all.  False: a function compiled with fullgraph=True leaves lists, dicts, objects, globals,
captured variables and hooks that existed before as they are, and returns what it would have returned.  In-place writes to tensors are part
of the graph and made as ever.  Without fullgraph it says nothing: after a break the rest of a function would see old values.

capture_scalar_outputs: whether item() and int() of an integer tensor are recorded, as an integer that only the run knows: what does not
depend on its value goes on in the same graph.  False: the graph breaks there.

capture_dynamic_output_shape_ops: whether nonzero, masks, unique and their kin, whose result is as large as data says, stay in the graph; what
comes after is compiled for all sizes.  True, unlike torch, because nothing is slower for it and the answer is the same.  What is asked of such a size is
decided by what gramme._check() says of it, else the graph breaks there.  False: the graph breaks at the call.

recompile_limit: how many entries a function may have for each back end; calls that none of them fits then run as plain Python.

compiled_autograd: whether backward() and grad() run through the back end of the compiled function that calls them, or the default one outside
of any: see gramme._dynamo.compiled_autograd.  Read at every backward.
"""

side_effect_replay_policy = "silent"
replay_side_effects = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = True
recompile_limit = 8
compiled_autograd = False
