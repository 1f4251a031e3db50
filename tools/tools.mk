# SPDX-License-Identifier: Apache-2.0
# One program, `gramme`.

bin_PROGRAMS += gramme
gramme_SOURCES = tools/main.c tools/describe.c tools/describe.h tools/tools.def tools/options.def tools/variables.def tools/tools.h tools/inspect.c tools/run.c tools/explain.c tools/opt.c tools/bench.c tools/cache.c tools/why.c tools/new_plugin.c $(KIT_SOURCES)
# gramme check-plugin; the generator of random graphs is that of the tests.
KIT_SOURCES = tools/kit/kit.c tools/kit/kit.h tools/kit/kit_cases.def tools/kit/kit_rules.def tools/kit/kit_graph.c tools/kit/kit_host.c tools/kit/kit_malloc.c \
  tools/kit/kit_memory.c tools/kit/kit_random.c tools/kit/kit_sized.c tools/kit/level_cache.c tools/kit/level_errors.c tools/kit/level_file.c \
  tools/kit/level_graph.c tools/kit/level_life.c tools/kit/level_numeric.c tools/kit/level_threads.c \
  tests/fuzz/random_graph.c tests/fuzz/random_graph.h tests/fuzz/symbolic_graph.c tests/fuzz/symbolic_graph.h
gramme_CPPFLAGS = $(AM_CPPFLAGS) -DGRAMME_PYTHON='"$(PYTHON)"'
gramme_LDADD = libgramme.la $(GLIB_LIBS) -lm -lpthread -ldl
gramme_LDFLAGS = $(AM_LDFLAGS) '-Wl,-rpath,$$ORIGIN/@way_from_program@'

# What the program says of itself, for man and for bash.
nodist_man1_MANS = tools/gramme.1
completionsdir = $(datadir)/bash-completion/completions
nodist_completions_DATA = tools/completions/gramme
tools/gramme.1: gramme$(EXEEXT)
	$(AM_V_GEN)./in-tree gramme help --man >$@.new && mv $@.new $@
tools/completions/gramme: gramme$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) tools/completions && ./in-tree gramme help --bash >$@.new && mv $@.new $@
CLEANFILES += tools/gramme.1 tools/completions/gramme

benchdir = $(pkgdatadir)/bench
bench_DATA = bench/run.py bench/cases.py bench/contests.py bench/versus.py bench/by_hand.py bench/by_hand.c bench/start.py bench/results.py bench/gpu.py bench/models.py bench/triton_kernels.py
EXTRA_DIST += $(bench_DATA) bench/CAMPAIGNS.md bench/RESULTS.md

# The files of a new plugin, as rows of a table: FILE (name, text).
NEW_PLUGIN_FILES = tools/new-plugin/configure.ac.in tools/new-plugin/Makefile.am.in tools/new-plugin/plugin.c.in \
  tools/new-plugin/check.py.in tools/new-plugin/rules.sh.in tools/new-plugin/README.md.in
tools/new-plugin.inc: $(NEW_PLUGIN_FILES) tools/tools.mk
	$(AM_V_GEN)$(MKDIR_P) tools && for f in $(NEW_PLUGIN_FILES); do \
	  echo "FILE (\"`basename $$f .in`\","; $(AS_STRING) $(srcdir)/$$f; echo ")"; done > $@.new && mv $@.new $@
BUILT_SOURCES += tools/new-plugin.inc
CLEANFILES += tools/new-plugin.inc
EXTRA_DIST += $(NEW_PLUGIN_FILES)
