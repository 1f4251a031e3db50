/* SPDX-License-Identifier: Apache-2.0
 * profile_store.c -- see profile_store.h.
 *
 * One entry for each code object, the text of gm_profile_text.  An entry is written when a function
 * is compiled for the first time by any process, with the sizes of that call, and when a size is
 * found to vary.  So a later process with another size knows that the size varies, and compiles for
 * all at once; one with the same sizes reads, and writes nothing.  An entry that cannot be read, or
 * is not ours, counts as missing, and is logged once in a process.
 */
#include "core/objects/cpython.h"

#include "core/capture/profile_store.h"

#include <string.h>

#include "core/base/environment.h"
#include "core/base/log.h"
#include "core/cache/cache.h"
#include "core/capture/hook.h"
#include "core/capture/resume_code.h"
#include "core/capture/resume_original.h"
#include "core/objects/switches.h"

#define FORMAT "gramme shape profile 1"
#define LABEL "sizes that change"
#define MAX_INSTANCES 64 /* further instances share the last row */

/* -- The key ----------------------------------------------------------------------------------- */

static void
add (GChecksum *sum, const void *data, size_t bytes)
{
  /* The length first, so that no two different lists of parts give the same bytes. */
  uint64_t n = bytes;
  g_checksum_update (sum, (const guchar *) &n, sizeof n);
  g_checksum_update (sum, data, (gssize) bytes);
}

static bool
add_text (GChecksum *sum, PyObject *text)
{
  Py_ssize_t n = 0;
  const char *utf8 = text && PyUnicode_Check (text) ? PyUnicode_AsUTF8AndSize (text, &n) : NULL;
  add (sum, utf8 ? utf8 : "", (size_t) n);
  return !PyErr_Occurred ();
}

static bool add_code (GChecksum *sum, PyCodeObject *code);

/* Adds a constant of the code to the digest: its type and its text; of a set only the size,
 * since its order depends on the process.  False with an exception. */
static bool
add_constant (GChecksum *sum, PyObject *o)
{
  add (sum, Py_TYPE (o)->tp_name, strlen (Py_TYPE (o)->tp_name));
  if (PyCode_Check (o))
    return add_code (sum, (PyCodeObject *) o);
  if (PyTuple_Check (o) || PyAnySet_Check (o)) {
    Py_ssize_t n = PyObject_Size (o);
    add (sum, &n, sizeof n);
    for (Py_ssize_t i = 0; PyTuple_Check (o) && i < n; i++)
      if (!add_constant (sum, PyTuple_GET_ITEM (o, i)))
        return false;
    return true;
  }
  PyObject *text = PyObject_Repr (o);
  bool good = text && add_text (sum, text);
  Py_XDECREF (text);
  return good;
}

static bool
add_attribute (GChecksum *sum, PyCodeObject *code, const char *name)
{
  PyObject *o = PyObject_GetAttrString ((PyObject *) code, name);
  bool good = o != NULL;
  if (o && PyBytes_Check (o))
    add (sum, PyBytes_AS_STRING (o), (size_t) PyBytes_GET_SIZE (o));
  else if (o)
    good = add_constant (sum, o);
  Py_XDECREF (o);
  return good;
}

static bool
add_code (GChecksum *sum, PyCodeObject *code)
{
  static const char *const parts[] = { "co_code",     "co_consts",         "co_names",
                                       "co_varnames", "co_freevars",       "co_cellvars",
                                       "co_argcount", "co_kwonlyargcount", "co_posonlyargcount",
                                       "co_flags",    "co_qualname" };
  bool good = true;
  for (size_t i = 0; i < G_N_ELEMENTS (parts) && good; i++)
    good = add_attribute (sum, code, parts[i]);
  return good;
}

static bool
make_key (PyCodeObject *code, GmCacheKey *key)
{
  GChecksum *sum = g_checksum_new (G_CHECKSUM_SHA256);
  gsize n = sizeof key->bytes;
  add (sum, FORMAT, strlen (FORMAT));
  bool good = add_code (sum, code) && add_text (sum, code->co_filename);
  g_checksum_get_digest (sum, key->bytes, &n);
  g_checksum_free (sum);
  PyErr_Clear ();
  return good;
}

/* Computes the digest of the function's code.  For a function with breaks the digest is computed
 * once and kept: it is the same for the rest after each break, and the code may be long. */
static bool
key_of_code (const GmCodeCache *cache, GmCacheKey *key)
{
  GmOriginal *o = cache->point ? cache->point->original : cache->original;
  if (o && o->profile_key) {
    *key = *o->profile_key;
    return true;
  }
  bool good = make_key (cache->code, key);
  if (good && o)
    o->profile_key = g_memdup2 (key, sizeof *key);
  return good;
}

/* Computes the key of the function's entry on disk.  Processes with a job_id share entries only
 * with processes of the same job_id. */
static bool
key_of (const GmCodeCache *cache, GmCacheKey *key)
{
  if (!key_of_code (cache, key))
    return false;
  PyObject *job = gm_switch_value ("gramme.compiler.config", "job_id");
  bool good = true;
  if (job && PyUnicode_Check (job)) {
    GChecksum *sum = g_checksum_new (G_CHECKSUM_SHA256);
    gsize n = sizeof key->bytes;
    add (sum, key->bytes, n);
    good = add_text (sum, job);
    g_checksum_get_digest (sum, key->bytes, &n);
    g_checksum_free (sum);
  }
  PyErr_Clear ();
  Py_XDECREF (job);
  return good;
}

/* -- The entry --------------------------------------------------------------------------------- */

static bool
is_wanted (void)
{
  return gm_environment_switch ("GRAMME_CACHE") && gm_environment_switch ("GRAMME_PROFILE")
         && gm_switch_is_true ("automatic_dynamic_local_pgo");
}

static void
tell_once (const char *why)
{
  static bool said;
  if (said)
    return;
  said = true;
  gm_log_warn (
      "what is stored of the sizes of functions cannot be used, so they are found again: %s", why);
}

static void
read_entry (const GmCacheKey *key, GmProfile *p)
{
  GmCacheEntry entry;
  g_autofree char *why = NULL;
  GmCacheResult found = gm_cache_find (key, &entry, &why);
  if (found == GM_CACHE_REFUSED)
    tell_once (why);
  if (found != GM_CACHE_FOUND)
    return;
  g_autofree char *text = g_strndup (entry.data, entry.bytes);
  if (!gm_profile_read (p, text))
    tell_once ("an entry is of another form");
  gm_cache_entry_clear (&entry);
}

/* -- Around a recording ------------------------------------------------------------------------ */

static uint32_t
instance_of (GmCodeCache *cache, PyObject *self)
{
  if (!self || !gm_hook_is_module (self))
    return 0;
  if (!cache->instances)
    cache->instances = g_ptr_array_new ();
  guint at;
  /* Compares addresses only: an instance at a freed one's address is taken for it. */
  if (g_ptr_array_find (cache->instances, self, &at))
    return at;
  if (cache->instances->len < MAX_INSTANCES)
    g_ptr_array_add (cache->instances, self);
  return cache->instances->len - 1;
}

void
gm_profile_store_enter (GmCodeCache *cache, PyObject *self)
{
  GmCacheKey key;
  cache->profile->instance = instance_of (cache, self);
  if (cache->profile_read)
    return;
  cache->profile_read = true;
  if (is_wanted () && key_of (cache, &key)) {
    read_entry (&key, cache->profile);
    cache->profile->widened = cache->profile->added = false;
  }
}

void
gm_profile_store_leave (GmCodeCache *cache)
{
  GmCacheKey key;
  g_autofree char *why = NULL;
  if (!(cache->profile->widened || cache->profile->added) || !is_wanted () || !key_of (cache, &key))
    return;
  read_entry (&key, cache->profile);
  g_autofree char *text = gm_profile_text (cache->profile);
  cache->profile->widened = cache->profile->added = cache->profile->changed = false;
  if (!gm_cache_store_hint (&key, LABEL, text, strlen (text), &why))
    gm_log (GM_LOG_CACHE, "sizes that change: not stored: %s", why ? why : "the cache is off");
  else
    gm_log (GM_LOG_CACHE, "sizes that change: stored for %s",
            PyUnicode_AsUTF8 (cache->code->co_qualname));
}
