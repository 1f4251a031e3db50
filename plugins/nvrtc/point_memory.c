/* SPDX-License-Identifier: Apache-2.0
 * point_memory.c -- reads and writes at points: vectors, elements with a stride, counted numbers;
 * and held values.
 */
#include "plugins/nvrtc/point_parts.h"

#include "plugins/nvrtc/count.h"

/* -- Addresses --------------------------------------------------------------------------------- */

/* Prints the condition that this lane is in the row.  With `tail` some may be beyond it; `full`
 * says that none is. */
static const char *
lane_is_in (NvPoint *pt, const char *lane, char text[64])
{
  snprintf (text, 64, "e + %s < %s", lane, NVZ (pt->u, pt->l->n));
  return text;
}
#define IN(pt, lane) lane_is_in ((pt), (lane), (char[64]){ 0 })

/* Prints the distance of element e (+ lane) of access k from the row's begin. */
static void
distance (NvPoint *pt, char out[256], uint32_t k, bool guarded, const char *lane)
{
  const Access *a = &pt->l->access[k];
  char e[128];
  if (pt->lanes > 1 && guarded)
    snprintf (e, sizeof e, "(full || (%s) ? e + %s : 0)", IN (pt, lane), lane);
  else if (pt->lanes > 1)
    snprintf (e, sizeof e, "(e + %s)", lane);
  else
    snprintf (e, sizeof e, "e");
  if (a->inner == 0)
    snprintf (out, 256, "o%u", k);
  else if (a->inner == 1)
    snprintf (out, 256, "o%u + %s", k, e);
  else
    snprintf (out, 256, "o%u + %s * (gm_index) %s", k, e, NVZ (pt->u, a->inner));
}

static void
place (NvPoint *pt, char *out, size_t room, uint32_t k, bool guarded, const char *lane)
{
  char at[256];
  if (pt->from && pt->l->access[k].inner == 1) {
    bool one = pt->lanes == 1;
    snprintf (out, room, "(p%u + (o%u + %s))[%s%s%s]", pt->arg[k], k, pt->from, pt->on,
              one ? "" : " + ", one ? "" : lane);
    return;
  }
  distance (pt, at, k, guarded, lane);
  snprintf (out, room, "p%u[%s]", pt->arg[k], at);
}

/* Returns the address of the vector of access k as an expression. */
static const char *
vector_at (const NvPoint *pt, uint32_t k, char text[96])
{
  if (pt->from)
    snprintf (text, 96, "p%u + (o%u + %s) + %s", pt->arg[k], k, pt->from, pt->on);
  else
    snprintf (text, 96, "p%u + (o%u + e)", pt->arg[k], k);
  return text;
}
#define VECTOR_AT(pt, k) vector_at ((pt), (k), (char[96]){ 0 })

/* Prints the register of access k: a vector, or one element. */
static void
held_name (const NvPoint *pt, char out[64], uint32_t k, const NvPass *pass, const char *lane)
{
  if (pt->form[k] == NV_VECTOR && !pt->held[k])
    snprintf (out, 64, "w%u", k);
  else if (pt->form[k] == NV_VECTOR || pt->is_ends)
    snprintf (out, 64, "%c%u[%s]", pt->is_ends ? 't' : 'w', k, pass->step);
  else
    snprintf (out, 64, "w%u[%s%s%s]", k, pass->index, pt->lanes > 1 ? " + " : "",
              pt->lanes > 1 ? lane : "");
}

/* -- Reads ------------------------------------------------------------------------------------- */

void
nv_point_put_load (NvPoint *pt, const NvPass *pass, uint32_t k)
{
  const char *elem = nv_elem (nv_point_value (pt, k)->dtype);
  char w[64];
  if (pt->form[k] != NV_VECTOR || pt->held[k] == NV_HELD)
    return;
  held_name (pt, w, k, pass, "l");
  if (!pt->held[k])
    put (pt->t, "    V%d_%s w%u;\n", pt->lanes, elem, k);
  if (pt->tail)
    put (pt->t, "    if (full)\n  ");
  put (pt->t,
       nv_point_is_paired_access (pt, k) ? "    %s = read_%d_%s (%s);\n"
                                         : "    %s = *(const V%d_%s *) (%s);\n",
       w, pt->lanes, elem, VECTOR_AT (pt, k));
  if (pt->tail) {
    put (pt->t, "    else\n#pragma unroll\n      for (int l = 0; l < %d; l++)\n", pt->lanes);
    if (nv_point_is_paired_access (pt, k))
      put (pt->t,
           "        %s.p[l / 2] = (l %% 2 ? %s.p[l / 2] : 0) | (gm_u32) (%s ? p%u[o%u + e + l] : "
           "0) << l %% 2 * 16;\n",
           w, w, IN (pt, "l"), pt->arg[k], k);
    else
      put (pt->t, "        %s.e[l] = %s ? p%u[o%u + e + l] : 0;\n", w, IN (pt, "l"), pt->arg[k], k);
  }
  if (pt->ahead)
    put (pt->t, "    if (e + %lldu < %s)\n      GM_BRING_NEAR (p%u + (o%u + e + %lldu));\n",
         (long long) pt->ahead, NVZ (pt->u, pt->l->n), pt->arg[k], k, (long long) pt->ahead);
}

void
nv_point_put_read (NvPoint *pt, const NvPass *pass, uint32_t k, const NvSide *side)
{
  const CgValue *v = nv_point_value (pt, k);
  char memory[320], value[900], w[64];
  const char *work = nv_work (v->dtype);
  if (pt->form[k] == NV_COUNTED) {
    distance (pt, memory, k, false, side->lane);
    nv_count_view (pt->u, value, sizeof value, pt->l->access[k].value, memory);
    put (pt->t, "      const E_%s x%u%s = %s;\n", work, k, side->suffix, value);
    return;
  }
  if (pt->form[k] == NV_VECTOR) {
    held_name (pt, w, k, pass, side->lane);
    snprintf (memory, sizeof memory, "%s.e[%s]", w, side->lane);
  } else if (pt->held[k] != NV_HELD) {
    place (pt, memory, sizeof memory, k, pt->tail, side->lane);
  }
  if (pt->form[k] != NV_VECTOR && pt->held[k]) {
    held_name (pt, w, k, pass, side->lane);
    if (pt->held[k] == NV_HOLD)
      put (pt->t, "      %s = %s;\n", w, memory);
    snprintf (memory, sizeof memory, "%s", w);
  }
  nv_load (value, sizeof value, v->dtype, memory);
  put (pt->t, "      const E_%s x%u%s = %s;\n", work, k, side->suffix, value);
}

void
nv_point_put_read_pair (NvPoint *pt, const NvPass *pass, uint32_t k)
{
  char w[64];
  if (!nv_point_is_paired_access (pt, k)) {
    for (int i = 0; i < 2; i++)
      nv_point_put_read (pt, pass, k, &nv_point_sides[i]);
    return;
  }
  const char *elem = nv_elem (nv_point_value (pt, k)->dtype);
  held_name (pt, w, k, pass, "l");
  if (pt->again && pt->held[k] == NV_HELD)
    put (pt->t, "      GM_ANEW (%s.p[l / 2]);\n", w);
  put (pt->t,
       "      const gm_u32 q%u = %s.p[l / 2];\n      const E_f32 x%ua = low_%s (q%u), x%ub = "
       "high_%s (q%u);\n",
       k, w, k, elem, k, k, elem, k);
}

/* -- Writes ------------------------------------------------------------------------------------ */

void
nv_point_put_store (NvPoint *pt, uint32_t k)
{
  const char *elem = nv_elem (nv_point_value (pt, k)->dtype);
  if (pt->form[k] != NV_VECTOR)
    return;
  if (pt->tail)
    put (pt->t,
         "    if (!full)\n#pragma unroll\n      for (int l = 0; l < %d; l++) {\n        if (%s)\n  "
         "        "
         "p%u[o%u + e + l] = (E_%s) (y%u.%s);\n      }\n    else\n  ",
         pt->lanes, IN (pt, "l"), pt->arg[k], k, elem, k,
         nv_point_is_paired_access (pt, k) ? "p[l / 2] >> l % 2 * 16" : "e[l]");
  put (pt->t, "    *(V%d_%s *) (%s) = y%u;\n", pt->lanes, elem, VECTOR_AT (pt, k), k);
}

void
nv_point_put_write (NvPoint *pt, uint32_t m, bool computed)
{
  uint32_t out = loop_member (pt->l, m)->out;
  uint32_t k = (uint32_t) loop_access (pt->l, out, false, true);
  char name[32], value[160], memory[320];
  snprintf (name, sizeof name, "m%u", m);
  nv_store (value, sizeof value, pt->l->p->values[out].dtype, name);
  if (computed && nv_point_keeps_half (pt, m))
    snprintf (value, sizeof value, "h%u", m);
  if (pt->form[k] == NV_VECTOR) {
    put (pt->t, "      y%u.e[l] = %s;\n", k, value);
    return;
  }
  place (pt, memory, sizeof memory, k, false, "l");
  put (pt->t, "      %s = %s;\n", memory, value);
}

void
nv_point_put_write_pair (NvPoint *pt, uint32_t m)
{
  uint32_t out = loop_member (pt->l, m)->out, dtype = pt->l->p->values[out].dtype;
  uint32_t k = (uint32_t) loop_access (pt->l, out, false, true);
  bool paired = nv_point_is_paired (pt, m), vector = pt->form[k] == NV_VECTOR;
  char name[32], value[160], memory[320];
  if (vector && paired)
    put (pt->t, "      y%u.p[l / 2] = h%u;\n", k, m);
  else if (vector && nv_point_is_half (pt, out))
    put (pt->t, "      y%u.p[l / 2] = joined_%s (m%ua, m%ub);\n", k, nv_elem (dtype), m, m);
  for (int i = 0; i < 2 && !(vector && nv_point_is_half (pt, out)); i++) {
    snprintf (name, sizeof name, "m%u%s", m, nv_point_sides[i].suffix);
    nv_store (value, sizeof value, dtype, name);
    if (paired)
      snprintf (value, sizeof value, "(E_%s) (h%u%s)", nv_elem (dtype), m, i ? " >> 16" : "");
    if (vector)
      snprintf (memory, sizeof memory, "y%u.e[%s]", k, nv_point_sides[i].lane);
    else
      place (pt, memory, sizeof memory, k, false, nv_point_sides[i].lane);
    put (pt->t, "      %s = %s;\n", memory, value);
  }
}

/* -- Held values ------------------------------------------------------------------------------- */

static bool
begins_to_hold (NvPoint *pt, const NvPass *pass, uint32_t k)
{
  return !pt->l->access[k].store && (pt->form[k] == NV_VECTOR || pt->is_ends)
         && pt->held[k] == NV_HOLD && nv_point_reads (pt, pass->compute | pass->folds, k);
}

bool
nv_point_holds (NvPoint *pt, const NvPass *pass)
{
  for (uint32_t k = 0; k < pt->l->n_access; k++)
    if (begins_to_hold (pt, pass, k))
      return true;
  return false;
}

void
nv_point_hold (NvPoint *pt, const NvPass *pass)
{
  for (uint32_t k = 0; k < pt->l->n_access; k++)
    if (begins_to_hold (pt, pass, k)) {
      char w[64], memory[320];
      held_name (pt, w, k, pass, "l");
      place (pt, memory, sizeof memory, k, false, "l");
      if (pt->form[k] == NV_VECTOR)
        nv_point_put_load (pt, pass, k);
      else
        put (pt->t, "    %s = %s;\n", w, memory);
      pt->held[k] = NV_HELD;
    }
}
