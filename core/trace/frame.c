/* SPDX-License-Identifier: Apache-2.0
 * frame.c -- calls of Python functions: arguments are bound as CPython binds them, and the callee's
 * frame is entered.
 *
 * Frames are immutable and linked to their parents; variables and stack are heap objects, so a
 * rollback may cross calls and returns.  A frame that an instruction enters continues in the loop;
 * one that a builtin needs at once (map, property, sum ...) runs in a nested loop.
 */
#include "core/trace/recorder.h"

/* -- Arguments ------------------------------------------------------------- */

bool
gm_args_plain (GmRecorder *r, const char *name, const GmCallArgs *args, uint32_t min, uint32_t max)
{
  if (args->n >= min && args->n <= max && gm_args_n_named (args) == 0)
    return true;
  g_autofree char *message = g_strdup_printf ("%s() with %u positional and %u named arguments",
                                              name, args->n, gm_args_n_named (args));
  gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, message);
  return false;
}

bool
gm_args_range (GmRecorder *r, const char *type, const GmCallArgs *args, int64_t n, int64_t *from,
               int64_t *to)
{
  int64_t *const places[] = { from, to };
  *from = 0;
  *to = n;
  if (!gm_args_plain (r, "index", args, 1, 3))
    return false;
  for (uint32_t i = 1; i < args->n; i++) {
    int64_t at;
    if (!gm_constant_int (r, args->args[i], &at)) {
      gm_record_break (r, GM_BREAK_CALL_METHOD, "index", type);
      return false;
    }
    *places[i - 1] = CLAMP (at < 0 ? at + n : at, 0, n);
  }
  return true;
}

bool
gm_args_take (GmRecorder *r, const char *name, const GmCallArgs *args, const char *const *names,
              uint32_t n_names, const GmTracker **out)
{
  bool ok = args->n <= n_names;
  for (uint32_t i = 0; i < n_names; i++)
    out[i] = i < args->n ? args->args[i] : NULL;
  for (uint32_t k = 0; k < gm_args_n_named (args) && ok; k++) {
    uint32_t i = 0;
    while (i < n_names
           && PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (args->names, k), names[i]) != 0)
      i++;
    ok = i < n_names && out[i] == NULL;
    if (ok)
      out[i] = args->args[args->n + k];
  }
  if (!ok) {
    g_autofree char *message = g_strdup_printf ("%s() got arguments that it does not take", name);
    gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, message);
  }
  return ok;
}

const GmTracker *
gm_method_row (GmRecorder *r, const GmMethodRow *rows, const GmTracker *self, PyObject *name)
{
  for (const GmMethodRow *row = rows; row->name; row++)
    if (PyUnicode_CompareWithASCIIString (name, row->name) == 0) {
      const GmTracker **items = gm_tracker_array (r, 1);
      items[0] = self;
      return gm_tracker (r, .kind = &gm_kind_builtin, .items = items, .n = 1, .data = row,
                         .number = 1);
    }
  return NULL;
}

/* -- Binding --------------------------------------------------------------- */

static bool
complain (GmRecorder *r, const GmCode *code, const char *what)
{
  g_autofree char *message =
      g_strdup_printf ("%s() %s", PyUnicode_AsUTF8 (code->code->co_qualname), what);
  gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, message);
  return false;
}

/* Returns the default of the parameter `slot`; NULL: it has none. Defined in tracker_function.c. */
extern const GmTracker *gm_function_default (GmRecorder *r, const GmTracker *func, uint32_t slot,
                                             const GmCode *code);

/* Binds the arguments of a call of `func` to slots[0 .. n_args), in localsplus order, as CPython
 * does. False after a break or an exception. */
static bool
bind (GmRecorder *r, const GmTracker *func, const GmCode *code, const GmCallArgs *args,
      const GmTracker **slots)
{
  uint32_t n_named = gm_args_n_named (args), n_params = code->n_pos + code->n_kwonly;
  uint32_t varargs_slot = n_params, varkw_slot = n_params + code->varargs;
  uint32_t n = MIN (args->n, code->n_pos);
  gm_tracker_copy (slots, args->args, n);
  if (args->n > n && !code->varargs)
    return complain (r, code, "takes fewer positional arguments");
  if (code->varargs)
    slots[varargs_slot] = gm_tuple_new (r, args->args + n, args->n - n);
  if (code->varkw)
    slots[varkw_slot] = gm_dict_new (r);
  for (uint32_t k = 0; k < n_named; k++) {
    PyObject *name = PyTuple_GET_ITEM (args->names, k);
    const GmTracker *value = args->args[args->n + k];
    uint32_t i = code->n_posonly;
    while (i < n_params && !gm_str_equal (code->slots[i].name, name))
      i++;
    if (i < n_params) {
      if (slots[i])
        return complain (r, code, "got multiple values for an argument");
      slots[i] = value;
    } else if (code->varkw) {
      gm_dict_store (r, slots[varkw_slot], gm_from_constant (r, name), value);
    } else {
      return complain (r, code, "got an unexpected keyword argument");
    }
  }
  for (uint32_t i = 0; i < n_params; i++)
    if (slots[i] == NULL && (slots[i] = gm_function_default (r, func, i, code)) == NULL)
      return r->stop ? false : complain (r, code, "misses a required argument");
  return !r->stop;
}

/* -- Entering and leaving -------------------------------------------------- */

extern const GmCode *gm_function_code (GmRecorder *r, const GmTracker *func, PyObject **globals,
                                       PyObject **builtins);

bool
gm_frame_enter (GmRecorder *r, const GmTracker *func, const GmCallArgs *args, GmAfter after,
                const GmTracker *init_object)
{
  if (r->stop)
    return false;
  PyObject *globals, *builtins;
  const GmCode *code = gm_function_code (r, func, &globals, &builtins);
  if (code == NULL)
    return false;
  if (gm_function_starts_tracer (globals)) {
    gm_record_break (r, GM_BREAK_TRACER, PyUnicode_AsUTF8 (code->code->co_qualname));
    return false;
  }
  if (gm_function_left_alone (code->code, globals)) {
    gm_record_break (r, GM_BREAK_LEFT_TO_PYTHON, PyUnicode_AsUTF8 (code->code->co_qualname));
    return false;
  }
  bool entered = r->enters_whole;
  r->enters_whole = false;
  if (!entered && gm_host.is_whole (code->code)) {
    gm_record_break (r, GM_BREAK_KEPT_WHOLE, PyUnicode_AsUTF8 (code->code->co_qualname),
                     func->real ? "it is not called as a function by itself"
                                : "it was made in the function that is recorded");
    return false;
  }
  if (code->flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR)) {
    gm_record_break (r, GM_BREAK_GENERATOR, PyUnicode_AsUTF8 (code->code->co_name));
    return false;
  }
  if (r->frame->level + 1 >= GM_MAX_DEPTH) {
    gm_record_break (r, GM_BREAK_RECURSION, G_STRINGIFY (GM_MAX_DEPTH));
    return false;
  }
  const GmTracker **slots = gm_tracker_array (r, code->n_args);
  if (!bind (r, func, code, args, slots))
    return false;
  GmFrame *f = gm_arena_new0 (r->arena, GmFrame);
  f->parent = r->frame;
  f->code = code;
  f->func = func;
  f->globals = globals;
  f->builtins = builtins;
  f->id = gm_heap_add (&r->heap, code->n_slots + code->stack_size);
  f->level = r->frame->level + 1;
  f->handled_id = r->frame->handled_id;
  f->return_pc = r->pc;
  f->return_depth = r->depth;
  f->after = after;
  f->init_object = init_object;
  r->frame = f;
  r->pc = 0;
  r->depth = 0;
  r->n_frames++;
  for (uint32_t i = 0; i < code->n_args; i++)
    gm_local_set (r, i, slots[i]);
  return true;
}

void
gm_frame_leave (GmRecorder *r, const GmTracker *value)
{
  const GmFrame *f = r->frame;
  if (r->stop)
    return;
  if (f->parent == NULL) {
    r->stopped_value = value;
    r->frame = NULL;
    return;
  }
  r->frame = f->parent;
  r->pc = f->return_pc;
  r->depth = f->return_depth;
  switch (f->after) {
  case GM_AFTER_PUSH:
    gm_push (r, value);
    break;
  case GM_AFTER_INIT:
    if (gm_realize (r, value)->real != Py_None)
      gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, "TypeError: __init__() should return None");
    gm_push (r, f->init_object);
    break;
  case GM_AFTER_STOP:
    r->stopped_value = value;
    break;
  }
}

const GmTracker *
gm_frame_run (GmRecorder *r, const GmTracker *func, const GmCallArgs *args)
{
  if (!gm_frame_enter (r, func, args, GM_AFTER_STOP, NULL))
    return &gm_tracker_poison;
  gm_record_loop (r, r->frame, NULL);
  return r->stop ? &gm_tracker_poison : r->stopped_value;
}
