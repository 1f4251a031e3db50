# SPDX-License-Identifier: Apache-2.0
# Examples are installed as text; the C one is built against the installation.

exampledir = $(pkgdatadir)/examples
example_DATA = examples/digits.py examples/saved_f8.py
exampledatadir = $(exampledir)/data
exampledata_DATA = examples/data/digits.csv.gz examples/data/README.md
examplecdir = $(exampledir)/c
examplec_DATA = examples/c/train.c examples/c/Makefile
EXTRA_DIST += $(example_DATA) $(exampledata_DATA) $(examplec_DATA)

# What a user of the installed package does: find it with pkg-config, build, run with each back end, import the package.
installcheck-local:
	CC='$(CC)' PYTHON='$(PYTHON)' sh $(srcdir)/tests/install/check.sh '$(DESTDIR)' '$(bindir)' '$(libdir)' '$(includedir)' '$(pythondir)' '$(exampledir)'
