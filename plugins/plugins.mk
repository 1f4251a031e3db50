# SPDX-License-Identifier: Apache-2.0
# Back ends.  A plugin sees plugin-api/ alone; codegen is shared by those that generate code.

PLUGIN_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined \
  -export-symbols-regex '^gramme_plugin_query_v0$$' \
  -Wl,-z,nodelete -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now -Wl,-z,defs
PLUGIN_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden

plugin_LTLIBRARIES += plugins/libgramme-eager.la plugins/libgramme-null.la
plugins_libgramme_eager_la_SOURCES = $(EAGER_SOURCES)
plugins_libgramme_eager_la_CPPFLAGS = $(PLUGIN_CPPFLAGS)
plugins_libgramme_eager_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_libgramme_eager_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_libgramme_null_la_SOURCES = $(NULL_SOURCES)
plugins_libgramme_null_la_CPPFLAGS = $(PLUGIN_CPPFLAGS)
plugins_libgramme_null_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_libgramme_null_la_LDFLAGS = $(PLUGIN_LDFLAGS)

EAGER_SOURCES = plugins/eager/eager.c plugins/eager/eager_plan.c plugins/eager/eager_plan.h
NULL_SOURCES = plugins/null/null.c
CODEGEN_SOURCES = plugins/codegen/call.h plugins/codegen/digest.c plugins/codegen/digest.h plugins/codegen/fuse.c plugins/codegen/operand_strides.c plugins/codegen/loop_plan.c \
  plugins/codegen/buffer_reuse.c plugins/codegen/loop_plan.h plugins/codegen/memory.c plugins/codegen/parts.c plugins/codegen/parts.h plugins/codegen/print_c.c \
  plugins/codegen/print_c.h plugins/codegen/point_v.c plugins/codegen/print_v.c plugins/codegen/print_v.h plugins/codegen/program.h plugins/codegen/size_code.c \
  plugins/codegen/size_code.h plugins/codegen/slice.c plugins/codegen/slice.h plugins/codegen/code_text.c plugins/codegen/code_text.h
TCC_SOURCES = plugins/tcc/tcc.c plugins/tcc/jit.c plugins/tcc/jit.h plugins/tcc/glue.c plugins/tcc/reserve.c plugins/tcc/reserve.h $(CODEGEN_SOURCES)
PLUGIN_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugin-api

CC_SOURCES = plugins/cc/cc.c plugins/cc/cc_folder.c plugins/cc/cc_folder.h plugins/cc/job.c plugins/cc/job.h plugins/cc/kept_units.c plugins/cc/kept_units.h plugins/cc/load.c \
  plugins/cc/load.h plugins/cc/elf_object.c plugins/cc/elf_object.h plugins/cc/cc_unit.c plugins/cc/cc_unit.h $(CODEGEN_SOURCES)
plugin_LTLIBRARIES += plugins/libgramme-cc.la
plugins_libgramme_cc_la_SOURCES = $(CC_SOURCES)
plugins_libgramme_cc_la_CPPFLAGS = $(PLUGIN_CPPFLAGS) -DCC_DEFAULT_COMPILER='"$(CC)"'
plugins_libgramme_cc_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_libgramme_cc_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_libgramme_cc_la_LIBADD = -ldl -lpthread

# CUDA is looked for at run time: no header, no library.
NVRTC_SOURCES = plugins/nvrtc/nvrtc.c plugins/nvrtc/attention.c plugins/nvrtc/attention.h plugins/nvrtc/attention_kernel.c plugins/nvrtc/attention_mma.c plugins/nvrtc/gpu_blocks.c plugins/nvrtc/gpu_blocks.h \
  plugins/nvrtc/calls.c plugins/nvrtc/calls.h plugins/nvrtc/columns.c plugins/nvrtc/compiler.c plugins/nvrtc/count.c plugins/nvrtc/count.h \
  plugins/nvrtc/compiler.h plugins/nvrtc/gpu_convolve.c plugins/nvrtc/cublas.def plugins/nvrtc/cuda.def plugins/nvrtc/gpu_device.c plugins/nvrtc/gpu_device.h plugins/nvrtc/gpu_index.c \
  plugins/nvrtc/gpu_keep.c plugins/nvrtc/gpu_keep.h plugins/nvrtc/library.c plugins/nvrtc/library.h plugins/nvrtc/gpu_matmul.c plugins/nvrtc/mma.cuh plugins/nvrtc/nvrtc.def \
  plugins/nvrtc/offers.c plugins/nvrtc/offers.h plugins/nvrtc/point.c plugins/nvrtc/point_memory.c plugins/nvrtc/point_parts.h \
  plugins/nvrtc/point_value.c plugins/nvrtc/points.c plugins/nvrtc/point.h plugins/nvrtc/gpu_prelude.c plugins/nvrtc/prelude.cuh plugins/nvrtc/gpu_prelude.h plugins/nvrtc/product.c \
  plugins/nvrtc/product.h plugins/nvrtc/product_run.c plugins/nvrtc/gpu_program.c plugins/nvrtc/gpu_program.h plugins/nvrtc/replay.c \
  plugins/nvrtc/replay.h plugins/nvrtc/rows.c plugins/nvrtc/rows_keep.c plugins/nvrtc/rows_members.c plugins/nvrtc/rows_parts.h \
  plugins/nvrtc/rows_softmax.c plugins/nvrtc/rows_split.c plugins/nvrtc/rows_walk.c plugins/nvrtc/rows_whole.c \
  plugins/nvrtc/signals.c plugins/nvrtc/signals.h plugins/nvrtc/tile.c \
  plugins/nvrtc/tile.h plugins/nvrtc/gpu_unit.c plugins/nvrtc/gpu_unit.h $(CODEGEN_SOURCES)
plugin_LTLIBRARIES += plugins/libgramme-nvrtc.la
plugins_libgramme_nvrtc_la_SOURCES = $(NVRTC_SOURCES)
plugins_libgramme_nvrtc_la_CPPFLAGS = $(PLUGIN_CPPFLAGS)
plugins_libgramme_nvrtc_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_libgramme_nvrtc_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_libgramme_nvrtc_la_LIBADD = -ldl -lpthread
plugins/nvrtc/prelude.inc: plugins/nvrtc/prelude.cuh
	$(AM_V_GEN)mkdir -p plugins/nvrtc && $(AS_STRING) $(srcdir)/plugins/nvrtc/prelude.cuh > $@.new && mv $@.new $@
plugins/nvrtc/mma.inc: plugins/nvrtc/mma.cuh
	$(AM_V_GEN)mkdir -p plugins/nvrtc && $(AS_STRING) $(srcdir)/plugins/nvrtc/mma.cuh > $@.new && mv $@.new $@
BUILT_SOURCES += plugins/nvrtc/prelude.inc plugins/nvrtc/mma.inc
CLEANFILES += plugins/nvrtc/prelude.inc plugins/nvrtc/mma.inc

if HAVE_TCC
plugin_LTLIBRARIES += plugins/libgramme-tcc.la
plugins_libgramme_tcc_la_SOURCES = $(TCC_SOURCES)
plugins_libgramme_tcc_la_CPPFLAGS = $(PLUGIN_CPPFLAGS)
plugins_libgramme_tcc_la_CFLAGS = $(PLUGIN_CFLAGS)
# libtcc.a is not position-independent: its globals must be local (exclude-libs), and three names of libc are redirected
# to hidden variables that plugins/tcc/glue.c fills.  plugins/tcc/reserve.c has memory for it when there is none, and jit.c
# says what becomes executable.
plugins_libgramme_tcc_la_LDFLAGS = $(PLUGIN_LDFLAGS) -Wl,--wrap=stdout -Wl,--wrap=stderr -Wl,--wrap=environ \
  -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=free -Wl,--wrap=mprotect -Wl,--exclude-libs,libtcc.a
plugins_libgramme_tcc_la_LIBADD = -ltcc -ldl -lpthread
else
EXTRA_DIST += $(TCC_SOURCES)
endif
