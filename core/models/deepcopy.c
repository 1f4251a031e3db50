/* SPDX-License-Identifier: Apache-2.0
 * deepcopy.c -- copy.deepcopy (x) of lists, dicts, tuples, plain objects, tensors and values that
 * are their own copies.
 *
 * The library's deepcopy is Python code with a memo whose keys are id (), which a recording does
 * not know for an object that it makes. Here the key is the tracker: one object has one tracker.
 * The way to copy a class is read where the library reads it, in its own two tables, and guarded
 * there; a class with a way of its own is left to Python as a whole.
 * A tensor that requires no gradient is copied in the graph. The copy of a tensor that does, such
 * as a module's parameter, is a new leaf of autograd, which no graph can make: it is left to
 * Python, too, and the copy is then an object of the program.
 */
#include "core/trace/attrs.h"
#include "core/models/models.h"
#include "core/models/members.h"
#include "core/trace/instance.h"

typedef struct {
  GmRecorder *r;
  PyObject *globals;                   /* globals of the module copy */
  const GmTracker *copiers, *reducers; /* _deepcopy_dispatch and dispatch_table: dicts */
  GHashTable *memo;                    /* tracker -> its copy */
  GHashTable *known;                   /* type -> name of its copier, or NULL if it has none */
  uint32_t depth;
} Copying;

static const GmTracker *copy_of (Copying *c, const GmTracker *t);

static const GmTracker *
leave (Copying *c)
{
  return gm_record_break (c->r, GM_BREAK_LEFT_TO_PYTHON, "deepcopy");
}

static const GmTracker *
table (GmRecorder *r, PyObject *globals, const char *name)
{
  const GmTracker *t =
      gm_global_load (r, globals, gm_record_take (r, PyUnicode_InternFromString (name)));
  t = t ? gm_realize (r, t) : NULL;
  return t && !r->stop && t->kind == &gm_kind_dict ? t : NULL;
}

/* Returns the name of the library's function that copies instances of exactly this type; "" if
 * there is none; NULL after a break. */
static const char *
copier_of (Copying *c, PyTypeObject *type)
{
  GmRecorder *r = c->r;
  const char *name = g_hash_table_lookup (c->known, type);
  if (name)
    return name;
  const GmTracker *cls =
      gm_wrap (r, (PyObject *) type, gm_source_const (r, (PyObject *) type, type->tp_name));
  const GmTracker *copier = r->stop ? NULL : gm_dict_lookup (r, c->copiers, cls);
  if (copier == NULL && !r->stop && gm_dict_lookup (r, c->reducers, cls))
    leave (c);
  copier = copier && !r->stop ? gm_realize (r, copier) : NULL;
  if (r->stop)
    return NULL;
  if (copier
      && (copier->kind != &gm_kind_function || copier->real == NULL
          || PyFunction_GET_GLOBALS (copier->real) != c->globals)) {
    leave (c);
    return NULL;
  }
  name = copier
             ? PyUnicode_AsUTF8 (((PyCodeObject *) PyFunction_GET_CODE (copier->real))->co_qualname)
             : "";
  g_hash_table_insert (c->known, type, (gpointer) name);
  return name;
}

static const GmTracker *
copy_list (Copying *c, const GmTracker *t)
{
  g_autoptr (GPtrArray) items = gm_iterate (c->r, t);
  const GmTracker *copy = gm_list_new (c->r, NULL, 0);
  g_hash_table_insert (c->memo, (gpointer) t, (gpointer) copy);
  for (uint32_t i = 0; items && i < items->len && !c->r->stop; i++)
    items->pdata[i] = (gpointer) copy_of (c, items->pdata[i]);
  if (c->r->stop)
    return &gm_tracker_poison;
  gm_contents_set (c->r, copy,
                   gm_contents (c->r, (const GmTracker *const *) items->pdata, items->len));
  return copy;
}

/* Returns the copy of a tuple: the tuple itself if each of its items is its own copy.  A tuple
 * that contains itself has been copied when its items have been. */
static const GmTracker *
copy_tuple (Copying *c, const GmTracker *t)
{
  bool same = true;
  g_autofree const GmTracker **items = gm_tracker_array_own (t->n);
  for (uint32_t i = 0; i < t->n && !c->r->stop; i++) {
    const GmTracker *item = gm_realize (c->r, t->items[i]);
    items[i] = copy_of (c, item);
    same &= items[i] == item;
  }
  const GmTracker *copy = g_hash_table_lookup (c->memo, t);
  if (c->r->stop || copy || same)
    return c->r->stop ? &gm_tracker_poison : copy ? copy : t;
  copy = gm_tuple_new (c->r, items, t->n);
  g_hash_table_insert (c->memo, (gpointer) t, (gpointer) copy);
  return copy;
}

/* Returns the copy of a dict; poison after a break.  Keys must be constants; they are kept. */
static const GmTracker *
copy_dict (Copying *c, const GmTracker *t)
{
  GmRecorder *r = c->r;
  gm_dict_contents (r, t);
  const GmTracker *contents = r->stop ? NULL : gm_contents_of (r, t), *copy = gm_dict_new (r);
  if (t->n && !r->stop)
    contents = gm_instance_dict_contents (r, t);
  g_hash_table_insert (c->memo, (gpointer) t, (gpointer) copy);
  for (uint32_t i = 0; !r->stop && i < contents->n; i += 2) {
    const GmTracker *key = gm_realize (r, contents->items[i]);
    const GmTracker *value = copy_of (c, contents->items[i + 1]);
    if (!r->stop && gm_constant (r, key) == NULL)
      leave (c);
    if (!r->stop)
      gm_dict_store (r, copy, key, value);
  }
  return r->stop ? &gm_tracker_poison : copy;
}

/* True if the type reads attributes as object does, or as nn.Module does. */
static bool
reads_plainly (GmRecorder *r, PyTypeObject *type)
{
  return type->tp_getattro == PyObject_GenericGetAttr
         || (gm_is_members_method (gm_class_lookup_text (r, type, "__getattr__"))
             && gm_class_lookup_text (r, type, "__getattribute__")
                    == gm_object_default ("__getattribute__"));
}

/* True if object's own __reduce_ex__ alone determines how t is copied.  gm_object_reduce_ex
 * tests that no subclass overrides it. */
static bool
is_plain (Copying *c, const GmTracker *t)
{
  GmRecorder *r = c->r;
  static const char *const names[] = { "__deepcopy__",  "__setstate__",     "__getattr__",
                                       "__reduce_ex__", "__getattribute__", "__new__" };
  PyTypeObject *type = t->kind == &gm_kind_object ? (PyTypeObject *) t->data : NULL;
  if (type == NULL || !gm_is_user_type (type) || type->tp_new != PyBaseObject_Type.tp_new
      || !reads_plainly (r, type))
    return false;
  for (size_t i = 0; i < G_N_ELEMENTS (names); i++) {
    PyObject *found = gm_class_lookup_text (r, type, names[i]);
    if (r->stop || (found && i < 3 && !gm_is_members_method (found)))
      return false;
    if (i < 4 && gm_instance_get (r, t, gm_record_take (r, PyUnicode_InternFromString (names[i]))))
      return false;
    if (r->stop)
      return false;
  }
  return true;
}

static const GmTracker *
copy_object (Copying *c, const GmTracker *t)
{
  GmRecorder *r = c->r;
  if (!is_plain (c, t))
    return leave (c);
  const GmTracker *protocol = gm_from_int (r, 4);
  const GmTracker *parts = gm_object_reduce_ex (r, t, &(GmCallArgs){ &protocol, 1, NULL });
  if (r->stop)
    return &gm_tracker_poison;
  const GmTracker *copy = gm_object_new (r, (PyTypeObject *) t->data);
  g_hash_table_insert (c->memo, (gpointer) t, (gpointer) copy);
  if (parts->items[2]->kind != &gm_kind_dict)
    return r->stop ? &gm_tracker_poison : copy;
  const GmTracker *state = copy_of (c, parts->items[2]);
  const GmTracker *attributes = r->stop ? NULL : gm_instance_dict (r, copy),
                  *contents = r->stop ? NULL : gm_contents_of (r, state);
  for (uint32_t i = 0; !r->stop && i < contents->n; i += 2)
    gm_instance_dict_store (r, attributes, contents->items[i], contents->items[i + 1]);
  return r->stop ? &gm_tracker_poison : copy;
}

/* True if the tensor has no attributes set by the user, which would have to be copied with it. */
static bool
has_no_attributes (GmRecorder *r, const GmTracker *t)
{
  if (gm_tensor_has_attributes (r, t))
    return false;
  if (t->real == NULL)
    return true;
  gm_guard (r, DICT_KEYS, gm_source_part (r, t->source, GM_SOURCE_INSTANCE_DICT, 0, NULL),
            .obj = gm_record_take (r, PyTuple_New (0)));
  return true;
}

static const GmTracker *
copy_tensor (Copying *c, const GmTracker *t)
{
  GmRecorder *r = c->r;
  GmVal in = gm_val_from_id ((GmValueId) gm_contents_of (r, t)->number);
  if (gm_graph_meta (r->graph, gm_id_from_val (in))->requires_grad)
    return gm_record_break (r, GM_BREAK_TENSOR_LEAF, "deepcopy");
  if ((t->real && Py_TYPE (t->real) != gm_host.tensor_type) || !has_no_attributes (r, t))
    return leave (c);
  r->builder.where = gm_record_where (r);
  GmVal v = gm_b_op (&r->builder.base, GM_OP_copy, &in, 1, NULL);
  if (!v) {
    gm_record_break (r, GM_BREAK_TENSOR_ERROR, "deepcopy", r->builder.base.error->message);
    g_clear_error (&r->builder.base.error);
    return &gm_tracker_poison;
  }
  const GmTracker *copy = gm_tensor_new_tracker (r, gm_id_from_val (v));
  g_hash_table_insert (c->memo, (gpointer) t, (gpointer) copy);
  return copy;
}

static const GmTracker *
copy_by_kind (Copying *c, const GmTracker *t)
{
  PyTypeObject *type = gm_type_of (c->r, t);
  const char *copier = c->r->stop || type == NULL ? NULL : copier_of (c, type);
  if (copier == NULL)
    return c->r->stop ? &gm_tracker_poison : leave (c);
  if (strcmp (copier, "_deepcopy_atomic") == 0)
    return t;
  if (strcmp (copier, "_deepcopy_list") == 0 && t->kind == &gm_kind_list)
    return copy_list (c, t);
  if (strcmp (copier, "_deepcopy_tuple") == 0 && t->kind == &gm_kind_tuple)
    return copy_tuple (c, t);
  if (strcmp (copier, "_deepcopy_dict") == 0 && t->kind == &gm_kind_dict)
    return copy_dict (c, t);
  if (*copier == 0 && t->kind == &gm_kind_tensor)
    return copy_tensor (c, t);
  return *copier ? leave (c) : copy_object (c, t);
}

static const GmTracker *
copy_of (Copying *c, const GmTracker *t)
{
  t = gm_realize (c->r, t);
  const GmTracker *copy = c->r->stop ? &gm_tracker_poison : g_hash_table_lookup (c->memo, t);
  if (copy)
    return copy;
  if (++c->depth > GM_MAX_NESTING)
    return leave (c);
  copy = copy_by_kind (c, t);
  c->depth--;
  return copy;
}

bool
gm_is_deepcopy (const GmTracker *f)
{
  if (f->kind != &gm_kind_function || f->real == NULL)
    return false;
  PyCodeObject *code = (PyCodeObject *) PyFunction_GET_CODE (f->real);
  return PyUnicode_CompareWithASCIIString (code->co_qualname, "deepcopy") == 0
         && gm_function_left_alone (code, PyFunction_GET_GLOBALS (f->real));
}

const GmTracker *
gm_deepcopy (GmRecorder *r, const GmTracker *f, const GmCallArgs *args)
{
  PyObject *globals = PyFunction_GET_GLOBALS (f->real);
  Copying c = { .r = r, .globals = globals };
  if (args->n != 1 || args->names)
    return leave (&c);
  c.copiers = table (r, globals, "_deepcopy_dispatch");
  c.reducers = c.copiers ? table (r, globals, "dispatch_table") : NULL;
  if (c.reducers == NULL)
    return r->stop ? &gm_tracker_poison : leave (&c);
  c.memo = g_hash_table_new (NULL, NULL);
  c.known = g_hash_table_new (NULL, NULL);
  const GmTracker *copy = copy_of (&c, args->args[0]);
  g_hash_table_unref (c.memo);
  g_hash_table_unref (c.known);
  return r->stop ? &gm_tracker_poison : copy;
}
