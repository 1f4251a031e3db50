/* SPDX-License-Identifier: Apache-2.0
 * tracker_function.c -- Python functions, existing or made in the region, and bound methods.
 *
 * An existing function is guarded by its code and globals, not by identity: a new closure of the
 * same code counts as the same function, and the contents of its cells and defaults are guarded
 * when they are read.
 */
#include "core/trace/attrs.h"
#include "core/models/models.h"
#include "core/trace/cell.h"
#include "core/models/random_draw.h"
#include "core/trace/exception.h"
#include "core/trace/instance.h"

#include <stddef.h>
#include <string.h>

/* The data of a function made in the region: operands of MAKE_FUNCTION. The items of its tracker:
 * closure (tuple), defaults (tuple), kwdefaults (dict), annotations; NULL tracker where absent. */
typedef struct {
  PyObject *code, *globals, *builtins;
} Made;

enum { CLOSURE, DEFAULTS, KWDEFAULTS, ANNOTATIONS, N_ITEMS };

const GmTracker *
gm_function_new (GmRecorder *r, PyObject *code, const GmTracker *closure, const GmTracker *defaults,
                 const GmTracker *kwdefaults, const GmTracker *annotations)
{
  Made made = { code, r->frame->globals, r->frame->builtins };
  const GmTracker **items = gm_tracker_array (r, N_ITEMS);
  items[CLOSURE] = closure ? closure : &gm_tracker_null;
  items[DEFAULTS] = defaults ? defaults : &gm_tracker_null;
  items[KWDEFAULTS] = kwdefaults ? kwdefaults : &gm_tracker_null;
  items[ANNOTATIONS] = annotations ? annotations : &gm_tracker_null;
  uint32_t id = gm_heap_add (&r->heap, GM_N_OBJECT_SLOTS);
  return gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_function,
                                          .items = items,
                                          .n = N_ITEMS,
                                          .id = id,
                                          .data = gm_arena_copy (r->arena, &made, sizeof made) });
}

const GmTracker *
gm_wrap_function (GmRecorder *r, PyObject *real, const GmSource *source)
{
  PyFunctionObject *f = (PyFunctionObject *) real;
  gm_guard (r, FUNCTION, source, .obj = f->func_code, .key = f->func_globals,
            .index = (int64_t) (uintptr_t) f->vectorcall);
  uint32_t id = gm_heap_add (&r->heap, GM_N_OBJECT_SLOTS);
  const GmTracker *t = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_function, .real = real, .source = source, .id = id });
  gm_know (r, t);
  return t;
}

/* Library functions that are never inlined, because they would break in many places: they make
 * classes, walk frames or do I/O. */
static const struct {
  const char *name, *module;
} left_alone[] = {
  { "_process_class", "dataclasses" }, { "make_dataclass", "dataclasses" },
  { "namedtuple", "collections" },     { "deepcopy", "copy" },
  { "NamedTuple", "typing" },          { "get_type_hints", "typing" },
  { "EnumType.__new__", "enum" },      { "signature", "inspect" },
  { "getsource", "inspect" },          { "_compile", "re" },
  { "format_exc", "traceback" },       { "print_exc", "traceback" },
  { "getLogger", "logging" },          { "Logger.debug", "logging" },
  { "Logger.info", "logging" },        { "Logger.warning", "logging" },
  { "Logger.error", "logging" },       { "Logger.exception", "logging" },
  { "Logger.log", "logging" },
};

bool
gm_function_left_alone (PyCodeObject *code, PyObject *globals)
{
  const char *name = PyUnicode_AsUTF8 (code->co_qualname);
  for (size_t i = 0; i < G_N_ELEMENTS (left_alone); i++)
    if (strcmp (name, left_alone[i].name) == 0) {
      PyObject *module = PyDict_GetItemString (globals, "__name__");
      return module && PyUnicode_Check (module)
             && PyUnicode_CompareWithASCIIString (module, left_alone[i].module) == 0;
    }
  return false;
}

bool
gm_function_starts_tracer (PyObject *globals)
{
  PyObject *module = PyDict_GetItemString (globals, "__name__");
  return module && PyUnicode_Check (module)
         && (PyUnicode_CompareWithASCIIString (module, "pdb") == 0
             || PyUnicode_CompareWithASCIIString (module, "bdb") == 0);
}

const GmCode *
gm_function_code (GmRecorder *r, const GmTracker *t, PyObject **globals, PyObject **builtins)
{
  PyCodeObject *code;
  if (t->real) {
    PyFunctionObject *f = (PyFunctionObject *) t->real;
    code = (PyCodeObject *) f->func_code;
    *globals = f->func_globals;
    *builtins = f->func_builtins;
  } else {
    const Made *made = t->data;
    code = (PyCodeObject *) made->code;
    *globals = made->globals;
    *builtins = made->builtins;
  }
  if (!PyDict_CheckExact (*globals) || !PyDict_CheckExact (*builtins)) {
    gm_record_break (r, GM_BREAK_GLOBALS_FOREIGN, PyUnicode_AsUTF8 (code->co_qualname));
    return NULL;
  }
  g_autoptr (GError) error = NULL;
  const GmCode *decoded = gm_host.decode (code, &error);
  if (decoded == NULL)
    gm_record_break (r, GM_BREAK_DECODE, PyUnicode_AsUTF8 (code->co_qualname),
                     error ? error->message : "");
  return decoded;
}

/* Returns the default of the parameter `slot`, for which a call has no argument; NULL: it has
 * none. */
const GmTracker *
gm_function_default (GmRecorder *r, const GmTracker *t, uint32_t slot, const GmCode *code)
{
  bool positional = slot < code->n_pos;
  PyObject *name = code->slots[slot].name;
  if (t->real) {
    PyFunctionObject *f = (PyFunctionObject *) t->real;
    if (positional) {
      int64_t n = f->func_defaults ? PyTuple_GET_SIZE (f->func_defaults) : 0;
      int64_t i = (int64_t) slot - ((int64_t) code->n_pos - n);
      gm_guard (r, N_DEFAULTS, t->source, .index = n);
      return i < 0 ? NULL
                   : gm_wrap_lazy (r, PyTuple_GET_ITEM (f->func_defaults, i),
                                   gm_source_part (r, t->source, GM_SOURCE_DEFAULT, i, NULL));
    }
    PyObject *value =
        f->func_kwdefaults ? PyDict_GetItemWithError (f->func_kwdefaults, name) : NULL;
    return value ? gm_wrap_present (r, value,
                                    gm_source_part (r, t->source, GM_SOURCE_KWDEFAULT, 0, name))
                 : NULL;
  }
  const GmTracker *defaults = gm_realize (r, t->items[positional ? DEFAULTS : KWDEFAULTS]);
  if (defaults == &gm_tracker_null)
    return NULL;
  if (!positional) {
    const GmTracker *key = gm_from_constant (r, name);
    return gm_truth (r, gm_contains (r, defaults, key)) ? gm_getitem (r, defaults, key) : NULL;
  }
  int64_t i = (int64_t) slot - ((int64_t) code->n_pos - defaults->n);
  return i < 0 ? NULL : defaults->items[i];
}

const GmTracker *
gm_function_cell (GmRecorder *r, const GmTracker *t, uint32_t i)
{
  if (t == NULL) { /* the root: its cells come from the function object, which every call has */
    PyObject *cell = PyTuple_GET_ITEM (r->request->func->func_closure, i);
    return gm_wrap_cell (r, cell, gm_source_free (r, i, true));
  }
  if (t->real) {
    PyObject *cell = PyTuple_GET_ITEM (((PyFunctionObject *) t->real)->func_closure, i);
    return gm_wrap_cell (r, cell, gm_source_part (r, t->source, GM_SOURCE_CELL, i, NULL));
  }
  return t->items[CLOSURE]->items[i];
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return &PyFunction_Type;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

/* True if an extension has set the function's vectorcall (PyFunction_SetVectorcall): a call need
 * not run its code. */
static bool
is_called_by_c (const GmTracker *t)
{
  static vectorcallfunc plain; /* not exported since 3.13 */
  if (t->real && !plain) {
    PyCodeObject *code = PyCode_NewEmpty ("", "", 1);
    PyObject *globals = PyDict_New (),
             *f = code && globals ? PyFunction_New ((PyObject *) code, globals) : NULL;
    plain = f ? ((PyFunctionObject *) f)->vectorcall : NULL;
    PyErr_Clear ();
    Py_XDECREF (f);
    Py_XDECREF (globals);
    Py_XDECREF (code);
  }
  return t->real && ((PyFunctionObject *) t->real)->vectorcall != plain;
}

static const GmTracker *
left_to_c (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_record_break (r, GM_BREAK_CALL_C,
                          PyUnicode_AsUTF8 (((PyFunctionObject *) t->real)->func_name));
}

/* Calls a function that is marked to become a single node and returns its result. If no node can be
 * made, the function is recorded inside of this instruction, so that a break in it leaves the whole
 * call to Python. */
static const GmTracker *
call_whole (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  const GmTracker *v = gm_host_call_record (r, t, args);
  if (v)
    return v;
  r->enters_whole = true;
  v = gm_frame_run (r, t, args);
  r->enters_whole = false;
  return v;
}

GmFunctionModel
gm_function_model (const GmTracker *f)
{
  if (is_called_by_c (f))
    return left_to_c;
  if (f->real && gm_host.is_whole ((PyCodeObject *) ((PyFunctionObject *) f->real)->func_code))
    return call_whole;
  if (gm_is_dispatch (f))
    return gm_dispatch;
  return gm_is_deepcopy (f)          ? gm_deepcopy
         : gm_is_random_function (f) ? gm_random_function_call
                                     : NULL;
}

static const GmTracker *
call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  GmFunctionModel model = gm_function_model (t);
  return model ? model (r, t, args) : gm_frame_run (r, t, args);
}

/* Attributes that CPython keeps in members of the function object. */
static const struct {
  const char *name;
  size_t offset;
} members[] = {
  { "__name__", offsetof (PyFunctionObject, func_name) },
  { "__qualname__", offsetof (PyFunctionObject, func_qualname) },
  { "__doc__", offsetof (PyFunctionObject, func_doc) },
  { "__module__", offsetof (PyFunctionObject, func_module) },
};

static int
member_index (PyObject *name)
{
  for (size_t i = 0; i < G_N_ELEMENTS (members); i++)
    if (PyUnicode_CompareWithASCIIString (name, members[i].name) == 0)
      return (int) i;
  return -1;
}

/* Returns the value that MAKE_FUNCTION gives the member `name` of a new function. */
static const GmTracker *
made_member (GmRecorder *r, const GmTracker *t, const char *name)
{
  const Made *made = t->data;
  PyCodeObject *code = (PyCodeObject *) made->code;
  if (strcmp (name, "__name__") == 0)
    return gm_from_constant (r, code->co_name);
  if (strcmp (name, "__qualname__") == 0)
    return gm_from_constant (r, code->co_qualname);
  if (strcmp (name, "__doc__") == 0) {
    PyObject *consts = code->co_consts;
    PyObject *first = PyTuple_GET_SIZE (consts) ? PyTuple_GET_ITEM (consts, 0) : NULL;
    return first && PyUnicode_CheckExact (first) ? gm_from_constant (r, first) : gm_none (r);
  }
  const GmTracker *module = gm_global_load (
      r, made->globals, gm_record_take (r, PyUnicode_InternFromString ("__name__")));
  return module ? module : gm_none (r);
}

static const GmTracker *
member_get (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  int i = member_index (name);
  if (i < 0)
    return NULL;
  if (t->real == NULL)
    return made_member (r, t, members[i].name);
  PyObject *value = *(PyObject **) ((char *) t->real + members[i].offset);
  return value ? gm_wrap_lazy (r, value,
                               gm_source_member (r, t->source, (int64_t) members[i].offset, name))
               : NULL;
}

/* Returns __annotations__ of an existing function: a dict, which CPython makes from a tuple, or
 * from nothing, at the first read. */
static const GmTracker *
existing_annotations (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyObject *made = PyObject_GetAttr (t->real, name),
           *dict = ((PyFunctionObject *) t->real)->func_annotations;
  PyErr_Clear ();
  Py_XDECREF (made);
  if (dict == NULL || dict != made)
    return NULL;
  /* Another function may still have the tuple, so a guard tests that the member is a dict. */
  return gm_realize (
      r, gm_wrap_lazy (
             r, dict,
             gm_source_member (r, t->source, offsetof (PyFunctionObject, func_annotations), name)));
}

static bool
is_type_params (PyObject *name)
{
  return gm_host.type_params_offset
         && PyUnicode_CompareWithASCIIString (name, "__type_params__") == 0;
}

/* Returns __type_params__, the empty tuple for a function without any. A function made in the
 * region has none until some are set, because `def f[T]` is not recorded. */
static const GmTracker *
type_params_get (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  int64_t offset = (int64_t) gm_host.type_params_offset;
  PyObject *value = t->real ? *(PyObject **) ((char *) t->real + offset) : NULL;
  if (value)
    return gm_wrap_lazy (r, value, gm_source_member (r, t->source, offset, name));
  if (t->real)
    gm_guard (r, MEMBER_ABSENT, t->source, .index = offset, .key = name);
  return gm_tuple_new (r, NULL, 0);
}

/* Returns __annotations__ of a function made in the region: a dict that is made from
 * MAKE_FUNCTION's operand at the first read, and kept. */
static const GmTracker *
annotations_get (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *pairs = t->items[ANNOTATIONS], *dict = gm_dict_new (r);
  if (pairs != &gm_tracker_null) {
    pairs = gm_realize (r, pairs);
    if (r->stop || pairs->kind != &gm_kind_tuple)
      return NULL;
    for (uint32_t i = 0; i + 1 < pairs->n; i += 2)
      gm_dict_store (r, dict, pairs->items[i], pairs->items[i + 1]);
  }
  gm_attrs_set (r, t, gm_record_take (r, PyUnicode_InternFromString ("__annotations__")), dict);
  return dict;
}

static const GmTracker *
code_get (GmRecorder *r, const GmTracker *t)
{
  const Made *made = t->data;
  PyObject *code = t->real ? ((PyFunctionObject *) t->real)->func_code : made->code;
  return gm_from_constant (r, code); /* the code is guarded with the function */
}

static const GmTracker *
method_get (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "__get__", args, 1, 2))
    return &gm_tracker_poison;
  const GmTracker *self = gm_realize (r, args->args[0]);
  return r->stop || self->real == Py_None ? t : gm_method_new (r, t, self);
}

/* Runs __get__ of a bound method, which returns that method. */
static const GmTracker *
bound_get (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "__get__", args, 1, 2) ? t : &gm_tracker_poison;
}

static const GmTracker *
method_call_self (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_call (r, t, args);
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const GmMethodRow rows[] = { { "__get__", method_get },
                                      { "__call__", method_call_self },
                                      { NULL, NULL } };
  const GmTracker *stored = gm_attrs_get (r, t, name), *v;
  if (stored)
    return stored == &gm_tracker_null ? NULL : stored;
  if (PyUnicode_CompareWithASCIIString (name, "__dict__") == 0)
    return gm_instance_dict (r, t);
  if (PyUnicode_CompareWithASCIIString (name, "__code__") == 0)
    return code_get (r, t);
  bool own = _PyType_Lookup (&PyFunction_Type, name) != NULL
             || PyUnicode_CompareWithASCIIString (name, "__module__") == 0;
  if (!own)
    return t->real ? gm_instance_get (r, t, name) : NULL;
  v = gm_method_row (r, rows, t, name);
  if (v == NULL)
    v = member_get (r, t, name);
  if (v == NULL && PyUnicode_CompareWithASCIIString (name, "__annotations__") == 0)
    v = t->real ? existing_annotations (r, t, name) : annotations_get (r, t);
  if (v == NULL && is_type_params (name))
    v = type_params_get (r, t, name);
  PyObject *globals, *builtins;
  const GmCode *code =
      v == NULL && t->real == NULL ? gm_function_code (r, t, &globals, &builtins) : NULL;
  if (code && code->n_free && PyUnicode_CompareWithASCIIString (name, "__closure__") == 0)
    return gm_record_break (r, GM_BREAK_CELLS_SEEN, PyUnicode_AsUTF8 (code->code->co_name));
  return v ? v : gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "function");
}

/* Sets an attribute in the function's dict, or a member of a function made in the region. */
static void
setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value)
{
  const char *text = PyUnicode_AsUTF8 (name);
  bool own = _PyType_Lookup (&PyFunction_Type, name) || strcmp (text, "__module__") == 0;
  bool params = is_type_params (name);
  bool member = member_index (name) >= 0 || strcmp (text, "__annotations__") == 0 || params;
  if (value && member && t->real == NULL) {
    const GmTracker *v = gm_realize (r, value);
    bool named = strcmp (text, "__name__") == 0 || strcmp (text, "__qualname__") == 0;
    if (!r->stop && (!named || (v->kind == &gm_kind_constant && PyUnicode_CheckExact (v->real)))
        && (!params || v->kind == &gm_kind_tuple))
      own = false;
  }
  if (own) {
    gm_record_break (r, GM_BREAK_ATTRIBUTE_STORE, text, "function");
    return;
  }
  if (value == NULL && gm_instance_dict_get (r, gm_instance_dict (r, t), name) == NULL) {
    gm_raise_new (r, PyExc_AttributeError, "'function' object has no attribute '%s'", text);
    return;
  }
  if (!gm_attrs_claim (r, t))
    return;
  gm_attrs_set (r, t, name, value);
  const GmTracker *args[2] = { t, value };
  if (t->real)
    gm_effect (r, value ? GM_EFFECT_SETATTR : GM_EFFECT_DELATTR, NULL, name, args, value ? 2 : 1);
}

static bool
build_attrs (GmResidualBuilder *b, const GmTracker *t)
{
  const GmTracker *attrs = gm_contents_of (gm_residual_recorder (b), t);
  for (uint32_t i = 0; attrs && i < attrs->n; i += 2) {
    if (attrs->items[i + 1] == &gm_tracker_null)
      continue;
    gm_residual_value (b, attrs->items[i + 1]);
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
    gm_residual_emit (b, GM_INSN_STORE_ATTR, 0, attrs->items[i]->real);
  }
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

/* Emits FunctionType (code, globals, name, defaults, closure), for a new function with the globals
 * of another module. */
static bool
build_foreign (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  const Made *made = t->data;
  if (t->items[ANNOTATIONS] != &gm_tracker_null)
    return false;
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) &PyFunction_Type);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, made->code);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, made->globals);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, ((PyCodeObject *) made->code)->co_name);
  const GmTracker *parts[2] = { t->items[DEFAULTS], t->items[CLOSURE] };
  for (int k = 0; k < 2; k++)
    if (parts[k] == &gm_tracker_null)
      gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, Py_None);
    else
      gm_residual_value (b, parts[k]);
  gm_residual_emit (b, GM_INSN_CALL, 5, NULL);
  gm_residual_allocated (b, t);
  if (t->items[KWDEFAULTS] != &gm_tracker_null) {
    gm_residual_value (b, t->items[KWDEFAULTS]);
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
    gm_residual_emit (b, GM_INSN_STORE_ATTR, 0,
                      gm_record_take (r, PyUnicode_InternFromString ("__kwdefaults__")));
  }
  return true;
}

/* Emits MAKE_FUNCTION with the cells of the residual in its closure. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  const Made *made = t->data;
  uint32_t flags = 0;
  if (gm_residual_cached (b, t))
    return true;
  if (made->globals != r->request->func->func_globals)
    return build_foreign (b, t) && build_attrs (b, t);
  static const struct {
    int item;
    uint32_t flag;
  } parts[] = { { DEFAULTS, 1 }, { KWDEFAULTS, 2 }, { ANNOTATIONS, 4 }, { CLOSURE, 8 } };
  for (size_t i = 0; i < G_N_ELEMENTS (parts); i++)
    if (t->items[parts[i].item] != &gm_tracker_null) {
      gm_residual_value (b, t->items[parts[i].item]);
      flags |= parts[i].flag;
    }
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, made->code);
  gm_residual_emit (b, GM_INSN_MAKE_FUNCTION, flags, NULL);
  gm_residual_allocated (b, t);
  return build_attrs (b, t);
}

const GmTrackerKind gm_kind_function = {
  .name = "function",
  .type = type,
  .truth = truth,
  .call = call,
  .getattr = getattr,
  .setattr = setattr,
  .build = build,
};

/* -- Bound methods --------------------------------------------------------- */

const GmTracker *
gm_method_new (GmRecorder *r, const GmTracker *func, const GmTracker *self)
{
  const GmTracker **items = gm_tracker_array (r, 2);
  items[0] = func;
  items[1] = self;
  return gm_tracker (r, .kind = &gm_kind_method, .items = items, .n = 2);
}

const GmTracker *
gm_wrap_method (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, TYPE, source, .obj = (PyObject *) &PyMethod_Type);
  const GmTracker **items = gm_tracker_array (r, 2);
  items[0] = gm_wrap_lazy (r, PyMethod_GET_FUNCTION (real),
                           gm_source_part (r, source, GM_SOURCE_METHOD_FUNC, 0, NULL));
  items[1] = gm_wrap_lazy (r, PyMethod_GET_SELF (real),
                           gm_source_part (r, source, GM_SOURCE_METHOD_SELF, 0, NULL));
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_method, .real = real, .source = source,
                                   .items = items, .n = 2);
  gm_know (r, t);
  return t;
}

static PyTypeObject *
method_type (GmRecorder *r, const GmTracker *t)
{
  return &PyMethod_Type;
}

static const GmTracker *
method_call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  uint32_t n = args->n + gm_args_n_named (args);
  const GmTracker **all = gm_tracker_array (r, n + 1);
  all[0] = t->items[1];
  gm_tracker_copy (all + 1, args->args, n);
  return gm_call (r, t->items[0], &(GmCallArgs){ all, args->n + 1, args->names });
}

static const GmTracker *
method_getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  if (PyUnicode_CompareWithASCIIString (name, "__func__") == 0)
    return t->items[0];
  if (PyUnicode_CompareWithASCIIString (name, "__self__") == 0)
    return t->items[1];
  if (_PyType_Lookup (&PyMethod_Type, name) == NULL
      || PyUnicode_CompareWithASCIIString (name, "__doc__") == 0)
    return gm_getattr_opt (r, t->items[0],
                           name); /* an attribute that a bound method lacks is the function's */
  static const GmMethodRow rows[] = { { "__get__", bound_get },
                                      { "__call__", method_call_self },
                                      { NULL, NULL } };
  const GmTracker *v = gm_method_row (r, rows, t, name);
  return v ? v : gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "method");
}

static bool
method_build (GmResidualBuilder *b, const GmTracker *t)
{
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) &PyMethod_Type);
  gm_residual_value (b, t->items[0]);
  gm_residual_value (b, t->items[1]);
  gm_residual_emit (b, GM_INSN_CALL, 2, NULL);
  return true;
}

const GmTrackerKind gm_kind_method = {
  .name = "method",
  .type = method_type,
  .truth = truth,
  .call = method_call,
  .getattr = method_getattr,
  .build = method_build,
  .builds_anew = true,
};
