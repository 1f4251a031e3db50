/* SPDX-License-Identifier: Apache-2.0
 * namespace.c -- types.SimpleNamespace: C objects that consist of their attributes.
 *
 * A namespace is a plain object to the recorder; only its making is special, and that two of them
 * are equal if their attributes are.
 */
#include "core/trace/attrs.h"
#include "core/models/models_private.h"
#include "core/trace/instance.h"

bool
gm_is_namespace (PyTypeObject *type)
{
  return strcmp (type->tp_name, "types.SimpleNamespace") == 0 && !gm_is_user_type (type);
}

const GmTracker *
gm_namespace_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  if (args->n > 0)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "SimpleNamespace() with positional arguments");
  const GmTracker *t = gm_object_new (r, type);
  for (uint32_t i = 0; i < gm_args_n_named (args) && !r->stop; i++)
    gm_attrs_set (r, t, PyTuple_GET_ITEM (args->names, i), args->args[i]);
  return r->stop ? &gm_tracker_poison : t;
}

/* Compares two namespaces as types.SimpleNamespace does.  NULL: the other operand's method has
 * to be called, as after NotImplemented. */
const GmTracker *
gm_namespace_compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  other = gm_realize (r, other);
  if (r->stop || other->kind != &gm_kind_object || !gm_is_namespace ((PyTypeObject *) other->data)
      || (op != Py_EQ && op != Py_NE))
    return NULL;
  const GmTracker *a = gm_instance_dict (r, t), *b = gm_instance_dict (r, other);
  return r->stop ? &gm_tracker_poison : gm_compare (r, op, a, b);
}

void
gm_namespace_build (GmResidualBuilder *b, const GmTracker *t)
{
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) t->data);
  gm_residual_emit (b, GM_INSN_CALL, 0, NULL);
  gm_residual_allocated (b, t);
}
