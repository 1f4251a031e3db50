/* SPDX-License-Identifier: Apache-2.0
 * tracker_grad_mode.c -- no_grad, enable_grad and set_grad_enabled while recording.
 *
 * The mode itself is journaled in the recorder; a context keeps the mode that it found in its heap
 * slot.  set_grad_enabled acts when it is made.
 */
#include "core/models/models.h"
#include "core/trace/instance.h"

static const GmTracker *
context_new (GmRecorder *r, bool on, bool acts)
{
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker *t = gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_grad_mode,
                                                        .id = id,
                                                        .number = on,
                                                        .data = acts ? &gm_kind_grad_mode : NULL });
  gm_contents_set (
      r, t, gm_tracker (r, .kind = &gm_kind_contents, .number = gm_grad_mode_get (r), .n = 0));
  if (acts)
    gm_grad_mode_set (r, on);
  return t;
}

/* Returns the class of the context t, borrowed. */
static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  (void) r;
  return (PyTypeObject *) (t->data     ? gm_host.set_grad_enabled
                           : t->number ? gm_host.enable_grad
                                       : gm_host.no_grad);
}

/* Calls the context as a decorator: inlines the package's own __call__, which reads only the
 * context's class. */
static const GmTracker *
decorate (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  PyTypeObject *cls = type (r, t);
  PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("__call__")),
           *found = gm_class_lookup (r, cls, name);
  const GmTracker *all[] = { t, args->n == 1 ? args->args[0] : NULL };
  if (t->data || args->n != 1 || args->names || !found || !PyFunction_Check (found))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "set_grad_enabled() as a decorator inside the compiled function");
  return gm_call_n (r, gm_wrap (r, found, gm_source_class_attr (r, cls, name)), all, 2);
}

const GmTracker *
gm_grad_mode_class_call (GmRecorder *r, PyObject *cls, const GmCallArgs *args)
{
  if (cls == gm_host.set_grad_enabled) {
    PyObject *on = args->n == 1 && args->names == NULL ? gm_constant (r, args->args[0]) : NULL;
    if (on == NULL || !PyBool_Check (on))
      return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                              "set_grad_enabled() with something other than True or False");
    return context_new (r, on == Py_True, true);
  }
  if (args->n > 1 || args->names)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "a grad mode with other arguments than one function");
  const GmTracker *mode = context_new (r, cls == gm_host.enable_grad, false);
  return args->n ? decorate (r, mode, args) : mode;
}

static const GmTracker *
leave (GmRecorder *r, const GmTracker *self, const GmCallArgs *args)
{
  gm_grad_mode_set (r, gm_contents_of (r, self)->number != 0);
  return gm_none (r);
}

void
gm_grad_mode_enter (GmRecorder *r, const GmTracker *t)
{
  static const GmMethodRow rows[] = { { "__exit__", leave }, { NULL, NULL } };
  PyObject *name = gm_record_take (r, PyUnicode_InternFromString ("__exit__"));
  if (t->data == NULL) { /* set_grad_enabled stored the old mode when it was made, and set the new
                            one then */
    gm_contents_set (r, t,
                     gm_tracker (r, .kind = &gm_kind_contents, .number = gm_grad_mode_get (r)));
    gm_grad_mode_set (r, t->number != 0);
  }
  gm_push (r, gm_method_row (r, rows, t, name));
  gm_push (r, t);
}

/* Emits code for the real context in its entered state, whose exit restores the mode that it
 * found. Making a set_grad_enabled sets the mode; the mode after the region is set after all
 * this. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  PyObject *cls = (PyObject *) type (r, t);
  if (gm_residual_cached (b, t))
    return true;
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, cls);
  if (t->data)
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->number ? Py_True : Py_False);
  gm_residual_emit (b, GM_INSN_CALL, t->data != NULL, NULL);
  gm_residual_allocated (b, t);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, gm_contents_of (r, t)->number ? Py_True : Py_False);
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  gm_residual_emit (b, GM_INSN_STORE_ATTR, 0,
                    gm_record_take (r, PyUnicode_InternFromString ("previous")));
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_grad_mode = {
  .name = "grad mode", .type = type, .call = decorate, .build = build
};
