/* SPDX-License-Identifier: Apache-2.0
 * call_notes.c -- see call_notes.h.
 *
 * A result with a history is handed out as new tensors, whose history continues in that of the
 * plain run's arguments: those of the graph were stand-ins.
 */
#include "core/objects/call_notes.h"
#include "core/objects/tensor_object.h"

#include "core/aot/aot.h"
#include "core/autograd/autograd.h"

/* The place of an argument in a frame that is about to run. */
typedef struct {
  Py_ssize_t local, item; /* item: index in the tuple that the local is; -1: the local itself */
  PyObject *name;         /* NULL, or, owned: the key in the dict that the local is */
} Place;

/* An argument to which a history of the result may lead. */
typedef struct {
  GmTensor *leaf; /* owned: its stand-in in the graph */
  Place place;
} Leaf;

typedef struct {
  PyObject *code;                     /* owned; NULL: this result cannot be handed out */
  PyObject *result;                   /* owned; NULL: the call raised ... */
  PyObject *type, *value, *traceback; /* ... this exception, owned */
  GArray *leaves;                     /* Leaf, owned; NULL: the result has no history */
} Noted;

static void
leaf_clear (gpointer p)
{
  Leaf *l = p;

  gm_tensor_unref (l->leaf);
  Py_XDECREF (l->place.name);
}

static GM_THREAD GmCallNotes *noting;
GM_THREAD GmCallNotes *gm_call_notes_given_out;

static void
noted_clear (gpointer p)
{
  Noted *c = p;

  g_clear_pointer (&c->leaves, g_array_unref);
  Py_XDECREF (c->code);
  Py_XDECREF (c->result);
  Py_XDECREF (c->type);
  Py_XDECREF (c->value);
  Py_XDECREF (c->traceback);
}

void
gm_call_notes_begin (GmCallNotes *notes)
{
  *notes = (GmCallNotes){ .around = noting };
  noting = notes;
}

void
gm_call_notes_end (GmCallNotes *notes)
{
  noting = notes->around;
  g_clear_pointer (&notes->calls, g_array_unref);
}

/* Returns the tensors of a result that is a tensor, or a tuple or list of tensors alone; NULL for
 * any other result. */
static GPtrArray *
tensors_of (PyObject *result)
{
  bool one = gm_py_tensor_check (result),
       ok = one || PyTuple_CheckExact (result) || PyList_CheckExact (result);
  Py_ssize_t n = one ? 1 : ok ? PySequence_Fast_GET_SIZE (result) : 0;
  GPtrArray *all = g_ptr_array_new ();

  for (Py_ssize_t i = 0; i < n && ok; i++) {
    PyObject *o = one ? result : PySequence_Fast_GET_ITEM (result, i);
    if ((ok = gm_py_tensor_check (o)))
      g_ptr_array_add (all, gm_py_tensor_get (o));
  }
  if (!ok)
    g_clear_pointer (&all, g_ptr_array_unref);
  return all;
}

/* True if the plain run may get the result that a function of the program's returned inside of the
 * graph: no tensor in it shares memory with an argument, which belongs to the graph, and all its
 * tensors are known, so that a history can be connected to the plain run's arguments. */
static bool
may_hand_out (PyObject *result, GmTensor *const *args, uint32_t n)
{
  g_autoptr (GPtrArray) all = tensors_of (result);
  bool may = true;

  for (uint32_t i = 0; i < n; i++) {
    may &= !args[i] || !args[i]->meta.requires_grad || all;
    for (uint32_t k = 0; args[i] && all && k < all->len; k++)
      may &= ((GmTensor *) all->pdata[k])->storage != args[i]->storage;
  }
  return may;
}

static bool
has_history (PyObject *result)
{
  g_autoptr (GPtrArray) all = tensors_of (result);
  bool is = false;

  for (uint32_t i = 0; all && i < all->len; i++)
    is |= gm_tensor_requires_grad (all->pdata[i]);
  return is;
}

/* Returns the place of positional argument i, or of the argument of this name. */
static Place
place_of (const PyCodeObject *co, Py_ssize_t i, PyObject *name)
{
  Py_ssize_t named = co->co_argcount + co->co_kwonlyargcount;
  bool many = co->co_flags & CO_VARARGS;

  if (!name)
    return i < co->co_argcount ? (Place){ i, -1, NULL }
                               : (Place){ named, i - co->co_argcount, NULL };
  for (Py_ssize_t k = co->co_posonlyargcount; k < named; k++)
    if (PyUnicode_Compare (PyTuple_GET_ITEM (co->co_localsplusnames, k), name) == 0)
      return (Place){ k, -1, NULL };
  return (Place){ named + many, -1, Py_NewRef (name) };
}

static GArray *
leaves_of (PyObject *code, GmTensor *const *args, uint32_t n, PyObject *names)
{
  GArray *leaves = g_array_new (FALSE, FALSE, sizeof (Leaf));
  Py_ssize_t first = (Py_ssize_t) n - (names ? PyTuple_GET_SIZE (names) : 0);

  g_array_set_clear_func (leaves, leaf_clear);
  for (Py_ssize_t i = 0; i < n; i++) {
    bool known = !args[i] || !args[i]->meta.requires_grad;
    for (uint32_t k = 0; k < leaves->len && !known; k++)
      known = g_array_index (leaves, Leaf, k).leaf == args[i];
    if (known)
      continue;
    PyObject *name = i < first ? NULL : PyTuple_GET_ITEM (names, i - first);
    Leaf l = { gm_tensor_ref (args[i]), place_of ((PyCodeObject *) code, i, name) };
    g_array_append_val (leaves, l);
  }
  return leaves;
}

void
gm_call_note (PyObject *fn, GmTensor *const *args, uint32_t n, PyObject *names, PyObject *result)
{
  if (!noting)
    return;
  bool may = PyFunction_Check (fn) && (!result || may_hand_out (result, args, n));
  Noted c = { may ? Py_NewRef (PyFunction_GET_CODE (fn)) : NULL, Py_XNewRef (result) };
  if (may && result && has_history (result))
    c.leaves = leaves_of (c.code, args, n, names);
  if (!noting->calls) {
    noting->calls = g_array_new (FALSE, FALSE, sizeof (Noted));
    g_array_set_clear_func (noting->calls, noted_clear);
  }
  if (!result) {
    PyErr_Fetch (&c.type, &c.value, &c.traceback);
    PyErr_NormalizeException (&c.type, &c.value, &c.traceback);
    PyErr_Restore (Py_XNewRef (c.type), Py_XNewRef (c.value), Py_XNewRef (c.traceback));
  }
  g_array_append_val (noting->calls, c);
}

bool
gm_call_notes_are_whole (const GmCallNotes *notes, uint32_t n)
{
  uint32_t n_noted = notes && notes->calls ? notes->calls->len : 0;

  for (uint32_t i = 0; i < n_noted; i++)
    if (!g_array_index (notes->calls, Noted, i).code)
      return false;
  return n_noted == n;
}

/* Returns the tensor at that place, borrowed, or NULL. */
static GmTensor *
tensor_at (Place p, PyObject *const *locals)
{
  PyObject *o = locals[p.local];

  if (o && p.name)
    o = PyDict_GetItem (o, p.name);
  else if (o && p.item >= 0)
    o = PyTuple_GET_ITEM (o, p.item);
  return o && gm_py_tensor_check (o) ? gm_py_tensor_get (o) : NULL;
}

/* Returns the result with a history that continues in that of the frame's arguments: new tensors
 * where the result has a history.  A new reference. */
static PyObject *
tie (const Noted *c, PyObject *const *locals)
{
  bool container = !gm_py_tensor_check (c->result);
  g_autoptr (GPtrArray) all = tensors_of (c->result), made = g_ptr_array_new (),
                        in = g_ptr_array_new (), leaves = g_ptr_array_new ();
  g_autofree GmTensor **out = g_new (GmTensor *, all->len + 1);

  for (uint32_t i = 0; i < c->leaves->len; i++) {
    const Leaf *l = &g_array_index (c->leaves, Leaf, i);
    GmTensor *t = tensor_at (l->place, locals);
    if (!t)
      continue;
    g_ptr_array_add (in, t);
    g_ptr_array_add (leaves, l->leaf);
  }
  for (uint32_t i = 0; i < all->len; i++)
    if (gm_tensor_requires_grad (all->pdata[i]))
      g_ptr_array_add (made, all->pdata[i]);
  gm_host_call_tie ((GmTensor *const *) leaves->pdata, (GmTensor *const *) in->pdata, in->len,
                    (GmTensor *const *) made->pdata, made->len, out);
  PyObject *items = PyTuple_New (all->len);
  bool ok = items != NULL;
  for (uint32_t i = 0, k = 0; i < all->len && items; i++) {
    PyObject *o = gm_tensor_requires_grad (all->pdata[i]) ? gm_py_tensor_take (out[k++])
                  : container ? Py_NewRef (PySequence_Fast_GET_ITEM (c->result, i))
                              : Py_NewRef (c->result);
    PyTuple_SET_ITEM (items, i, o);
    ok &= o != NULL;
  }
  PyObject *result = !ok                        ? NULL
                     : !container               ? Py_NewRef (PyTuple_GET_ITEM (items, 0))
                     : PyList_Check (c->result) ? PySequence_List (items)
                                                : Py_NewRef (items);
  Py_XDECREF (items);
  return result;
}

bool
gm_call_notes_give_out (PyCodeObject *code, PyObject *const *locals, PyObject **result)
{
  GmCallNotes *notes = gm_call_notes_given_out;
  bool any = notes->calls && notes->next < notes->calls->len;
  Noted *c = any ? &g_array_index (notes->calls, Noted, notes->next) : NULL;

  if (!c || c->code != (PyObject *) code)
    return false;
  notes->next++;
  bool raised = !c->result;
  *result = c->leaves ? tie (c, locals) : g_steal_pointer (&c->result);
  if (raised)
    PyErr_Restore (g_steal_pointer (&c->type), g_steal_pointer (&c->value),
                   g_steal_pointer (&c->traceback));
  return true;
}
