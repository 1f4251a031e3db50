/* SPDX-License-Identifier: Apache-2.0
 * copying.c -- object.__reduce_ex__, which copy.copy calls for objects without a __copy__.
 *
 * For a plain object, whose class defines nothing about copies and pickles and whose attributes are
 * all in its dict, the result is the way to make another object, and the dict itself. copy.copy is
 * Python and is traced; it calls the class's __new__ and updates the new dict.
 */
#include "core/models/models.h"
#include "core/objects/import.h"
#include "core/trace/instance.h"

/* True if the class uses object's methods for copying, and defines none of its own; guarded. */
static bool
is_silent (GmRecorder *r, PyTypeObject *type)
{
  static const char *const said_by_object[] = { "__reduce_ex__", "__reduce__", "__getstate__" },
                           *const said_by_none[] = { "__getnewargs_ex__", "__getnewargs__" };
  bool silent = true;
  for (size_t i = 0; i < G_N_ELEMENTS (said_by_object); i++)
    silent &= gm_class_lookup_text (r, type, said_by_object[i])
              == PyDict_GetItemString (gm_type_dict (&PyBaseObject_Type), said_by_object[i]);
  for (size_t i = 0; i < G_N_ELEMENTS (said_by_none); i++)
    silent &= gm_class_lookup_text (r, type, said_by_none[i]) == NULL;
  return silent && !r->stop;
}

/* True if the type has attributes outside of the dict: slots of Python classes, C members, and
 * names that copyreg knows; copyreg marks a class that has none by an empty list. */
static bool
has_slots (PyTypeObject *type)
{
  PyObject *mro = type->tp_mro, *key, *value,
           *named = PyDict_GetItemString (gm_type_dict (type), "__slotnames__");
  if (named && (!PyList_CheckExact (named) || PyList_GET_SIZE (named)))
    return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (mro); i++) {
    Py_ssize_t pos = 0;
    PyObject *dict = gm_type_dict ((PyTypeObject *) PyTuple_GET_ITEM (mro, i));
    while (PyDict_Next (dict, &pos, &key, &value))
      if (Py_IS_TYPE (value, &PyMemberDescr_Type)
          || PyUnicode_CompareWithASCIIString (key, "__slots__") == 0)
        return true;
  }
  return false;
}

const GmTracker *
gm_object_reduce_ex (GmRecorder *r, const GmTracker *self, const GmCallArgs *args)
{
  int64_t protocol;
  if (!gm_args_plain (r, "__reduce_ex__", args, 1, 1))
    return &gm_tracker_poison;
  PyTypeObject *type = self->kind == &gm_kind_object ? (PyTypeObject *) self->data : NULL;
  bool plain = type && gm_layout_of (type) == &PyBaseObject_Type && gm_storage (self) == NULL
               && gm_is_user_type (type) && gm_constant_int (r, args->args[0], &protocol)
               && protocol >= 2 && is_silent (r, type) && !has_slots (type);
  PyObject *copyreg = plain ? gm_import ("copyreg") : NULL;
  PyObject *make = copyreg ? PyObject_GetAttrString (copyreg, "__newobj__") : NULL;
  Py_XDECREF (copyreg);
  PyErr_Clear ();
  if (make == NULL || r->stop)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__reduce_ex__", gm_type_text (r, self));
  gm_record_take (r, make);
  const GmTracker *cls =
      gm_wrap (r, (PyObject *) type, gm_source_const (r, (PyObject *) type, type->tp_name));
  const GmTracker *dict = gm_instance_dict (r, self), *none = gm_none (r);
  bool empty = !r->stop && gm_len (r, dict) == 0;
  const GmTracker *parts[] = { gm_wrap (r, make, gm_source_const (r, make, "copyreg.__newobj__")),
                               gm_tuple_new (r, &cls, 1), empty ? none : dict, none, none };
  return r->stop ? &gm_tracker_poison : gm_tuple_new (r, parts, G_N_ELEMENTS (parts));
}
