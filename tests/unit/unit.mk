# SPDX-License-Identifier: Apache-2.0
# Test programs; tests/README.md says what each folder holds.

UNIT_TESTS = \
  tests/unit/test_alias \
  tests/unit/test_alloc \
  tests/unit/test_allocations \
  tests/unit/test_api \
  tests/unit/test_arena \
  tests/unit/test_autograd \
  tests/unit/test_backend \
  tests/unit/test_backends \
  tests/unit/test_nvrtc \
  tests/unit/test_builder \
  tests/unit/test_cache \
  tests/unit/test_calls \
  tests/unit/test_capi \
  tests/unit/test_codegen \
  tests/unit/test_compile \
  tests/unit/test_cuda \
  tests/unit/test_dedupe \
  tests/unit/test_dtype \
  tests/unit/test_functionalize \
  tests/unit/test_gradients \
  tests/unit/test_graph \
  tests/unit/test_heap \
  tests/unit/test_host \
  tests/unit/test_host_call \
  tests/unit/test_image \
  tests/unit/test_infer \
  tests/unit/test_join \
  tests/unit/test_journal \
  tests/unit/test_loader \
  tests/unit/test_log \
  tests/unit/test_manifest \
  tests/unit/test_meta \
  tests/unit/test_metadata \
  tests/unit/test_mincut \
  tests/unit/test_partition \
  tests/unit/test_saved_hooks \
  tests/unit/test_pair \
  tests/unit/test_plan \
  tests/unit/test_plan_sized \
  tests/unit/test_print \
  tests/unit/test_ptx \
  tests/unit/test_random \
  tests/unit/test_random_plans \
  tests/unit/test_run \
  tests/unit/test_set \
  tests/unit/test_simplify \
  tests/unit/test_split \
  tests/unit/test_size_facts \
  tests/unit/test_sized \
  tests/unit/test_sizes \
  tests/unit/test_stages \
  tests/unit/test_sym \
  tests/unit/test_synthetic_base \
  tests/unit/test_tensor \
  tests/unit/test_tensor_text \
  tests/unit/test_small_floats \
  tests/unit/test_threads \
  tests/unit/test_tiles \
  tests/unit/test_trust \
  tests/unit/test_verify \
  tests/ops/test_ops

tests_unit_test_alias_SOURCES = tests/unit/test_alias.c tests/unit/alias_test.h tests/unit/aot_test.h
tests_unit_test_alloc_SOURCES = tests/unit/test_alloc.c
tests_unit_test_api_SOURCES = tests/unit/test_api.c tests/unit/api_values.inc tests/unit/api_text.h
tests_unit_test_arena_SOURCES = tests/unit/test_arena.c
tests_unit_test_autograd_SOURCES = tests/unit/test_autograd.c tests/unit/grad_check.h
tests_unit_test_calls_SOURCES = tests/unit/test_calls.c tests/plugin/hostile.h
tests_unit_test_backend_SOURCES = tests/unit/test_backend.c tests/plugin/hostile.h
tests_unit_test_backends_SOURCES = tests/unit/test_backends.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c
tests_unit_test_cache_SOURCES = tests/unit/test_cache.c
tests_unit_test_builder_SOURCES = tests/unit/test_builder.c tests/unit/grad_check.h
tests_unit_test_capi_SOURCES = tests/unit/test_capi.c
tests_unit_test_codegen_SOURCES = tests/unit/test_codegen.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c \
  plugins/cc/cc_folder.c plugins/cc/cc_folder.h plugins/cc/job.c plugins/cc/job.h plugins/cc/load.c plugins/cc/load.h plugins/cc/elf_object.c plugins/cc/elf_object.h \
  plugins/cc/cc_unit.c plugins/cc/cc_unit.h $(CODEGEN_SOURCES)
tests_unit_test_codegen_CPPFLAGS = $(PLUGIN_CPPFLAGS) -DCC_DEFAULT_COMPILER='"$(CC)"'
tests_unit_test_compile_SOURCES = tests/unit/test_compile.c tests/unit/aot_test.h
tests_unit_test_dedupe_SOURCES = tests/unit/test_dedupe.c tests/unit/alias_test.h tests/unit/aot_test.h
tests_unit_test_dtype_SOURCES = tests/unit/test_dtype.c
tests_unit_test_functionalize_SOURCES = tests/unit/test_functionalize.c tests/unit/aot_test.h
tests_unit_test_gradients_SOURCES = tests/unit/test_gradients.c tests/unit/grad_check.h
tests_unit_test_graph_SOURCES = tests/unit/test_graph.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c
tests_unit_test_heap_SOURCES = tests/unit/test_heap.c core/trace/heap.c
tests_unit_test_host_SOURCES = tests/unit/test_host.c
tests_unit_test_host_call_SOURCES = tests/unit/test_host_call.c tests/unit/aot_test.h
tests_unit_test_image_SOURCES = tests/unit/test_image.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c tests/fuzz/mutate_image.h tests/fuzz/mutate_image.c
tests_unit_test_infer_SOURCES = tests/unit/test_infer.c
tests_unit_test_join_SOURCES = tests/unit/test_join.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c tests/unit/aot_test.h
tests_unit_test_journal_SOURCES = tests/unit/test_journal.c
tests_unit_test_loader_SOURCES = tests/unit/test_loader.c tests/plugin/hostile.h
tests_unit_test_log_SOURCES = tests/unit/test_log.c
tests_unit_test_manifest_SOURCES = tests/unit/test_manifest.c
tests_unit_test_meta_SOURCES = tests/unit/test_meta.c
tests_unit_test_metadata_SOURCES = tests/unit/test_metadata.c tests/unit/alias_test.h tests/unit/aot_test.h
tests_unit_test_mincut_SOURCES = tests/unit/test_mincut.c tests/unit/aot_test.h tests/fuzz/random_graph.h tests/fuzz/random_graph.c
tests_unit_test_saved_hooks_SOURCES = tests/unit/test_saved_hooks.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c tests/unit/aot_test.h
tests_unit_test_partition_SOURCES = tests/unit/test_partition.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c tests/unit/aot_test.h
tests_unit_test_allocations_SOURCES = tests/unit/test_allocations.c tests/unit/aot_test.h
tests_unit_test_pair_SOURCES = tests/unit/test_pair.c tests/unit/aot_test.h tests/plugin/hostile.h
tests_unit_test_plan_SOURCES = tests/unit/test_plan.c tests/unit/aot_test.h
tests_unit_test_plan_sized_SOURCES = tests/unit/test_plan_sized.c tests/fuzz/symbolic_graph.h tests/fuzz/symbolic_graph.c \
  tests/unit/aot_test.h
tests_unit_test_print_SOURCES = tests/unit/test_print.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c
tests_unit_test_random_SOURCES = tests/unit/test_random.c
tests_unit_test_random_plans_SOURCES = tests/unit/test_random_plans.c tests/unit/aot_test.h tests/fuzz/memory_graph.h tests/fuzz/memory_graph.c
tests_unit_test_run_SOURCES = tests/unit/test_run.c tests/ops/op_fixture.h
tests_unit_test_set_SOURCES = tests/unit/test_set.c
tests_unit_test_simplify_SOURCES = tests/unit/test_simplify.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c
tests_unit_test_sized_SOURCES = tests/unit/test_sized.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c \
  tests/fuzz/symbolic_graph.h tests/fuzz/symbolic_graph.c
tests_unit_test_split_SOURCES = tests/unit/test_split.c tests/plugin/hostile.h tests/fuzz/random_graph.h tests/fuzz/random_graph.c
tests_unit_test_size_facts_SOURCES = tests/unit/test_size_facts.c
tests_unit_test_sizes_SOURCES = tests/unit/test_sizes.c
tests_unit_test_stages_SOURCES = tests/unit/test_stages.c tests/unit/aot_test.h
tests_unit_test_sym_SOURCES = tests/unit/test_sym.c
tests_unit_test_synthetic_base_SOURCES = tests/unit/test_synthetic_base.c tests/unit/alias_test.h tests/unit/aot_test.h
tests_unit_test_tensor_SOURCES = tests/unit/test_tensor.c
tests_unit_test_tensor_text_SOURCES = tests/unit/test_tensor_text.c
tests_unit_test_small_floats_SOURCES = tests/unit/test_small_floats.c
tests_unit_test_threads_SOURCES = tests/unit/test_threads.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c
tests_unit_test_tiles_SOURCES = tests/unit/test_tiles.c
tests_unit_test_trust_SOURCES = tests/unit/test_trust.c tests/plugin/hostile.h
tests_unit_test_verify_SOURCES = tests/unit/test_verify.c
tests_ops_test_ops_SOURCES = tests/ops/test_ops.c

TEST_FILES = \
  tests/README.md \
  tests/aot.sh \
  tests/aot/afterwards.py \
  tests/aot/conftest.py \
  tests/aot/programs.py \
  tests/aot/same.py \
  tests/aot/test_compiled_autograd.py \
  tests/aot/test_as_strided.py tests/aot/test_donation.py tests/aot/test_failing_backwards.py tests/aot/test_histories.py tests/aot/test_moved_leaves.py tests/aot/test_order.py tests/aot/test_picks.py \
  tests/aot/test_strides_of_gradients.py \
  tests/aot/test_walks.py tests/aot/test_when_compiled.py tests/aot/test_written_since.py \
  tests/aot/test_memory.py \
  tests/aot/test_random.py tests/aot/test_reinterpret.py tests/aot/test_results_that_gradients_read.py tests/aot/test_views.py \
  tests/aot/varied.py \
  tests/aot/wide.py \
  tests/breaks.sh \
  tests/cpython.sh \
  tests/cpython/modules.txt \
  tests/cpython/run.py \
  tests/fuzz/fuzz_image.c \
  tests/fuzz/memory_graph.c \
  tests/fuzz/memory_graph.h \
  tests/fuzz/mutate_image.c \
  tests/fuzz/mutate_image.h \
  tests/fuzz/random_graph.c \
  tests/fuzz/random_graph.h \
  tests/fuzz/symbolic_graph.c \
  tests/fuzz/symbolic_graph.h \
  tests/graph/alias-text.gm \
  tests/graph/alias-text.want \
  tests/graph/bad-alias.gm \
  tests/graph/bad-alias.want \
  tests/graph/bad-budget.gm \
  tests/graph/bad-budget.want \
  tests/graph/bad-name.gm \
  tests/graph/bad-name.want \
  tests/graph/bad-shape.gm \
  tests/graph/bad-shape.want \
  tests/graph/bad-tag.gm \
  tests/graph/bad-tag.want \
  tests/graph/bad-write.gm \
  tests/graph/bad-write.want \
  tests/graph/bad-hooks-dtype.gm \
  tests/graph/bad-hooks-dtype.want \
  tests/graph/bad-hooks-write.gm \
  tests/graph/bad-hooks-write.want \
  tests/graph/hooks-all.gm \
  tests/graph/hooks-all.want \
  tests/graph/hooks-no-static.gm \
  tests/graph/hooks-no-static.want \
  tests/graph/hooks.gm \
  tests/graph/hooks.want \
  tests/graph/bad-cond.gm \
  tests/graph/bad-cond.want \
  tests/graph/bad-deep.gm \
  tests/graph/bad-deep.want \
  tests/graph/bad-row.gm \
  tests/graph/bad-row.want \
  tests/graph/bad-scan.gm \
  tests/graph/bad-scan.want \
  tests/graph/cond.gm \
  tests/graph/cond.want \
  tests/graph/scan.gm \
  tests/graph/scan.want \
  tests/graph/prefixes.gm \
  tests/graph/prefixes.want \
  tests/graph/while.gm \
  tests/graph/while.want \
  tests/graph/bases.gm \
  tests/graph/bases.want \
  tests/graph/cse.gm \
  tests/graph/cse.want \
  tests/graph/dead.gm \
  tests/graph/dead.want \
  tests/graph/fold.gm \
  tests/graph/fold.want \
  tests/graph/functionalize.gm \
  tests/graph/functionalize.want \
  tests/graph/image.gm \
  tests/graph/in-place.gm \
  tests/graph/image.want \
  tests/graph/in-place.want \
  tests/graph/joint.gm \
  tests/graph/joint.want \
  tests/graph/linear.gm \
  tests/graph/linear.want \
  tests/graph/min-cut.gm \
  tests/graph/min-cut.want \
  tests/graph/slices.gm tests/graph/slices.want tests/graph/slices-not.gm tests/graph/slices-not.want \
  tests/graph/pick-not.gm \
  tests/graph/pick-not.want \
  tests/graph/pick.gm \
  tests/graph/pick.want \
  tests/graph/p6a.gm \
  tests/graph/p6a.want \
  tests/graph/run.py \
  tests/graph/tags.gm \
  tests/graph/tags.want \
  tests/graph/text.gm \
  tests/graph/text.want \
  tests/install/check.sh \
  tests/ops/op_fixture.h \
  tests/ops/test_ops.c \
  tests/plugin/abi.py \
  tests/plugin/headers.sh \
  tests/plugin/hostile.py \
  tests/plugin/kit.py \
  tests/plugin/callbacks.py \
  tests/plugin/tsan_glib.c \
  tests/plugin/watched.c \
  tests/docs/hacking.py tests/plugin/new_plugin.py \
  tests/plugin/wild.c \
  tests/plugin/released/0.0/gramme-ext.h \
  tests/plugin/released/0.0/gramme-graph.h \
  tests/plugin/released/0.0/gramme-ops.def \
  tests/plugin/released/0.0/gramme-plugin-util.h \
  tests/plugin/released/0.0/gramme-plugin.h \
  tests/plugin/hostile.c \
  tests/plugin/hostile.h \
  tests/plugin/subset.c \
  tests/pytest.sh \
  tests/python.sh \
  tests/python/conftest.py \
  tests/python/test_auto.py \
  tests/python/test_autograd.py \
  tests/python/test_bool_index.py \
  tests/python/test_built_files.py \
  tests/python/test_bytecode.py \
  tests/python/test_cache.py \
  tests/python/test_config.py \
  tests/python/test_import.py \
  tests/python/test_index_errors.py \
  tests/python/test_resized_tensors.py \
  tests/python/test_switches.py \
  tests/python/test_cc.py \
  tests/python/test_checkpoint.py \
  tests/python/test_conv.py \
  tests/python/test_convolve.py \
  tests/python/test_convolve_batches.py \
  tests/python/arrays.py \
  tests/python/test_data.py \
  tests/python/test_dtypes.py \
  tests/python/test_function.py \
  tests/python/test_functions.py \
  tests/python/test_function_twice.py \
  tests/python/test_memory.py \
  tests/python/test_modes.py \
  tests/python/test_more_functions.py \
  tests/python/test_func.py \
  tests/python/test_func_results.py \
  tests/python/test_module_api.py \
  tests/python/test_module_members.py \
  tests/python/test_torch_details.py \
  tests/python/test_changing_numbers_on_a_device.py \
  tests/python/test_out_of_another_size.py \
  tests/python/test_torch_dispatch.py \
  tests/python/test_torch_function.py \
  tests/python/test_nn.py \
  tests/python/test_nn_composed.py \
  tests/python/test_nn_layers.py \
  tests/python/test_recurrence.py \
  tests/python/test_rnn.py \
  tests/python/test_transformer.py \
  tests/python/test_num_threads.py \
  tests/python/test_turned_copies.py \
  tests/python/test_products_of_few_rows.py \
  tests/python/test_process.py \
  tests/python/test_interrupts.py \
  tests/python/test_first_calls.py \
  tests/python/test_killed_compilers.py tests/python/test_left_behind.py \
  tests/python/test_values_like_torch.py tests/python/test_values_near_limits.py \
  tests/python/gpu.py tests/python/test_nvrtc.py tests/python/test_cuda_products.py tests/python/test_device.py \
  tests/python/test_operators.py \
  tests/python/test_anomaly.py \
  tests/python/test_linalg.py \
  tests/python/test_linalg_lu.py \
  tests/python/test_lr_scheduler.py \
  tests/python/test_optim.py \
  tests/python/test_optim_formulas.py \
  tests/python/test_other_pythons.py \
  tests/python/test_partition.py \
  tests/python/test_reshape_in_place.py \
  tests/python/test_generator.py \
  tests/python/test_hook_order.py \
  tests/python/test_nodes.py \
  tests/python/test_inlined_hooks.py \
  tests/python/test_hooks_that_read_elements.py \
  tests/python/test_scaling.py \
  tests/python/test_saved_tensors_hooks.py \
  tests/python/test_scatter.py \
  tests/python/test_slopes_at_edges.py \
  tests/python/test_slopes_of_operators.py \
  tests/python/test_floats_only.py \
  tests/python/test_special.py \
  tests/python/test_values_at_ends.py \
  tests/python/test_what_hooks_carry.py \
  tests/python/test_words_of_operators.py \
  tests/python/test_stubs.py \
  tests/python/test_sums_by_row.py \
  tests/python/test_numbers_of_floats.py \
  tests/python/test_setting_members.py \
  tests/python/test_special_values.py \
  tests/python/test_distributions.py \
  tests/python/test_distribution_draws.py \
  tests/python/test_gradcheck.py \
  tests/python/test_tensor.py \
  tests/python/test_absent_names.py \
  tests/python/test_custom_operators.py \
  tests/python/test_older_names.py \
  tests/python/test_pytree.py \
  tests/python/test_torch_modules.py \
  tests/python/test_torch_names.py \
  tests/python/test_torch_parameters.py \
  tests/python/test_damaged_objects.py \
  tests/python/test_lying_capsules.py \
  tests/python/test_numbers_beyond_a_dtype.py \
  tests/python/test_saved_files.py \
  tests/python/test_said_mistakes.py \
  tests/python/test_completion.py \
  tests/python/test_explained_modules.py \
  tests/python/test_quickstart.py \
  tests/python/test_more_parameters.py \
  tests/python/test_compile_disable.py \
  tests/python/test_interrupted_trials.py \
  tests/python/test_described_program.py \
  tests/python/test_moved_installation.py \
  tests/python/test_pip_backend.py \
  tests/python/test_testing.py \
  tests/python/test_tool_help.py \
  tests/python/test_tools.py \
  tests/rollback.sh \
  tests/style/english.py tests/style/decisions.py tests/style/paths.py \
  tests/style/floors.py \
  tests/style/listed.py \
  tests/style/statements.py \
  tests/style/reference.py \
  tests/style/english.txt tests/style/floors.txt tests/style/format.py tests/style/format.txt tests/style/statements.txt \
  tests/tally.py \
  tests/torch/differences.tsv \
  tests/torch/run.py \
  tests/trace.sh \
  tests/trace/conftest.py \
  tests/trace/programs_basic.py \
  tests/guards.sh \
  tests/dist.sh tests/tape.sh \
  tests/trace/stress.py \
  tests/trace/test_cache.py \
  tests/trace/shape_programs.py \
  tests/trace/test_containers_put_back.py \
  tests/trace/test_finalizers_of_what_is_taken_out.py \
  tests/trace/test_nodes_that_are_views.py \
  tests/trace/test_random_sizes.py \
  tests/trace/test_size_generic.py \
  tests/trace/test_sizes.py \
  tests/trace/programs_bodies.py \
  tests/trace/programs_breaks.py \
  tests/trace/programs_spans.py \
  tests/trace/programs_subclasses.py \
  tests/trace/programs_values.py \
  tests/trace/programs_bytecode.py \
  tests/trace/programs_classes.py \
  tests/trace/programs_containers.py \
  tests/trace/programs_copies.py \
  tests/trace/programs_dtypes.py \
  tests/trace/programs_exceptions.py \
  tests/trace/programs_functions.py \
  tests/trace/programs_numpy.py \
  tests/trace/programs_library.py \
  tests/trace/programs_objects.py \
  tests/trace/test_guard_trees.py \
  tests/trace/test_objects_of_one_class.py \
  tests/trace/test_keys_that_are_one_object.py \
  tests/trace/test_general_ints.py \
  tests/trace/test_changing_numbers.py \
  tests/trace/test_guards_of_equal_values.py \
  tests/trace/test_groups_of_objects.py \
  tests/trace/test_fresh_entries.py \
  tests/trace/test_classes_that_change_later.py \
  tests/trace/test_length_of_a_dict.py \
  tests/trace/test_autocast.py \
  tests/trace/test_bodies.py \
  tests/trace/test_dicts_of_subclasses.py \
  tests/trace/test_numbers_alone.py \
  tests/trace/test_hooks_that_read_grad.py \
  tests/trace/test_lazy_layers.py \
  tests/trace/test_own_lazy_modules.py \
  tests/trace/test_shared_memory_in_vmap.py \
  tests/trace/test_state_of_bodies.py \
  tests/trace/test_breaks.py \
  tests/trace/test_callable_backends.py \
  tests/trace/test_callable_sizes_that_are_numbers.py \
  tests/trace/test_counted.py \
  tests/trace/test_what_can_be_compiled.py \
  tests/trace/test_changed_dicts.py \
  tests/trace/test_changed_rows.py \
  tests/trace/test_collecting.py \
  tests/trace/test_comptime.py \
  tests/trace/test_cond.py \
  tests/trace/test_dicts_that_are_asked.py \
  tests/trace/test_drawing_bodies.py \
  tests/trace/test_failing_calls.py \
  tests/trace/test_handlers_and_finalizers.py \
  tests/trace/test_host_calls.py \
  tests/trace/test_kept_exceptions.py \
  tests/trace/test_frames.py \
  tests/trace/test_lifetimes.py tests/trace/test_lifetimes_behind_breaks.py \
  tests/trace/test_loops.py \
  tests/trace/test_prefixes.py \
  tests/trace/test_nested_control.py \
  tests/trace/test_capture_all.py \
  tests/trace/test_control.py \
  tests/trace/test_cpython_bugs.py \
  tests/trace/test_data_model.py \
  tests/trace/test_objects_that_pretend.py \
  tests/trace/test_fact_table.py \
  tests/trace/facts.py \
  tests/trace/facts_values.py \
  tests/trace/facts_objects.py \
  tests/trace/facts_containers.py \
  tests/trace/facts_functions.py \
  tests/trace/facts_modules.py \
  tests/trace/test_error_texts.py \
  tests/trace/test_guard_runs_no_code.py \
  tests/trace/test_guard_runs.py \
  tests/trace/test_guards.py tests/trace/test_guards_of_models.py \
  tests/trace/test_numbers.py tests/trace/test_numbers_that_do_not_fit.py \
  tests/trace/test_random_module.py \
  tests/trace/test_resume_in_try.py \
  tests/trace/test_cached_functions.py \
  tests/trace/test_cached_functions_of_objects.py \
  tests/trace/test_everyday_lines.py \
  tests/trace/test_given_iterators.py \
  tests/trace/test_attributes_of_tensors.py \
  tests/trace/test_iterators_of_every_kind.py \
  tests/trace/test_dying_in_comprehensions.py \
  tests/trace/test_programs.py \
  tests/trace/programs_hooks.py \
  tests/trace/test_graph_passes.py \
  tests/trace/test_methods_of_c.py \
  tests/trace/test_modules.py \
  tests/trace/test_statements_ckpt.py \
  tests/trace/test_statements_hook.py \
  tests/trace/test_planned_graphs.py \
  tests/trace/test_public_reports.py \
  tests/trace/test_statements_side.py \
  tests/trace/test_random_programs.py \
  tests/trace/test_resume.py \
  tests/trace/test_tracers.py \
  tests/trace/test_two_roads_to_one_place.py tests/trace/test_views_that_are_compared.py \
  tests/trace/test_versions.py \
  tests/trace/test_found_by_fuzzing.py \
  tests/state.sh \
  tests/fuzz/fuzz.h \
  tests/fuzz/state_grammar.py \
  tests/fuzz/state_programs.py \
  tests/fuzz/state_features.py \
  tests/fuzz/state_world.py \
  tests/fuzz/forks.py \
  tests/fuzz/interrupts.py \
  tests/fuzz/kills.py \
  tests/fuzz/planted_faults.py \
  tests/trace/test_imports.py \
  tests/trace/test_interpreters.py \
  tests/trace/check_leaks.py \
  tests/unit/alias_test.h \
  tests/unit/aot_test.h \
  tests/unit/api_text.h \
  tests/unit/api_values.inc \
  tests/unit/api_values.py \
  tests/unit/grad_check.h
