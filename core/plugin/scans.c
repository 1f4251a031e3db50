/* SPDX-License-Identifier: Apache-2.0
 * scans.c -- see scans.h.
 *
 * The tree is that of core/graph/prefixes.c.  A level is two runs of the body: one combines neighbours into pairs, the other one
 * gives each second slice of the result from the slice before it; the rest of the result is the prefixes of the pairs, which the level below
 * writes where they belong.  So each result is written once, in its place, and what is copied is one slice a level.
 * The second run gives only results that somebody wants, or that those are computed from.
 */
#include "core/plugin/scans.h"

#include <string.h>

#include "core/sym/sym.h"

struct GmExecScan {
  const GmHigher *h; /* borrowed */
  GmExec *pairs, *rest;
  bool *wanted;       /* by operand: of `rest` */
  uint32_t m, n_args; /* mapped operands, and those behind */
  uint32_t n_symbols, block; /* of the body; how many slices a block has is one of them */
};

/* NULL without an error: it is no code that runs where the blocks are. */
static GmExec *
compile (const GmHigher *h, const bool *wanted, const GmRequest *q, GError **error)
{
  g_autoptr (GmGraph) body = gm_graph_blocks_apart (h->bodies[0], h->n_mapped, wanted);
  g_autoptr (GmExec) e = body ? gm_backend_compile_how (q->backend, body, NULL, q->option_list, q->how, error) : NULL;
  return e && gm_exec_runs_at (e) ? g_steal_pointer (&e) : NULL;
}

bool
gm_scan_compile (const GmHigher *h, const bool *wanted, const GmRequest *q, GmExecScan **out, GError **error)
{
  const GmGraph *body = h->bodies[0];
  uint32_t m = h->n_mapped;
  int64_t block = gm_body_input (body, 0)->ndim ? gm_body_input (body, 0)->sizes[0] : 0;
  GError *failed = NULL;
  *out = NULL;
  if (!gm_size_is_symbolic (block) || gm_sym_row (body->sym, gm_size_row (block))->kind != GM_SYM_SYMBOL)
    return true;
  GmExecScan *s = g_new0 (GmExecScan, 1);
  g_autofree bool *all = g_new (bool, m + 1);
  memset (all, true, m);
  s->h = h;
  s->m = m;
  s->n_args = body->inputs->len - 2 * m;
  s->n_symbols = gm_sym_n_symbols (body->sym);
  s->block = gm_sym_row (body->sym, gm_size_row (block))->a;
  s->wanted = g_memdup2 (wanted, m * sizeof *wanted);
  gm_graph_close_prefixes (body, m, s->wanted);
  if ((s->pairs = compile (h, all, q, &failed)))
    s->rest = memcmp (s->wanted, all, m) == 0 ? gm_exec_ref (s->pairs) : compile (h, s->wanted, q, &failed);
  if (s->rest)
    *out = s;
  else
    gm_scan_free (s);
  if (failed)
    g_propagate_error (error, failed);
  return !failed;
}

void
gm_scan_free (GmExecScan *s)
{
  if (!s)
    return;
  gm_exec_unref (s->pairs);
  gm_exec_unref (s->rest);
  g_free (s->wanted);
  g_free (s);
}

/* -- Running ----------------------------------------------------------------------------------- */

typedef struct {
  const GmExecScan *s;
  int64_t *symbols, *steps; /* steps: the last three of the symbols */
  size_t *row_bytes;        /* of a slice, by operand */
  char **memory;            /* what is left for pairs, by operand */
  void **data;              /* of a run */
  void *const *args;
  GError **error;
} Run;

/* Blocks of `count` slices: from xs, first and second, into to. */
static GmRunAt
combine (Run *r, GmExec *e, char *const *first, int64_t first_step, char *const *second, int64_t second_step, char *const *to,
         int64_t to_step, int64_t count, const bool *wanted)
{
  uint32_t m = r->s->m, n = 2 * m;
  for (uint32_t i = 0; i < m; i++) {
    r->data[i] = first[i];
    r->data[m + i] = second[i];
  }
  for (uint32_t i = 0; i < r->s->n_args; i++)
    r->data[n++] = r->args[i];
  for (uint32_t i = 0; i < m; i++)
    if (!wanted || wanted[i])
      r->data[n++] = to[i];
  r->symbols[r->s->block] = count;
  r->steps[0] = first_step;
  r->steps[1] = second_step;
  r->steps[2] = to_step;
  return gm_exec_run_at (e, r->symbols, r->data, r->error);
}

static void
put_first (const Run *r, char *const *xs, char *const *to)
{
  for (uint32_t i = 0; i < r->s->m; i++)
    if (r->s->wanted[i])
      memcpy (to[i], xs[i], r->row_bytes[i]);
}

static char **
moved (const Run *r, char *const *from, int64_t slices, char **to)
{
  for (uint32_t i = 0; i < r->s->m; i++)
    to[i] = from[i] + (size_t) slices * r->row_bytes[i];
  return to;
}

/* The prefixes of n neighbours, at each step'th slice of `to`. */
static GmRunAt
prefixes (Run *r, char *const *xs, int64_t n, char *const *to, int64_t step)
{
  const GmExecScan *s = r->s;
  uint32_t m = s->m;
  int64_t half = n / 2, rest = (n - 1) / 2;
  put_first (r, xs, to);
  if (n < 2)
    return GM_RUN_DONE;
  char **pairs = g_newa (char *, m), **odd = g_newa (char *, m), **other = g_newa (char *, m), **even = g_newa (char *, m);
  memcpy (pairs, r->memory, m * sizeof *pairs);
  moved (r, pairs, half, r->memory);
  GmRunAt done = combine (r, s->pairs, xs, 2, moved (r, xs, 1, other), 2, pairs, 1, half, NULL);
  if (done == GM_RUN_DONE)
    done = prefixes (r, pairs, half, moved (r, to, step, odd), 2 * step);
  if (done == GM_RUN_DONE && rest > 0)
    done = combine (r, s->rest, odd, 2 * step, moved (r, xs, 2, other), 2, moved (r, to, 2 * step, even), 2 * step, rest, s->wanted);
  return done;
}

/* The operands as the code reads them: t[i] is a new reference. */
static bool
lay_out (const GmExecScan *s, const int64_t *symbols, GmTensor *const *in, GmTensor **t, GError **error)
{
  const GmGraph *body = s->h->bodies[0];
  for (uint32_t i = 0; i < s->m + s->n_args; i++) {
    GmMeta want = in[i]->meta;
    if (i < s->m)
      gm_meta_set_contiguous (&want);
    else if (!gm_graph_meta_now (body, gm_body_input (body, s->m + i), symbols, &want, error))
      return false;
    if (!(t[i] = gm_higher_laid_out (in[i], &want, error)))
      return false;
  }
  return true;
}

static GmRunAt
run (Run *r, int64_t n, GmTensor *const *in, GmTensor *const *out)
{
  uint32_t m = r->s->m;
  size_t bytes = 0;
  char **xs = g_newa (char *, m), **to = g_newa (char *, m);
  r->row_bytes = g_newa (size_t, m);
  r->memory = g_newa (char *, m);
  for (uint32_t i = 0; i < m; i++) {
    r->row_bytes[i] = (size_t) (gm_meta_numel (&in[i]->meta) / n) * gm_dtype_size (in[i]->meta.dtype);
    bytes += ((size_t) n * r->row_bytes[i] + 63) & ~(size_t) 63;
  }
  /* What is not wanted, but computed on the way, has a place of its own. */
  size_t spare = 0;
  for (uint32_t i = 0; i < m; i++)
    spare += r->s->wanted[i] && !out[i] ? ((size_t) n * r->row_bytes[i] + 63) & ~(size_t) 63 : 0;
  char *memory = gm_alloc (bytes + spare), *next = memory;
  if (!memory && bytes + spare) {
    g_set_error (r->error, GM_ERROR, GM_ERROR_MEMORY, "no memory for the %zu bytes that an associative_scan needs", bytes + spare);
    return GM_RUN_FAILED;
  }
  for (uint32_t i = 0; i < m; i++) {
    size_t size = ((size_t) n * r->row_bytes[i] + 63) & ~(size_t) 63;
    xs[i] = gm_tensor_data (in[i]);
    r->memory[i] = next;
    next += size;
    to[i] = out[i] ? gm_tensor_data (out[i]) : next;
    next += r->s->wanted[i] && !out[i] ? size : 0;
  }
  GmRunAt done = prefixes (r, xs, n, to, 1);
  gm_free (memory, bytes + spare);
  return done;
}

GmRunAt
gm_scan_run (const GmExecScan *s, const int64_t *symbols, GmTensor *const *in, GmTensor *const *out, GError **error)
{
  uint32_t n_in = s->m + s->n_args, n_symbols = s->n_symbols + 3;
  int64_t n = in[0]->meta.sizes[0], *now = g_newa (int64_t, n_symbols);
  GmTensor **t = g_newa (GmTensor *, n_in);
  void **args = g_newa (void *, s->n_args + 1);
  memset (t, 0, n_in * sizeof *t);
  memset (now, 0, n_symbols * sizeof *now);
  if (symbols)
    memcpy (now, symbols, s->n_symbols * sizeof *now);
  Run r = { .s = s, .symbols = now, .steps = now + s->n_symbols, .args = args, .error = error };
  r.data = g_newa (void *, 3 * s->m + s->n_args);
  GmRunAt done = lay_out (s, now, in, t, error) ? GM_RUN_DONE : GM_RUN_FAILED;
  for (uint32_t i = 0; i < s->n_args && done == GM_RUN_DONE; i++)
    args[i] = gm_tensor_data (t[s->m + i]);
  if (done == GM_RUN_DONE && n > 0)
    done = run (&r, n, t, out);
  for (uint32_t i = 0; i < n_in; i++)
    gm_tensor_unref (t[i]);
  return done;
}
