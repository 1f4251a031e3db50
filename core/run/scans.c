/* SPDX-License-Identifier: Apache-2.0
 * scans.c -- see scans.h.
 *
 * The tree is that of core/graph/prefixes.c.  A level is two runs of the body: the first combines
 * neighbours into pairs; the second computes each second slice of the result from the slice before
 * it. The remaining slices of the result are the prefixes of the pairs, which the level below
 * writes into their final place.  So each result is written once, and only one slice a level is
 * copied. The second run computes only results that are wanted, or from which wanted results are
 * computed.
 *
 * The gradient makes the tree once more, with all results, and goes back through it in the order of
 * core/graph/prefixes.c: from each level to the one below with the contributions of the slices
 * behind the first to the gradients of the odd prefixes, and back with the contributions of the
 * pairs.
 */
#include "core/run/scans.h"

#include <string.h>

#include "core/sym/sym.h"

/* Compiled code for a body, on blocks of slices. */
typedef struct {
  GmExec *exec;
  /* n_symbols: symbols of the body; the symbols of the steps follow them.  block: the symbol for
   * the slices of a block */
  uint32_t n_symbols, block;
} Code;

struct GmExecScan {
  const GmHigher *h;                       /* borrowed */
  Code pairs, rest, back_rest, back_pairs; /* back_rest, back_pairs: of the gradient */
  bool *wanted;                            /* by operand: of `rest` */
  uint32_t m, n_args;                      /* m: mapped operands; n_args: operands after them */
};

#define MAX_STEPS 3

/* Compiles g, which it consumes and which may be NULL, into *c.  False without *error: the code for
 * g cannot run on plain addresses (gm_exec_run_at). */
static bool
compile (Code *c, GmGraph *g, const GmGraph *body, const GmRequest *q, GError **error)
{
  g_autoptr (GmGraph) own = g;
  g_autoptr (GmExec) e =
      own ? gm_backend_compile_how (q->backend, own, NULL, q->option_list, q->how, error) : NULL;
  if (!e || !gm_exec_runs_at (e))
    return false;
  c->exec = g_steal_pointer (&e);
  c->n_symbols = gm_sym_n_symbols (body->sym);
  c->block = gm_sym_row (body->sym, gm_size_row (gm_body_input (body, 0)->sizes[0]))->a;
  return true;
}

static bool
has_blocks (const GmGraph *body)
{
  int64_t block = gm_body_input (body, 0)->ndim ? gm_body_input (body, 0)->sizes[0] : 0;
  return gm_size_is_symbolic (block)
         && gm_sym_row (body->sym, gm_size_row (block))->kind == GM_SYM_SYMBOL;
}

static bool
compile_all (GmExecScan *s, const bool *wanted, const GmRequest *q, GError **error)
{
  const GmGraph *body = s->h->bodies[0], *step = s->h->bodies[1];
  uint32_t m = s->m;
  g_autofree bool *all = g_new (bool, m + 1);
  memset (all, true, m);
  s->wanted = g_memdup2 (step ? all : wanted, m * sizeof *wanted);
  gm_graph_close_prefixes (body, m, s->wanted);
  if (!compile (&s->pairs, gm_graph_blocks_apart (body, m, all), body, q, error))
    return false;
  s->rest = s->pairs;
  s->rest.exec = NULL;
  if (memcmp (s->wanted, all, m) == 0)
    s->rest.exec = gm_exec_ref (s->pairs.exec);
  else if (!compile (&s->rest, gm_graph_blocks_apart (body, m, s->wanted), body, q, error))
    return false;
  return !step
         || (compile (&s->back_rest, gm_graph_gradients_apart (step, m, true), step, q, error)
             && compile (&s->back_pairs, gm_graph_gradients_apart (step, m, false), step, q,
                         error));
}

bool
gm_scan_compile (const GmHigher *h, const bool *wanted, const GmRequest *q, GmExecScan **out,
                 GError **error)
{
  GError *failed = NULL;
  *out = NULL;
  if (!has_blocks (h->bodies[0])
      || (h->n_bodies > 1
          && (!has_blocks (h->bodies[1]) || h->bodies[1]->outputs->len != 2 * h->n_mapped)))
    return true;
  GmExecScan *s = g_new0 (GmExecScan, 1);
  s->h = h;
  s->m = h->n_mapped;
  s->n_args = h->bodies[0]->inputs->len - 2 * s->m;
  if (compile_all (s, wanted, q, &failed))
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
  gm_exec_unref (s->pairs.exec);
  gm_exec_unref (s->rest.exec);
  gm_exec_unref (s->back_rest.exec);
  gm_exec_unref (s->back_pairs.exec);
  g_free (s->wanted);
  g_free (s);
}

/* -- Running ----------------------------------------------------------------------------------- */

typedef struct {
  const GmExecScan *s;
  int64_t *symbols;  /* the values of the surrounding graph's symbols, with room for those of a
                      * body */
  size_t *row_bytes; /* per operand: bytes of a slice */
  char **memory;     /* per operand: the unused rest of the memory for pairs */
  GPtrArray *levels; /* char *, m per level: the pairs, kept for the gradient; NULL: not needed */
  void **data;       /* addresses of the tensors of one run */
  void *const *args;
  GError **error;
} Run;

/* Runs the code on blocks of `count` slices, whose addresses are in r->data, with the given steps
 * between slices. */
static GmRunAt
run_code (const Run *r, const Code *c, int64_t count, int n_steps, const int64_t *steps)
{
  int64_t outer = r->symbols[c->block];
  r->symbols[c->block] = count;
  memcpy (r->symbols + c->n_symbols, steps, (size_t) n_steps * sizeof *steps);
  GmRunAt done = gm_exec_run_at (c->exec, r->symbols, r->data, r->error);
  r->symbols[c->block] = outer;
  return done;
}

static uint32_t
put_data (const Run *r, uint32_t n, char *const *blocks, const bool *wanted)
{
  for (uint32_t i = 0; i < r->s->m; i++)
    if (!wanted || wanted[i])
      r->data[n++] = blocks[i];
  return n;
}

static uint32_t
put_operands (const Run *r, char *const *first, char *const *second)
{
  uint32_t n = put_data (r, put_data (r, 0, first, NULL), second, NULL);
  for (uint32_t i = 0; i < r->s->n_args; i++)
    r->data[n++] = r->args[i];
  return n;
}

/* Combines the `count` slices of `first`, at distance first_step, with those of `second`, and
 * writes them to `to`, at distance to_step.  wanted: per result. */
static GmRunAt
combine (const Run *r, const Code *c, char *const *first, int64_t first_step, char *const *second,
         char *const *to, int64_t to_step, int64_t count, const bool *wanted)
{
  put_data (r, put_operands (r, first, second), to, wanted);
  return run_code (r, c, count, 3, (const int64_t[]){ first_step, 2, to_step });
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

/* Sets `out`, per operand, to unused memory for `slices` slices. */
static void
take_memory (const Run *r, int64_t slices, char **out)
{
  memcpy (out, r->memory, r->s->m * sizeof *out);
  moved (r, out, slices, r->memory);
}

/* Computes the prefixes of the n slices `xs` that lie side by side, and writes them to every
 * step'th slice of `to`. */
static GmRunAt
prefixes (Run *r, char *const *xs, int64_t n, char *const *to, int64_t step)
{
  const GmExecScan *s = r->s;
  uint32_t m = s->m;
  int64_t half = n / 2, rest = (n - 1) / 2;
  put_first (r, xs, to);
  if (n < 2)
    return GM_RUN_DONE;
  char **pairs = g_newa (char *, m), **odd = g_newa (char *, m), **other = g_newa (char *, m),
       **even = g_newa (char *, m);
  take_memory (r, half, pairs);
  for (uint32_t i = 0; r->levels && i < m; i++)
    g_ptr_array_add (r->levels, pairs[i]);
  GmRunAt done = combine (r, &s->pairs, xs, 2, moved (r, xs, 1, other), pairs, 1, half, NULL);
  if (done == GM_RUN_DONE)
    done = prefixes (r, pairs, half, moved (r, to, step, odd), 2 * step);
  if (done == GM_RUN_DONE && rest > 0)
    done = combine (r, &s->rest, odd, 2 * step, moved (r, xs, 2, other),
                    moved (r, to, 2 * step, even), 2 * step, rest, s->wanted);
  return done;
}

static void
put_slice (const Run *r, char *const *from, int64_t from_slice, char *const *to, int64_t to_slice)
{
  for (uint32_t i = 0; i < r->s->m; i++)
    memcpy (to[i] + (size_t) to_slice * r->row_bytes[i],
            from[i] + (size_t) from_slice * r->row_bytes[i], r->row_bytes[i]);
}

/* Computes `to`, the gradients of the n slices xs that lie side by side, from g, the gradients of
 * their prefixes.  ys: the prefixes, at every step'th slice. */
static GmRunAt
back (Run *r, uint32_t level, char *const *xs, int64_t n, char *const *ys, int64_t step,
      char *const *g, char *const *to)
{
  const GmExecScan *s = r->s;
  uint32_t m = s->m, k;
  int64_t half = n / 2, rest = (n - 1) / 2;
  if (n < 2) {
    put_slice (r, g, 0, to, 0);
    return GM_RUN_DONE;
  }
  char **odd = g_newa (char *, m), **sums = g_newa (char *, m), **even = g_newa (char *, m),
       **of_pairs = g_newa (char *, m), **other = g_newa (char *, m);
  char *const *pairs = (char *const *) r->levels->pdata + level * m;
  GmRunAt done = GM_RUN_DONE;
  moved (r, ys, step, odd);
  take_memory (r, half, sums);
  take_memory (r, rest + 1, even);
  take_memory (r, half, of_pairs);
  put_slice (r, g, 0, even, 0);
  if (rest > 0) {
    k = put_operands (r, odd, moved (r, xs, 2, other));
    k = put_data (r, k, moved (r, g, 2, other), NULL);
    k = put_data (r, k, moved (r, g, 1, other), NULL);
    k = put_data (r, k, sums, NULL);
    put_data (r, k, moved (r, even, 1, other), NULL);
    done = run_code (r, &s->back_rest, rest, 1, (const int64_t[]){ 2 * step });
  }
  if (half > rest) /* the last slice of an odd number has none behind it */
    put_slice (r, g, 2 * half - 1, sums, half - 1);
  else
    put_slice (r, even, rest, to, n - 1);
  if (done == GM_RUN_DONE)
    done = back (r, level + 1, pairs, half, odd, 2 * step, sums, of_pairs);
  if (done != GM_RUN_DONE)
    return done;
  k = put_operands (r, xs, moved (r, xs, 1, other));
  k = put_data (r, k, of_pairs, NULL);
  k = put_data (r, k, even, NULL);
  k = put_data (r, k, to, NULL);
  put_data (r, k, moved (r, to, 1, other), NULL);
  return run_code (r, &s->back_pairs, half, 0, NULL);
}

/* Sets t[i] to a new reference to operand i in the layout that the code reads. */
static bool
lay_out (const GmExecScan *s, const int64_t *symbols, GmTensor *const *in, uint32_t n_in,
         GmTensor **t, GError **error)
{
  const GmGraph *body = s->h->bodies[0];
  for (uint32_t i = 0; i < n_in; i++) {
    GmMeta want = in[i]->meta;
    if (i < s->m || i >= s->m + s->n_args)
      gm_meta_set_contiguous (&want);
    else if (!gm_graph_meta_now (body, gm_body_input (body, s->m + i), symbols, &want, error))
      return false;
    if (!(t[i] = gm_higher_laid_out (in[i], &want, error)))
      return false;
  }
  return true;
}

/* Returns the number of slices of memory needed besides the operands and the results.  Each level
 * of pairs has half as many slices as the level before.  The gradient needs three more such sets
 * and, unless they are `given`, the prefixes, with one slice more per level. */
static int64_t
slices_needed (const GmExecScan *s, int64_t n, bool given)
{
  return s->back_rest.exec ? 5 * n + 64 + (given ? 0 : n) : n + (given ? 0 : n);
}

static GmRunAt
run (Run *r, int64_t n, GmTensor *const *in, GmTensor *const *out)
{
  const GmExecScan *s = r->s;
  uint32_t m = s->m;
  size_t bytes = 0;
  char **xs = g_newa (char *, m), **to = g_newa (char *, m), **ys = g_newa (char *, m),
       **g = g_newa (char *, m);
  size_t *sizes = g_newa (size_t, m);
  r->row_bytes = g_newa (size_t, m);
  r->memory = g_newa (char *, m);
  for (uint32_t i = 0; i < m; i++) {
    r->row_bytes[i] =
        (size_t) (gm_meta_numel (&in[i]->meta) / n) * gm_dtype_size (in[i]->meta.dtype);
    sizes[i] = ((size_t) slices_needed (s, n, out[i] || !s->wanted[i]) * r->row_bytes[i] + 63)
               & ~(size_t) 63;
    bytes += sizes[i];
  }
  char *memory = gm_alloc (bytes), *next = memory;
  if (!memory && bytes) {
    g_set_error (r->error, GM_ERROR, GM_ERROR_MEMORY,
                 "no memory for the %zu bytes that an associative_scan needs", bytes);
    return GM_RUN_FAILED;
  }
  for (uint32_t i = 0; i < m; i++) {
    xs[i] = gm_tensor_data (in[i]);
    r->memory[i] = next;
    next += sizes[i];
    /* A result that is not wanted, but computed on the way, gets memory of its own. */
    to[i] = out[i] ? gm_tensor_data (out[i]) : r->memory[i];
    if (!out[i] && s->wanted[i])
      r->memory[i] += (size_t) n * r->row_bytes[i];
    if (s->back_rest.exec)
      g[i] = gm_tensor_data (in[m + s->n_args + i]);
  }
  g_autoptr (GPtrArray) levels = s->back_rest.exec ? g_ptr_array_new () : NULL;
  r->levels = levels;
  if (levels)
    take_memory (r, n, ys);
  GmRunAt done = prefixes (r, xs, n, levels ? ys : to, 1);
  if (levels && done == GM_RUN_DONE)
    done = back (r, 0, xs, n, ys, 1, g, to);
  gm_free (memory, bytes);
  return done;
}

static uint32_t
max_symbols (const GmExecScan *s)
{
  return MAX (MAX (s->pairs.n_symbols, s->back_rest.n_symbols), s->back_pairs.n_symbols);
}

GmRunAt
gm_scan_run (const GmExecScan *s, const int64_t *symbols, GmTensor *const *in, GmTensor *const *out,
             GError **error)
{
  uint32_t n_in = s->m + s->n_args + (s->back_rest.exec ? s->m : 0),
           n_symbols = max_symbols (s) + MAX_STEPS;
  int64_t n = in[0]->meta.sizes[0], *now = g_newa (int64_t, n_symbols);
  GmTensor **t = g_newa (GmTensor *, n_in);
  void **args = g_newa (void *, s->n_args + 1);
  memset (t, 0, n_in * sizeof *t);
  memset (now, 0, n_symbols * sizeof *now);
  if (symbols)
    memcpy (now, symbols, s->pairs.n_symbols * sizeof *now);
  Run r = { .s = s, .symbols = now, .args = args, .error = error };
  r.data = g_newa (void *, 6 * s->m + s->n_args);
  GmRunAt done = lay_out (s, now, in, n_in, t, error) ? GM_RUN_DONE : GM_RUN_FAILED;
  for (uint32_t i = 0; i < s->n_args && done == GM_RUN_DONE; i++)
    args[i] = gm_tensor_data (t[s->m + i]);
  if (done == GM_RUN_DONE && n > 0)
    done = run (&r, n, t, out);
  for (uint32_t i = 0; i < n_in; i++)
    gm_tensor_unref (t[i]);
  return done;
}
