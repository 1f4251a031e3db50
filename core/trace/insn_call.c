/* SPDX-License-Identifier: Apache-2.0
 * insn_call.c -- calls, returns, functions being made.
 *
 * A call of a Python function, a method, an object's __call__ or a class of the user's enters the
 * frame, and the loop goes on inside it; everything else is computed at once.
 */
#include "core/trace/kinds.h"
#include "core/trace/insn_handlers.h"

static void
prepend (GmRecorder *r, GmCallArgs *args, const GmTracker *self)
{
  uint32_t n = args->n + gm_args_n_named (args);
  const GmTracker **all = gm_tracker_array (r, n + 1);
  all[0] = self;
  gm_tracker_copy (all + 1, args->args, n);
  args->args = all;
  args->n++;
}

/* True if a call of the class only makes an instance with object.__new__ and calls its __init__;
 * false for the grad modes. */
static bool
is_user_class (PyTypeObject *type)
{
  return gm_is_user_type (type) && type->tp_new == PyBaseObject_Type.tp_new
         && Py_TYPE (type)->tp_call == PyType_Type.tp_call && (PyObject *) type != gm_host.no_grad
         && (PyObject *) type != gm_host.enable_grad
         && (PyObject *) type != gm_host.set_grad_enabled;
}

static void
do_call (GmRecorder *r, const GmTracker *f, GmCallArgs args)
{
  for (int hops = 0; hops < 10 && !r->stop; hops++) {
    f = gm_realize (r, f);
    if (f->kind == &gm_kind_function && !gm_function_model (f)) {
      gm_frame_enter (r, f, &args, GM_AFTER_PUSH, NULL);
      return;
    }
    if (f->kind == &gm_kind_method) {
      prepend (r, &args, f->items[1]);
      f = f->items[0];
      continue;
    }
    if (f->kind == &gm_kind_object && !gm_is_partial ((PyTypeObject *) f->data)
        && !gm_is_cached_function ((PyTypeObject *) f->data)) {
      f = gm_object_call_method (r, f);
      continue;
    }
    if (f->kind == &gm_kind_class && is_user_class ((PyTypeObject *) f->real)) {
      const GmTracker *init, *object = gm_class_allocate (r, f, &args, &init);
      if (init == NULL) {
        gm_push (r, object);
        return;
      }
      prepend (r, &args, object);
      GmFunctionModel model = gm_function_model (init->items[0]);
      if (!model) {
        gm_frame_enter (r, init->items[0], &args, GM_AFTER_INIT, object);
        return;
      }
      model (r, init->items[0], &args);
      if (!r->stop)
        gm_push (r, object);
      return;
    }
    break;
  }
  gm_push (r, gm_call (r, f, &args));
}

void
gm_insn_call (GmRecorder *r, const GmInsn *i)
{
  uint32_t n = i->arg, n_named = i->obj ? (uint32_t) PyTuple_GET_SIZE (i->obj) : 0;
  const GmTracker **values = gm_tracker_array (r, n + 1);
  for (uint32_t k = n; k-- > 0;)
    values[1 + k] = gm_pop (r);
  const GmTracker *second = gm_pop (r), *first = gm_pop (r);
  GmCallArgs args = { values + 1, n - n_named, i->obj };
  const GmTracker *f = second;
  if (!gm_is_call_null (first)) { /* [method, self] */
    f = first;
    values[0] = second;
    args.args = values;
    args.n++;
  }
  if (!r->stop)
    do_call (r, f, args);
}

bool
gm_args_unpack (GmRecorder *r, const GmTracker *rest, const GmTracker *kwargs, GmCallArgs *args)
{
  g_autoptr (GPtrArray) all = gm_raise_not_iterable (r, rest, NULL) ? NULL : gm_collect (r, rest);
  if (all == NULL)
    return false;
  *args = (GmCallArgs){ NULL, all->len, NULL };
  kwargs = kwargs ? gm_realize (r, kwargs) : NULL;
  if (kwargs) {
    if (kwargs->kind != &gm_kind_dict) {
      gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "** of something that is no dict");
      return false;
    }
    gm_dict_contents (r, kwargs);
    const GmTracker *contents = gm_contents_of (r, kwargs);
    if (r->stop)
      return false;
    args->names = gm_record_take (r, PyTuple_New (contents->n / 2));
    for (uint32_t k = 0; k < contents->n; k += 2) {
      PyObject *name = gm_constant (r, contents->items[k]);
      if (name == NULL || !PyUnicode_CheckExact (name)) {
        gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "** of a dict with keys that are no strings");
        return false;
      }
      PyTuple_SET_ITEM (args->names, k / 2, Py_NewRef (name));
      g_ptr_array_add (all, (gpointer) contents->items[k + 1]);
    }
    if (contents->n == 0)
      args->names = NULL;
  }
  const GmTracker **values = gm_tracker_array (r, all->len);
  gm_tracker_copy (values, (const GmTracker *const *) all->pdata, all->len);
  args->args = values;
  return true;
}

void
gm_insn_call_ex (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *kwargs = i->arg & 1 ? gm_realize (r, gm_pop (r)) : NULL, *rest = gm_pop (r),
                  *f = gm_pop (r);
  gm_pop (r); /* NULL */
  GmCallArgs args;
  if (gm_args_unpack (r, rest, kwargs, &args))
    do_call (r, f, args);
}

void
gm_insn_return_value (GmRecorder *r, const GmInsn *i)
{
  gm_frame_leave (r, gm_pop (r));
}

/* Returns the closure as a tuple of realized cells, which may have been arguments of a resume
 * function. */
static const GmTracker *
closure_of (GmRecorder *r, const GmTracker *tuple)
{
  tuple = gm_realize (r, tuple);
  const GmTracker **cells = gm_tracker_array (r, tuple->n);
  for (uint32_t k = 0; k < tuple->n; k++)
    cells[k] = gm_realize (r, tuple->items[k]);
  return r->stop ? tuple : gm_tuple_new (r, cells, tuple->n);
}

/* MAKE_FUNCTION. Bits of arg, in the order of the stack from below: 1 defaults, 2 keyword defaults,
 * 4 annotations, 8 closure. */
void
gm_insn_make_function (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *code = gm_realize (r, gm_pop (r));
  const GmTracker *closure = i->arg & 8 ? closure_of (r, gm_pop (r)) : NULL,
                  *annotations = i->arg & 4 ? gm_pop (r) : NULL;
  const GmTracker *kwdefaults = i->arg & 2 ? gm_pop (r) : NULL,
                  *defaults = i->arg & 1 ? gm_realize (r, gm_pop (r)) : NULL;
  if (!r->stop)
    gm_push (r, gm_function_new (r, code->real, closure, defaults, kwdefaults, annotations));
}
