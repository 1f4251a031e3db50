/* SPDX-License-Identifier: Apache-2.0
 * glue.c -- makes the static libtcc.a usable in a shared object.
 *
 * The archive is not position-independent: it takes the addresses of libc's stdout, stderr and
 * environ relative to its own code, which a shared object cannot do.  The linker's --wrap replaces
 * the three names by hidden variables here, which are filled once.  No other file of this plugin
 * may use the three names.
 */
#include <stdio.h>

#define HIDDEN __attribute__ ((visibility ("hidden")))

extern FILE *__real_stdout, *__real_stderr;
extern char **__real_environ;
HIDDEN FILE *__wrap_stdout, *__wrap_stderr;
HIDDEN char **__wrap_environ;

__attribute__ ((constructor)) static void
fill (void)
{
  __wrap_stdout = __real_stdout;
  __wrap_stderr = __real_stderr;
  __wrap_environ = __real_environ;
}
