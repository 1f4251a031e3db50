/* SPDX-License-Identifier: Apache-2.0
 * tracker_tensor.c -- tensors: a value of the graph, and an identity.
 *
 * The heap says which value of the graph a tensor is, because an in-place operation changes this;
 * its metadata is that value's in the graph, never kept here. Guards are made from the real
 * tensor's metadata at entry, which nothing in a recording can change.
 */
#include "core/trace/attrs.h"
#include "core/trace/exception.h"
#include "core/trace/instance.h"
#include "core/trace/number.h"
#include "core/trace/traced_size.h"
#include "core/tensor/device.h"

#include <string.h>

/* Slots of the heap object: the value of the graph; the `grad` that was stored, if any; the tracker
 * with the attributes that the region has stored, see attributes_of. */
enum { SLOT_VALUE, SLOT_GRAD, SLOT_ATTRIBUTES, N_SLOTS };

static GmValueId
value_of (GmRecorder *r, const GmTracker *t)
{
  return (GmValueId) gm_contents_of (r, t)->number;
}

static const GmMeta *
meta_of (GmRecorder *r, const GmTracker *t)
{
  return gm_graph_meta (r->graph, value_of (r, t));
}

/* -- Making ---------------------------------------------------------------- */

static const GmTracker *
tensor_add (GmRecorder *r, PyObject *real, const GmSource *source, GmValueId value)
{
  uint32_t id = gm_heap_add (&r->heap, N_SLOTS);
  const GmTracker *t = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_tensor, .real = real, .source = source, .id = id });
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .number = value));
  return t;
}

const GmTracker *
gm_tensor_new_tracker (GmRecorder *r, GmValueId value)
{
  return tensor_add (r, NULL, NULL, value);
}

/* Returns the name of the input with the source text `source`: "L['self'].fc.weight" becomes
 * "self_fc_weight". Unique among the inputs; in the arena. */
static const char *
input_name (GmRecorder *r, const char *source)
{
  g_autoptr (GString) s = g_string_new (NULL);
  if (g_str_has_prefix (source, "L['") || g_str_has_prefix (source, "G['"))
    source += 3;
  for (const char *p = source; *p; p++) {
    if (g_ascii_isalnum (*p))
      g_string_append_c (s, *p);
    else if (s->len && s->str[s->len - 1] != '_')
      g_string_append_c (s, '_');
  }
  while (s->len && s->str[s->len - 1] == '_')
    g_string_truncate (s, s->len - 1);
  if (s->len == 0 || g_ascii_isdigit (s->str[0]))
    g_string_prepend (s, "t");
  size_t stem = s->len;
  for (uint32_t k = 1, i = 0; i < r->graph->inputs->len; i++) {
    const char *other =
        gm_graph_value (r->graph, g_array_index (r->graph->inputs, GmValueId, i))->name;
    if (strcmp (other, s->str) == 0) {
      g_string_truncate (s, stem);
      g_string_append_printf (s, "_%u", k++);
      i = UINT32_MAX; /* starts the loop again */
    }
  }
  return gm_arena_strdup (r->graph->arena, s->str);
}

void
gm_tensor_look (GmRecorder *r, const GmTracker *t)
{
  GmGraphLook look = { (GmValueId) gm_contents_of (r, t)->number, r->graph->nodes->len };
  if (r->n_bodies == 0 && gm_graph_value (r->graph, look.input)->node == GM_NO_ID)
    g_array_append_val (r->looks, look);
}

const GmTracker *
gm_wrap_tensor (GmRecorder *r, PyObject *real, const GmSource *source)
{
  GmTensor *tensor = gm_host_tensor (real);
  if (Py_TYPE (real) != gm_host.tensor_type && Py_TYPE (real) != gm_host.parameter_type)
    return gm_record_break (r, GM_BREAK_TENSOR_LAYOUT, source->name,
                            "it is of a subclass of Tensor");
  if (tensor == NULL)
    return gm_record_break (r, GM_BREAK_TENSOR_LAYOUT, source->name, "it has no data");
  gm_host.requires_grad (tensor);
  /* The tensor is made for each call. */
  bool made = source->kind == GM_SOURCE_DRAWN || source->kind == GM_SOURCE_NUMBER;
  GmMeta is = made ? tensor->meta : gm_size_input (r, real, &tensor->meta, source);
  if (r->stop)
    return &gm_tracker_poison;
  GmMeta *meta = gm_arena_copy (r->arena, &is, sizeof is);
  if (!made)
    gm_guard (r, TENSOR, source, .obj = (PyObject *) Py_TYPE (real), .ptr = meta);
  GmValueId value = gm_graph_add_input (r->graph, input_name (r, source->name), meta);
  const GmTracker *t = tensor_add (r, real, source, value);
  gm_know (r, t);
  GmInput in = { value, t };
  g_array_append_val (r->inputs, in);
  return t;
}

/* -- Attributes and methods that ask about a tensor ------------------------ */

static const GmTracker *
sizes_tuple (GmRecorder *r, const int64_t *numbers, uint32_t n, PyTypeObject *type)
{
  const GmTracker **items = gm_tracker_array (r, n);
  for (uint32_t i = 0; i < n; i++)
    items[i] = gm_size_tracker (r, numbers[i]);
  return type && type != &PyTuple_Type ? gm_tuple_new_of (r, type, items, n)
                                       : gm_tuple_new (r, items, n);
}

/* Records that the strides of t, if it was computed from a gradient, were read
 * (autograd_function.c). Returns true. */
static bool
note_strides (GmRecorder *r, const GmTracker *t)
{
  r->strides.asked |= !t->real && value_of (r, t) >= r->strides.from;
  return true;
}

static const GmTracker *
size_or_stride (GmRecorder *r, const GmTracker *t, const GmCallArgs *args, bool strides)
{
  static const char *const names[] = { "dim" };
  const GmTracker *dim;
  if (!gm_args_take (r, strides ? "stride" : "size", args, names, 1, &dim))
    return &gm_tracker_poison;
  const GmMeta m = *meta_of (r, t);
  if (strides)
    note_strides (r, t);
  const int64_t *numbers = strides ? m.strides : m.sizes;
  int64_t d;
  if (dim == NULL || gm_constant (r, dim) == Py_None)
    return sizes_tuple (r, numbers, m.ndim, strides ? NULL : gm_host.size_type);
  if (!gm_constant_int (r, dim, &d) || d < -m.ndim || d >= m.ndim)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, strides ? "stride" : "size", "tensor");
  return gm_size_tracker (r, numbers[d < 0 ? d + m.ndim : d]);
}

static const GmTracker *
method_size (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return size_or_stride (r, t, args, false);
}

static const GmTracker *
method_stride (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return size_or_stride (r, t, args, true);
}

#define PLAIN_METHOD(name, value)                                                                  \
  static const GmTracker *method_##name (GmRecorder *r, const GmTracker *t,                        \
                                         const GmCallArgs *args)                                   \
  {                                                                                                \
    if (!gm_args_plain (r, #name, args, 0, 0))                                                     \
      return &gm_tracker_poison;                                                                   \
    const GmMeta *m = meta_of (r, t);                                                              \
    (void) m;                                                                                      \
    return value;                                                                                  \
  }
PLAIN_METHOD (dim, gm_from_int (r, m->ndim))
PLAIN_METHOD (numel, gm_size_tracker (r, gm_meta_numel (m)))
PLAIN_METHOD (element_size, gm_from_int (r, gm_dtype_size (m->dtype)))
PLAIN_METHOD (is_floating_point, gm_from_bool (r, gm_dtype_is_float (m->dtype)))
PLAIN_METHOD (cpu, m->device == GM_DEVICE_CPU
                       ? t
                       : gm_record_break (r, GM_BREAK_CALL_METHOD, "cpu", "tensor"))
PLAIN_METHOD (tolist, gm_record_break (r, GM_BREAK_DATA_DEPENDENT_VALUE, "tolist()"))

static const GmTracker *
method_is_contiguous (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  static const char *const names[] = { "memory_format" };
  const GmTracker *format;
  if (!gm_args_take (r, "is_contiguous", args, names, 1, &format))
    return &gm_tracker_poison;
  PyObject *said = format ? gm_constant (r, format) : Py_None;
  if (said == NULL || !(said == Py_None || PyUnicode_Check (said)) || args->n > 0)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "is_contiguous", "tensor");
  static const char *const known[] = { "contiguous_format", "preserve_format", "channels_last",
                                       "channels_last_3d", NULL };
  const char *name = said == Py_None ? NULL : PyUnicode_AsUTF8 (said);
  if (name && !g_strv_contains (known, name)) /* an unknown argument, for which the method raises */
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "is_contiguous", "tensor");
  return gm_from_bool (r, note_strides (r, t) && gm_meta_is_in_format (meta_of (r, t), name));
}

static const GmTracker *
add_op (GmRecorder *r, const GmTracker *t, GmOp op, const GmAttrs *attrs)
{
  r->builder.where = gm_record_where (r);
  GmVal in = gm_val_from_id (value_of (r, t));
  GmVal v = gm_b_op (&r->builder.base, op, &in, 1, attrs);
  if (v)
    return gm_tensor_new_tracker (r, gm_id_from_val (v));
  gm_record_break (r, GM_BREAK_TENSOR_ERROR, gm_ops[op].name, r->builder.base.error->message);
  g_clear_error (&r->builder.base.error);
  return &gm_tracker_poison;
}

/* Returns the tensor's element as a number, if the request traces numbers; see number.h. The number
 * is read from a copy, which no in-place operation changes. */
const GmTracker *
gm_tensor_item (GmRecorder *r, const GmTracker *t, const char *what)
{
  const GmMeta *m = meta_of (r, t);
  GmDtype dtype = m->dtype;
  bool integer = gm_dtypes[dtype].category == GM_CATEGORY_INT;
  if (!r->request->numbers || !integer || !gm_size_eq (gm_meta_numel (m), 1))
    return gm_record_break (r, GM_BREAK_DATA_DEPENDENT_VALUE, what);
  const GmTracker *copy = add_op (r, t, GM_OP_copy, NULL);
  return r->stop ? &gm_tracker_poison : gm_number_new (r, copy, dtype);
}

static const GmTracker *
method_item (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "item", args, 0, 0) ? gm_tensor_item (r, t, "item()")
                                               : &gm_tracker_poison;
}

static const GmTracker *
method_detach (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "detach", args, 0, 0) ? add_op (r, t, GM_OP_detach, NULL)
                                                 : &gm_tracker_poison;
}

/* True if v was computed in the graph, owns its memory, and no other value shares the memory; false
 * for every v of a graph with a set_, which may share any. */
static bool
is_alone (const GmGraph *g, GmValueId v)
{
  uint32_t node;
  while ((node = gm_graph_value (g, v)->node) != GM_NO_ID
         && gm_graph_node (g, node)->op == GM_OP_copy_)
    v = gm_graph_node (g, node)->in[0];
  for (uint32_t i = 0; i < g->nodes->len && node != GM_NO_ID; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (n->op == GM_OP_set_
        || (gm_ops[n->op].family == GM_FAMILY_MOVEMENT && (n->out == v || n->in[0] == v)))
      return false;
  }
  return node != GM_NO_ID;
}

/* Runs detach_ (): the result of detach () becomes the tensor's value. Breaks if a program could
 * see that the tensor had another value before. */
static const GmTracker *
method_detach_ (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "detach_", args, 0, 0))
    return &gm_tracker_poison;
  if (t->real != NULL || !is_alone (r->graph, value_of (r, t)))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "detach_", "tensor");
  if (!meta_of (r, t)->requires_grad)
    return t;
  const GmTracker *cut = add_op (r, t, GM_OP_detach, NULL);
  if (!r->stop)
    gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .number = value_of (r, cut)));
  return r->stop ? &gm_tracker_poison : t;
}

/* Runs requires_grad_ (). A call that changes nothing is ignored; any other call makes a leaf or
 * ends one, which no graph can, and breaks. */
static const GmTracker *
method_requires_grad_ (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  static const char *const names[] = { "requires_grad" };
  const GmTracker *on;
  if (!gm_args_take (r, "requires_grad_", args, names, 1, &on))
    return &gm_tracker_poison;
  PyObject *value = on ? gm_constant (r, on) : Py_True;
  if (value != NULL && PyBool_Check (value)
      && (value == Py_True) == (meta_of (r, t)->requires_grad != 0))
    return t;
  return gm_record_break (r, GM_BREAK_TENSOR_LEAF, "requires_grad_");
}

/* True if `o` is the device `device`, or its name. */
static bool
names_device (PyObject *o, int device)
{
  int named;
  const char *name = PyUnicode_Check (o) ? PyUnicode_AsUTF8 (o) : NULL;
  return (gm_host.device_object && o == gm_host.device_object (device))
         || (name && gm_device_find (name, &named) && named == device);
}

/* Runs to (dtype), to (device), to (device, dtype) and to (other): returns the converted tensor, or
 * t itself if nothing changes. */
static const GmTracker *
method_to (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  GmDtype from = meta_of (r, t)->dtype, to = from;
  bool copy = false;
  const GmTracker *format = NULL;
  uint32_t n = args->n + gm_args_n_named (args);
  for (uint32_t i = 0; i < n; i++) {
    const GmTracker *a = gm_realize (r, args->args[i]);
    const char *name =
        i < args->n ? "" : PyUnicode_AsUTF8 (PyTuple_GET_ITEM (args->names, i - args->n));
    if (r->stop)
      return &gm_tracker_poison;
    if (strcmp (name, "copy") == 0 && a->kind == &gm_kind_constant && PyBool_Check (a->real))
      copy = a->real == Py_True;
    else if (strcmp (name, "non_blocking") == 0 && a->kind == &gm_kind_constant
             && PyBool_Check (a->real))
      continue; /* non_blocking has no effect: no transfer is waited for */
    else if (strcmp (name, "memory_format") == 0 && a->kind == &gm_kind_constant)
      format = a;
    else if (a->kind == &gm_kind_tensor && i < args->n
             && meta_of (r, a)->device == meta_of (r, t)->device)
      to = meta_of (r, a)->dtype;
    else if ((a->kind == &gm_kind_constant || a->kind == &gm_kind_class)
             && gm_host.dtype_get (a->real) != GM_N_DTYPES
             && gm_dtypes[gm_host.dtype_get (a->real)].live)
      to = gm_host.dtype_get (a->real);
    else if (a->kind == &gm_kind_constant && names_device (a->real, meta_of (r, t)->device))
      continue;
    else
      return gm_record_break (r, GM_BREAK_CALL_METHOD, "to", "tensor");
  }
  GmAttrs attrs = { .mask = 1u << GM_ATTR_DTYPE, .dtype = (uint8_t) to };
  if (to != from || copy)
    t = to == from ? add_op (r, t, GM_OP_copy, NULL) : add_op (r, t, GM_OP_cast, &attrs);
  if (format == NULL || r->stop || format->real == Py_None
      || (PyUnicode_Check (format->real)
          && PyUnicode_CompareWithASCIIString (format->real, "preserve_format") == 0))
    return t;
  static PyObject *named;
  if (!named)
    named = Py_BuildValue ("(s)", "memory_format");
  const GmTracker *arguments[] = { t, format };
  return gm_call_api (r, gm_api_find ("contiguous"), false, &(GmCallArgs){ arguments, 1, named });
}

/* Runs type (): returns the name of the tensor's type, or with an argument a cast to that type. */
static const GmTracker *
method_type (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "type", args, 0, 1))
    return &gm_tracker_poison;
  const GmTracker *wanted = args->n ? gm_realize (r, args->args[0]) : gm_none (r);
  if (wanted->real == Py_None)
    return gm_from_constant_take (
        r, PyUnicode_FromFormat ("gramme.%s", gm_dtype_tensor_name (meta_of (r, t)->dtype)));
  PyObject *said = gm_constant (r, wanted);
  GmDtype named = said && PyUnicode_Check (said) ? gm_dtype_of_tensor_name (PyUnicode_AsUTF8 (said))
                                                 : GM_N_DTYPES;
  if (named != GM_N_DTYPES)
    wanted = gm_from_constant (r, gm_host.dtype_object (named));
  else if (said == NULL || Py_TYPE (said) != gm_host.dtype_type)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "type", "tensor");
  return method_to (r, t, &(GmCallArgs){ &wanted, 1, NULL });
}

static const GmMethodRow methods[] = {
  { "size", method_size },
  { "stride", method_stride },
  { "dim", method_dim },
  { "ndimension", method_dim },
  { "numel", method_numel },
  { "nelement", method_numel },
  { "element_size", method_element_size },
  { "is_contiguous", method_is_contiguous },
  { "is_floating_point", method_is_floating_point },
  { "cpu", method_cpu },
  { "item", method_item },
  { "tolist", method_tolist },
  { "detach", method_detach },
  { "detach_", method_detach_ },
  { "requires_grad_", method_requires_grad_ },
  { "to", method_to },
  { "type", method_type },
  { NULL, NULL },
};

static const GmTracker *
transposed (GmRecorder *r, const GmTracker *t, bool matrix)
{
  int n = meta_of (r, t)->ndim, first = matrix ? n - 2 : 0;
  if (first < 0)
    return gm_record_break (r, GM_BREAK_EXCEPTION_RAISED,
                            "mT of a tensor of less than 2 dimensions");
  GmAttrs attrs = { .mask = 1u << GM_ATTR_DIMS, .n_list = (uint8_t) n };
  for (int i = 0; i < n; i++)
    attrs.list[i] = i < first ? i : n - 1 - (i - first);
  return add_op (r, t, GM_OP_permute, &attrs);
}

/* Returns t.grad: the value stored in the region, else the value at entry. No node of a graph
 * changes it. */
static const GmTracker *
grad (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *stored = gm_heap_load (&r->heap, t->id, SLOT_GRAD);
  if (stored || t->real == NULL)
    return stored ? stored : gm_none (r);
  PyObject *real = gm_host.grad_object (gm_host_tensor (t->real));
  if (real)
    return gm_wrap_present (r, real, gm_source_part (r, t->source, GM_SOURCE_GRAD, 0, NULL));
  gm_guard (r, GRAD_NONE, t->source);
  return gm_none (r);
}

/* Stores t.grad = value, with an effect. False, with nothing stored, if eager might refuse the
 * value. */
static bool
store_grad (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  value = value && t->real ? gm_realize (r, value) : NULL;
  bool fits = value && value->real == Py_None;
  if (value && !r->stop && value->kind == &gm_kind_tensor && value != t) {
    const GmMeta *m = meta_of (r, value), *own = meta_of (r, t);
    fits = m->dtype == own->dtype && gm_meta_same_shape (m, own);
  }
  if (!fits || r->stop)
    return false;
  gm_heap_store (&r->heap, t->id, SLOT_GRAD, value);
  gm_effect (r, GM_EFFECT_SETATTR, NULL, name, (const GmTracker *const[]){ t, value }, 2);
  return true;
}

/* -- Attributes of the program's own -------------------------------------- */

/* Returns the tracker whose contents are the attributes that the region has stored on the tensor
 * (see attrs.h); NULL: it has stored none. */
static const GmTracker *
attributes_of (GmRecorder *r, const GmTracker *t)
{
  return gm_heap_load (&r->heap, t->id, SLOT_ATTRIBUTES);
}

/* Returns the dict of an existing tensor, borrowed; NULL: it has none yet. */
static PyObject *
dict_of (const GmTracker *t)
{
  PyObject **dict = t->real ? _PyObject_GetDictPtr (t->real) : NULL;
  return dict ? *dict : NULL;
}

bool
gm_tensor_has_attributes (GmRecorder *r, const GmTracker *t)
{
  PyObject *dict = dict_of (t);
  return attributes_of (r, t) || (dict && PyDict_GET_SIZE (dict) > 0);
}

/* Returns the value of the attribute `name` in the tensor's own dict, which the region may not use
 * by itself as well; NULL: there is none, which is guarded if `guarded`. */
static const GmTracker *
own_attribute (GmRecorder *r, const GmTracker *t, PyObject *name, bool guarded)
{
  const GmTracker *attributes = attributes_of (r, t),
                  *stored = attributes ? gm_attrs_get (r, attributes, name) : NULL;
  if (stored)
    return stored == &gm_tracker_null ? NULL : stored;
  if (!gm_attrs_claim (r, t))
    return &gm_tracker_poison;
  PyObject *dict = dict_of (t), *value = dict ? PyDict_GetItemWithError (dict, name) : NULL;
  if (value)
    return gm_wrap_present (r, value, gm_source_attr (r, t->source, name));
  PyErr_Clear ();
  if (t->real && guarded)
    gm_guard (r, ATTR_ABSENT, t->source, .key = name);
  return NULL;
}

/* Stores or deletes (value NULL) an attribute in the tensor's own dict. False: a descriptor or
 * __setattr__ of the class decides; or the attribute to delete is not there; or a body is recorded,
 * whose results are other tensors than those that it computes. */
static bool
store_attribute (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  PyTypeObject *type = t->real ? Py_TYPE (t->real) : gm_host.tensor_type;
  PyObject *found = type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE ? _PyType_Lookup (type, name)
                                                              : gm_class_lookup (r, type, name);
  const GmTracker *attributes = attributes_of (r, t);
  if (type->tp_setattro != gm_host.tensor_type->tp_setattro || r->n_bodies > 0 || r->stop
      || (found && Py_TYPE (found)->tp_descr_set)
      || (value == NULL && own_attribute (r, t, name, true) == NULL) || !gm_attrs_claim (r, t))
    return false;
  if (!attributes) {
    attributes = gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_contents,
                                                  .real = t->real,
                                                  .id = gm_heap_add (&r->heap, 1) });
    gm_heap_store (&r->heap, t->id, SLOT_ATTRIBUTES, attributes);
  }
  gm_attrs_dropped (r, attributes, name);
  gm_attrs_set (r, attributes, name, value);
  if (t->real)
    gm_effect (r, value ? GM_EFFECT_SETATTR : GM_EFFECT_DELATTR, NULL, name,
               (const GmTracker *const[]){ t, value }, value ? 2 : 1);
  return true;
}

static bool
took_shape (const GmGraph *g, GmValueId v)
{
  for (uint32_t node;
       (node = gm_graph_value (g, v)->node) != GM_NO_ID && gm_graph_node (g, node)->n_in > 0;
       v = gm_graph_node (g, node)->in[0]) {
    const GmNode *n = gm_graph_node (g, node);
    if (n->op == GM_OP_set_)
      return true;
    if (gm_ops[n->op].family != GM_FAMILY_MOVEMENT && gm_ops[n->op].family != GM_FAMILY_MUTATE)
      return false;
  }
  return false;
}

/* True if an attribute in the tensor's own dict hides a method of the class. */
static bool
is_hidden (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyObject *found = _PyType_Lookup (t->real ? Py_TYPE (t->real) : gm_host.tensor_type, name);
  return found && !Py_TYPE (found)->tp_descr_set && own_attribute (r, t, name, false) && !r->stop;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const char *s = PyUnicode_AsUTF8 (name);
  const GmMeta *m = meta_of (r, t);
  if (G_UNLIKELY (gm_tensor_has_attributes (r, t)) && is_hidden (r, t, name))
    return own_attribute (r, t, name, true);
  if (strcmp (s, "shape") == 0)
    return sizes_tuple (r, gm_arena_copy (r->arena, m->sizes, sizeof m->sizes), m->ndim,
                        gm_host.size_type);
  if (strcmp (s, "dtype") == 0)
    return gm_from_constant (r, gm_host.dtype_object (m->dtype));
  if (strcmp (s, "device") == 0 && gm_host.device_object)
    return gm_from_constant (r, gm_host.device_object (m->device));
  if (strcmp (s, "ndim") == 0)
    return gm_from_int (r, m->ndim);
  if (strcmp (s, "itemsize") == 0)
    return gm_from_int (r, gm_dtype_size (m->dtype));
  if (strcmp (s, "requires_grad") == 0) {
    gm_tensor_look (r, t);
    return gm_from_bool (r, m->requires_grad);
  }
  if (strcmp (s, "grad") == 0)
    return grad (r, t);
  if (strcmp (s, "data") == 0) /* the data of a tensor that was reshaped in place would share its
                                  write counter */
    return took_shape (r->graph, value_of (r, t))
               ? gm_record_break (r, GM_BREAK_TENSOR_ATTRIBUTE, s)
               : add_op (r, t, GM_OP_data, NULL);
  if (strcmp (s, "T") == 0 || strcmp (s, "H") == 0 || strcmp (s, "mT") == 0
      || strcmp (s, "mH") == 0)
    return transposed (r, t, s[0] == 'm');
  if (strcmp (s, "is_cuda") == 0 || strcmp (s, "is_cpu") == 0)
    return gm_from_bool (r, m->device == (s[4] == 'u' ? GM_DEVICE_CUDA : GM_DEVICE_CPU));
  if (strcmp (s, "is_sparse") == 0 || strcmp (s, "is_quantized") == 0 || strcmp (s, "is_meta") == 0
      || strcmp (s, "is_nested") == 0 || strcmp (s, "is_sparse_csr") == 0
      || strcmp (s, "is_mps") == 0 || strcmp (s, "is_xpu") == 0)
    return gm_from_bool (r, false);
  if (strcmp (s, "layout") == 0)
    return gm_from_constant_take (r, PyUnicode_InternFromString ("strided"));
  if (strcmp (s, "real") == 0)
    return t;
  const GmTracker *bound = gm_method_row (r, methods, t, name);
  if (bound == NULL)
    bound = gm_hook_method (r, t, name);
  if (bound)
    return bound;
  PyTypeObject *type = t->real ? Py_TYPE (t->real) : gm_host.tensor_type;
  PyObject *found = _PyType_Lookup (type, name);
  if (found && gm_host.api_type
      && (Py_TYPE (found) == gm_host.api_type || Py_TYPE (found) == gm_host.api_method_type)) {
    bool inplace;
    const GmApi *api = gm_host.api_get (found, &inplace);
    const GmTracker **self = gm_tracker_array (r, 1);
    self[0] = t;
    return gm_tracker (r, .kind = &gm_kind_api, .items = self, .n = 1, .data = api,
                       .number = inplace);
  }
  if (found && PyFunction_Check (found)
      && PyDict_GetItem (gm_type_dict (gm_host.tensor_type), name) == found) {
    g_autofree char *label = g_strdup_printf ("Tensor.%s", s); /* an attribute of the package: only
                                                                  its import adds functions there */
    return gm_method_new (r, gm_wrap (r, found, gm_source_const (r, found, label)), t);
  }
  if (found == NULL) { /* an attribute that the program has set on the tensor */
    const GmTracker *own = own_attribute (r, t, name, true);
    return own ? own
               : gm_raise_new (r, PyExc_AttributeError, "'%s' object has no attribute '%s'",
                               type->tp_name, s);
  }
  return Py_IS_TYPE (found, &PyMethodDescr_Type)
             ? gm_builtin_method (r, s, t) /* a call of the method breaks */
             : gm_record_break (r, GM_BREAK_TENSOR_ATTRIBUTE, s);
}

static void
setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  bool grad = PyUnicode_CompareWithASCIIString (name, "grad") == 0;
  if (!(grad ? store_grad (r, t, name, value) : store_attribute (r, t, name, value)) && !r->stop)
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, PyUnicode_AsUTF8 (name), "tensor");
}

/* -- Operators ------------------------------------------------------------- */

static bool
computes_with (GmRecorder *r, const GmTracker *t)
{
  return t->kind == &gm_kind_tensor || t->kind == &gm_kind_scalar || t->kind == &gm_kind_float
         || gm_is_number (t) || gm_is_size (t)
         || (t->kind == &gm_kind_constant && (PyLong_Check (t->real) || PyFloat_Check (t->real)));
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  static const char *const rows[GM_N_BIN] = {
    "add",         "bitwise_and", "floor_divide", "bitwise_left_shift",  "matmul", "mul",
    "remainder",   "bitwise_or",  "pow",          "bitwise_right_shift", "sub",    "div",
    "bitwise_xor",
  };
  if (rows[op] == NULL || !computes_with (r, other))
    return NULL;
  const GmTracker *args[2] = { reflected ? other : t, reflected ? t : other };
  return gm_call_api_name (r, rows[op], args, 2, inplace && !reflected && op != GM_BIN_MATMUL);
}

static const GmTracker *
unary (GmRecorder *r, GmUnary op, const GmTracker *t)
{
  if (op == GM_UN_POS)
    return t;
  return gm_call_api_name (r, op == GM_UN_NEG ? "neg" : "bitwise_not", &t, 1, false);
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  static const char *const rows[] = { "lt", "le", "eq", "ne", "gt", "ge" };
  if (!computes_with (r, other))
    return NULL;
  const GmTracker *args[2] = { t, other };
  return gm_call_api_name (r, rows[op], args, 2, false);
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  const GmTracker *args[2] = { t, key };
  return gm_call_api_name (r, "getitem", args, 2, false);
}

static void
setitem (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  const GmTracker *args[3] = { t, key, value };
  if (value == NULL)
    gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, "elements of a tensor cannot be deleted");
  else
    gm_call_api_name (r, "setitem", args, 3, false);
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  g_autofree char *text = gm_meta_text (meta_of (r, t));
  gm_record_break (r, GM_BREAK_DATA_DEPENDENT_BRANCH, text);
  return 0;
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  const GmMeta *m = meta_of (r, t);
  if (m->ndim == 0)
    gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, "len() of a 0-d tensor");
  return m->ndim ? gm_size_number (m->sizes[0]) : 0;
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  if (meta_of (r, t)->ndim == 0)
    return gm_record_break (r, GM_BREAK_EXCEPTION_RAISED, "iteration over a 0-d tensor");
  return gm_iter (r, gm_call_api_name (r, "unbind", &t, 1, false));
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return t->real ? Py_TYPE (t->real) : gm_host.tensor_type;
}

/* Emits a load of the tensor; when it is loaded for the first time, also stores of its
 * attributes. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  const GmTracker *attributes = attributes_of (r, t),
                  *contents = attributes ? gm_contents_of (r, attributes) : NULL;
  if (contents && gm_residual_cached (b, t))
    return true;
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_output (b, t), NULL);
  if (!contents)
    return true;
  gm_residual_allocated (b, t);
  for (uint32_t i = 0; i + 1 < contents->n; i += 2)
    if (contents->items[i + 1] != &gm_tracker_null) {
      gm_residual_value (b, contents->items[i + 1]);
      gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
      gm_residual_emit (b, GM_INSN_STORE_ATTR, 0, contents->items[i]->real);
    }
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_tensor = {
  .name = "tensor",
  .type = type,
  .truth = truth,
  .iter = iter,
  .getattr = getattr,
  .setattr = setattr,
  .getitem = getitem,
  .setitem = setitem,
  .binary = binary,
  .unary = unary,
  .compare = compare,
  .len = len,
  .build = build,
};
