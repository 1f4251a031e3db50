# SPDX-License-Identifier: Apache-2.0
# The library's and the extension's sources, room by room (see README.md for the floors).

CORE_SOURCES = core/compile.c core/compile.h core/compile_options.c core/compile_options.h core/data_dependent.c core/data_dependent.h core/compiled_pair.c core/compiled_pair.h core/plan_cache.c core/plan_cache.h core/gramme.c core/gramme.h core/breaks.def
CORE_SOURCES += \
  core/base/arena.c \
  core/base/environment.c \
  core/base/error.c \
  core/base/journal.c \
  core/base/log.c \
  core/base/arena.h \
  core/base/environment.h \
  core/base/error.h \
  core/base/journal.h \
  core/base/log.h \
  core/base/logs.def \
  core/base/thread.h \
  core/base/home.c \
  core/base/home.h \
  core/base/installed.c \
  core/base/installed.h \
  core/base/threads.c \
  core/base/yield.c \
  core/base/yield.h \
  core/base/threads.h
CORE_SOURCES += \
  core/cache/entry.c \
  core/cache/folder.c \
  core/cache/sweep.c \
  core/cache/cache.h \
  core/cache/private.h
CORE_SOURCES += \
  core/tensor/alloc.c \
  core/tensor/device.c \
  core/tensor/dtype.c \
  core/tensor/fence.c \
  core/tensor/meta.c \
  core/tensor/tensor.c \
  core/tensor/tensor_text.c \
  core/tensor/alloc.h \
  core/tensor/storage.h \
  core/tensor/device.h \
  core/tensor/dtype.h \
  core/tensor/fence.h \
  core/tensor/meta.h \
  core/tensor/tensor.h \
  core/tensor/dtypes.def
CORE_SOURCES += \
  core/api/api.c \
  core/api/api_args.c \
  core/api/api_activation.c \
  core/api/api_adaptive.c \
  core/api/api_arrange.c \
  core/api/api_contract.c \
  core/api/api_conv.c \
  core/api/api_margin.c \
  core/api/api_math.c \
  core/api/api_bessel.c \
  core/api/api_special.c \
  core/api/api_special.h \
  core/api/api_order.c \
  core/api/api_sample.c \
  core/api/api_scatter.c \
  core/api/api_counted.c \
  core/api/api_create.c \
  core/api/api_getitem.c \
  core/api/api_index.c \
  core/api/api_linalg.c \
  core/api/api_loss.c \
  core/api/api_nn.c \
  core/api/api_pointwise.c \
  core/api/api_promote.c \
  core/api/api_random.c \
  core/api/api_reduce.c \
  core/api/api_shape.c core/ops/strided.c core/ops/embed.c \
  core/api/autocast.c \
  core/ops/builder.c \
  core/ops/contract.c \
  core/ops/packs.c core/ops/packs.h \
  core/ops/convolve.c \
  core/ops/pool.c \
  core/ops/windows.c \
  core/ops/windows.h \
  core/ops/create.c \
  core/ops/gradients.c \
  core/ops/index.c \
  core/ops/lapack.c \
  core/ops/infer.c \
  core/ops/infer_shape.c \
  core/ops/infer_convolve.c \
  core/ops/loop.c \
  core/ops/movement.c \
  core/ops/ops.c \
  core/ops/pointwise.c \
  core/ops/random.c \
  core/ops/reduce.c \
  core/ops/run_op.c \
  core/ops/saves.c \
  core/ops/scan.c \
  core/api/api.h \
  core/api/api_private.h \
  core/ops/builder.h \
  core/ops/infer.h \
  core/ops/kernels.h \
  core/ops/lapack.h \
  core/ops/window.h \
  core/ops/ops.h \
  core/api/api.def \
  core/api/autocast.def
CORE_SOURCES += \
  core/autograd/anomaly.c core/autograd/anomaly.h \
  core/autograd/callbacks.c \
  core/autograd/one_node.c \
  core/autograd/checkpoint.c \
  core/autograd/eager_builder.c \
  core/autograd/backward.c \
  core/autograd/engine.c \
  core/autograd/hook_schedule.c \
  core/autograd/needed_nodes.c \
  core/autograd/invalid_history.c \
  core/autograd/inplace.c \
  core/autograd/device_copy.c \
  core/autograd/node.c \
  core/autograd/node_hooks.c core/autograd/node_user.h \
  core/autograd/post_hooks.c \
  core/autograd/saved.c \
  core/autograd/inplace_metadata.c \
  core/autograd/backward_stretch.c \
  core/autograd/backward_stretch_emit.c \
  core/autograd/tape.c \
  core/autograd/autograd.h \
  core/autograd/node.h \
  core/autograd/backward_stretch.h \
  core/autograd/backward_stretch_private.h \
  core/autograd/walk.h
CORE_SOURCES += \
  core/sym/algebra.c \
  core/sym/algebra.h \
  core/sym/size_facts.c \
  core/sym/size_facts.h \
  core/sym/profile.c \
  core/sym/profile.h \
  core/sym/sizes.c \
  core/sym/sizes.h \
  core/sym/form.c \
  core/sym/form.h \
  core/sym/interval.h \
  core/sym/witness.c \
  core/sym/witness.h \
  core/sym/sym.c \
  core/sym/sym_text.c \
  core/sym/sym.h \
  core/sym/sym_private.h
CORE_SOURCES += \
  core/graph/alias.c \
  core/graph/custom_node.c \
  core/graph/higher.c core/graph/higher.h \
  core/graph/higher_run.c core/graph/higher_run.h \
  core/graph/prefixes.c \
  core/graph/blocks.c \
  core/graph/checks.c core/graph/checks.h \
  core/graph/host_node.c \
  core/graph/fold.c \
  core/graph/graph.c \
  core/graph/graph_builder.c \
  core/graph/hash.c \
  core/graph/image.c \
  core/graph/image_read.c \
  core/graph/image_validate.c \
  core/graph/interpret.c \
  core/graph/parse.c \
  core/graph/parse_alias.c \
  core/graph/parse_text.c \
  core/graph/print.c \
  core/graph/simplify.c \
  core/graph/specialise.c \
  core/graph/number_text.c \
  core/graph/verify.c \
  core/graph/rules.def \
  core/graph/rules.h \
  core/graph/alias.h \
  core/graph/graph.h \
  core/graph/image.h \
  core/graph/image_private.h \
  core/graph/parse.h \
  core/graph/simplify.h \
  core/graph/number_text.h
CORE_SOURCES += \
  core/aot/base_plan.c \
  core/aot/base_plan.h \
  core/aot/budget.c \
  core/aot/choose_saved.c \
  core/aot/copy.c \
  core/aot/custom_gradient.c \
  core/aot/higher_stages.c \
  core/aot/higher_tape.c \
  core/aot/host_gradient.c \
  core/aot/dedupe.c core/aot/donate.c \
  core/aot/layer_facts.c \
  core/aot/functional_histories.c core/aot/functional_private.h \
  core/aot/functionalize.c \
  core/aot/stride_overlap.c \
  core/aot/join.c \
  core/aot/layers.c \
  core/aot/layouts.c \
  core/aot/metadata.c \
  core/aot/mincut.c \
  core/aot/output_alias.c \
  core/aot/overlap.c \
  core/aot/partition.c \
  core/aot/read_order.c \
  core/aot/read_order.h \
  core/aot/hook_order.c \
  core/aot/index_rewrites.c \
  core/aot/hook_order.h \
  core/aot/plan.c \
  core/aot/plan_call.c \
  core/aot/plan_history.c \
  core/aot/plan_private.h \
  core/aot/plan_program.c \
  core/aot/plan_sized.c core/aot/rerun.c \
  core/aot/saved_hooks.c \
  core/aot/synthetic_base.c \
  core/aot/stretch_cache.c \
  core/aot/unfold_history.c \
  core/aot/views.c \
  core/aot/aot.h \
  core/aot/layer_facts.h \
  core/aot/mincut.h \
  core/aot/partition.h core/aot/rerun.h \
  core/aot/plan.h \
  core/aot/saved_hooks.h \
  core/aot/stretch_cache.h \
  core/aot/unfold_history.h
CORE_SOURCES += \
  core/run/artefacts.c \
  core/run/backend.c \
  core/run/background_builds.c \
  core/plugin/elf.c \
  core/run/exec.c \
  core/run/forked.c \
  core/plugin/fpu.c \
  core/run/ext_kernels.c \
  core/run/gpu.c \
  core/run/ext_threads.c \
  core/run/shown_text.c \
  core/run/ext_tiles.c \
  core/run/plugin_host.c \
  core/plugin/hygiene.c \
  core/plugin/loader.c \
  core/plugin/manifest.c \
  core/plugin/spelling.c \
  core/plugin/needed.c \
  core/run/placement_text.c \
  core/plugin/probe.c \
  core/plugin/quarantine.c \
  core/run/regions.c \
  core/plugin/registry.c \
  core/run/request.c \
  core/plugin/sidecar.c \
  core/run/sized.c \
  core/run/sized.h \
  core/run/split.c \
  core/run/direct.c \
  core/run/scans.c \
  core/plugin/status.c \
  core/run/support.c \
  core/run/tiers.c \
  core/run/trial.c \
  core/plugin/trust.c \
  core/run/artefacts.h \
  core/run/backend.h \
  core/run/background_builds.h \
  core/run/gpu.h \
  core/plugin/elf.h \
  core/run/exec.h \
  core/run/forked.h \
  core/plugin/fpu.h \
  core/run/plugin_host.h \
  core/plugin/hygiene.h \
  core/plugin/loader.h \
  core/plugin/manifest.h \
  core/plugin/spelling.h \
  core/plugin/needed.h \
  core/plugin/probe.h \
  core/plugin/quarantine.h \
  core/run/regions.h \
  core/plugin/registry.h \
  core/run/request.h \
  core/plugin/sidecar.h \
  core/run/split.h \
  core/run/direct.h \
  core/run/scans.h \
  core/plugin/status.h \
  core/run/support.h \
  core/run/tiers.h \
  core/run/trial.h \
  core/plugin/trust.h \
  core/plugin/refusals.def \
  core/run/tiers.def \
  core/plugin/released/0.0.def
CORE_SOURCES += \
  core/tiles/matmul.c \
  core/tiles/convolve.h \
  core/tiles/tiles-convolve.h \
  core/tiles/tiles-product.h \
  core/tiles/tiles.c \
  core/tiles/prelude.h \
  core/tiles/prelude-small.h \
  core/tiles/freestanding.h \
  core/tiles/source.h \
  core/tiles/source-rows.h \
  core/tiles/tiles-casts.h \
  core/tiles/op_codes.h \
  core/tiles/tiles-impl.h \
  core/tiles/tiles-random.h \
  core/tiles/tiles-scan.h \
  core/tiles/tiles-rows.h \
  core/tiles/tiles-pairs.h \
  core/tiles/tiles-steps.h \
  core/tiles/tiles-types.h \
  core/tiles/tiles-values.h \
  core/tiles/tiles-values-end.h \
  core/tiles/tiles-tables.h \
  core/tiles/tiles.h

EXTENSION_SOURCES = \
  core/models/api_call.c \
  core/models/numpy_input.c \
  core/models/builtin_class.c \
  core/models/builtin_function.c \
  core/models/mode_call.c \
  core/models/random_draw.c \
  core/trace/tracker_float.c \
  core/models/tensor_made.c \
  core/trace/attrs.c \
  core/models/body.c \
  core/models/higher_order.c core/models/higher_order.h core/models/higher_private.h \
  core/models/higher_changes.c core/models/higher_take.c \
  core/objects/break.c \
  core/models/autograd_function.c \
  core/models/allow_in_graph.c \
  core/trace/effect.c \
  core/trace/exception.c \
  core/models/comptime.c \
  core/models/fence_trace.c \
  core/trace/frame.c \
  core/guard/guard.c core/guard/guards.h core/trace/guard_record.c \
  core/objects/call_notes.c core/objects/call_notes.h \
  core/objects/call_state.c core/objects/call_state.h \
  core/objects/key_type.c core/objects/key_type.h core/objects/python_host.c core/objects/python_host.h \
  core/guard/guard_build.c \
  core/guard/guard_memo.c \
  core/guard/guard_run.c \
  core/guard/guard_text.c \
  core/trace/class_made.c \
  core/models/functools.c \
  core/models/namespace.c \
  core/trace/collect.c \
  core/models/copying.c \
  core/models/cached_call.c \
  core/models/deepcopy.c \
  core/models/dispatch.c \
  core/trace/heap.c \
  core/objects/import.c \
  core/objects/import.h \
  core/objects/interrupt.c \
  core/objects/interrupt.h \
  core/trace/instance_dict.c \
  core/trace/insn_build.c \
  core/trace/insn_call.c \
  core/trace/insn_exception.c \
  core/trace/insn_flow.c \
  core/trace/insn_class.c \
  core/trace/insn_match.c \
  core/trace/insn_operator.c \
  core/trace/insn_stack.c \
  core/bytecode/insns.c \
  core/trace/keys.c \
  core/trace/lifetime.c \
  core/bytecode/liveness.c \
  core/models/members.c core/models/members.h \
  core/trace/python_span.c \
  core/models/itertools.c \
  core/trace/object_attrs.c \
  core/models/operators.c \
  core/models/recording_probe.c \
  core/trace/recorder.c \
  core/trace/residual.c \
  core/trace/resume.c \
  core/trace/return.c \
  core/trace/traced_size.c \
  core/trace/traced_size.h \
  core/guard/size_guard.c \
  core/guard/size_guard.h \
  core/models/sort.c \
  core/trace/value_source.c \
  core/trace/subclass.c \
  core/trace/text_method.c \
  core/trace/tracker.c \
  core/trace/tracker_builtin.c \
  core/trace/tracker_bytearray.c \
  core/trace/tracker_cell.c \
  core/trace/tracker_class.c \
  core/trace/tracker_constant.c \
  core/models/tracker_deque.c \
  core/models/tracker_control.c \
  core/trace/tracker_descriptor.c \
  core/trace/tracker_dict.c \
  core/trace/tracker_exception.c \
  core/trace/tracker_function.c \
  core/trace/tracker_generator.c \
  core/models/tracker_grad_mode.c \
  core/trace/tracker_number.c \
  core/models/tracker_hook.c \
  core/trace/tracker_iterator.c \
  core/models/tracker_getter.c \
  core/trace/tracker_given.c \
  core/trace/contents.c \
  core/models/iterated.c \
  core/trace/list_items.c \
  core/trace/set_algebra.c \
  core/trace/set_order.c \
  core/objects/set_table.c \
  core/trace/key_table.c \
  core/trace/tracker_list.c \
  core/trace/tracker_module.c \
  core/trace/tracker_object.c \
  core/trace/tracker_set.c \
  core/models/tracker_scalar.c \
  core/trace/tracker_size.c \
  core/trace/tracker_slice.c \
  core/trace/tracker_tensor.c \
  core/trace/tracker_tuple.c \
  core/trace/tracker_view.c \
  core/trace/wrap.c \
  core/trace/attrs.h \
  core/models/body.h \
  core/objects/break.h \
  core/models/models.h core/models/models_private.h core/trace/kinds.h \
  core/trace/class_made.h \
  core/trace/contents.h \
  core/trace/list_items.h \
  core/trace/set.h \
  core/objects/set_table.h \
  core/trace/key_table.h \
  core/trace/keys.h \
  core/trace/cell.h \
  core/trace/exception.h \
  core/models/tracker_control.h \
  core/models/random_draw.h \
  core/trace/number.h \
  core/models/autograd_function.h \
  core/guard/guard.h core/guard/recorded_guard.h \
  core/trace/heap.h \
  core/bytecode/code.h core/trace/insn_handlers.h \
  core/trace/iterator.h \
  core/trace/lifetime.h \
  core/bytecode/liveness.h \
  core/trace/python_span.h \
  core/trace/instance.h \
  core/trace/recorder.h \
  core/guard/value_source.h \
  core/trace/trace.h \
  core/trace/tracker.h \
  core/guard/guards.def \
  core/bytecode/insns.def \
  core/trace/trackers.def \
  core/objects/api_object.c \
  core/objects/args.c \
  core/bytecode/assemble.c \
  core/objects/anomaly_py.c core/objects/anomaly_py.h \
  core/objects/autograd_py.c \
  core/bytecode/bind.c \
  core/objects/builds_py.c \
  core/objects/device_py.c \
  core/capture/bytecode_py.c \
  core/capture/callable.c \
  core/capture/callable_backend.c \
  core/capture/inline_hooks.c \
  core/capture/code_cache.c \
  core/capture/profile_store.c \
  core/objects/switches.c \
  core/capture/compiled_autograd.c \
  core/capture/compiler_py.c \
  core/objects/construct.c \
  core/capture/control.c \
  core/capture/counters.c \
  core/bytecode/decode.c \
  core/objects/cached_function.c \
  core/capture/trace_host.c \
  core/objects/death.c \
  core/objects/dict_find.c \
  core/objects/dict_version.c \
  core/capture/entry_draws.c \
  core/objects/call_objects.c \
  core/objects/given_iterator.c \
  core/objects/lent_objects.c \
  core/objects/dlpack.c \
  core/objects/errors.c \
  core/capture/failed.c \
  core/capture/frontend.c \
  core/objects/function_py.c \
  core/objects/graph_object.c \
  core/objects/graph_sizes.c \
  core/capture/planned_graph.c core/capture/planned_graph.h \
  core/objects/node_py.c core/objects/node_py.h \
  core/objects/host_function.c core/objects/host_function.h \
  core/bytecode/handler_table.c \
  core/capture/hook.c \
  core/capture/hook_program.c \
  core/objects/mask_index.c \
  core/objects/members_py.c core/objects/members_py.h \
  core/objects/kept_frame.c \
  core/objects/lapack_py.c \
  core/bytecode/lines.c \
  core/capture/measure.c \
  core/capture/module.c \
  core/objects/numpy.c \
  core/objects/overrides.c core/objects/overrides.h \
  core/bytecode/raw_code.c \
  core/capture/report.c \
  core/capture/resume_call.c \
  core/capture/resume_code.c \
  core/capture/resume_original.c \
  core/capture/resume_point.c \
  core/objects/tensor_methods.c \
  core/objects/tensor_number.c \
  core/objects/tensor_object.c \
  core/objects/types.c \
  core/objects/wrapped_calls.c \
  core/objects/api_object.h \
  core/objects/args.h \
  core/bytecode/assemble.h \
  core/objects/autograd_py.h \
  core/bytecode/bind.h \
  core/objects/builds_py.h \
  core/objects/device_py.h \
  core/capture/bytecode_py.h \
  core/capture/callable.h \
  core/capture/callable_backend.h \
  core/capture/inline_hooks.h \
  core/capture/code_cache.h \
  core/capture/profile_store.h \
  core/objects/switches.h \
  core/capture/compiled_autograd.h \
  core/capture/compiler_py.h \
  core/objects/construct.h \
  core/capture/control.h \
  core/capture/counters.h \
  core/objects/cpython.h \
  core/bytecode/decode.h \
  core/objects/cached_function.h \
  core/capture/trace_host.h \
  core/objects/death.h \
  core/objects/dict_find.h \
  core/objects/dict_version.h \
  core/capture/entry_draws.h \
  core/objects/kept_frame.h \
  core/objects/call_objects.h \
  core/objects/given_iterator.h \
  core/objects/dlpack.h \
  core/objects/errors.h \
  core/capture/failed.h \
  core/capture/frontend.h \
  core/objects/function_py.h \
  core/objects/graph_object.h \
  core/objects/graph_sizes.h \
  core/bytecode/handler_table.h \
  core/capture/hook.h \
  core/capture/hook_program.h \
  core/objects/mask_index.h \
  core/objects/lapack_py.h \
  core/bytecode/lines.h \
  core/capture/measure.h \
  core/objects/numpy.h \
  core/bytecode/opcodes.h \
  core/bytecode/raw_code.h \
  core/capture/report.h \
  core/capture/resume_call.h \
  core/capture/resume_code.h \
  core/capture/resume_original.h \
  core/objects/tensor_number.h \
  core/objects/tensor_object.h \
  core/objects/types.h \
  core/objects/wrapped_calls.h \
  core/bytecode/opcodes.def

if HAVE_PYTHON
packagedir = $(pythondir)/gramme
package_PYTHON = \
  python/gramme/__init__.py \
  python/gramme/_C.py \
  python/gramme/__config__.py \
  python/gramme/_absent.py \
  python/gramme/_built_for.py \
  python/gramme/_compile.py \
  python/gramme/_other_devices.py \
  python/gramme/_switches.py \
  python/gramme/overrides.py \
  python/gramme/_ready.py \
  python/gramme/accelerator.py \
  python/gramme/compare.py \
  python/gramme/cpu.py \
  python/gramme/distributed.py \
  python/gramme/fft.py \
  python/gramme/python_functions.py \
  python/gramme/higher_order.py \
  python/gramme/jit.py \
  python/gramme/library.py \
  python/gramme/legacy.py \
  python/gramme/limits.py \
  python/gramme/incomplete_gamma.py \
  python/gramme/copies.py \
  python/gramme/python_algorithms.py \
  python/gramme/polynomials.py \
  python/gramme/special.py \
  python/gramme/python_methods.py \
  python/gramme/mps.py \
  python/gramme/multiprocessing.py \
  python/gramme/onnx.py \
  python/gramme/ops.py \
  python/gramme/profiler.py \
  python/gramme/grad_mode.py \
  python/gramme/random.py \
  python/gramme/return_types.py \
  python/gramme/saved_tree.py \
  python/gramme/serialization.py \
  python/gramme/settings.py \
  python/gramme/storage.py \
  python/gramme/symbols.py \
  python/gramme/testing.py \
  python/gramme/types.py \
  python/gramme/version.py \
  python/gramme/xpu.py
package_compilerdir = $(pythondir)/gramme/compiler
package_compiler_PYTHON = python/gramme/compiler/__init__.py python/gramme/compiler/config.py
package_functorchdir = $(pythondir)/gramme/_functorch
package_functorch_PYTHON = python/gramme/_functorch/__init__.py python/gramme/_functorch/config.py
package_ampdir = $(pythondir)/gramme/amp
package_amp_PYTHON = python/gramme/amp/__init__.py python/gramme/amp/scaling.py
package_cudadir = $(pythondir)/gramme/cuda
package_cuda_PYTHON = python/gramme/cuda/__init__.py python/gramme/cuda/amp.py
package_distributionsdir = $(pythondir)/gramme/distributions
package_distributions_PYTHON = \
  python/gramme/distributions/__init__.py \
  python/gramme/distributions/constraint_registry.py \
  python/gramme/distributions/constraints.py \
  python/gramme/distributions/continuous.py \
  python/gramme/distributions/counts.py \
  python/gramme/distributions/discrete.py \
  python/gramme/distributions/distribution.py \
  python/gramme/distributions/gamma.py \
  python/gramme/distributions/kl.py \
  python/gramme/distributions/derived.py \
  python/gramme/distributions/mixture.py \
  python/gramme/distributions/multivariate.py \
  python/gramme/distributions/relaxed.py \
  python/gramme/distributions/transforms.py \
  python/gramme/distributions/utils.py
package_linalgdir = $(pythondir)/gramme/linalg
package_linalg_PYTHON = \
  python/gramme/linalg/__init__.py \
  python/gramme/linalg/exponential.py \
  python/gramme/linalg/lu.py \
  python/gramme/linalg/nodes.py
package_autograddir = $(pythondir)/gramme/autograd
package_autograd_PYTHON = \
  python/gramme/autograd/__init__.py \
  python/gramme/autograd/anomaly_mode.py \
  python/gramme/autograd/function.py \
  python/gramme/autograd/functional.py \
  python/gramme/autograd/gradcheck.py \
  python/gramme/autograd/graph.py \
  python/gramme/autograd/profiler.py
package__dynamodir = $(pythondir)/gramme/_dynamo
package__dynamo_PYTHON = \
  python/gramme/_dynamo/__init__.py \
  python/gramme/_dynamo/compiled_autograd.py \
  python/gramme/_dynamo/comptime.py \
  python/gramme/_dynamo/config.py \
  python/gramme/_dynamo/convert_frame.py \
  python/gramme/_dynamo/eval_frame.py \
  python/gramme/_dynamo/exc.py \
  python/gramme/_dynamo/run.py \
  python/gramme/_dynamo/utils.py
package__dynamo_backendsdir = $(pythondir)/gramme/_dynamo/backends
package__dynamo_backends_PYTHON = \
  python/gramme/_dynamo/backends/__init__.py \
  python/gramme/_dynamo/backends/common.py \
  python/gramme/_dynamo/backends/registry.py \
  python/gramme/_dynamo/backends/verify.py
package_fxdir = $(pythondir)/gramme/fx
package_fx_PYTHON = python/gramme/fx/__init__.py python/gramme/fx/graph.py python/gramme/fx/node.py
package_nndir = $(pythondir)/gramme/nn
package_nn_PYTHON = \
  python/gramme/nn/__init__.py \
  python/gramme/nn/activation.py \
  python/gramme/nn/adaptive.py \
  python/gramme/nn/alignment.py \
  python/gramme/nn/attention.py \
  python/gramme/nn/attention_function.py \
  python/gramme/nn/backward_hooks.py \
  python/gramme/nn/bags.py \
  python/gramme/nn/functional_in_python.py \
  python/gramme/nn/containers.py \
  python/gramme/nn/conv.py \
  python/gramme/nn/distance.py \
  python/gramme/nn/dropout.py \
  python/gramme/nn/embedding.py \
  python/gramme/nn/functional.py \
  python/gramme/nn/init.py \
  python/gramme/nn/layers.py \
  python/gramme/nn/lazy.py \
  python/gramme/nn/loss.py \
  python/gramme/nn/module.py \
  python/gramme/nn/normalization.py \
  python/gramme/nn/padding.py \
  python/gramme/nn/parallel.py \
  python/gramme/nn/parameter.py \
  python/gramme/nn/pooling.py \
  python/gramme/nn/recurrence.py \
  python/gramme/nn/recurrent.py \
  python/gramme/nn/rnn.py \
  python/gramme/nn/sampling.py \
  python/gramme/nn/shape.py \
  python/gramme/nn/transformer.py \
  python/gramme/nn/unpooling.py
package_nn_modulesdir = $(pythondir)/gramme/nn/modules
package_nn_modules_PYTHON = python/gramme/nn/modules/__init__.py python/gramme/nn/modules/utils.py
package_nn_utilsdir = $(pythondir)/gramme/nn/utils
package_nn_utils_PYTHON = \
  python/gramme/nn/utils/__init__.py \
  python/gramme/nn/utils/fusion.py \
  python/gramme/nn/utils/gradients.py \
  python/gramme/nn/utils/norms.py \
  python/gramme/nn/utils/parametrizations.py \
  python/gramme/nn/utils/parametrize.py \
  python/gramme/nn/utils/rnn.py \
  python/gramme/nn/utils/stateless.py \
  python/gramme/nn/utils/vectors.py
package_funcdir = $(pythondir)/gramme/func
package_func_PYTHON = python/gramme/func/__init__.py python/gramme/func/mapping.py
package_utilsdir = $(pythondir)/gramme/utils
package_utils_PYTHON = \
  python/gramme/utils/__init__.py \
  python/gramme/utils/_pytree.py \
  python/gramme/utils/checkpoint.py \
  python/gramme/utils/dlpack.py \
  python/gramme/utils/hooks.py
package_utils_datadir = $(pythondir)/gramme/utils/data
package_utils_data_PYTHON = \
  python/gramme/utils/data/__init__.py \
  python/gramme/utils/data/collate.py \
  python/gramme/utils/data/dataset.py \
  python/gramme/utils/data/dataloader.py \
  python/gramme/utils/data/distributed.py \
  python/gramme/utils/data/sampler.py
package_optimdir = $(pythondir)/gramme/optim
package_optim_PYTHON = \
  python/gramme/optim/__init__.py \
  python/gramme/optim/adam.py \
  python/gramme/optim/adam_kin.py \
  python/gramme/optim/adaptive.py \
  python/gramme/optim/factored.py \
  python/gramme/optim/asgd.py \
  python/gramme/optim/lbfgs.py \
  python/gramme/optim/lr_scheduler.py \
  python/gramme/optim/optimizer.py \
  python/gramme/optim/rprop.py \
  python/gramme/optim/sgd.py \
  python/gramme/optim/swa_utils.py
endif
