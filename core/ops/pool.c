/* SPDX-License-Identifier: Apache-2.0
 * pool.c -- the largest element of each window, for a maximum over windows and its gradient.
 *
 * The tiles find the largest element of each window and its place, channel by channel (windows.h
 * lays the channel out, with -inf around it), and plain loops read or write there. A place outside
 * of x is never the result of a window that has a place inside.  Threads share the channels.
 */
#include "core/base/threads.h"
#include "core/ops/infer.h"
#include "core/ops/windows.h"

#include <math.h>
#include <string.h>

typedef struct {
  GmWindow w;
  GmImage x;
  int64_t out[SPACE], windows;
  bool padded;      /* a window reaches outside of x */
  int64_t *offsets; /* offset of each place from the first one; dense */
  int64_t n_places;
} Pool;

/* Returns the index in the channel of element k of a window that begins at `origin`; -1: outside.
 */
static inline int64_t
inside (const Pool *p, int64_t k, const int64_t *origin)
{
  int64_t at[SPACE], element = 0;
  for (int d = SPACE - 1; d >= 0; d--) {
    at[d] = origin[d] + k % p->w.kernel[d] * p->w.dilation[d];
    k /= p->w.kernel[d];
  }
  for (int d = 0; d < SPACE; d++) {
    if (at[d] < 0 || at[d] >= p->x.sizes[2 + d])
      return -1;
    element = element * p->x.sizes[2 + d] + at[d];
  }
  return element;
}

/* Returns the index in the channel of element k of a window. If all of the window is -inf, the
 * element that the tiles found may be in the padding: then that of the first element inside. */
static int64_t
element_of (const Pool *p, int64_t k, const int64_t *origin)
{
  int64_t element = inside (p, k, origin);
  for (k = 0; element < 0 && k < p->n_places; k++)
    element = inside (p, k, origin);
  return element;
}

/* Runs EACH (window, element) for all windows in order. */
#define WINDOWS(EACH)                                                                              \
  do {                                                                                             \
    int64_t origin[SPACE], window = 0;                                                             \
    for (int64_t i = 0; i < p->out[0]; i++)                                                        \
      for (int64_t j = 0; j < p->out[1]; j++) {                                                    \
        origin[0] = i * p->w.stride[0] - p->w.pad[0];                                              \
        origin[1] = j * p->w.stride[1] - p->w.pad[1];                                              \
        int64_t line = (origin[0] * p->x.sizes[3] + origin[1]) * p->x.sizes[4] - p->w.pad[2];      \
        for (int64_t l = 0; l < p->out[2]; l++, window++) {                                        \
          int64_t element = line + l * p->w.stride[2];                                             \
          if (!p->padded)                                                                          \
            element += p->offsets[where[window]];                                                  \
          else {                                                                                   \
            origin[2] = l * p->w.stride[2] - p->w.pad[2];                                          \
            element = element_of (p, where[window], origin);                                       \
          }                                                                                        \
          EACH;                                                                                    \
        }                                                                                          \
      }                                                                                            \
  } while (0)

#define LOOPS(T, I, infinity)                                                                      \
  static void pick_##T (const Pool *p, const I *where, const T *v, T *out)                         \
  {                                                                                                \
    WINDOWS (out[window] = element < 0 ? -infinity : v[element]);                                  \
  }                                                                                                \
  static void spread_##T (const Pool *p, const I *where, const T *g, T *out)                       \
  {                                                                                                \
    WINDOWS (if (element >= 0) out[element] += g[window]);                                         \
  }
LOOPS (float, int32_t, (float) INFINITY)
LOOPS (double, int64_t, (double) INFINITY)

static void
run_channel (GmOp op, const Pool *p, GmDtype dtype, const void *where, const void *other, void *out)
{
  if (dtype == GM_F32 && op == GM_OP_window_pick)
    pick_float (p, where, other, out);
  else if (dtype == GM_F32)
    spread_float (p, where, other, out);
  else if (op == GM_OP_window_pick)
    pick_double (p, where, other, out);
  else
    spread_double (p, where, other, out);
}

typedef struct {
  GmOp op;
  const Pool *pool;
  const GmAxis *axes;
  GmTensor *x, *other, *out;
  const int64_t *windows; /* strides of the windows */
  uint32_t n;
  bool failed; /* atomic */
} PoolJob;

/* Computes the channels of all images numbered from `from` up to `to`; false: no memory. */
static bool
run_channels (const PoolJob *j, int64_t from, int64_t to)
{
  const Pool *p = j->pool;
  GmDtype dtype = (GmDtype) j->x->meta.dtype;
  GmImageSource s;
  bool ok = gm_source_init (&s, &p->x, j->axes, 1, dtype, -INFINITY);
  bool picks = j->op == GM_OP_window_pick,
       itself = picks && gm_tensor_data (j->x) == gm_tensor_data (j->other);
  size_t image = (size_t) gm_image_volume (&p->x) * s.elem, result = (size_t) p->windows * s.elem;
  char *scratch = ok && !itself ? gm_alloc (2 * result) : NULL;
  ok = ok && (itself || scratch);
  if (ok)
    gm_windows_merge (&s.windows, j->windows);
  for (int64_t i = from; ok && i < to; i++) {
    char *out = (char *) gm_tensor_data (j->out) + (size_t) i * (picks ? result : image);
    const char *other =
        (const char *) gm_tensor_data (j->other) + (size_t) i * (picks ? image : result);
    gm_source_read (&s, i / p->x.sizes[1], i % p->x.sizes[1]);
    if (itself)
      s.tiles->best (&s.windows, out, NULL);
    else {
      s.tiles->best (&s.windows, scratch, scratch + result);
      run_channel (j->op, p, dtype, scratch + result, other, out);
    }
  }
  if (scratch)
    gm_free (scratch, 2 * result);
  gm_source_clear (&s);
  return ok;
}

static void
channels_part (void *arg, uint32_t part)
{
  PoolJob *j = arg;
  int64_t items = j->pool->x.sizes[0] * j->pool->x.sizes[1];
  if (!run_channels (j, items * part / j->n, items * (part + 1) / j->n))
    __atomic_store_n (&j->failed, true, __ATOMIC_RELAXED);
}

static bool
run_pool (GmOp op, const GmAttrs *attrs, GmTensor *x, GmTensor *other, GmTensor *out)
{
  Pool p = { .x = gm_image_of (x) };
  GmImage y = gm_image_of (op == GM_OP_window_pick ? out : other);
  GmAxis axes[SPACE];
  gm_window_read (attrs, &p.w);
  for (int d = 0; d < SPACE; d++) {
    axes[d] = gm_axis_forward (&p.w, d, p.x.sizes[2 + d], y.sizes[2 + d]);
    p.out[d] = y.sizes[2 + d];
    p.padded |= axes[d].before > 0 || axes[d].covered > axes[d].n_in;
  }
  p.windows = gm_image_volume (&y);
  p.n_places = p.w.kernel[0] * p.w.kernel[1] * p.w.kernel[2];
  size_t bytes = (size_t) p.n_places * sizeof *p.offsets;
  if (!(p.offsets = gm_alloc (bytes)))
    return false;
  for (int64_t k = 0; k < p.n_places; k++) {
    int64_t l = k % p.w.kernel[2], j = k / p.w.kernel[2] % p.w.kernel[1],
            i = k / p.w.kernel[2] / p.w.kernel[1];
    p.offsets[k] = (i * p.w.dilation[0] * p.x.sizes[3] + j * p.w.dilation[1]) * p.x.sizes[4]
                   + l * p.w.dilation[2];
  }
  int64_t channels = p.x.sizes[0] * p.x.sizes[1];
  PoolJob j = { .op = op,
                .pool = &p,
                .axes = axes,
                .x = x,
                .other = other,
                .out = out,
                .windows = y.strides + 2,
                .n = gm_loop_parts (channels,
                                    channels * (gm_image_volume (&p.x) + p.windows * p.n_places)) };
  gm_threads_run (j.n, channels_part, &j);
  gm_free (p.offsets, bytes);
  return !j.failed;
}

bool
gm_pool_run (GmOp op, GmTensor *const *in, const GmAttrs *attrs, GmTensor *out, GError **error)
{
  if (gm_meta_numel (&out->meta) == 0)
    return true;
  GmDtype dtype = gm_dtype_compute (out->meta.dtype);
  g_autoptr (GmTensor) x = gm_plain_tensor (in[0], dtype, true, error);
  g_autoptr (GmTensor) other = !x               ? NULL
                               : in[0] == in[1] ? gm_tensor_ref (x)
                                                : gm_plain_tensor (in[1], dtype, true, error);
  g_autoptr (GmTensor) r = other ? gm_plain_tensor (out, dtype, false, error) : NULL;
  if (!r)
    return false;
  if (op == GM_OP_window_spread)
    memset (gm_tensor_data (r), 0, (size_t) gm_meta_numel (&r->meta) * gm_dtype_size (dtype));
  if (gm_meta_numel (&other->meta) && !run_pool (op, attrs, x, other, r))
    return gm_infer_fail (error, GM_ERROR_MEMORY, "%s: no memory for a copy of one image",
                          gm_ops[op].name);
  if (r != out)
    gm_copy_strided (out, r);
  return true;
}
