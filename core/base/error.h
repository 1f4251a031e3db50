/* SPDX-License-Identifier: Apache-2.0
 * error.h -- failures of the user or of the system, as GError.
 *
 * Three channels, never mixed: a bug is g_assert, "this cannot be traced" is a row of
 * core/breaks.def, and a failure of the user or of the system is a GError of this domain.
 * core/objects/errors.c turns the code into a Python exception, in one place. A message says what
 * was tried, on what, and what the user can do.
 */
#ifndef GM_BASE_ERROR_H
#define GM_BASE_ERROR_H

#include <glib.h>

#define GM_ERROR (gm_error_quark ())

/* Codes of errors. gramme.h has the same numbers for C programs (core/gramme.c compares them):
 * append only. */
typedef enum {
  GM_ERROR_TYPE,    /* TypeError: an argument of the wrong kind */
  GM_ERROR_VALUE,   /* ValueError: right kind, impossible value; wrong back end names and options */
  GM_ERROR_INDEX,   /* IndexError */
  GM_ERROR_RUNTIME, /* RuntimeError: shapes and dtypes that do not fit, autograd misuse (torch
                       raises it too) */
  GM_ERROR_MEMORY,  /* MemoryError */
  GM_ERROR_UNSUPPORTED, /* NotImplementedError */
  GM_ERROR_BACKEND, /* gramme.compiler.BackendError (a RuntimeError): plugin refused, compile or run
                       failed */
  GM_ERROR_IO,      /* OSError */
  GM_ERROR_NO_BACKEND, /* ValueError: no back end of this name is installed, or the file is refused
                        */
} GmError;

GQuark gm_error_quark (void);

#endif
