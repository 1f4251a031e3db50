/* SPDX-License-Identifier: Apache-2.0
 * members.c -- the attributes of nn.Modules: the recorder's model of core/objects/members_py.c.
 *
 * An attribute that neither a module's dict nor its class has is looked up in the module's dicts
 * _parameters, _buffers and _modules, in this order.  Each is an ordinary dict to the recorder: the
 * name's absence is guarded in the dicts before the one that has it, its presence in that dict.
 */
#include "core/models/members.h"

#include "core/trace/exception.h"
#include "core/trace/instance.h"

/* Returns the parameter, buffer or submodule of this name, and in *table and *which the dict
 * that has it (0: _parameters, 1: _buffers, 2: _modules).  NULL: there is none, or after a
 * break. */
static const GmTracker *
find (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker **table, int *which)
{
  static const char *const names[] = { "_parameters", "_buffers", "_modules" };
  for (int i = 0; i < (int) G_N_ELEMENTS (names); i++) {
    const GmTracker *v =
        gm_instance_get (r, t, gm_record_take (r, PyUnicode_InternFromString (names[i])));
    if (r->stop)
      return NULL;
    if (v == NULL)
      continue;
    v = gm_realize (r, v);
    *table = r->stop ? NULL : v->kind == &gm_kind_dict ? v : gm_storage (v);
    *which = i;
    if (r->stop)
      return NULL;
    if (*table == NULL || (*table)->kind != &gm_kind_dict) {
      gm_record_break (r, GM_BREAK_ATTRIBUTE, names[i], gm_type_text (r, t));
      return NULL;
    }
    const GmTracker *found = gm_dict_lookup (r, *table, gm_from_constant (r, name));
    if (found || r->stop)
      return found;
  }
  return NULL;
}

const GmTracker *
gm_members_get (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *table;
  int which;
  return find (r, t, name, &table, &which);
}

void
gm_members_set (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  const GmTracker *table;
  int which;
  value = gm_realize (r, value);
  const GmTracker *found = r->stop ? NULL : find (r, t, name, &table, &which);
  if (r->stop)
    return;
  PyTypeObject *type = gm_type_of (r, value);
  if (r->stop)
    return;
  /* A tensor that existed before the region may be a Buffer. */
  bool plain_tensor = type == gm_host.tensor_type && value->real == NULL;
  bool foreign = !PyType_IsSubtype (type, gm_host.tensor_type)
                 && !PyType_IsSubtype (type, gm_host.members_type);
  if (found == value)
    return;
  if (!found && (plain_tensor || foreign)) {
    gm_object_assign (r, t, name, value);
    return;
  }
  if (found && which == 1 && plain_tensor) {
    gm_setitem (r, table, gm_from_constant (r, name), value);
    return;
  }
  const GmTracker *args[2] = { gm_from_constant (r, name), value };
  gm_call_special (r, t, "_set_member", args, 2);
}

/* -- The methods, as super () finds them ------------------------------------ */

static PyObject *
name_argument (GmRecorder *r, const GmTracker *self, const GmCallArgs *args, const char *method,
               uint32_t n)
{
  if (!gm_args_plain (r, method, args, n, n))
    return NULL;
  PyObject *name = gm_constant (r, args->args[0]);
  if (name == NULL || !PyUnicode_CheckExact (name) || self->kind != &gm_kind_object) {
    gm_record_break (r, GM_BREAK_CALL_METHOD, method, gm_type_text (r, self));
    return NULL;
  }
  Py_INCREF (name);
  PyUnicode_InternInPlace (&name);
  return gm_record_take (r, name);
}

static const GmTracker *
members_getattr (GmRecorder *r, const GmTracker *self, const GmCallArgs *args)
{
  PyObject *name = name_argument (r, self, args, "__getattr__", 1);
  const GmTracker *v = name ? gm_members_get (r, self, name) : NULL;
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  return gm_raise_no_attribute (r, (PyTypeObject *) self->data, name);
}

static const GmTracker *
members_setattr (GmRecorder *r, const GmTracker *self, const GmCallArgs *args)
{
  PyObject *name = name_argument (r, self, args, "__setattr__", 2);
  if (name)
    gm_members_set (r, self, name, args->args[1]);
  return r->stop ? &gm_tracker_poison : gm_none (r);
}

const GmTracker *
gm_members_method (GmRecorder *r, const GmTracker *self, PyObject *name)
{
  static const GmMethodRow rows[] = { { "__getattr__", members_getattr },
                                      { "__setattr__", members_setattr },
                                      { NULL, NULL } };
  return gm_method_row (r, rows, self, name);
}
