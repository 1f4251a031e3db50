/* SPDX-License-Identifier: Apache-2.0
 * subclass.c -- instances of subclasses of list, dict, set, tuple and of values (int, str ...): an
 * object with a container or a value inside.
 *
 * The object has the attributes and the methods of its class; its storage is a tracker of the
 * container's kind, with the same source if the object existed. Operations that the class does not
 * override go to the storage; replayed effects and rebuilt objects call the container's own
 * methods, never overrides.
 */
#include "core/models/models.h"
#include "core/trace/class_made.h"
#include "core/trace/exception.h"
#include "core/trace/instance.h"

PyTypeObject *
gm_layout_of (PyTypeObject *type)
{
  while (gm_is_user_type (type) && type->tp_base)
    type = type->tp_base;
  return type;
}

static bool
is_value_type (PyTypeObject *type)
{
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type
         || type == &PyBytes_Type;
}

/* Returns the value inside of `o`, an instance of a subclass of `layout`, as an exact `layout`; new
 * reference or NULL. */
static PyObject *
exact_value (PyTypeObject *layout, PyObject *o)
{
  if (layout == &PyLong_Type)
    return _PyLong_Copy ((PyLongObject *) o);
  if (layout == &PyFloat_Type)
    return PyFloat_FromDouble (PyFloat_AS_DOUBLE (o));
  if (layout == &PyUnicode_Type)
    return PyUnicode_FromObject (o);
  return PyBytes_FromStringAndSize (PyBytes_AS_STRING (o), PyBytes_GET_SIZE (o));
}

static const GmTracker *
value_storage (GmRecorder *r, PyTypeObject *layout, PyObject *real, const GmSource *source)
{
  PyObject *value = exact_value (layout, real);
  if (value == NULL)
    return gm_record_break_exception (r);
  gm_record_take (r, value);
  gm_guard (r, VALUE, source, .obj = value);
  return gm_from_constant (r, value);
}

const GmTracker *
gm_storage_owner (GmRecorder *r, const GmTracker *storage)
{
  bool in_heap = !storage->real && storage->n == 0 && storage->id != GM_NO_OBJECT;
  return in_heap ? gm_heap_load (&r->heap, storage->id, GM_SLOT_OWNER) : NULL;
}

const GmTracker *
gm_storage_object (GmRecorder *r, const GmTracker *storage)
{
  const GmTracker *t = storage->real ? g_hash_table_lookup (r->by_real, storage->real)
                                     : gm_storage_owner (r, storage);
  return t && gm_storage (t) == storage ? t : NULL;
}

bool
gm_dict_class_is_kept (const GmTracker *t)
{
  PyTypeObject *layout = gm_layout_of ((PyTypeObject *) t->data);
  return layout->tp_as_number->nb_or != PyDict_Type.tp_as_number->nb_or;
}

const GmTracker *
gm_storage_wrap (GmRecorder *r, PyObject *real, const GmSource *source)
{
  PyTypeObject *layout = gm_layout_of (Py_TYPE (real));
  if (layout == &PyList_Type)
    return gm_list_storage (r, real, source);
  if (PyDict_Check (real))
    return gm_dict_storage (r, real, source);
  if (layout == &PyTuple_Type)
    return gm_tuple_storage (r, real, source);
  if (layout == &PySet_Type)
    return gm_set_storage (r, real, source);
  if (is_value_type (layout))
    return value_storage (r, layout, real, source);
  return NULL;
}

const GmTracker *
gm_storage_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  PyTypeObject *layout = gm_layout_of (type);
  if (layout == &PyList_Type)
    return gm_list_new (r, NULL, 0);
  if (PyType_IsSubtype (layout, &PyDict_Type))
    return gm_dict_new_storage (r, PyType_IsSubtype (layout, &PyODict_Type));
  if (layout == &PySet_Type)
    return gm_set_new (r, NULL, 0);
  if (is_value_type (layout)) {
    const GmTracker *value = gm_builtin_class_call (r, layout, args);
    if (value && value->kind == &gm_kind_constant)
      return value;
    return gm_record_break (r, GM_BREAK_CALL_CLASS, type->tp_name, "its value is not known");
  }
  if (layout == &PyTuple_Type) {
    g_autoptr (GPtrArray) items = args->n ? gm_collect (r, args->args[0]) : g_ptr_array_new ();
    return items ? gm_tuple_new (r, (const GmTracker *const *) items->pdata, items->len)
                 : &gm_tracker_poison;
  }
  return NULL;
}

/* -- Building -------------------------------------------------------------- */

static void
emit_new (GmResidualBuilder *b, PyTypeObject *type)
{
  GmRecorder *r = gm_residual_recorder (b);
  PyTypeObject *base = type; /* the C class whose __new__ `type` inherits */
  while (base->tp_base && gm_is_user_type (base))
    base = base->tp_base;
  while (base->tp_base && base->tp_base->tp_new == base->tp_new)
    base = base->tp_base;
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0,
                    gm_record_take (r, PyObject_GetAttrString ((PyObject *) base, "__new__")));
  gm_residual_class (b, type);
}

/* Emits a call of the layout class's `method` on the object and n items, and a pop of its
 * result. */
static void
emit_call (GmResidualBuilder *b, PyTypeObject *layout, const char *method, const GmTracker *t,
           const GmTracker *const *items, uint32_t n)
{
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, PyDict_GetItemString (gm_type_dict (layout), method));
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  for (uint32_t i = 0; i < n; i++)
    gm_residual_value (b, items[i]);
  gm_residual_emit (b, GM_INSN_CALL, n + 1, NULL);
  gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
}

/* Emits the allocation of the object, without its __new__ and __init__, and fills its storage. */
bool
gm_storage_build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  PyTypeObject *type = (PyTypeObject *) t->data, *layout = gm_layout_of (type);
  const GmTracker *storage = gm_storage (t);
  if ((PyObject *) type == gm_host.context_type) {
    gm_record_break (r, GM_BREAK_CONTEXT_ESCAPES);
    return false;
  }
  if (storage == NULL) {
    emit_new (b, type);
    gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
    gm_residual_allocated (b, t);
    return true;
  }
  emit_new (b, type);
  if (storage->kind == &gm_kind_exception) {
    if (!storage->kind->build (b, storage))
      return false;
    gm_residual_emit (b, GM_INSN_CALL, 1 + gm_heap_load (&r->heap, storage->id, GM_EXC_ARGS)->n,
                      NULL);
    gm_residual_allocated (b, t);
    /* keeps args[0] as `value` */
    if (PyType_IsSubtype (layout, (PyTypeObject *) PyExc_StopIteration)) {
      const GmTracker *args = gm_heap_load (&r->heap, storage->id, GM_EXC_ARGS);
      emit_call (b, (PyTypeObject *) PyExc_StopIteration, "__init__", t, args->items, args->n);
    }
    return true;
  }
  if (storage->kind == &gm_kind_constant) {
    gm_residual_value (b, storage);
    gm_residual_emit (b, GM_INSN_CALL, 2, NULL);
    gm_residual_allocated (b, t);
    return true;
  }
  if (storage->kind == &gm_kind_tuple) {
    for (uint32_t i = 0; i < storage->n; i++)
      gm_residual_value (b, storage->items[i]);
    gm_residual_emit (b, GM_INSN_BUILD_TUPLE, storage->n, NULL);
    gm_residual_emit (b, GM_INSN_CALL, 2, NULL);
    gm_residual_allocated (b, t);
    return true;
  }
  gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
  gm_residual_allocated (b, t);
  const GmTracker *contents = gm_contents_of (r, storage);
  if (storage->kind == &gm_kind_dict) {
    PyTypeObject *owner = PyType_IsSubtype (layout, &PyODict_Type) ? &PyODict_Type : &PyDict_Type;
    for (uint32_t i = 0; i < contents->n; i += 2)
      emit_call (b, owner, "__setitem__", t, &contents->items[i], 2);
    return true;
  }
  if (storage->kind == &gm_kind_set && contents->number && contents->n)
    return false; /* elements were removed, so that the order is not known */
  for (uint32_t i = 0; i < contents->n; i++)
    emit_call (b, layout, storage->kind == &gm_kind_set ? "add" : "append", t, &contents->items[i],
               1);
  return true;
}
