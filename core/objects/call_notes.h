/* SPDX-License-Identifier: Apache-2.0
 * call_notes.h -- the program's functions that a graph has called, with their results.
 *
 * When the graph fails, its region runs again as plain Python (core/capture/failed.c), and these
 * functions are not called twice: the plain run gets their results.
 */
#ifndef GM_OBJECTS_CALL_NOTES_H
#define GM_OBJECTS_CALL_NOTES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/base/thread.h"
#include "core/tensor/tensor.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The results of the program's functions that a graph called, in the order of the calls.  The plain
 * run gets these instead of calling the functions again. */
typedef struct GmCallNotes GmCallNotes;
struct GmCallNotes {
  GmCallNotes *around;
  GArray *calls; /* NULL: none yet */
  uint32_t next; /* index of the next call, while results are handed out */
};

/* Between these two calls this thread records such calls in *notes.  gm_call_notes_end frees their
 * results, unless gm_failed (core/capture) has stolen them. */
void gm_call_notes_begin (GmCallNotes *notes);
void gm_call_notes_end (GmCallNotes *notes);
/* Records that a call of fn has ended with result (borrowed) or, NULL, with the pending exception,
 * which is kept.  args: the n arguments, in their order, positional ones first: a tensor to which a
 * history of the result may lead, or NULL; names: of the last arguments, a tuple or NULL. */
void gm_call_note (PyObject *fn, GmTensor *const *args, uint32_t n, PyObject *names,
                   PyObject *result);

/* True if the notes are of n calls, the result of each of which can be handed out. */
bool gm_call_notes_are_whole (const GmCallNotes *notes, uint32_t n);

/* For the hook.  True if the frame of this code, whose locals are its arguments alone, is not to
 * run, because the graph has made this call.  *result is then the call's result, a new reference,
 * with a history that leads to these arguments, or NULL with its exception. */
extern GM_THREAD GmCallNotes *gm_call_notes_given_out;
bool gm_call_notes_give_out (PyCodeObject *code, PyObject *const *locals, PyObject **result);

#endif
