/* SPDX-License-Identifier: Apache-2.0
 * dict_version.c -- see dict_version.h.
 *
 * On 3.11 every write to a dict gives it a version that no dict had before, and an object's
 * attributes are in its dict once the dict was requested.  Versions are drawn from one counter,
 * which has no name outside of CPython; a write to a dict of ours shows where it is.  If no other
 * code has drawn since the last time, no dict has changed.
 * On later versions an attribute can change where it is stored in the object, without a new version
 * of the dict; but a watcher is told of all changes of a dict (PyDict_Watch), those of attributes
 * included once they are in the dict.  3.12 moves them there when the dict is requested; 3.13
 * leaves them in the object and stores to it without notice, until the dict has a table of its own:
 * see own_table.  A watched dict has a number of its own, which is advanced then.  When the dict
 * dies its number is advanced, too, and goes to another dict, never back: so code that still reads
 * the number does not take one dict for the other.
 * An object's class and its dict are replaced by two setters of CPython's, behind the descriptors
 * object.__class__ and the __dict__ of classes made by Python.  From the first compiled model on
 * they count.  C code that writes to ob_type or to the dict's place by itself is not seen; nor
 * would anything that CPython remembers about types see it.
 */
#include "core/objects/dict_version.h"

#include <glib.h>

#include "core/objects/python_host.h"

/* -- Setters that count ------------------------------------------------------------------------ */

static uint64_t epoch = 1;
static setter set_class, set_dict; /* CPython's own setters */

static int
counting_set_class (PyObject *o, PyObject *value, void *closure)
{
  epoch++;
  return set_class (o, value, closure);
}

static int
counting_set_dict (PyObject *o, PyObject *value, void *closure)
{
  epoch++;
  return set_dict (o, value, closure);
}

/* Returns the definition behind a getter descriptor, shared by all descriptors made from it;
 * NULL: `descriptor` is another kind of attribute or NULL. */
static PyGetSetDef *
row_of (PyObject *descriptor)
{
  return descriptor && Py_IS_TYPE (descriptor, &PyGetSetDescr_Type)
             ? ((PyGetSetDescrObject *) descriptor)->d_getset
             : NULL;
}

/* Returns a new class A with __slots__ = slots, or without __slots__ if that is NULL; NULL on
 * failure, without an exception. */
static PyObject *
class_new (PyObject *slots)
{
  PyObject *type = slots ? PyObject_CallFunction ((PyObject *) &PyType_Type, "s(){s(O)}", "A",
                                                  "__slots__", slots)
                         : PyObject_CallFunction ((PyObject *) &PyType_Type, "s(){}", "A");
  PyErr_Clear ();
  return type;
}

/* Replaces the setter of __dict__, for all classes that share it with a class of these `slots`,
 * by a setter that counts.  False if the descriptor is not as expected. */
static bool
count_dicts (PyObject *slots)
{
  PyObject *type = class_new (slots);
  PyGetSetDef *row =
      type ? row_of (PyDict_GetItemString (gm_type_dict ((PyTypeObject *) type), "__dict__"))
           : NULL;
  bool ok = row && row->set && (!set_dict || row->set == set_dict || row->set == counting_set_dict);
  if (ok && row->set != counting_set_dict) {
    set_dict = row->set;
    row->set = counting_set_dict;
  }
  Py_XDECREF (type);
  return ok;
}

const uint64_t *
gm_identity_epoch (void)
{
  /* 1: the setters count; -1: this interpreter is not like the one that we know */
  static int counted;
  if (counted == 0) {
    PyObject *name = PyUnicode_InternFromString ("__dict__");
    PyGetSetDef *row =
        row_of (PyDict_GetItemString (gm_type_dict (&PyBaseObject_Type), "__class__"));
    counted = row && row->set && name && count_dicts (NULL) && count_dicts (name) ? 1 : -1;
    if (counted == 1) {
      set_class = row->set;
      row->set = counting_set_class;
    }
    Py_XDECREF (name);
  }
  return counted == 1 ? &epoch : NULL;
}

bool
gm_identity_told (PyTypeObject *type)
{
  PyObject *mro = type->tp_mro;
  for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE (mro); i++) {
    PyTypeObject *base = (PyTypeObject *) PyTuple_GET_ITEM (mro, i);
    PyObject *names = gm_type_dict (base),
             *own = names ? PyDict_GetItemString (names, "__dict__") : NULL;
    PyGetSetDef *row = row_of (own);
    if (own && !(row && (row->set == NULL || row->set == counting_set_dict)))
      return false;
  }
  return mro != NULL;
}

/* -- Dicts ------------------------------------------------------------------------------------- */

#if PY_VERSION_HEX < 0x030c0000

size_t
gm_dict_version_offset (void)
{
  return offsetof (PyDictObject, ma_version_tag);
}

bool
gm_counts_dicts (void)
{
  return true;
}

const uint64_t *
gm_dict_counter (PyObject *dict)
{
  return &((PyDictObject *) dict)->ma_version_tag;
}

uint64_t
gm_dicts_quiet (void)
{
  static PyObject *ours;
  static uint64_t last, changes;
  static bool which;
  if (!ours && !(ours = PyDict_New ())) {
    PyErr_Clear ();
    return ++changes;
  }
  which = !which;
  if (PyDict_SetItem (ours, Py_None, which ? Py_True : Py_False) < 0)
    PyErr_Clear ();
  uint64_t now = ((PyDictObject *) ours)->ma_version_tag;
  changes += now != last + 1;
  last = now;
  return changes;
}

#else

static GHashTable *watched; /* dict -> its number */
static GPtrArray *unused;   /* numbers whose dicts have died */
static uint64_t events = 1;
static int watcher = -1;

static int
dict_changed (PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
  uint64_t *number = g_hash_table_lookup (watched, dict);
  events++;
  if (number == NULL)
    return 0;
  ++*number;
  if (event == PyDict_EVENT_DEALLOCATED) {
    g_hash_table_remove (watched, dict);
    g_ptr_array_add (unused, number);
  }
  return 0;
}

#if PY_VERSION_HEX < 0x030d0000
#define own_table(dict) true
#else
/* Gives a dict whose values are stored in its object a table of its own, as CPython does before
 * the last item is removed; the item is put back in its place.  False, perhaps with an exception:
 * the dict is empty, so no item can be removed. */
static bool
own_table (PyObject *dict)
{
  PyObject *last;
  if (((PyDictObject *) dict)->ma_values == NULL)
    return true;
  if (!PyDict_CheckExact (dict) || PyDict_GET_SIZE (dict) == 0
      || (last = PyObject_CallMethod (dict, "popitem", NULL)) == NULL)
    return false;
  if (PyDict_SetItem (dict, PyTuple_GET_ITEM (last, 0), PyTuple_GET_ITEM (last, 1)) < 0)
    g_error ("out of memory while an attribute was moved");
  Py_DECREF (last);
  return true;
}
#endif

size_t
gm_dict_version_offset (void)
{
  return 0;
}

bool
gm_counts_dicts (void)
{
  static bool tried;
  if (!tried) {
    tried = true;
    watched = g_hash_table_new (NULL, NULL);
    unused = g_ptr_array_new ();
    watcher = PyDict_AddWatcher (dict_changed);
    PyErr_Clear (); /* all watchers are in use, so every record is checked */
  }
  return watcher >= 0;
}

const uint64_t *
gm_dict_counter (PyObject *dict)
{
  uint64_t *number = gm_counts_dicts () ? g_hash_table_lookup (watched, dict) : NULL;
  if (number || watcher < 0)
    return number;
  if (!own_table (dict) || PyDict_Watch (watcher, dict) < 0) {
    PyErr_Clear ();
    return NULL;
  }
  if (unused->len > 0)
    number = g_ptr_array_remove_index_fast (unused, unused->len - 1);
  else {
    number = g_new (uint64_t, 1);
    *number = 1;
  }
  g_hash_table_insert (watched, dict, number);
  return number;
}

uint64_t
gm_dicts_quiet (void)
{
  return events;
}

#endif
