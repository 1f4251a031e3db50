# SPDX-License-Identifier: Apache-2.0
# The library's and the extension's sources, room by room (see README.md for the floors).

CORE_SOURCES = core/compile.c core/compile.h core/counted.c core/counted.h core/pair.c core/pair.h core/plans.c core/plans.h core/gramme.c core/gramme.h core/breaks.def
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
  core/tensor/text.c \
  core/tensor/alloc.h \
  core/tensor/storage.h \
  core/tensor/device.h \
  core/tensor/dtype.h \
  core/tensor/fence.h \
  core/tensor/meta.h \
  core/tensor/tensor.h \
  core/tensor/dtypes.def
CORE_SOURCES += \
  core/ops/api.c \
  core/ops/api_args.c \
  core/ops/api_activation.c \
  core/ops/api_adaptive.c \
  core/ops/api_arrange.c \
  core/ops/api_contract.c \
  core/ops/api_conv.c \
  core/ops/api_margin.c \
  core/ops/api_math.c \
  core/ops/api_bessel.c \
  core/ops/api_special.c \
  core/ops/api_special.h \
  core/ops/api_order.c \
  core/ops/api_sample.c \
  core/ops/api_scatter.c \
  core/ops/api_counted.c \
  core/ops/api_create.c \
  core/ops/api_getitem.c \
  core/ops/api_index.c \
  core/ops/api_linalg.c \
  core/ops/api_loss.c \
  core/ops/api_nn.c \
  core/ops/api_pointwise.c \
  core/ops/api_promote.c \
  core/ops/api_random.c \
  core/ops/api_reduce.c \
  core/ops/api_shape.c core/ops/strided.c core/ops/embed.c \
  core/ops/autocast.c \
  core/ops/builder.c \
  core/ops/contract.c \
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
  core/ops/run.c \
  core/ops/saves.c \
  core/ops/scan.c \
  core/ops/api.h \
  core/ops/api_private.h \
  core/ops/builder.h \
  core/ops/infer.h \
  core/ops/kernels.h \
  core/ops/lapack.h \
  core/ops/window.h \
  core/ops/ops.h \
  core/ops/api.def \
  core/ops/autocast.def
CORE_SOURCES += \
  core/autograd/anomaly.c core/autograd/anomaly.h \
  core/autograd/callbacks.c \
  core/autograd/one_node.c \
  core/autograd/checkpoint.c \
  core/autograd/eager_builder.c \
  core/autograd/backward.c \
  core/autograd/engine.c \
  core/autograd/greet.c \
  core/autograd/leads.c \
  core/autograd/lost.c \
  core/autograd/inplace.c \
  core/autograd/move.c \
  core/autograd/node.c \
  core/autograd/node_hooks.c core/autograd/node_user.h \
  core/autograd/post_hooks.c \
  core/autograd/saved.c \
  core/autograd/set.c \
  core/autograd/stretch.c \
  core/autograd/stretch_emit.c \
  core/autograd/tape.c \
  core/autograd/autograd.h \
  core/autograd/node.h \
  core/autograd/stretch.h \
  core/autograd/stretch_private.h \
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
  core/graph/custom.c \
  core/graph/higher.c core/graph/higher.h \
  core/graph/higher_run.c core/graph/higher_run.h \
  core/graph/prefixes.c \
  core/graph/blocks.c \
  core/graph/checks.c core/graph/checks.h \
  core/graph/host.c \
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
  core/graph/text.c \
  core/graph/verify.c \
  core/graph/rules.def \
  core/graph/rules.h \
  core/graph/alias.h \
  core/graph/graph.h \
  core/graph/image.h \
  core/graph/image_private.h \
  core/graph/parse.h \
  core/graph/simplify.h \
  core/graph/text.h
CORE_SOURCES += \
  core/aot/base_plan.c \
  core/aot/base_plan.h \
  core/aot/budget.c \
  core/aot/choose.c \
  core/aot/copy.c \
  core/aot/custom.c \
  core/aot/higher.c \
  core/aot/higher_tape.c \
  core/aot/host_call.c \
  core/aot/dedupe.c core/aot/donate.c \
  core/aot/facts.c \
  core/aot/functional_histories.c core/aot/functional_private.h \
  core/aot/functionalize.c \
  core/aot/geometry.c \
  core/aot/join.c \
  core/aot/layers.c \
  core/aot/layouts.c \
  core/aot/metadata.c \
  core/aot/mincut.c \
  core/aot/output_alias.c \
  core/aot/overlap.c \
  core/aot/partition.c \
  core/aot/looks.c \
  core/aot/looks.h \
  core/aot/order.c \
  core/aot/pick.c \
  core/aot/order.h \
  core/aot/plan.c \
  core/aot/plan_call.c \
  core/aot/plan_history.c \
  core/aot/plan_private.h \
  core/aot/plan_program.c \
  core/aot/plan_sized.c core/aot/rerun.c \
  core/aot/saved_hooks.c \
  core/aot/synthetic_base.c \
  core/aot/tape.c \
  core/aot/unfold.c \
  core/aot/views.c \
  core/aot/aot.h \
  core/aot/facts.h \
  core/aot/mincut.h \
  core/aot/partition.h core/aot/rerun.h \
  core/aot/plan.h \
  core/aot/saved_hooks.h \
  core/aot/tape.h \
  core/aot/unfold.h
CORE_SOURCES += \
  core/plugin/artefacts.c \
  core/plugin/backend.c \
  core/plugin/builds.c \
  core/plugin/elf.c \
  core/plugin/exec.c \
  core/plugin/forked.c \
  core/plugin/fpu.c \
  core/plugin/ext_kernels.c \
  core/plugin/device.c \
  core/plugin/ext_threads.c \
  core/plugin/shown_text.c \
  core/plugin/ext_tiles.c \
  core/plugin/host.c \
  core/plugin/hygiene.c \
  core/plugin/loader.c \
  core/plugin/manifest.c \
  core/plugin/near.c \
  core/plugin/needed.c \
  core/plugin/places.c \
  core/plugin/probe.c \
  core/plugin/quarantine.c \
  core/plugin/regions.c \
  core/plugin/registry.c \
  core/plugin/request.c \
  core/plugin/sidecar.c \
  core/plugin/sized.c \
  core/plugin/sized.h \
  core/plugin/split.c \
  core/plugin/direct.c \
  core/plugin/scans.c \
  core/plugin/status.c \
  core/plugin/support.c \
  core/plugin/tiers.c \
  core/plugin/trial.c \
  core/plugin/trust.c \
  core/plugin/artefacts.h \
  core/plugin/backend.h \
  core/plugin/builds.h \
  core/plugin/device.h \
  core/plugin/elf.h \
  core/plugin/exec.h \
  core/plugin/forked.h \
  core/plugin/fpu.h \
  core/plugin/host.h \
  core/plugin/hygiene.h \
  core/plugin/loader.h \
  core/plugin/manifest.h \
  core/plugin/near.h \
  core/plugin/needed.h \
  core/plugin/probe.h \
  core/plugin/quarantine.h \
  core/plugin/regions.h \
  core/plugin/registry.h \
  core/plugin/request.h \
  core/plugin/sidecar.h \
  core/plugin/split.h \
  core/plugin/direct.h \
  core/plugin/scans.h \
  core/plugin/status.h \
  core/plugin/support.h \
  core/plugin/tiers.h \
  core/plugin/trial.h \
  core/plugin/trust.h \
  core/plugin/refusals.def \
  core/plugin/tiers.def \
  core/plugin/released/0.0.def
CORE_SOURCES += \
  core/tiles/matmul.c \
  core/tiles/convolve.h \
  core/tiles/tiles-convolve.h \
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
  core/trace/api.c \
  core/trace/array.c \
  core/trace/builtin_class.c \
  core/trace/builtin_function.c \
  core/trace/mode_call.c \
  core/trace/draw.c \
  core/trace/tracker_float.c \
  core/trace/tensor_made.c \
  core/trace/attrs.c \
  core/trace/body.c \
  core/trace/higher.c core/trace/higher.h core/trace/higher_private.h \
  core/trace/higher_changes.c core/trace/higher_take.c \
  core/trace/break.c \
  core/trace/custom.c \
  core/trace/host_call.c \
  core/trace/effect.c \
  core/trace/exception.c \
  core/trace/comptime.c \
  core/trace/fence_trace.c \
  core/trace/frame.c \
  core/trace/guard.c \
  core/trace/guard_build.c \
  core/trace/guard_memo.c \
  core/trace/guard_run.c \
  core/trace/guard_text.c \
  core/trace/class_made.c \
  core/trace/functools.c \
  core/trace/namespace.c \
  core/trace/collect.c \
  core/trace/copying.c \
  core/trace/cached_call.c \
  core/trace/deepcopy.c \
  core/trace/dispatch.c \
  core/trace/heap.c \
  core/trace/import.c \
  core/trace/import.h \
  core/trace/interrupt.c \
  core/trace/interrupt.h \
  core/trace/instance_dict.c \
  core/trace/insn_build.c \
  core/trace/insn_call.c \
  core/trace/insn_exception.c \
  core/trace/insn_flow.c \
  core/trace/insn_class.c \
  core/trace/insn_match.c \
  core/trace/insn_operator.c \
  core/trace/insn_stack.c \
  core/trace/insns.c \
  core/trace/keys.c \
  core/trace/lifetime.c \
  core/trace/liveness.c \
  core/trace/members.c core/trace/members.h \
  core/trace/span.c \
  core/trace/itertools.c \
  core/trace/object_attrs.c \
  core/trace/operators.c \
  core/trace/probe.c \
  core/trace/recorder.c \
  core/trace/residual.c \
  core/trace/resume.c \
  core/trace/return.c \
  core/trace/size.c \
  core/trace/size.h \
  core/trace/size_guard.c \
  core/trace/size_guard.h \
  core/trace/sort.c \
  core/trace/source.c \
  core/trace/subclass.c \
  core/trace/text.c \
  core/trace/tracker.c \
  core/trace/tracker_builtin.c \
  core/trace/tracker_bytearray.c \
  core/trace/tracker_cell.c \
  core/trace/tracker_class.c \
  core/trace/tracker_constant.c \
  core/trace/tracker_deque.c \
  core/trace/tracker_control.c \
  core/trace/tracker_descriptor.c \
  core/trace/tracker_dict.c \
  core/trace/tracker_exception.c \
  core/trace/tracker_function.c \
  core/trace/tracker_generator.c \
  core/trace/tracker_grad_mode.c \
  core/trace/tracker_number.c \
  core/trace/tracker_hook.c \
  core/trace/tracker_iterator.c \
  core/trace/tracker_getter.c \
  core/trace/contents.c \
  core/trace/iterated.c \
  core/trace/row.c \
  core/trace/set_algebra.c \
  core/trace/set_order.c \
  core/trace/set_table.c \
  core/trace/table.c \
  core/trace/tracker_list.c \
  core/trace/tracker_module.c \
  core/trace/tracker_object.c \
  core/trace/tracker_set.c \
  core/trace/tracker_scalar.c \
  core/trace/tracker_size.c \
  core/trace/tracker_slice.c \
  core/trace/tracker_tensor.c \
  core/trace/tracker_tuple.c \
  core/trace/tracker_view.c \
  core/trace/wrap.c \
  core/trace/attrs.h \
  core/trace/body.h \
  core/trace/break.h \
  core/trace/builtin.h \
  core/trace/class_made.h \
  core/trace/contents.h \
  core/trace/row.h \
  core/trace/set.h \
  core/trace/set_table.h \
  core/trace/table.h \
  core/trace/keys.h \
  core/trace/cell.h \
  core/trace/exception.h \
  core/trace/control.h \
  core/trace/draw.h \
  core/trace/number.h \
  core/trace/custom.h \
  core/trace/guard.h \
  core/trace/heap.h \
  core/trace/insns.h \
  core/trace/iterator.h \
  core/trace/lifetime.h \
  core/trace/liveness.h \
  core/trace/span.h \
  core/trace/object.h \
  core/trace/recorder.h \
  core/trace/source.h \
  core/trace/trace.h \
  core/trace/tracker.h \
  core/trace/guards.def \
  core/trace/insns.def \
  core/trace/trackers.def \
  core/python/api_object.c \
  core/python/args.c \
  core/python/assemble.c \
  core/python/anomaly_py.c core/python/anomaly_py.h \
  core/python/autograd_py.c \
  core/python/bind.c \
  core/python/builds.c \
  core/python/device_py.c \
  core/python/bytecode.c \
  core/python/callable.c \
  core/python/callable_backend.c \
  core/python/inline_hooks.c \
  core/python/code_cache.c \
  core/python/profile_store.c \
  core/python/switches.c \
  core/python/compiled_autograd.c \
  core/python/compiler_py.c \
  core/python/construct.c \
  core/python/control.c \
  core/python/counters.c \
  core/python/decode.c \
  core/python/cached_function.c \
  core/python/trace_host.c \
  core/python/dict_find.c \
  core/python/dict_version.c \
  core/python/draws.c \
  core/python/loan.c \
  core/python/dlpack.c \
  core/python/errors.c \
  core/python/failed.c \
  core/python/frontend.c \
  core/python/function_py.c \
  core/python/graph_object.c \
  core/python/graph_sizes.c \
  core/python/planned_graph.c core/python/planned_graph.h \
  core/python/node_py.c core/python/node_py.h \
  core/python/host_function.c core/python/host_function.h \
  core/python/handler_table.c \
  core/python/hook.c \
  core/python/hook_program.c \
  core/python/mask_index.c \
  core/python/members_py.c core/python/members_py.h \
  core/python/kept_frame.c \
  core/python/lapack_py.c \
  core/python/lines.c \
  core/python/measure.c \
  core/python/module.c \
  core/python/numpy.c \
  core/python/overrides.c core/python/overrides.h \
  core/python/raw_code.c \
  core/python/report.c \
  core/python/resume_call.c \
  core/python/resume_code.c \
  core/python/resume_original.c \
  core/python/resume_point.c \
  core/python/tensor_methods.c \
  core/python/tensor_number.c \
  core/python/tensor_object.c \
  core/python/types.c \
  core/python/wrapped_calls.c \
  core/python/api_object.h \
  core/python/args.h \
  core/python/assemble.h \
  core/python/autograd_py.h \
  core/python/bind.h \
  core/python/builds.h \
  core/python/device_py.h \
  core/python/bytecode.h \
  core/python/callable.h \
  core/python/callable_backend.h \
  core/python/inline_hooks.h \
  core/python/code_cache.h \
  core/python/profile_store.h \
  core/python/switches.h \
  core/python/compiled_autograd.h \
  core/python/compiler_py.h \
  core/python/construct.h \
  core/python/control.h \
  core/python/counters.h \
  core/python/cpython.h \
  core/python/decode.h \
  core/python/cached_function.h \
  core/python/trace_host.h \
  core/python/dict_find.h \
  core/python/dict_version.h \
  core/python/draws.h \
  core/python/kept_frame.h \
  core/python/loan.h \
  core/python/dlpack.h \
  core/python/errors.h \
  core/python/failed.h \
  core/python/frontend.h \
  core/python/function_py.h \
  core/python/graph_object.h \
  core/python/graph_sizes.h \
  core/python/handler_table.h \
  core/python/hook.h \
  core/python/hook_program.h \
  core/python/mask_index.h \
  core/python/lapack_py.h \
  core/python/lines.h \
  core/python/measure.h \
  core/python/numpy.h \
  core/python/opcodes.h \
  core/python/raw_code.h \
  core/python/report.h \
  core/python/resume_call.h \
  core/python/resume_code.h \
  core/python/resume_original.h \
  core/python/tensor_number.h \
  core/python/tensor_object.h \
  core/python/types.h \
  core/python/wrapped_calls.h \
  core/python/opcodes.def

if HAVE_PYTHON
packagedir = $(pythondir)/gramme
package_PYTHON = \
  core/python/gramme/__init__.py \
  core/python/gramme/_C.py \
  core/python/gramme/__config__.py \
  core/python/gramme/_absent.py \
  core/python/gramme/_built_for.py \
  core/python/gramme/_compile.py \
  core/python/gramme/_other_devices.py \
  core/python/gramme/_switches.py \
  core/python/gramme/overrides.py \
  core/python/gramme/_ready.py \
  core/python/gramme/accelerator.py \
  core/python/gramme/compare.py \
  core/python/gramme/cpu.py \
  core/python/gramme/distributed.py \
  core/python/gramme/fft.py \
  core/python/gramme/functions.py \
  core/python/gramme/higher_order.py \
  core/python/gramme/jit.py \
  core/python/gramme/library.py \
  core/python/gramme/legacy.py \
  core/python/gramme/limits.py \
  core/python/gramme/incomplete_gamma.py \
  core/python/gramme/copies.py \
  core/python/gramme/numeric.py \
  core/python/gramme/polynomials.py \
  core/python/gramme/special.py \
  core/python/gramme/methods.py \
  core/python/gramme/mps.py \
  core/python/gramme/multiprocessing.py \
  core/python/gramme/onnx.py \
  core/python/gramme/ops.py \
  core/python/gramme/profiler.py \
  core/python/gramme/grad_mode.py \
  core/python/gramme/random.py \
  core/python/gramme/return_types.py \
  core/python/gramme/saved_tree.py \
  core/python/gramme/serialization.py \
  core/python/gramme/settings.py \
  core/python/gramme/storage.py \
  core/python/gramme/symbols.py \
  core/python/gramme/testing.py \
  core/python/gramme/types.py \
  core/python/gramme/version.py \
  core/python/gramme/xpu.py
package_compilerdir = $(pythondir)/gramme/compiler
package_compiler_PYTHON = core/python/gramme/compiler/__init__.py core/python/gramme/compiler/config.py
package_functorchdir = $(pythondir)/gramme/_functorch
package_functorch_PYTHON = core/python/gramme/_functorch/__init__.py core/python/gramme/_functorch/config.py
package_ampdir = $(pythondir)/gramme/amp
package_amp_PYTHON = core/python/gramme/amp/__init__.py core/python/gramme/amp/scaling.py
package_cudadir = $(pythondir)/gramme/cuda
package_cuda_PYTHON = core/python/gramme/cuda/__init__.py core/python/gramme/cuda/amp.py
package_distributionsdir = $(pythondir)/gramme/distributions
package_distributions_PYTHON = \
  core/python/gramme/distributions/__init__.py \
  core/python/gramme/distributions/constraint_registry.py \
  core/python/gramme/distributions/constraints.py \
  core/python/gramme/distributions/continuous.py \
  core/python/gramme/distributions/counts.py \
  core/python/gramme/distributions/discrete.py \
  core/python/gramme/distributions/distribution.py \
  core/python/gramme/distributions/gamma.py \
  core/python/gramme/distributions/kl.py \
  core/python/gramme/distributions/made.py \
  core/python/gramme/distributions/mixture.py \
  core/python/gramme/distributions/multivariate.py \
  core/python/gramme/distributions/relaxed.py \
  core/python/gramme/distributions/transforms.py \
  core/python/gramme/distributions/utils.py
package_linalgdir = $(pythondir)/gramme/linalg
package_linalg_PYTHON = \
  core/python/gramme/linalg/__init__.py \
  core/python/gramme/linalg/exponential.py \
  core/python/gramme/linalg/lu.py \
  core/python/gramme/linalg/nodes.py
package_autograddir = $(pythondir)/gramme/autograd
package_autograd_PYTHON = \
  core/python/gramme/autograd/__init__.py \
  core/python/gramme/autograd/anomaly_mode.py \
  core/python/gramme/autograd/function.py \
  core/python/gramme/autograd/functional.py \
  core/python/gramme/autograd/gradcheck.py \
  core/python/gramme/autograd/graph.py \
  core/python/gramme/autograd/profiler.py
package__dynamodir = $(pythondir)/gramme/_dynamo
package__dynamo_PYTHON = \
  core/python/gramme/_dynamo/__init__.py \
  core/python/gramme/_dynamo/compiled_autograd.py \
  core/python/gramme/_dynamo/comptime.py \
  core/python/gramme/_dynamo/config.py \
  core/python/gramme/_dynamo/convert_frame.py \
  core/python/gramme/_dynamo/eval_frame.py \
  core/python/gramme/_dynamo/exc.py \
  core/python/gramme/_dynamo/run.py \
  core/python/gramme/_dynamo/utils.py
package__dynamo_backendsdir = $(pythondir)/gramme/_dynamo/backends
package__dynamo_backends_PYTHON = \
  core/python/gramme/_dynamo/backends/__init__.py \
  core/python/gramme/_dynamo/backends/common.py \
  core/python/gramme/_dynamo/backends/registry.py \
  core/python/gramme/_dynamo/backends/verify.py
package_fxdir = $(pythondir)/gramme/fx
package_fx_PYTHON = core/python/gramme/fx/__init__.py core/python/gramme/fx/graph.py core/python/gramme/fx/node.py
package_nndir = $(pythondir)/gramme/nn
package_nn_PYTHON = \
  core/python/gramme/nn/__init__.py \
  core/python/gramme/nn/activation.py \
  core/python/gramme/nn/adaptive.py \
  core/python/gramme/nn/alignment.py \
  core/python/gramme/nn/attention.py \
  core/python/gramme/nn/attention_function.py \
  core/python/gramme/nn/backward_hooks.py \
  core/python/gramme/nn/bags.py \
  core/python/gramme/nn/composed.py \
  core/python/gramme/nn/containers.py \
  core/python/gramme/nn/conv.py \
  core/python/gramme/nn/distance.py \
  core/python/gramme/nn/dropout.py \
  core/python/gramme/nn/embedding.py \
  core/python/gramme/nn/functional.py \
  core/python/gramme/nn/init.py \
  core/python/gramme/nn/layers.py \
  core/python/gramme/nn/lazy.py \
  core/python/gramme/nn/loss.py \
  core/python/gramme/nn/module.py \
  core/python/gramme/nn/normalization.py \
  core/python/gramme/nn/padding.py \
  core/python/gramme/nn/parallel.py \
  core/python/gramme/nn/parameter.py \
  core/python/gramme/nn/pooling.py \
  core/python/gramme/nn/recurrence.py \
  core/python/gramme/nn/recurrent.py \
  core/python/gramme/nn/rnn.py \
  core/python/gramme/nn/sampling.py \
  core/python/gramme/nn/shape.py \
  core/python/gramme/nn/transformer.py \
  core/python/gramme/nn/unpooling.py
package_nn_modulesdir = $(pythondir)/gramme/nn/modules
package_nn_modules_PYTHON = core/python/gramme/nn/modules/__init__.py core/python/gramme/nn/modules/utils.py
package_nn_utilsdir = $(pythondir)/gramme/nn/utils
package_nn_utils_PYTHON = \
  core/python/gramme/nn/utils/__init__.py \
  core/python/gramme/nn/utils/fusion.py \
  core/python/gramme/nn/utils/gradients.py \
  core/python/gramme/nn/utils/norms.py \
  core/python/gramme/nn/utils/parametrizations.py \
  core/python/gramme/nn/utils/parametrize.py \
  core/python/gramme/nn/utils/rnn.py \
  core/python/gramme/nn/utils/stateless.py \
  core/python/gramme/nn/utils/vectors.py
package_funcdir = $(pythondir)/gramme/func
package_func_PYTHON = core/python/gramme/func/__init__.py core/python/gramme/func/mapping.py
package_utilsdir = $(pythondir)/gramme/utils
package_utils_PYTHON = \
  core/python/gramme/utils/__init__.py \
  core/python/gramme/utils/_pytree.py \
  core/python/gramme/utils/checkpoint.py \
  core/python/gramme/utils/dlpack.py \
  core/python/gramme/utils/hooks.py
package_utils_datadir = $(pythondir)/gramme/utils/data
package_utils_data_PYTHON = \
  core/python/gramme/utils/data/__init__.py \
  core/python/gramme/utils/data/collate.py \
  core/python/gramme/utils/data/dataset.py \
  core/python/gramme/utils/data/dataloader.py \
  core/python/gramme/utils/data/distributed.py \
  core/python/gramme/utils/data/sampler.py
package_optimdir = $(pythondir)/gramme/optim
package_optim_PYTHON = \
  core/python/gramme/optim/__init__.py \
  core/python/gramme/optim/adam.py \
  core/python/gramme/optim/adam_kin.py \
  core/python/gramme/optim/adaptive.py \
  core/python/gramme/optim/factored.py \
  core/python/gramme/optim/asgd.py \
  core/python/gramme/optim/lbfgs.py \
  core/python/gramme/optim/lr_scheduler.py \
  core/python/gramme/optim/optimizer.py \
  core/python/gramme/optim/rprop.py \
  core/python/gramme/optim/sgd.py \
  core/python/gramme/optim/swa_utils.py
endif
