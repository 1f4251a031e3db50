/* SPDX-License-Identifier: Apache-2.0
 * resume_original.c -- see resume_original.h.
 *
 * Reading takes time linear in the code, and is done once however many breaks there are.  `low`
 * says how much of the code a resume function needs: a suffix, since code runs forward except for
 * loops, and handlers lie behind the code that they cover.  Invariant: no jump and no handler leads
 * out of the suffix from low[k] on, for any k.
 */
#include "core/objects/cpython.h"

#include "core/bytecode/assemble.h"
#include "core/capture/code_cache.h"
#include "core/bytecode/decode.h"
#include "core/bytecode/lines.h"
#include "core/bytecode/opcodes.h"
#include "core/capture/resume_code.h"
#include "core/capture/resume_original.h"

uint32_t
gm_original_at (const GmOriginal *o, uint32_t step)
{
  uint32_t lo = 0, hi = o->raw->len;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (g_array_index (o->raw, GmRaw, mid).step < step)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* Appends an instruction to o->raw.  An instruction with two effects becomes two: the new
 * numbers of its variables may not fit into one instruction, and each half is a step of its own. */
static void
append_raw (GmOriginal *o, GmRaw raw)
{
  GmRaw second = raw;
  bool two = false;
  second.step++;
  switch (gm_opcodes[raw.opcode].how) {
  case GM_HOW_FAST_LOAD:
  case GM_HOW_FAST_STORE:
    two = true;
    second.opcode = gm_opcodes[raw.opcode].how == GM_HOW_FAST_LOAD ? LOAD_FAST : STORE_FAST;
    second.arg = raw.arg & 15;
    raw.opcode = gm_opcodes[raw.opcode].op == GM_INSN_LOAD_FAST ? LOAD_FAST : STORE_FAST;
    raw.arg >>= 4;
    break;
#if PY_VERSION_HEX >= 0x030d0000
  case GM_HOW_COMPARE_5:
    two = raw.arg & 16;
    second.opcode = TO_BOOL;
    second.arg = 0;
    raw.arg &= ~16u;
    break;
#endif
  default:
    break;
  }
  g_array_append_val (o->raw, raw);
  if (two)
    g_array_append_val (o->raw, second);
}

/* Computes o->low: for each instruction the begin of the suffix that it needs, the least l such
 * that no instruction from l on jumps below l or is covered by a handler that lies below l. */
static void
find_low (GmOriginal *o)
{
  uint32_t n = o->raw->len;
  uint32_t *low = o->low = g_new (uint32_t, n + 1);
  for (uint32_t k = 0; k <= n; k++)
    low[k] = k;
  for (uint32_t k = 0; k < n; k++) {
    const GmRaw *raw = &g_array_index (o->raw, GmRaw, k);
    if (raw->target >= 0)
      low[k] = MIN (k, (uint32_t) raw->target);
  }
  for (uint32_t i = 0; i < o->ranges->len; i++) {
    const GmRange *r = &g_array_index (o->ranges, GmRange, i);
    uint32_t end = gm_original_at (o, 2 * r->end), target = gm_original_at (o, 2 * r->target);
    if (end > 0)
      low[end - 1] = MIN (low[end - 1], target);
  }
  for (uint32_t k = n; k-- > 0;) /* the least begin that the instructions behind need */
    low[k] = MIN (low[k], low[k + 1]);
  for (uint32_t k = 0; k < n; k++) /* and the begin that this one needs in its turn */
    low[k] = low[k] < k ? low[low[k]] : k;
}

/* Returns a new code object with the same constants, names and bytes.  NULL with an exception. */
static PyCodeObject *
copy_of (PyCodeObject *co)
{
  PyObject *copy = PyObject_CallMethod ((PyObject *) co, "replace", NULL);
  return (PyCodeObject *) copy;
}

static bool
read_code (GmOriginal *o)
{
  PyObject *bytes = PyCode_GetCode (o->co);
  if (!bytes)
    return false;
  const uint8_t *b = (const uint8_t *) PyBytes_AS_STRING (bytes);
  o->n_units = (uint32_t) PyBytes_GET_SIZE (bytes) / 2;
  GmCodeLines lines;
  gm_code_lines_init (&lines, o->co);
  uint32_t arg = 0;
  for (uint32_t at = 0; at < o->n_units; at++) {
    uint8_t opcode = b[2 * at];
    arg = arg << 8 | b[2 * at + 1];
    if (opcode == EXTENDED_ARG)
      continue;
    GmRaw raw = { .opcode = opcode, .arg = arg, .target = -1, .step = 2 * at };
    GmPlace *p = &raw.place;
    gm_code_lines_at (&lines, at, &p->line, &p->col, &p->end_line, &p->end_col);
    uint32_t next = at + 1 + gm_assemble_caches (opcode);
    if (gm_opcodes[opcode].how == GM_HOW_NONE)
      o->why = "an opcode without a row";
    if (gm_opcodes[opcode].how == GM_HOW_FORWARD || gm_opcodes[opcode].how == GM_HOW_FORWARD_PAST)
      raw.target = (int32_t) (next + arg);
    else if (gm_opcodes[opcode].how == GM_HOW_BACKWARD)
      raw.target = (int32_t) (next - arg);
    append_raw (o, raw);
    arg = 0;
    at = next - 1;
  }
  Py_DECREF (bytes);
  for (uint32_t i = 0; i < o->raw->len; i++) {
    GmRaw *raw = &g_array_index (o->raw, GmRaw, i);
    if (raw->target >= 0)
      raw->target = (int32_t) gm_original_at (o, 2 * (uint32_t) raw->target);
  }
  gm_handler_table_read (o->co, o->ranges);
  find_low (o);
  return true;
}

GmOriginal *
gm_original_ref (GmOriginal *o)
{
  g_atomic_ref_count_inc (&o->refs);
  return o;
}

void
gm_original_unref (GmOriginal *o)
{
  if (!o || !g_atomic_ref_count_dec (&o->refs))
    return;
  g_clear_pointer (&o->raw, g_array_unref);
  g_clear_pointer (&o->ranges, g_array_unref);
  gm_code_free (o->code);
  Py_XDECREF (o->co);
  g_free (o->low);
  g_free (o->profile_key);
  g_free (o);
}

void
gm_original_close (GmOriginal *o)
{
  if (!o)
    return;
  o->cache = NULL;
  gm_resume_table_free (g_steal_pointer (&o->points));
  gm_original_unref (o);
}

GmOriginal *
gm_original_get (const GmCode *code)
{
  if (code->original)
    return code->original;
  GmCodeCache *cache = gm_code_cache_get (code->code);
  if (!cache || cache->original)
    return cache ? cache->original : NULL;
  GmOriginal *o = g_new0 (GmOriginal, 1);
  g_autoptr (GError) error = NULL;
  g_atomic_ref_count_init (&o->refs);
  o->co = copy_of (code->code);
  o->code = o->co ? gm_decode_new (o->co, &error) : NULL;
  o->raw = g_array_sized_new (FALSE, TRUE, sizeof (GmRaw), code->n_insns);
  o->ranges = g_array_new (FALSE, TRUE, sizeof (GmRange));
  if (o->code && read_code (o)) {
    o->code->original = o;
    o->cache = cache;
    return cache->original = o;
  }
  if (!PyErr_Occurred ())
    PyErr_SetString (PyExc_RuntimeError,
                     error ? error->message : "no copy of a code object can be made");
  gm_original_unref (o);
  return NULL;
}
