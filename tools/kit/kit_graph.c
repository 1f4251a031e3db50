/* SPDX-License-Identifier: Apache-2.0
 * kit_graph.c -- requests and runs in the form in which a plugin sees them, and their results.
 *
 * The image, its constants and the request are read-only and become inaccessible when the call
 * returns. Inputs are read-only, outputs hold a pattern, each tensor lies between pages of its own,
 * and every second one is described by an offset.
 */
#include <math.h>
#include <string.h>

#include "core/graph/image.h"
#include "core/run/regions.h"
#include "core/plugin/status.h"
#include "tools/kit/kit.h"

#define N_TABLES 12

/* -- Images ------------------------------------------------------------------------------------ */

/* Returns a copy of the image with rows that are `by` bytes longer, whose additional bytes have no
 * meaning yet; the caller frees. */
static void *
widen (const GrammeImage *img, uint32_t by, size_t *bytes)
{
  const GrammeTable *from = &img->values;
  size_t at = sizeof *img + by, total = at;
  for (int i = 0; i < N_TABLES; i++)
    total += (size_t) from[i].count * (from[i].stride + by) + 8;
  char *out = g_malloc (total);
  memset (out, 0xee, total);
  memcpy (out, img, sizeof *img);
  GrammeImage *h = (GrammeImage *) (void *) out;
  GrammeTable *to = &h->values;
  for (int i = 0; i < N_TABLES; i++) {
    to[i].offset = (uint32_t) at;
    to[i].stride = from[i].stride + by;
    for (uint32_t r = 0; r < from[i].count; r++)
      memcpy (out + at + (size_t) r * to[i].stride, gramme_image_row (img, &from[i], r),
              from[i].stride);
    at = (at + (size_t) from[i].count * to[i].stride + 7) & ~(size_t) 7;
  }
  h->header_bytes += by;
  h->total_bytes = *bytes = at;
  return out;
}

static KitMem
show_image (Kit *k, const void *bytes, size_t n)
{
  g_autofree void *wide = k->wide ? widen (bytes, k->wide, &n) : NULL;
  KitMem m = kit_mem_new (k, KIT_IMAGE, n, 64, k->left, "the graph's image");
  memcpy (m.data, wide ? wide : bytes, n);
  kit_mem_read_only (&m);
  return m;
}

/* -- Tensors ----------------------------------------------------------------------------------- */

/* Tensors for the plugin: rows, their shapes and strides, and their buffers. */
typedef struct {
  uint32_t n;
  KitMem rows, dims, *buffers;
} Tensors;

static size_t
extent_bytes (const GmMeta *m)
{
  return (size_t) gm_meta_extent (m) * gm_dtype_size (m->dtype);
}

static GmMeta
plain (const GmMeta *m)
{
  GmMeta p = *m;
  p.requires_grad = 0;
  return p;
}

static void
release_nothing (void *owner, void *data, size_t bytes)
{
}

/* Copies the elements of `from` into memory with the layout of m. */
static void
lay_out (const GmMeta *m, const GmTensor *from, char *to)
{
  int64_t index[GM_MAX_DIMS] = { 0 }, size = gm_dtype_size (m->dtype);
  for (int64_t i = 0, n = gm_meta_numel (m); i < n; i++) {
    int64_t a = from->offset, b = 0;
    for (int d = 0; d < m->ndim; d++) {
      a += index[d] * from->meta.strides[d];
      b += index[d] * m->strides[d];
    }
    memcpy (to + b * size, (const char *) from->storage->data + a * size, (size_t) size);
    for (int d = m->ndim - 1; d >= 0 && ++index[d] == m->sizes[d]; d--)
      index[d] = 0;
  }
}

static Tensors
tensors_new (Kit *k, uint32_t n, KitKind kind, const char *what)
{
  g_autofree char *rows = g_strdup_printf ("the rows of the %ss", what),
                  *dims = g_strdup_printf ("the shapes of the %ss", what);
  Tensors t = { .n = n, .buffers = g_new0 (KitMem, n + 1) };
  t.rows = kit_mem_new (k, KIT_RECORD, n * sizeof (GrammeTensor), 8, false, rows);
  t.dims = kit_mem_new (k, KIT_RECORD, n * 2 * GM_MAX_DIMS * sizeof (int64_t), 8, false, dims);
  (void) kind;
  return t;
}

/* Sets tensor i to the elements of `from`, in the layout of m. from NULL: an output. */
static void
tensors_set (Kit *k, Tensors *t, uint32_t i, const GmMeta *m, const GmTensor *from,
             const char *what)
{
  const GmDtypeInfo *d = &gm_dtypes[m->dtype];
  int64_t *shape = (int64_t *) (void *) t->dims.data + (size_t) i * 2 * GM_MAX_DIMS,
          *strides = shape + GM_MAX_DIMS;
  uint32_t offset = i % 2 ? 64 : 0;
  g_autofree char *name = g_strdup_printf ("%s %u", what, i);
  KitMem *b = &t->buffers[i];
  *b = kit_mem_new (k, from ? KIT_INPUT : KIT_OUTPUT, extent_bytes (m), gm_dtype_size (m->dtype),
                    k->left, name);
  if (from) {
    lay_out (m, from, b->data);
    kit_mem_read_only (b);
  }
  memcpy (shape, m->sizes, sizeof m->sizes);
  memcpy (strides, m->strides, sizeof m->strides);
  GrammeTensor row = { .data = b->data - offset,
                       .device_type = m->device,
                       .ndim = m->ndim,
                       .dtype_code = d->dlpack_code,
                       .dtype_bits = d->bits,
                       .dtype_lanes = 1,
                       .shape = shape,
                       .strides = strides,
                       .byte_offset = offset };
  memcpy (t->rows.data + i * sizeof row, &row, sizeof row);
}

static void
tensors_seal (Tensors *t)
{
  kit_mem_read_only (&t->rows);
  kit_mem_read_only (&t->dims);
}

static void
tensors_take_away (Kit *k, Tensors *t)
{
  for (uint32_t i = 0; i < t->n; i++)
    kit_mem_take_away (k, &t->buffers[i]);
  kit_mem_take_away (k, &t->rows);
  kit_mem_take_away (k, &t->dims);
  g_free (t->buffers);
}

void
kit_free_tensors (GmTensor **list, uint32_t n)
{
  for (uint32_t i = 0; list && i < n; i++)
    gm_tensor_unref (list[i]);
  g_free (list);
}

GmTensor **
kit_inputs (const GmGraph *g, uint64_t seed, GmRandomNumbers numbers)
{
  GmTensor **in = g_new0 (GmTensor *, g->inputs->len + 1);
  gm_random_inputs (g, seed, numbers, in);
  return in;
}

GmTensor **
kit_interpret (Kit *k, const GmGraph *g, GmTensor *const *in)
{
  GmTensor **out = g_new0 (GmTensor *, g->outputs->len + 1);
  g_autoptr (GError) error = NULL;
  if (!gm_graph_interpret (g, in, out, &error))
    kit_skip (k, "the reference itself fails: %s", error->message);
  return out;
}

/* -- Verdicts ---------------------------------------------------------------------------------- */

GrammeVerdict *
kit_ask_image (Kit *k, const void *bytes, size_t n, uint32_t n_nodes)
{
  KitMem image = show_image (k, bytes, n);
  size_t stride = sizeof (GrammeVerdict) + k->wide;
  KitMem rows = kit_mem_new (k, KIT_RECORD, n_nodes * stride, 8, k->left, "the rows of verdicts");
  memset (rows.data, 0xa6, rows.bytes);
  for (uint32_t i = 0; i < n_nodes; i++)
    memset (rows.data + i * stride, 0, sizeof (GrammeVerdict));
  GrammeStatus *status = kit_status (k);
  kit_doing (k, "asking it about %u nodes", n_nodes);
  int32_t code =
      k->plugin.api.get_support (k->backend, (const GrammeImage *) (const void *) image.data,
                                 (GrammeVerdict *) (void *) rows.data, (uint32_t) stride, status);
  kit_mem_take_away (k, &image);
  if (code != GRAMME_OK)
    kit_fail (k, "GPP-6", "get_support answers %d%s%s", code, status ? ": " : "",
              status ? gm_status_text (status, code) : "");
  kit_mem_check (k, &rows);
  GrammeVerdict *out = g_new (GrammeVerdict, n_nodes + 1);
  for (uint32_t i = 0; i < n_nodes; i++) {
    const char *row = rows.data + i * stride;
    memcpy (&out[i], row, sizeof out[i]);
    for (size_t b = sizeof out[i]; b < stride; b++)
      if (row[b] != (char) 0xa6)
        kit_fail (k, "GPP-2",
                  "writes into the rows of verdicts where the stride of %zu leaves room", stride);
  }
  kit_mem_take_away (k, &rows);
  return out;
}

GmVerdict *
kit_ask (Kit *k, const GmGraph *g)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GmImage) image = gm_image_new (g, &error);
  if (!image)
    kit_skip (k, "no image can be made: %s", error->message);
  g_autofree GrammeVerdict *said = kit_ask_image (k, image->bytes, image->length, g->nodes->len);
  GmVerdict *out = g_new0 (GmVerdict, g->nodes->len + 1);
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    out[i].yes = said[i].support == GRAMME_YES || said[i].support == GRAMME_PREFER;
    out[i].cluster = out[i].yes ? said[i].cluster : 0;
    out[i].reason = said[i].reason;
  }
  return out;
}

bool
kit_takes_all (Kit *k, const GmGraph *g)
{
  g_autofree GmVerdict *v = kit_ask (k, g);
  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (!v[i].yes || v[i].cluster != v[0].cluster)
      return false;
  return g->nodes->len > 0;
}

/* -- Compiling --------------------------------------------------------------------------------- */

typedef struct {
  GmImage *image;
  KitMem shown, debug, names, where;
} Role;

static void
role_init (Kit *k, Role *r, const GmGraph *g)
{
  g_autoptr (GError) error = NULL;
  r->image = gm_image_new (g, &error);
  if (!r->image)
    kit_skip (k, "no image can be made: %s", error->message);
  r->shown = show_image (k, r->image->bytes, r->image->length);
  uint32_t n_values = r->image->bytes->values.count, n_nodes = r->image->bytes->nodes.count;
  r->names =
      kit_mem_new (k, KIT_RECORD, n_values * sizeof (char *), 8, false, "the names of values");
  r->where = kit_mem_new (k, KIT_RECORD, n_nodes * sizeof (char *), 8, false, "the lines of nodes");
  memset (r->names.data, 0, r->names.bytes); /* no value has a name, every second node a line */
  for (uint32_t i = 0; i < n_nodes; i++)
    ((const char **) (void *) r->where.data)[i] = i % 2 ? "kit.py:1" : NULL;
  const GrammeDebug debug = { .n_values = n_values,
                              .n_nodes = n_nodes,
                              .value_names = (const char *const *) (void *) r->names.data,
                              .node_where = (const char *const *) (void *) r->where.data };
  r->debug = kit_record (k, "GrammeDebug", &debug, sizeof debug);
  kit_mem_read_only (&r->debug);
  kit_mem_read_only (&r->names);
  kit_mem_read_only (&r->where);
}

static void
role_clear (Kit *k, Role *r)
{
  kit_mem_take_away (k, &r->shown);
  kit_mem_take_away (k, &r->debug);
  kit_mem_take_away (k, &r->names);
  kit_mem_take_away (k, &r->where);
  g_clear_pointer (&r->image, gm_image_free);
}

/* Makes an executable by compiling, or by reading stored bytes. */
static int32_t
make_executable (Kit *k, const GrammeCompileRequest *request, GrammeExecutable **out,
                 GrammeStatus *status)
{
  if (!k->reader)
    return k->plugin.api.compile (k->backend, request, out, status);
  KitMem bytes = kit_mem_new (k, KIT_IMAGE, k->n_stored, 64, false, "the stored bytes");
  memcpy (bytes.data, k->stored, k->n_stored);
  kit_mem_read_only (&bytes);
  int32_t code = k->reader->read (k->backend, request, bytes.data, k->n_stored, out, status);
  kit_mem_take_away (k, &bytes);
  return code;
}

int32_t
kit_try_compile (Kit *k, const GmGraph *forward, const GmGraph *backward, GrammeExecutable **out)
{
  Role roles[2] = { 0 };
  role_init (k, &roles[0], forward);
  if (backward)
    role_init (k, &roles[1], backward);
  uint32_t n[2] = { roles[0].image->constants->len, backward ? roles[1].image->constants->len : 0 };
  Tensors constants = tensors_new (k, n[0] + n[1], KIT_INPUT, "constant");
  for (uint32_t i = 0; i < n[0] + n[1]; i++) {
    const GmTensor *t =
        i < n[0] ? roles[0].image->constants->pdata[i] : roles[1].image->constants->pdata[i - n[0]];
    tensors_set (k, &constants, i, &t->meta, t, "constant");
  }
  tensors_seal (&constants);
  const GrammeCompileRequest ours = {
    .flags = GRAMME_REQUEST_DETERMINISTIC | k->flags,
    .forward = (const GrammeImage *) (const void *) roles[0].shown.data,
    .backward = backward ? (const GrammeImage *) (const void *) roles[1].shown.data : NULL,
    .forward_debug = (const GrammeDebug *) (const void *) roles[0].debug.data,
    .backward_debug = backward ? (const GrammeDebug *) (const void *) roles[1].debug.data : NULL,
    .constants = (const GrammeTensor *) (const void *) constants.rows.data,
    .n_constants = n[0] + n[1],
    .device_type = GM_DEVICE_CPU,
    .max_threads = k->max_threads ? k->max_threads : g_get_num_processors (),
    .work_dir_fd = -1,
    .job = k,
    .n_forward_constants = n[0],
    .n_regions = 1,
  };
  KitMem request = kit_record (k, "GrammeCompileRequest", &ours, sizeof ours);
  kit_mem_read_only (&request);
  GrammeStatus *status = kit_status (k);
  kit_doing (k, "compiling %u nodes%s", forward->nodes->len, backward ? " and their backward" : "");
  *out = NULL;
  int32_t code =
      make_executable (k, (const GrammeCompileRequest *) (const void *) request.data, out, status);
  if (code == GRAMME_OK && !*out)
    kit_fail (k, "GPP-11", "compile says OK and gives nothing");
  if (code != GRAMME_OK) {
    *out = NULL;
    g_strlcpy (k->said, status ? status->message : "", sizeof k->said);
  }
  kit_mem_take_away (k, &request);
  tensors_take_away (k, &constants);
  for (int i = 0; i < 2; i++)
    role_clear (k, &roles[i]);
  return code;
}

GrammeExecutable *
kit_compile (Kit *k, const GmGraph *forward, const GmGraph *backward)
{
  GrammeExecutable *e;
  int32_t code = kit_try_compile (k, forward, backward, &e);
  if (code == GRAMME_OK)
    return e;
  g_autofree char *text = gm_graph_text (forward);
  kit_fail (k, backward ? "GPP-7" : "GPP-6",
            "says YES to all of this, and compile answers %d (%s): %.600s", code, k->said, text);
}

void
kit_destroy (Kit *k, GrammeExecutable *e)
{
  kit_doing (k, "destroying an executable");
  k->plugin.api.destroy (e);
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Returns the relative tolerance for plugins that do not promise equal bits. */
static double
tolerance (GmDtype d)
{
  return !gm_dtype_is_float (d) ? 0
         : d == GM_F64          ? 0x1p-30
         : d == GM_F32          ? 0x1p-12
         : d == GM_F16          ? 0x1p-6
                                : 0x1p-3;
}

/* Returns the tolerance of each value: that of the least exact dtype in its computation.  The
 * caller frees. */
static double *
tolerances (const GmGraph *g)
{
  double *near = g_new (double, g->values->len + 1);

  for (GmValueId v = 0; v < g->values->len; v++)
    near[v] = tolerance ((GmDtype) gm_graph_meta (g, v)->dtype);
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    for (uint32_t k = 0; k < n->n_in; k++)
      near[n->out] = MAX (near[n->out], near[n->in[k]]);
  }
  return near;
}

static bool
is_near (const GmTensor *want, const GmTensor *got, double near, char **why)
{
  const GmMeta *m = &want->meta;
  int64_t index[GM_MAX_DIMS] = { 0 };
  if (!gm_dtype_is_float (m->dtype))
    return gm_random_equal (want, got, false, why);
  for (int64_t i = 0, n = gm_meta_numel (m); i < n; i++) {
    double a = gm_scalar_as_double (gm_tensor_get (want, index)),
           b = gm_scalar_as_double (gm_tensor_get (got, index));
    bool same = a == b || (isnan (a) && isnan (b)) || fabs (a - b) <= near * (1 + fabs (a));
    if (!same && isfinite (a) && fabs (a) < 1e30) {
      *why = g_strdup_printf ("element %" G_GINT64_FORMAT ": %.17g and %.17g", i, a, b);
      return false;
    }
    for (int d = m->ndim - 1; d >= 0 && ++index[d] == m->sizes[d]; d--)
      index[d] = 0;
  }
  return true;
}

static bool
compare (Kit *k, const GmMeta *m, KitMem *out, const GmTensor *want, double near, uint32_t i,
         GmTensor **made, char **why)
{
  g_autoptr (GmTensor) got =
      gm_tensor_new_foreign (m, out->data, out->bytes, false, release_nothing, NULL);
  g_autofree char *what = NULL;
  if (made) {
    made[i] = gm_tensor_new (m, NULL);
    lay_out (m, got, gm_tensor_data (made[i]));
  }
  if (!want
      || (k->manifest->bit_exact ? gm_random_equal (want, got, false, &what)
                                 : is_near (want, got, near, &what)))
    return true;
  *why = g_strdup_printf ("output %u is not the reference's: %s (the plugin's is the second)", i,
                          what);
  return false;
}

static uint64_t
ask_workspace (Kit *k, GrammeExecutable *e, uint32_t role, const int64_t *sizes)
{
  uint64_t bytes = 0;
  GrammeStatus *status = kit_status (k);
  int32_t code = k->plugin.api.workspace ? k->plugin.api.workspace (e, role, sizes, &bytes, status)
                                         : GRAMME_OK;
  if (code != GRAMME_OK || bytes > (uint64_t) 1 << 32)
    kit_fail (k, NULL, "workspace answers %d, and asks for %" G_GUINT64_FORMAT " bytes", code,
              bytes);
  return bytes;
}

int32_t
kit_try_run (Kit *k, GrammeExecutable *e, uint32_t role, const GmGraph *g, GmTensor *const *in,
             GmTensor *const *want, GmTensor **made, char **why)
{
  Tensors ins = tensors_new (k, g->inputs->len, KIT_INPUT, "input"),
          outs = tensors_new (k, g->outputs->len, KIT_OUTPUT, "output");
  g_autofree GmMeta *metas = g_new (GmMeta, outs.n + 1);
  for (uint32_t i = 0; i < ins.n; i++)
    tensors_set (k, &ins, i, gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i)), in[i],
                 "input");
  for (uint32_t i = 0; i < outs.n; i++) {
    metas[i] = plain (gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value));
    tensors_set (k, &outs, i, &metas[i], NULL, "output");
  }
  tensors_seal (&ins);
  tensors_seal (&outs);
  KitMem sizes =
      kit_mem_new (k, KIT_RECORD, k->n_sizes * sizeof *k->sizes, 8, k->left, "the values of sizes");
  if (k->n_sizes)
    memcpy (sizes.data, k->sizes, sizes.bytes);
  kit_mem_read_only (&sizes);
  const int64_t *values = k->n_sizes ? (const int64_t *) (const void *) sizes.data : NULL;
  uint64_t room = ask_workspace (k, e, role, values);
  KitMem workspace = kit_mem_new (k, KIT_WORKSPACE, room, 64, k->left, "the workspace");
  const GrammeRunArgs ours = {
    .role = role,
    .inputs = (const GrammeTensor *) (const void *) ins.rows.data,
    .outputs = (const GrammeTensor *) (const void *) outs.rows.data,
    .n_inputs = ins.n,
    .n_outputs = outs.n,
    .sizes = values,
    .n_sizes = k->n_sizes,
    .workspace = room ? workspace.data : NULL,
    .workspace_bytes = room,
    .stream_kind = k->streams ? k->streams->kind : 0,
    .stream = k->streams ? k->stream : NULL,
  };
  KitMem args = kit_record (k, "GrammeRunArgs", &ours, sizeof ours);
  kit_mem_read_only (&args);
  GrammeStatus *status = kit_status (k);
  kit_doing (k, "running the %s of %u nodes", role ? "backward" : "forward", g->nodes->len);
  int32_t code = GRAMME_OK;
  for (uint32_t i = 0; i < MAX (k->times, 1u) && code == GRAMME_OK; i++)
    code = k->plugin.api.run (e, (const GrammeRunArgs *) (const void *) args.data, status);
  kit_mem_take_away (k, &args);
  kit_mem_take_away (k, &sizes);
  for (Tensors *t = &ins; t; t = t == &ins ? &outs : NULL) {
    kit_mem_take_away (k, &t->rows);
    kit_mem_take_away (k, &t->dims);
  }
  /* Buffers and workspace live until the stream has finished. */
  if (k->streams && code == GRAMME_OK)
    code = k->streams->synchronize (k->backend, k->stream, status);
  kit_mem_check (k, &workspace);
  bool same = code == GRAMME_OK;
  if (code != GRAMME_OK)
    *why = g_strdup_printf ("run answers %d%s%s", code, status ? ": " : "",
                            status ? gm_status_text (status, code) : "");
  g_autofree double *near = tolerances (g);
  for (uint32_t i = 0; i < outs.n; i++) {
    kit_mem_check (k, &outs.buffers[i]);
    if (same)
      same = compare (k, &metas[i], &outs.buffers[i], want ? want[i] : NULL,
                      near[g_array_index (g->outputs, GmGraphOutput, i).value], i, made, why);
  }
  tensors_take_away (k, &ins);
  tensors_take_away (k, &outs);
  kit_mem_take_away (k, &workspace);
  return code;
}

void
kit_run (Kit *k, GrammeExecutable *e, uint32_t role, const GmGraph *g, GmTensor *const *in,
         GmTensor *const *want, GmTensor **made)
{
  g_autofree char *why = NULL, *text = NULL;
  kit_try_run (k, e, role, g, in, want, made, &why);
  if (!why)
    return;
  text = gm_graph_text (g);
  kit_fail (k, role == GRAMME_BACKWARD ? "GPP-7" : NULL, "%s, in %.700s", why, text);
}

/* -- Whole graphs, region by region ------------------------------------------------------------ */

/* Runs a region of the plugin twice, with the reference's values as inputs, so that the second run
 * finds a used workspace; compares the results. */
static void
check_region (Kit *k, const GmGraph *g, GmTensor *const *in, GmTensor *const *want)
{
  GrammeExecutable *e = kit_compile (k, g, NULL);
  for (int i = 0; i < 2; i++)
    kit_run (k, e, GRAMME_FORWARD, g, in, want, NULL);
  kit_destroy (k, e);
}

uint32_t
kit_check_graph (Kit *k, const GmGraph *g, GmTensor *const *in)
{
  g_autofree GmVerdict *verdicts = kit_ask (k, g);
  g_autoptr (GmRegions) regions = gm_regions_new (g, verdicts);
  GmTensor **slots = g_new0 (GmTensor *, regions->n_slots + 1);
  uint32_t taken = 0;
  for (uint32_t i = 0; i < g->inputs->len; i++)
    slots[i] = gm_tensor_ref (in[i]);
  for (guint r = 0; r < regions->regions->len; r++) {
    const GmRegion *region = regions->regions->pdata[r];
    g_autofree GmTensor **args = g_new0 (GmTensor *, region->ins->len + 1);
    for (guint i = 0; i < region->ins->len; i++)
      args[i] = slots[g_array_index (region->ins, uint32_t, i)];
    GmTensor **want = kit_interpret (k, region->graph, args);
    if (!region->host) {
      check_region (k, region->graph, args, want);
      taken += region->nodes->len;
    }
    for (guint i = 0; i < region->outs->len; i++)
      slots[g_array_index (region->outs, uint32_t, i)] = want[i];
    g_free (want);
  }
  kit_free_tensors (slots, regions->n_slots);
  return taken;
}
