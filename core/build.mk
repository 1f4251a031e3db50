# SPDX-License-Identifier: Apache-2.0
# libgramme: everything but trace and python.  The extension: these two.

lib_LTLIBRARIES += libgramme.la
libgramme_la_SOURCES = $(CORE_SOURCES)
libgramme_la_LIBADD = libtiles_avx2.la libtiles_avx512.la $(GLIB_LIBS) $(SLEEF_LIBS) -ldl -lpthread -lm
libgramme_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined -Wl,--version-script=core/gramme.map -Wl,-Bsymbolic-functions
EXTRA_libgramme_la_DEPENDENCIES = core/gramme.map

# The same source, once for each instruction set.
GM_TILES_FLAGS_AVX2 = -mavx2 -mfma -mf16c
GM_TILES_FLAGS_AVX512 = -mavx512f -mavx512vl -mavx512bw -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512
noinst_LTLIBRARIES += libtiles_avx2.la libtiles_avx512.la
libtiles_avx2_la_SOURCES = core/tiles/tiles_avx2.c
libtiles_avx2_la_CFLAGS = $(AM_CFLAGS) -O3 $(GM_TILES_FLAGS_AVX2) -DGM_TILES_FLAGS='"$(GM_TILES_FLAGS_AVX2)"'
libtiles_avx512_la_SOURCES = core/tiles/tiles_avx512.c
libtiles_avx512_la_CFLAGS = $(AM_CFLAGS) -O3 $(GM_TILES_FLAGS_AVX512) -DGM_TILES_FLAGS='"$(GM_TILES_FLAGS_AVX512)"'

# The same source preprocessed, as a string of C: code generators inline what they need of it.
TILES_SOURCE = core/tiles/source.h core/tiles/source-rows.h core/tiles/freestanding.h core/tiles/prelude.h core/tiles/prelude-small.h \
  core/tiles/tiles-types.h core/tiles/tiles-values.h core/tiles/tiles-values-end.h core/tiles/tiles-steps.h plugin-api/gramme-ops.def
PRINT_SOURCE = $(AM_V_GEN)mkdir -p core/tiles && $(CC) -E -P -x c -I$(top_srcdir) $(srcdir)/core/tiles/source.h
AS_STRING = sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^.*$$/"&\\n"/'
core/tiles/source_avx2.inc: $(TILES_SOURCE)
	$(PRINT_SOURCE) -DGM_ISA_AVX2=1 | $(AS_STRING) > $@.new && mv $@.new $@
core/tiles/source_avx512.inc: $(TILES_SOURCE)
	$(PRINT_SOURCE) -DGM_ISA_AVX512=1 | $(AS_STRING) > $@.new && mv $@.new $@
BUILT_SOURCES += core/tiles/source_avx2.inc core/tiles/source_avx512.inc
CLEANFILES += core/tiles/source_avx2.inc core/tiles/source_avx512.inc

# Headers for others: the plugin API, and the C API.
apidir = $(includedir)/gramme-1
api_HEADERS = core/gramme.h plugin-api/gramme-plugin.h plugin-api/gramme-graph.h plugin-api/gramme-ext.h plugin-api/gramme-ext-draft.h \
  plugin-api/gramme-plugin-util.h plugin-api/gramme-ops.def
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = core/gramme.pc plugin-api/gramme-plugin-1.pc

EXTRA_DIST += core/INSTALLER
dist_doc_DATA = README.md LICENSE NOTICE licenses/LGPL-2.1.txt docs/plugin-guide.md docs/plugin-reference.md docs/python.md docs/architecture.md docs/hacking.md docs/words.md docs/running.md docs/torch.md docs/semantics.md docs/CHANGELOG.abi

# The extension lies inside the package; libpython is not linked (the interpreter has these symbols).
corepydir = $(pyexecdir)/gramme
if HAVE_PYTHON
corepy_LTLIBRARIES = _core.la
endif
_core_la_SOURCES = $(EXTENSION_SOURCES)
_core_la_CPPFLAGS = $(AM_CPPFLAGS) $(PYTHON_CPPFLAGS)
_core_la_LIBADD = libgramme.la $(GLIB_LIBS) -lm
_core_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shrext $(PYTHON_EXT_SUFFIX) \
  -export-symbols-regex '^PyInit__core$$' '-Wl,-rpath,$$ORIGIN/@way_from_extension@'

# Plugins, and the package as Python wants to see it, of links into the trees: ./in-tree uses them, an installation does not.
noinst_DATA += pkg/stamp
pkg/stamp: $(corepy_LTLIBRARIES) $(plugin_LTLIBRARIES) core/core.mk
	$(AM_V_GEN)rm -rf pkg && mkdir -p pkg/plugins
if HAVE_PYTHON
	$(AM_V_at)mkdir -p pkg/gramme
	$(AM_V_at)cd $(srcdir)/python/gramme && find . -name __pycache__ -prune -o -type d -print | (cd "$(abs_builddir)/pkg/gramme" && xargs mkdir -p)
	$(AM_V_at)cd $(srcdir)/python/gramme && here=`pwd` && find . -name '*.py' -print | while read f; do $(LN_S) "$$here/$$f" "$(abs_builddir)/pkg/gramme/$$f"; done
	$(AM_V_at)$(LN_S) "$(abs_builddir)/.libs/_core$(PYTHON_EXT_SUFFIX)" pkg/gramme/
endif
	$(AM_V_at)for p in $(plugin_LTLIBRARIES); do b=`basename $$p .la`; cp plugins/.libs/$$b.so pkg/plugins/ 2>/dev/null || cp .libs/$$b.so pkg/plugins/; done
	$(AM_V_at)chmod 755 pkg pkg/plugins pkg/plugins/*.so && echo > $@

# For editors and type checkers, who import nothing: written by a program that does.  With sanitizers the extension needs a Python of its own.
if HAVE_PYTHON
STUBS = pkg/gramme/__init__.pyi pkg/gramme/_core.pyi pkg/gramme/py.typed pkg/gramme/nn/functional.pyi pkg/gramme/nn/modules/__init__.pyi
pkg/gramme/py.typed: pkg/stamp build-aux/stubs.py $(package_PYTHON) $(package_nn_PYTHON) $(package_nn_modules_PYTHON)
	$(AM_V_GEN)if test -z '$(GM_SAN)'; then ./in-tree python3 -B $(srcdir)/build-aux/stubs.py pkg/gramme; else \
	  for f in $(STUBS); do echo > $$f; done; fi
pkg/gramme/__init__.pyi pkg/gramme/_core.pyi pkg/gramme/nn/functional.pyi pkg/gramme/nn/modules/__init__.pyi: pkg/gramme/py.typed
	@test -f $@ || { rm -f pkg/gramme/py.typed && $(MAKE) pkg/gramme/py.typed; }
# The files that importlib.metadata and `pip list` read.  There is no RECORD: `make uninstall` removes it, pip does not.
distinfodir = $(pythondir)/gramme_compiler-$(PACKAGE_VERSION).dist-info
distinfo_DATA = core/INSTALLER
nodist_distinfo_DATA = core/METADATA
nodist_package_DATA = pkg/gramme/__init__.pyi pkg/gramme/_core.pyi pkg/gramme/py.typed
nodist_package_nn_DATA = pkg/gramme/nn/functional.pyi
nodist_package_nn_modules_DATA = pkg/gramme/nn/modules/__init__.pyi
endif

clean-local: clean-pkg
clean-pkg:
	rm -rf pkg state cache

# Python's folder and pkg-config's files name the prefix, so another one at installation would put half of it over the one that is there.
BUILT_SOURCES += check-prefix
check-prefix:
	@test '$(prefix)' = '$(configured_prefix)' || { \
	  echo "gramme was configured for $(configured_prefix): configure it for $(prefix), or install with DESTDIR and move the folder" >&2; exit 1; }
.PHONY: check-prefix

# The loader's own files are enough; where a library's .la file is, all that it was linked with must be, too.
install-exec-hook:
	rm -f $(DESTDIR)$(libdir)/libgramme.la
install-data-hook:
	rm -f $(DESTDIR)$(corepydir)/_core.la
	for p in $(plugin_LTLIBRARIES); do rm -f $(DESTDIR)$(plugindir)/`basename $$p`; done

uninstall-local:
	rm -f $(DESTDIR)$(libdir)/libgramme.so $(DESTDIR)$(libdir)/libgramme.so.0 $(DESTDIR)$(libdir)/libgramme.so.0.0.0 $(DESTDIR)$(libdir)/libgramme.a
	rm -f $(DESTDIR)$(corepydir)/_core$(PYTHON_EXT_SUFFIX)
	for p in $(plugin_LTLIBRARIES); do rm -f $(DESTDIR)$(plugindir)/`basename $$p .la`.so; done

# A folder that is left would be imported as an empty package.  What others put into one of them stays, with the folder.
uninstall-hook:
	for d in '$(pythondir)/gramme' '$(distinfodir)' '$(corepydir)' '$(pkgdatadir)' '$(plugindir)' '$(libdir)/gramme' '$(apidir)' '$(docdir)'; do \
	  test -n "$$d" && test -d "$(DESTDIR)$$d" || continue; \
	  find "$(DESTDIR)$$d" -depth -type d -name __pycache__ -exec rm -rf {} + ; \
	  find "$(DESTDIR)$$d" -depth -type d -empty -delete; \
	done
