/* SPDX-License-Identifier: Apache-2.0
 * failed.h -- a region whose graph fails is run again, as plain Python: failed.c.
 */
#ifndef GM_PYTHON_FAILED_H
#define GM_PYTHON_FAILED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/base/thread.h"
#include "core/tensor/tensor.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The one who is to run a call's frame. */
typedef enum {
  GM_CALL_DONE,  /* nothing is left to be run: there is a result, an exception or a rest (GmTail) */
  GM_CALL_PLAIN, /* nothing has happened: the plain function, whose callees may be captured */
  GM_CALL_AGAIN, /* the same after a graph that failed: nothing of the plain function captured */
} GmCallKind;

/* The results of the program's functions that a graph called, in the order of the calls: the plain run gets
 * these instead of calling them again. */
typedef struct GmCallNotes GmCallNotes;
struct GmCallNotes {
  GmCallNotes *around;
  GArray *calls; /* NULL: none yet */
  uint32_t next; /* while they are given out */
};

/* How the call of a target ended.  Zeroed, it says GM_CALL_DONE. */
typedef struct {
  GmCallKind kind;
  char *why;         /* of GM_CALL_AGAIN, owned: what the graph failed with */
  GmCallNotes notes; /* of GM_CALL_AGAIN, owned */
} GmCallEnd;

/* Between these two this thread notes such calls in *notes.  end: what they gave is gone, unless
 * gm_failed has taken it. */
void gm_call_notes_begin (GmCallNotes *notes);
void gm_call_notes_end (GmCallNotes *notes);
/* A call of fn has ended with result (borrowed), or, NULL, with the exception that is set, which
 * stays.  args: the n arguments, in their order, those without a name first: a tensor, which a
 * history of the result may lead to, or NULL; names: of the last ones, a tuple or NULL. */
void gm_call_note (PyObject *fn, GmTensor *const *args, uint32_t n, PyObject *names, PyObject *result);

/* Counted up by each call of a function of the program's that a graph, or what follows it, makes:
 * such a function is not called twice for one call of the program. */
extern GM_THREAD uint32_t gm_failed_program_calls;
/* Counted up by each error of an operation that becomes an exception. */
extern GM_THREAD uint32_t gm_failed_operations;

/* Both counters when a graph begins. */
typedef struct {
  uint32_t program_calls, operations;
} GmFailedMark;

static inline GmFailedMark
gm_failed_mark (void)
{
  return (GmFailedMark){ gm_failed_program_calls, gm_failed_operations };
}

/* To be called with the exception that a graph ended with, once what the region had done is
 * undone.  Where the region may run again, the exception is cleared and *end says GM_CALL_AGAIN;
 * else the exception stays.  name: the function's; in_python: the back end is a Python callable;
 * notes: of the calls that the graph made, or NULL.  Always NULL. */
PyObject *gm_failed (PyObject *name, GmFailedMark mark, bool in_python, GmCallNotes *notes,
                     GmCallEnd *end);

/* Around the plain function's call for GM_CALL_AGAIN, inside of a scope of the hook (hook.h). 
 * `result` (taken, may be NULL) is what the call gave.  Result: the same; NULL with an exception,
 * if the warning that the graph failed where plain Python did not is an error. */
void gm_failed_again_begin (GmCallEnd *end);
PyObject *gm_failed_again_end (GmCallEnd *end, PyObject *name, PyObject *result);

/* For the hook: true if the frame of this code, whose locals are its arguments alone, is not to
 * run, because the graph has made this call: then *result is what it gave, a new reference, with a
 * history that leads to these arguments, or NULL with its exception. */
extern GM_THREAD GmCallNotes *gm_failed_given_out;
bool gm_failed_give_out (PyCodeObject *code, PyObject *const *locals, PyObject **result);

#endif
