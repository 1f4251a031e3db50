# SPDX-License-Identifier: Apache-2.0
# A driver and an NVRTC for machines without a GPU: tests name it as GRAMME_CUDA_DRIVER and GRAMME_NVRTC.
check_LTLIBRARIES = tests/gpu/libgramme-fake-cuda.la
tests_gpu_libgramme_fake_cuda_la_SOURCES = tests/gpu/fake_cuda.c tests/gpu/fake_cuda.h tests/gpu/fake_cublas.c tests/gpu/fake_nvrtc.c tests/gpu/threads.c \
  tests/gpu/threads.h
tests_gpu_libgramme_fake_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) -DSIM_CC='"$(CC)"' -DSIM_HEADER='"$(abs_top_srcdir)/tests/gpu/sim.h"'
tests_gpu_libgramme_fake_cuda_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
tests_gpu_libgramme_fake_cuda_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nonexistent -Wl,-z,noexecstack
tests_gpu_libgramme_fake_cuda_la_LIBADD = -ldl -lpthread -lm

tests_unit_test_nvrtc_SOURCES = tests/unit/test_nvrtc.c tests/gpu/forms.h tests/fuzz/random_graph.h tests/fuzz/random_graph.c \
  tests/fuzz/symbolic_graph.h tests/fuzz/symbolic_graph.c
tests_unit_test_nvrtc_CPPFLAGS = $(AM_CPPFLAGS) -DGM_FAKE_CUDA='"$(abs_top_builddir)/tests/gpu/.libs/libgramme-fake-cuda.so"'

tests_unit_test_cuda_SOURCES = tests/unit/test_cuda.c tests/fuzz/random_graph.h tests/fuzz/random_graph.c
tests_unit_test_cuda_CPPFLAGS = $(tests_unit_test_nvrtc_CPPFLAGS)
tests_unit_test_ptx_SOURCES = tests/unit/test_ptx.c tests/gpu/forms.h tests/fuzz/random_graph.h tests/fuzz/random_graph.c

check_PROGRAMS += tests/gpu/bench
tests_gpu_bench_SOURCES = tests/gpu/bench.c

gpu_tests = gpu.py test_cuda_products.py test_device.py test_nvrtc.py
GPU_FILES = tests/gpu/sim.h tests/gpu/run bench/RESULTS-gpu.md

# What a machine with a GPU needs to run tests/gpu/run, and nothing of this one: libraries, package, plugins, tests.
gpu-folder: all $(check_LTLIBRARIES) tests/unit/test_nvrtc tests/unit/test_cuda tests/unit/test_ptx tests/gpu/bench
	rm -rf $@ && mkdir -p $@/bin $@/lib $@/python-tests $@/bench
	cp .libs/gramme tests/unit/.libs/test_nvrtc tests/unit/.libs/test_cuda tests/unit/.libs/test_ptx tests/gpu/.libs/bench $@/bin
	cp -L .libs/libgramme.so.0 tests/gpu/.libs/libgramme-fake-cuda.so $@/lib
	ldd .libs/libgramme.so tests/unit/.libs/test_nvrtc pkg/plugins/*.so pkg/gramme/*.so | sed -n 's|.*=> \(/[^ ]*\) .*|\1|p' | sort -u \
	  | grep -v '/\(libc\|libm\|libdl\|librt\|libpthread\|libgcc_s\|libstdc++\|libgramme\)[.-]' | xargs -I F cp -L F $@/lib
	cp -rL pkg $@/pkg
	cp $(bench_DATA:%=$(srcdir)/%) $@/bench
	cp $(gpu_tests:%=$(srcdir)/tests/python/%) $@/python-tests && cp $(srcdir)/tests/gpu/sim.h $(srcdir)/tests/gpu/run $@
	echo '$(PYTHON)' > $@/python
.PHONY: gpu-folder
