# SPDX-License-Identifier: Apache-2.0
# One program, `gramme`.

bin_PROGRAMS += gramme
gramme_SOURCES = tools/gramme.c tools/tools.h tools/inspect.c tools/run.c tools/explain.c tools/opt.c tools/bench.c tools/why.c
gramme_CPPFLAGS = $(AM_CPPFLAGS) -DGRAMME_PYTHON='"$(PYTHON)"' -DGRAMME_PYTHONPATH='"$(pythondir)"' \
  -DGRAMME_BENCHDIR='"$(pkgdatadir)/bench"'
gramme_LDADD = libgramme.la $(GLIB_LIBS)
gramme_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath,$(libdir)

benchdir = $(pkgdatadir)/bench
bench_DATA = bench/run.py bench/cases.py
EXTRA_DIST += $(bench_DATA) bench/RESULTS.md
