/* SPDX-License-Identifier: Apache-2.0
 * host_function.c -- Python functions as host functions in graphs: a function that is a node as a
 * whole, or a hook.
 *
 * A call passes the function its tensors and the constants that it was recorded with, and takes the
 * tensors out of the result; a result of another kind than the recorded one is an error.  Nothing
 * in the function is captured, since marking it asks for plain Python.  The compiled function
 * raises the function's exceptions unchanged (errors.c).
 */
#include "core/objects/host_function.h"

#include "core/autograd/autograd.h"
#include "core/graph/higher.h"
#include "core/objects/autograd_py.h"
#include "core/objects/errors.h"
#include "core/objects/call_notes.h"
#include "core/objects/call_state.h"
#include "core/objects/tensor_object.h"

#include <string.h>

typedef struct {
  PyObject *fn;      /* owned */
  PyObject *names;   /* owned, or NULL */
  PyObject **values; /* owned; NULL: operand which[i] */
  uint8_t *which;
  uint32_t n;
  char container; /* as in GmHostTrial; '?': not known yet */
  bool is_ours;   /* true for a function of the package: only the results of a call are visible */
} Callee;

static void
destroy (void *data)
{
  Callee *c = data;

  if (Py_IsInitialized ()) {
    PyGILState_STATE gil = PyGILState_Ensure ();
    for (uint32_t i = 0; i < c->n; i++)
      Py_XDECREF (c->values[i]);
    Py_XDECREF (c->names);
    Py_DECREF (c->fn);
    PyGILState_Release (gil);
  }
  g_free (c->values);
  g_free (c->which);
  g_free (c);
}

/* -- Calling ----------------------------------------------------------------------------------- */

static PyObject *
call_python (const Callee *c, GmTensor *const *in)
{
  g_autofree PyObject **args = g_new0 (PyObject *, c->n + 1);
  Py_ssize_t n_names = c->names ? PyTuple_GET_SIZE (c->names) : 0;
  PyObject *result = NULL;
  bool ok = true;

  for (uint32_t i = 0; ok && i < c->n; i++)
    ok = (args[i] = c->values[i] ? Py_NewRef (c->values[i]) : gm_py_tensor_wrap (in[c->which[i]]))
         != NULL;
  gm_failed_program_calls += !c->is_ours;
  gm_hook_suspend ();
  if (ok)
    result = PyObject_Vectorcall (c->fn, args, (size_t) ((Py_ssize_t) c->n - n_names), c->names);
  gm_hook_unsuspend ();
  for (uint32_t i = 0; i < c->n; i++)
    Py_XDECREF (args[i]);
  return result;
}

static void
note_call (const Callee *c, GmTensor *const *in, PyObject *result)
{
  g_autofree GmTensor **args = g_new0 (GmTensor *, c->n + 1);

  for (uint32_t i = 0; i < c->n; i++)
    args[i] = c->values[i] ? NULL : in[c->which[i]];
  gm_call_note (c->fn, args, c->n, c->names, result);
}

/* Returns the kind of a result: 0 for a tensor, 't' or 'l' for a tuple or list of tensors, '?'
 * for any other object, also for an empty tuple or list. */
static char
container_of (PyObject *o)
{
  char kind = PyTuple_CheckExact (o) ? 't' : PyList_CheckExact (o) ? 'l' : '?';

  if (gm_py_tensor_check (o))
    return 0;
  for (Py_ssize_t i = 0; kind != '?' && i < PySequence_Fast_GET_SIZE (o); i++)
    if (!gm_py_tensor_check (PySequence_Fast_GET_ITEM (o, i)))
      kind = '?';
  return kind != '?' && PySequence_Fast_GET_SIZE (o) > 0 ? kind : '?';
}

static GPtrArray *
tensors_of (PyObject *o, char kind)
{
  GPtrArray *a = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_tensor_unref);

  if (kind == 0)
    g_ptr_array_add (a, gm_tensor_ref (gm_py_tensor_get (o)));
  for (Py_ssize_t i = 0; kind && i < PySequence_Fast_GET_SIZE (o); i++)
    g_ptr_array_add (a, gm_tensor_ref (gm_py_tensor_get (PySequence_Fast_GET_ITEM (o, i))));
  return a;
}

static const char *
kind_text (char kind)
{
  return kind == 't'   ? "a tuple of tensors"
         : kind == 'l' ? "a list of tensors"
         : kind == 0   ? "a tensor"
                       : "something else";
}

static bool
call_function (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out,
               GError **error)
{
  const Callee *c = data;
  PyGILState_STATE gil = PyGILState_Ensure ();
  PyObject *o = call_python (c, in);
  if (!c->is_ours)
    note_call (c, in, o);
  char kind = o ? container_of (o) : '?';
  g_autoptr (GPtrArray) tensors = o && kind != '?' ? tensors_of (o, kind) : NULL;
  bool ok = tensors && kind == c->container && tensors->len == n_out;

  (void) n_in;
  if (o && !ok) {
    PyErr_Format (PyExc_RuntimeError,
                  "%S gave %s (%.100s, %u tensors), but %s of %u when its call was recorded; a "
                  "function that is a node of a graph gives "
                  "the same in each call",
                  c->fn, kind_text (kind), Py_TYPE (o)->tp_name, tensors ? tensors->len : 0,
                  kind_text (c->container), (unsigned) n_out);
  }
  for (uint32_t i = 0; ok && i < n_out; i++)
    out[i] = gm_tensor_ref (tensors->pdata[i]);
  if (!ok)
    gm_py_error_set (error);
  Py_XDECREF (o);
  PyGILState_Release (gil);
  return ok;
}

static bool
call_hook (void *data, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out,
           GError **error)
{
  const Callee *c = data;
  GError *own = NULL;

  (void) n_in, (void) n_out;
  out[0] = gm_py_call_hook (c->fn, in[0], &own);
  if (own)
    g_propagate_error (error, own);
  else if (!out[0])
    out[0] = gm_tensor_ref (in[0]);
  return !own;
}

/* -- Making ------------------------------------------------------------------------------------ */

static const char *
name_of (PyObject *fn)
{
  PyObject *name = PyObject_GetAttrString (fn, "__qualname__");
  const char *text = name && PyUnicode_Check (name) ? PyUnicode_AsUTF8 (name) : NULL;

  PyErr_Clear ();
  if (!text)
    text = Py_TYPE (fn)->tp_name;
  static char kept[256]; /* static, under the GIL, until the caller has copied it */
  g_strlcpy (kept, text, sizeof kept);
  Py_XDECREF (name);
  return kept;
}

static bool
is_ours (PyObject *fn)
{
  PyObject *module =
      PyFunction_Check (fn) ? PyDict_GetItemString (PyFunction_GET_GLOBALS (fn), "__name__") : NULL;
  const char *text = module && PyUnicode_Check (module) ? PyUnicode_AsUTF8 (module) : NULL;

  return text && g_str_has_prefix (text, "gramme.");
}

static uint64_t
mix (uint64_t h, uint64_t x)
{
  return (h ^ x) * UINT64_C (0x9e3779b97f4a7c15) ^ h >> 29;
}

GmHostFunction *
gm_py_host_function (PyObject *fn, PyObject *const *values, const uint8_t *which, uint32_t n,
                     PyObject *names)
{
  uint64_t key = mix (1, (uint64_t) (uintptr_t) fn);
  Callee *c = g_new (Callee, 1);

  *c = (Callee){
    Py_NewRef (fn), Py_XNewRef (names), g_new (PyObject *, n + 1), g_memdup2 (which, n), n, '?',
    is_ours (fn)
  };
  for (uint32_t i = 0; i < n; i++) {
    c->values[i] = Py_XNewRef (values[i]);
    key = mix (key, values[i] ? (uint64_t) (uintptr_t) Py_TYPE (values[i]) : which[i]);
    Py_hash_t hash = values[i] ? PyObject_Hash (values[i]) : 0;
    if (hash == -1)
      PyErr_Clear ();
    key = mix (key, (uint64_t) hash);
  }
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE (names); i++)
    key = mix (key, (uint64_t) PyObject_Hash (PyTuple_GET_ITEM (names, i)));
  GmHostFunction *f = gm_host_function_new (name_of (fn), call_function, c, destroy);
  f->key = key;
  return f;
}

/* -- Hooks that read grad ---------------------------------------------------------------------- */

/* Number of calls, from function to function, that a search follows. */
enum { FAR = 6 };

static bool may_read_grad (PyObject *fn, int far);

static bool
names_grad (PyCodeObject *code)
{
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (code->co_names); i++)
    if (PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (code->co_names, i), "grad") == 0)
      return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (code->co_consts); i++) {
    PyObject *o = PyTuple_GET_ITEM (code->co_consts, i);
    if (PyCode_Check (o)
            ? names_grad ((PyCodeObject *) o)
            : PyUnicode_CheckExact (o) && PyUnicode_CompareWithASCIIString (o, "grad") == 0)
      return true;
  }
  return false;
}

/* True if `dict`, the globals of a function or a module's or class's dict, has under one of the
 * names in `code` a function that may read grad.  far: calls that the search may still follow. */
static bool
may_find_reader (PyCodeObject *code, PyObject *dict, int far)
{
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (code->co_names); i++) {
    PyObject *o = PyDict_GetItemWithError (dict, PyTuple_GET_ITEM (code->co_names, i));
    if (o && PyModule_Check (o) ? far > 1 && may_find_reader (code, PyModule_GetDict (o), 2)
                                : o && may_read_grad (o, far - 1))
      return true;
  }
  return false;
}

static bool
function_may_read_grad (PyObject *fn, PyObject *self, int far)
{
  PyCodeObject *code = (PyCodeObject *) PyFunction_GET_CODE (fn);
  PyObject *closure = PyFunction_GET_CLOSURE (fn), *mro = self ? Py_TYPE (self)->tp_mro : NULL;

  if (names_grad (code) || may_find_reader (code, PyFunction_GET_GLOBALS (fn), far))
    return true;
  for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE (closure); i++) {
    PyObject *o = PyCell_GET (PyTuple_GET_ITEM (closure, i));
    if (o && may_read_grad (o, far - 1))
      return true;
  }
  for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE (mro); i++) {
    PyTypeObject *type = (PyTypeObject *) PyTuple_GET_ITEM (mro, i);
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE && may_find_reader (code, type->tp_dict, far))
      return true;
  }
  return false;
}

/* True if the code behind fn, or behind a function that it may call, names the attribute grad:
 * the hook may read a gradient that a compiled backward holds back until all of it has run.  far:
 * calls that the search may still follow. */
static bool
may_read_grad (PyObject *fn, int far)
{
  if (far <= 0)
    return false;
  if (PyFunction_Check (fn))
    return function_may_read_grad (fn, NULL, far);
  if (PyMethod_Check (fn) && PyFunction_Check (PyMethod_GET_FUNCTION (fn)))
    return function_may_read_grad (PyMethod_GET_FUNCTION (fn), PyMethod_GET_SELF (fn), far);
  if (strcmp (Py_TYPE (fn)->tp_name, "functools.partial") == 0) {
    PyObject *inner = PyObject_GetAttrString (fn, "func"),
             *args = PyObject_GetAttrString (fn, "args");
    bool reads = inner && may_read_grad (inner, far - 1);
    for (Py_ssize_t i = 0; args && !reads && i < PyTuple_GET_SIZE (args); i++)
      reads = may_read_grad (PyTuple_GET_ITEM (args, i), far - 1);
    Py_XDECREF (inner);
    Py_XDECREF (args);
    PyErr_Clear ();
    return reads;
  }
  static PyObject *call_name;
  if (!call_name)
    call_name = PyUnicode_InternFromString ("__call__");
  PyObject *call =
      Py_TYPE (fn)->tp_call && !PyType_Check (fn) ? _PyType_Lookup (Py_TYPE (fn), call_name) : NULL;
  return call && PyFunction_Check (call) && function_may_read_grad (call, fn, far);
}

GmHostFunction *
gm_py_host_hook (PyObject *fn)
{
  if (may_read_grad (fn, FAR))
    return NULL;
  Callee *c = g_new0 (Callee, 1);

  c->fn = Py_NewRef (fn);
  GmHostFunction *f = gm_host_function_new (name_of (fn), call_hook, c, destroy);
  f->key = mix (2, (uint64_t) (uintptr_t) fn);
  return f;
}

PyObject *
gm_py_host_callable (const GmHostFunction *f)
{
  return f && f->destroy == destroy ? ((const Callee *) f->data)->fn : NULL;
}

bool
gm_py_host_any_of_program (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    const GmHostFunction *f = n->op == GM_OP_host_call ? gm_graph_higher (g, n)->host : NULL;
    if (f && f->destroy == destroy && !((const Callee *) f->data)->is_ours)
      return true;
  }
  return false;
}

/* -- Trying ------------------------------------------------------------------------------------ */

static GmTensor *
stand_in (const GmMeta *like, bool grad, GError **error)
{
  GmMeta m = *like;

  m.requires_grad = 0;
  if (!gm_meta_is_dense (&m))
    gm_meta_set_contiguous (&m);
  GmAttrs attrs = gm_attrs_full (&m, gm_dtype_is_float ((GmDtype) m.dtype) ? gm_scalar_float (1)
                                                                           : gm_scalar_int (0));
  GmTensor *t = gm_tensor_new (&m, error);
  if (t && !gm_op_run_into (GM_OP_full, NULL, 0, &attrs, t, error))
    g_clear_pointer (&t, gm_tensor_unref);
  if (t && grad && like->requires_grad)
    gm_tensor_set_requires_grad (t, true, NULL);
  return t;
}

static char *
exception_text (void)
{
  PyObject *type, *value, *traceback;

  PyErr_Fetch (&type, &value, &traceback);
  PyObject *text = value ? PyObject_Str (value) : NULL;
  const char *said = text ? PyUnicode_AsUTF8 (text) : NULL;
  char *why = g_strdup_printf ("on tensors of ones like its arguments it raised %s: %s",
                               type && PyType_Check (type) ? ((PyTypeObject *) type)->tp_name
                                                           : "an exception",
                               said ? said : "");
  PyErr_Clear ();
  Py_XDECREF (text);
  Py_XDECREF (type);
  Py_XDECREF (value);
  Py_XDECREF (traceback);
  return why;
}

static bool
lies_in (const GmTensor *t, GmTensor *const *others, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (t->storage == others[i]->storage)
      return true;
  return false;
}

/* Checks the results of a trial call on the tensors `in`, and stores their metas in *out.
 * Returns NULL, or the reason (static text) why these results cannot be those of a node. */
static const char *
look_at (const GPtrArray *results, GmTensor *const *in, uint32_t n_in, GmHostTrial *out)
{
  g_autoptr (GPtrArray) leaves = g_ptr_array_new ();

  for (uint32_t i = 0; i < n_in; i++)
    if (gm_tensor_version (in[i]) != 0)
      return "it changes an argument in place";
  for (uint32_t i = 0; i < results->len; i++) {
    GmTensor *t = results->pdata[i];
    out->shares = true;
    if (lies_in (t, in, n_in))
      return "a result is an argument, or a part of one";
    if (lies_in (t, (GmTensor *const *) results->pdata, i))
      return "two results lie in one memory";
    if (!gm_meta_is_dense (&t->meta))
      return "a result has holes, or elements that are one";
    out->shares = false;
    out->metas[i] = t->meta;
    out->metas[i].requires_grad = gm_tensor_requires_grad (t);
  }
  gm_autograd_find_leaves ((GmTensor *const *) results->pdata, results->len, leaves);
  for (uint32_t k = 0; k < leaves->len; k++) {
    bool known = false;
    for (uint32_t i = 0; i < n_in; i++)
      if (in[i] == leaves->pdata[k]) {
        out->many |= out->flows & UINT64_C (1) << i;
        out->flows |= UINT64_C (1) << i;
        known = true;
      }
    if (!known)
      return "it reads a tensor that requires grad and is none of its arguments";
  }
  return NULL;
}

/* Nesting of trial calls of functions on this thread. */
static _Thread_local int trying;

bool
gm_py_host_is_trying (void)
{
  return trying > 0;
}

bool
gm_py_host_try (GmHostFunction *f, const GmMeta *in, uint32_t n_in, bool grad, GmHostTrial *out,
                char **why)
{
  Callee *c = f->data;
  g_autofree GmTensor **args = g_new0 (GmTensor *, n_in + 1);
  int64_t before[2], after[2];
  g_autoptr (GError) error = NULL;
  const char *reason = NULL;
  bool ok = true;

  *out = (GmHostTrial){ 0 };
  for (uint32_t i = 0; ok && i < n_in; i++)
    if ((ok = (args[i] = stand_in (&in[i], grad, &error)) != NULL))
      *gm_tensor_writes (args[i]) = 0;
  gm_random_get_state (before);
  bool was = gm_grad_set_enabled (grad);
  trying++;
  PyObject *o = ok ? call_python (c, args) : NULL;
  trying--;
  gm_grad_set_enabled (was);
  gm_random_get_state (after);
  gm_random_set_state (before);
  char kind = o ? container_of (o) : '?';
  g_autoptr (GPtrArray) results = o && kind != '?' ? tensors_of (o, kind) : NULL;
  if (!ok) {
    *why = g_strdup (error->message);
  } else if (!o) {
    *why = exception_text ();
  } else if (!results) {
    *why = g_strdup_printf ("it gives %s, not a tensor or a tuple or list of tensors",
                            Py_TYPE (o)->tp_name);
  } else if (memcmp (before, after, sizeof before)) {
    reason = "it draws random numbers";
  } else {
    out->metas = g_new (GmMeta, results->len + 1);
    out->n = results->len;
    out->container = c->container = kind;
    reason = look_at (results, args, n_in, out);
  }
  if (reason)
    *why = g_strdup (reason);
  if (*why)
    g_clear_pointer (&out->metas, g_free);
  Py_XDECREF (o);
  for (uint32_t i = 0; i < n_in; i++)
    gm_tensor_unref (args[i]);
  return !*why;
}
