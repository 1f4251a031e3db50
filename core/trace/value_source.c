/* SPDX-License-Identifier: Apache-2.0
 * value_source.c -- interned paths to values.
 */
#include "core/trace/class_made.h"
#include "core/trace/recorder.h"

#include <stdarg.h>

guint
gm_source_hash (gconstpointer p)
{
  const GmSource *s = p;
  /* Keys may be equal constants of different identity. They are interned by identity: this only
   * makes duplicates. */
  return g_direct_hash (s->base) * 31 + s->kind * 17 + g_direct_hash (s->obj) * 7
         + g_direct_hash (s->key) + (guint) s->index * 101;
}

gboolean
gm_source_equal (gconstpointer p, gconstpointer q)
{
  const GmSource *a = p, *b = q;
  return a->kind == b->kind && a->base == b->base && a->obj == b->obj && a->key == b->key
         && a->index == b->index;
}

const GmSource *
gm_source_add (GmRecorder *r, const GmSource *init, const char *format, ...)
{
  GmSource *s = g_hash_table_lookup (r->source_index, init);
  if (s)
    return s;
  s = gm_arena_copy (r->arena, init, sizeof *init);
  va_list args;
  va_start (args, format);
  g_autofree char *name = g_strdup_vprintf (format, args);
  va_end (args);
  s->name = gm_arena_strdup (r->arena, name);
  s->number = r->sources->len;
  if (s->obj)
    gm_record_keep (r, s->obj);
  if (s->key)
    gm_record_keep (r, s->key);
  g_ptr_array_add (r->sources, s);
  g_hash_table_add (r->source_index, s);
  return s;
}

const GmKeyParts *
gm_source_parts_again (GmRecorder *r, const GmKeyParts *parts)
{
  if (!parts)
    return NULL;
  GmKeyParts *now =
      gm_arena_copy (r->arena, parts, sizeof *parts + parts->n * sizeof parts->parts[0]);
  for (uint32_t i = 0; i < now->n; i++)
    now->parts[i].source = gm_source_again (r, now->parts[i].source);
  return now;
}

const GmSource *
gm_source_again (GmRecorder *r, const GmSource *s)
{
  if (!s || (s->number < r->sources->len && r->sources->pdata[s->number] == s))
    return s;
  GmSource init = *s;
  init.base = gm_source_again (r, s->base);
  init.parts = gm_source_parts_again (r, s->parts);
  return gm_source_add (r, &init, "%s", s->name);
}

/* Returns a short text of a constant key for names of sources; the caller frees it. */
static char *
key_text (PyObject *key)
{
  if (!gm_is_constant_type (Py_TYPE (key))) /* the key's repr may be code of the user's */
    return g_strdup (Py_TYPE (key)->tp_name);
  PyObject *text = PyObject_Repr (key);
  char *s = g_strdup (text ? PyUnicode_AsUTF8 (text) : "?");
  PyErr_Clear ();
  Py_XDECREF (text);
  return s;
}

const GmSource *
gm_source_local (GmRecorder *r, uint32_t i)
{
  const GmCode *code = r->request->code;
  const GmRecordStart *start = r->request->start;
  GmSource source = { .kind = GM_SOURCE_LOCAL, .index = i };
  uint32_t slot = start && i < start->n_locals ? start->locals[i] : i;
  bool variable = start ? i < start->n_locals && !gm_is_cell_slot (&code->slots[slot]) : true;
  if (variable) {
    source.key = code->slots[slot].name;
    return gm_source_add (r, &source, "L['%s']", PyUnicode_AsUTF8 (source.key));
  }
  return gm_source_add (r, &source, "L['<stack %u>']",
                        i < start->n_locals ? start->depth + i : i - start->n_locals);
}

const GmSlot *
gm_root_free_slot (const GmRecorder *r, uint32_t i)
{
  const GmCode *code = r->request->code;
  if (!r->request->start)
    return &code->slots[code->first_free + i];
  uint32_t s = 0;
  for (; !gm_is_cell_slot (&code->slots[s]) || i-- > 0; s++)
    ;
  return &code->slots[s];
}

uint32_t
gm_root_n_free (const GmRecorder *r)
{
  const GmCode *code = r->request->code;
  uint32_t n = 0;
  if (!r->request->start)
    return code->n_free;
  for (uint32_t s = 0; s < code->n_slots; s++)
    n += gm_is_cell_slot (&code->slots[s]);
  return n;
}

const GmSource *
gm_source_free (GmRecorder *r, uint32_t i, bool cell)
{
  PyObject *variable = gm_root_free_slot (r, i)->name;
  const char *name = PyUnicode_AsUTF8 (variable);
  if (cell)
    return gm_source_add (r, &(GmSource){ .kind = GM_SOURCE_FREE_CELL, .index = i },
                          "cell of L['%s']", name);
  return gm_source_add (r, &(GmSource){ .kind = GM_SOURCE_FREE, .key = variable, .index = i },
                        "L['%s']", name);
}

const GmSource *
gm_source_global (GmRecorder *r, PyObject *dict, PyObject *name)
{
  const char *text = PyUnicode_AsUTF8 (name);
  if (dict == r->request->func->func_globals)
    return gm_source_add (r, &(GmSource){ .kind = GM_SOURCE_GLOBAL, .obj = dict, .key = name },
                          "G['%s']", text);
  if (dict == r->request->func->func_builtins)
    return gm_source_add (r, &(GmSource){ .kind = GM_SOURCE_GLOBAL, .obj = dict, .key = name },
                          "builtins['%s']", text);
  PyObject *module = PyDict_GetItemString (dict, "__name__");
  const char *module_name = module && PyUnicode_Check (module) ? PyUnicode_AsUTF8 (module) : "?";
  return gm_source_add (r, &(GmSource){ .kind = GM_SOURCE_GLOBAL, .obj = dict, .key = name },
                        "G(%s)['%s']", module_name, text);
}

bool
gm_source_is_unique (const GmSource *source)
{
  for (; source->base; source = source->base)
    if ((source->kind == GM_SOURCE_DICT_ITEM || source->kind == GM_SOURCE_CACHED)
        && !gm_is_constant_type (Py_TYPE (source->key)))
      return false;
  return source->kind != GM_SOURCE_CONST;
}

const GmSource *
gm_source_const (GmRecorder *r, PyObject *value, const char *name)
{
  return gm_source_add (r, &(GmSource){ .kind = GM_SOURCE_CONST, .obj = value }, "%s", name);
}

const GmSource *
gm_source_attr (GmRecorder *r, const GmSource *base, PyObject *name)
{
  return gm_source_add (r, &(GmSource){ .kind = GM_SOURCE_ATTR, .base = base, .key = name },
                        "%s.%s", base->name, PyUnicode_AsUTF8 (name));
}

const GmSource *
gm_source_member (GmRecorder *r, const GmSource *base, int64_t offset, PyObject *name)
{
  return gm_source_add (r, &(GmSource){ .kind = GM_SOURCE_MEMBER, .base = base, .index = offset },
                        "%s.%s", base->name, PyUnicode_AsUTF8 (name));
}

const GmSource *
gm_source_class_attr (GmRecorder *r, PyTypeObject *type, PyObject *name)
{
  /* gm_class_lookup_made has found and guarded the attribute */
  if (G_UNLIKELY (r->made || r->classes_written) && gm_class_changed (r, type)) {
    PyObject *found = gm_class_lookup_made (r, type, name);
    if (found)
      return gm_source_const (r, found, PyUnicode_AsUTF8 (name));
  }
  return gm_source_add (
      r, &(GmSource){ .kind = GM_SOURCE_CLASS_ATTR, .obj = (PyObject *) type, .key = name },
      "%s.%s", type->tp_name, PyUnicode_AsUTF8 (name));
}

const GmSource *
gm_source_item (GmRecorder *r, const GmSource *base, GmRecordKind kind, int64_t index)
{
  return gm_source_add (r, &(GmSource){ .kind = (uint8_t) kind, .base = base, .index = index },
                        "%s[%" G_GINT64_FORMAT "]", base->name, index);
}

bool
gm_source_is_member (const GmSource *s)
{
  static const char *const tables[] = { "_parameters", "_buffers", "_modules" };
  bool item =
      s->kind == GM_SOURCE_DICT_ITEM && PyUnicode_Check (s->key) && s->base->kind == GM_SOURCE_ATTR;
  for (size_t i = 0; item && i < G_N_ELEMENTS (tables); i++)
    if (PyUnicode_CompareWithASCIIString (s->base->key, tables[i]) == 0)
      return true;
  return false;
}

const GmSource *
gm_source_dict_item (GmRecorder *r, const GmSource *base, PyObject *key)
{
  const GmSource source = { .kind = GM_SOURCE_DICT_ITEM, .base = base, .key = key };
  if (gm_source_is_member (&source)) /* a member of an nn.Module is named as in the program */
    return gm_source_add (r, &source, "%s.%s", base->base->name, PyUnicode_AsUTF8 (key));
  g_autofree char *text = key_text (key);
  return gm_source_add (r, &source, "%s[%s]", base->name, text);
}

const GmSource *
gm_source_cached (GmRecorder *r, const GmSource *base, int64_t in_link, PyObject *key,
                  const GmKeyParts *parts)
{
  GmSource s = {
    .kind = GM_SOURCE_CACHED, .base = base, .index = in_link, .key = key, .parts = parts
  };
  g_autofree char *text = key_text (key);
  return gm_source_add (r, &s, "the result of %s (%s)", base->name, text);
}

const GmSource *
gm_source_part (GmRecorder *r, const GmSource *base, GmRecordKind kind, int64_t index,
                PyObject *key)
{
  GmSource s = { .kind = (uint8_t) kind, .base = base, .index = index, .key = key };
  switch (kind) {
  case GM_SOURCE_CELL:
    return gm_source_add (r, &s, "%s.__closure__[%" G_GINT64_FORMAT "]", base->name, index);
  case GM_SOURCE_CONTENTS:
    if (base->kind == GM_SOURCE_FREE_CELL) /* uses one accessor, and the name of a plain local */
      return gm_source_free (r, (uint32_t) base->index, false);
    return gm_source_add (r, &s, "%s.cell_contents", base->name);
  case GM_SOURCE_DEFAULT:
    return gm_source_add (r, &s, "%s.__defaults__[%" G_GINT64_FORMAT "]", base->name, index);
  case GM_SOURCE_GIVEN_VALUE:
    return gm_source_add (r, &s, "the value of %s[%" G_GINT64_FORMAT "]", base->name, index);
  case GM_SOURCE_ARRAY:
    return gm_source_add (r, &s, "from_numpy(%s)", base->name);
  case GM_SOURCE_NUMBER:
    return gm_source_add (r, &s, "number(%s)", base->name);
  case GM_SOURCE_GRAD:
    return gm_source_add (r, &s, "%s.grad", base->name);
  case GM_SOURCE_INSTANCE_DICT:
    return gm_source_add (r, &s, "%s.__dict__", base->name);
  case GM_SOURCE_KWDEFAULT:
    return gm_source_add (r, &s, "%s.__kwdefaults__['%s']", base->name, PyUnicode_AsUTF8 (key));
  case GM_SOURCE_METHOD_FUNC:
    return gm_source_add (r, &s, "%s.__func__", base->name);
  case GM_SOURCE_METHOD_SELF:
    return gm_source_add (r, &s, "%s.__self__", base->name);
  default:
    g_assert_not_reached ();
  }
}
