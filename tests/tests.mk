# SPDX-License-Identifier: Apache-2.0
# make check: the C tests (Check), the Python tests (pytest), golden graphs, headers, includes.  All run through ./in-tree, so
# that they find the libraries, the package and the plugins of this build.

TEST_EXTENSIONS = .sh .py
LOG_COMPILER = ./in-tree
SH_LOG_COMPILER = ./in-tree sh
PY_LOG_COMPILER = ./in-tree python3 -B
AM_TESTS_ENVIRONMENT = top_srcdir='$(abs_top_srcdir)'; top_builddir='$(abs_top_builddir)'; PYTHON='$(PYTHON)'; \
  CC='$(CC)'; CXX='$(CXX)'; PYTHONDONTWRITEBYTECODE=1; CK_DEFAULT_TIMEOUT=120; GRAMME_AUTO=then=none; GRAMME_CACHE=0; export GRAMME_CACHE GRAMME_AUTO CK_DEFAULT_TIMEOUT top_srcdir top_builddir PYTHON CC CXX PYTHONDONTWRITEBYTECODE;

if HAVE_CHECK
check_PROGRAMS += $(UNIT_TESTS)
TESTS += $(UNIT_TESTS)
endif
# Built by name alone: campaigns and figures.
EXTRA_PROGRAMS = tests/fuzz/fuzz_image tests/fuzz/fuzz_manifest bench/plugins bench/sized
tests_fuzz_fuzz_image_SOURCES = tests/fuzz/fuzz_image.c tests/fuzz/mutate_image.c tests/fuzz/mutate_image.h tests/fuzz/random_graph.c tests/fuzz/random_graph.h
tests_fuzz_fuzz_manifest_SOURCES = tests/fuzz/fuzz_manifest.c
bench_plugins_SOURCES = bench/plugins.c
bench_sized_SOURCES = bench/sized.c
AM_CPPFLAGS += $(CHECK_CFLAGS) -DTOP_SRCDIR='"$(abs_top_srcdir)"'
LDADD = libgramme.la $(GLIB_LIBS) $(CHECK_LIBS) -lm

# Python programs, plain and compiled; the same once more with every instruction undone and done again,
# with a graph break before each, and with each guard failing once.  The longest come first, for make -j.
if HAVE_PYTHON
TESTS += tests/rollback.sh tests/breaks.sh tests/guards.sh tests/trace.sh tests/python.sh tests/aot.sh tests/tape.sh tests/state.sh tests/cpython.sh tests/graph/run.py tests/plugin/headers.sh tests/plugin/abi.py tests/plugin/hostile.py tests/plugin/kit.py tests/plugin/callbacks.py tests/plugin/new_plugin.py tests/style/floors.py tests/style/listed.py tests/style/statements.py tests/style/reference.py tests/style/english.py tests/style/format.py tests/style/decisions.py tests/style/paths.py
endif
EXTRA_DIST += $(TEST_FILES)

# What a build from the tarball runs where all tests have run in the tree before: the tests that read other files of the sources,
# write beside them, or use what is installed.
DIST_TESTS = tests/dist.sh tests/graph/run.py tests/plugin/headers.sh tests/plugin/abi.py tests/plugin/new_plugin.py \
  tests/plugin/callbacks.py tests/style/floors.py tests/style/listed.py tests/style/statements.py tests/style/reference.py tests/style/english.py tests/style/format.py tests/style/decisions.py tests/style/paths.py
check-dist:
	$(MAKE) distcheck TESTS='$(DIST_TESTS)'

# Long campaigns: run by hand, results in bench/CAMPAIGNS.md.
# A campaign takes as long as it takes: tests that set a limit of their own do not ask for the default.
CAMPAIGN = CK_DEFAULT_TIMEOUT=0 CK_TIMEOUT_MULTIPLIER=1000
check-nightly: all $(check_PROGRAMS)
	GM_FUZZ_GRAPHS=$${GM_FUZZ_GRAPHS:-16000} $(CAMPAIGN) ./in-tree tests/unit/test_backends
	GM_FUZZ_KERNELS=$${GM_FUZZ_KERNELS:-4000} $(CAMPAIGN) ./in-tree tests/unit/test_codegen
	GM_FUZZ_SIZED=$${GM_FUZZ_SIZED:-20000} $(CAMPAIGN) ./in-tree tests/unit/test_sized
	GM_FUZZ_SIZED=$${GM_FUZZ_SIZED:-20000} $(CAMPAIGN) ./in-tree tests/unit/test_plan_sized
	GM_FUZZ_PLANS=$${GM_FUZZ_PLANS:-100000} $(CAMPAIGN) ./in-tree tests/unit/test_random_plans
	GM_STATE_PROGRAMS=$${GM_STATE_PROGRAMS:-20000} $(srcdir)/build-aux/check-pythons "$(abs_builddir)/pythons"
	GM_STATE_FIRST=$${GM_STATE_FIRST:-1000} GM_STATE_PROGRAMS=$${GM_STATE_PROGRAMS:-20000} ./in-tree sh $(srcdir)/tests/state.sh
	GM_OBJECT_PROGRAMS=$${GM_OBJECT_PROGRAMS:-30000} ./in-tree sh $(srcdir)/tests/pytest.sh trace/test_objects_of_one_class.py
	GM_SHAPE_PROGRAMS=$${GM_SHAPE_PROGRAMS:-5000} ./in-tree sh $(srcdir)/tests/pytest.sh trace/test_random_sizes.py
	GM_RANDOM_MEMORY=$${GM_RANDOM_MEMORY:-100000} ./in-tree sh $(srcdir)/tests/aot.sh
	GM_FUZZ_CAPSULES=$${GM_FUZZ_CAPSULES:-5000000} ./in-tree sh $(srcdir)/tests/pytest.sh python/test_lying_capsules.py
	./in-tree python3 $(srcdir)/tests/fuzz/interrupts.py --count $${GM_FUZZ_INTERRUPTS:-10000}
	./in-tree python3 $(srcdir)/tests/fuzz/forks.py --count $${GM_FUZZ_FORKS:-10000}
	./in-tree python3 $(srcdir)/tests/fuzz/kills.py --count $${GM_FUZZ_KILLS:-10000}
	GM_BREAKS="break break:3" GM_RANDOM_PROGRAMS=2000 ./in-tree sh $(srcdir)/tests/breaks.sh
	GM_STRESS=rollback,guards,arena ./in-tree sh $(srcdir)/tests/pytest.sh trace
	GM_STRESS=rollback,guards,arena ./in-tree sh $(srcdir)/tests/pytest.sh python
	GM_STRESS=rollback,guards,arena ./in-tree sh $(srcdir)/tests/pytest.sh aot
	GM_STRESS=break ./in-tree sh $(srcdir)/tests/pytest.sh python
	GM_STRESS=break GM_RANDOM_MEMORY=1000 ./in-tree sh $(srcdir)/tests/pytest.sh aot
	$(MAKE) check-fuzz
	$(MAKE) check-threads
	$(MAKE) check-hacking
	$(MAKE) format-check
	$(MAKE) check-install
	$(MAKE) check-pip
	$(MAKE) distcheck

# Faults planted one at a time in a copy of the sources, and how many of them the tests see: tests/fuzz/planted_faults.py says more.
# GM_FAULTS: how many; each takes minutes, one that nothing sees as long as all tests.
check-planted:
	rm -rf planted && mkdir planted && $(MAKE) distdir distdir=planted/tree && mkdir planted/build
	cd planted/build && ../tree/configure PYTHON='$(PYTHON)' CC='$(CC)' >configure.out && $(MAKE) >make.out && $(MAKE) check TESTS= >check.out
	$(PYTHON) $(srcdir)/tests/fuzz/planted_faults.py --tree planted/tree --build planted/build --count $${GM_FAULTS:-300} --log planted-faults.jsonl

# What docs/hacking.md says, in a copy of the sources: its changes are applied, the copy is built, its programs are run.
check-hacking:
	rm -rf hacking && mkdir hacking && $(MAKE) distdir distdir=hacking/tree && chmod -R u+w hacking/tree && mkdir hacking/build
	$(PYTHON) $(srcdir)/tests/docs/hacking.py --apply hacking/tree
	cd hacking/build && ../tree/configure PYTHON='$(PYTHON)' CC='$(CC)' >configure.out && $(MAKE) >make.out
	$(PYTHON) $(srcdir)/tests/docs/hacking.py hacking

# The Python tests with every CPython that is there: see the script.  PYTHONS="A B" names them.
check-pythons:
	$(srcdir)/build-aux/check-pythons "$(abs_builddir)/pythons"

# CPython's own test modules with every function captured, against plain Python: tests/cpython/run.py says more.
check-cpython: all
	./in-tree python3 -B $(srcdir)/tests/cpython/run.py $(CPYTHON_MODULES); status=$$?; test $$status = 77 || exit $$status
# torch's operators beside ours, on its own samples: tests/torch/run.py says more.  Says so and does nothing where torch is not there.
check-torch: all
	./in-tree $(PYTHON) -B $(srcdir)/tests/torch/run.py $(TORCH_OPERATORS); status=$$?; test $$status = 77 || exit $$status

# make check PYTHONS="A B" does both.
check-local:
	@test -z "$(PYTHONS)" || PYTHONS="$(PYTHONS)" $(MAKE) check-pythons

# What reads plugin files and images, on mutants, with ASan and UBSan: GM_FUZZ_MUTANTS of each.
check-fuzz:
	$(srcdir)/build-aux/check-variant fuzz "$(abs_builddir)/fuzz"

# References that stay behind, with a Python that counts them; and tests/trace with ASan and UBSan.  Each in a build of its own.
check-leaks:
	$(srcdir)/build-aux/check-variant leaks "$(abs_builddir)/leaks"
check-sanitizers:
	$(srcdir)/build-aux/check-variant sanitizers "$(abs_builddir)/sanitizers"
# Plugins loaded and run by many threads, with the thread sanitizer.
check-threads:
	$(srcdir)/build-aux/check-variant threads "$(abs_builddir)/threads"
# An installation in a fresh prefix, and make installcheck there.
check-install:
	$(srcdir)/build-aux/check-variant install "$(abs_builddir)/install"

# pip install of the sources into a fresh venv.
check-pip:
	$(srcdir)/build-aux/check-variant pip "$(abs_builddir)/pip"; status=$$?; test $$status = 77 || exit $$status

# How C and Python look: .clang-format and pyproject.toml say.  Both need clang-format and black of the versions that
# tests/style/format.py names; make check looks at C alone, as black takes minutes.
format:
	$(PYTHON) -B $(srcdir)/tests/style/format.py --write
format-check:
	$(PYTHON) -B $(srcdir)/tests/style/format.py --python; status=$$?; test $$status = 77 || exit $$status

# The counts of all tests, in one line that programs read; after `make check`, failed or not.
tally:
	@$(PYTHON) $(srcdir)/tests/tally.py $(TEST_LOGS)

.PHONY: format format-check check-dist check-planted check-fuzz check-install check-pip \
  check-threads check-cpython check-torch check-nightly check-pythons check-leaks \
  check-sanitizers tally check-hacking
