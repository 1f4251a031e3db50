/* SPDX-License-Identifier: Apache-2.0
 * level_graph.c -- levels 5 and 6: images of all kinds, and the verdicts on them.
 */
#include <string.h>

#include "core/graph/image.h"
#include "core/run/regions.h"
#include "core/sym/sym.h"
#include "tools/kit/kit.h"

#define MANY_NODES 10000

/* -- Images ------------------------------------------------------------------------------------ */

/* Checks access to memory after the call: every request of the kit makes its memory inaccessible
 * afterwards, and reports accesses. */
void
kit_graph_image_gone (Kit *k)
{
  kit_check_random (k, (GmRandomGraph){ .strided = true }, GM_RANDOM_TAME);
}

void
kit_graph_wide_rows (Kit *k)
{
  static const uint32_t wider[] = { 8, 64 };
  kit_open (k);
  kit_learn (k);
  for (uint32_t i = 0; i < MIN (k->n_graphs, 12u); i++) {
    uint64_t seed;
    g_autoptr (GmGraph) g = kit_random_graph (k, i, (GmRandomGraph){ .n_nodes = 12 }, &seed);
    GmTensor **in = kit_inputs (g, seed, GM_RANDOM_TAME);
    g_autofree GmVerdict *narrow = kit_ask (k, g);
    k->wide = wider[seed % 2];
    g_autofree GmVerdict *wide = kit_ask (k, g);
    for (uint32_t n = 0; n < g->nodes->len; n++)
      if (narrow[n].yes != wide[n].yes || narrow[n].reason != wide[n].reason)
        kit_fail (k, NULL,
                  "says something else of node %u (%s) when the image's rows are %u bytes longer",
                  n, gm_ops[gm_graph_node (g, n)->op].name, k->wide);
    if (g->outputs->len)
      kit_check_graph (k, g, in);
    k->wide = 0;
    kit_free_tensors (in, g->inputs->len);
  }
  kit_close (k);
}

/* A change that a later minor may make to the image of a graph that the plugin takes as a whole. */
typedef struct {
  const char *what;
  void (*change) (GrammeImage *img, uint32_t node);
} Future;

static GrammeNode *
node_of (GrammeImage *img, uint32_t i)
{
  return (GrammeNode *) gramme_image_node (img, i);
}

static GrammeValue *
result_of (GrammeImage *img, uint32_t i)
{
  return (GrammeValue *) gramme_image_value (img, node_of (img, i)->out);
}

static void
new_op (GrammeImage *img, uint32_t i)
{
  node_of (img, i)->op = 60000;
}

static void
next_op (GrammeImage *img, uint32_t i)
{
  node_of (img, i)->op = 127; /* the code after the last */
}

static void
new_version (GrammeImage *img, uint32_t i)
{
  node_of (img, i)->op_version++;
}

static void
new_node_flag (GrammeImage *img, uint32_t i)
{
  node_of (img, i)->flags = 0x40;
}

static void
new_dtype (GrammeImage *img, uint32_t i)
{
  result_of (img, i)->dtype_code = 5; /* DLPack's complex */
}

static void
wide_dtype (GrammeImage *img, uint32_t i)
{
  result_of (img, i)->dtype_lanes = 4;
}

static void
new_device (GrammeImage *img, uint32_t i)
{
  result_of (img, i)->device_type = 77;
}

static void
new_value_flag (GrammeImage *img, uint32_t i)
{
  result_of (img, i)->flags |= 0x400;
}

static const Future futures[] = {
  { "of op 60000", new_op },
  { "of op 127", next_op },
  { "whose op has a later version", new_version },
  { "with a flag", new_node_flag },
  { "whose result has a dtype that does not exist yet", new_dtype },
  { "whose result has vectors as elements", wide_dtype },
  { "whose result is on another device", new_device },
  { "whose result has a flag", new_value_flag },
};

static void
expect_no (Kit *k, const void *bytes, size_t n, uint32_t n_nodes, uint32_t node, const char *what)
{
  g_autofree GrammeVerdict *v = kit_ask_image (k, bytes, n, n_nodes);
  if (v[node].support != GRAMME_NO)
    kit_fail (k, NULL, "says YES to a node %s that it cannot know", what);
  if (v[node].reason == GRAMME_REASON_NONE)
    kit_fail (k, NULL, "says NO to a node %s, and gives no reason", what);
}

/* Returns a copy of the image with an attribute that the op does not have. The attrs and payload
 * tables are not the last ones, so the image is rebuilt with them at the end. */
static void *
with_attribute (const GrammeImage *img, uint32_t node, size_t *bytes)
{
  size_t n = img->total_bytes, attrs_at = n, words_at;
  uint32_t n_attrs = gramme_image_node (img, node)->n_attrs;
  size_t attrs_bytes = (size_t) (img->attrs.count + n_attrs + 1) * sizeof (GrammeAttr);
  words_at = attrs_at + attrs_bytes;
  *bytes = words_at + (size_t) (img->payload.count + 1) * 8;
  char *out = g_malloc0 (*bytes);
  memcpy (out, img, n);
  GrammeImage *h = (GrammeImage *) (void *) out;
  h->attrs =
      (GrammeTable){ (uint32_t) attrs_at, img->attrs.count + n_attrs + 1, sizeof (GrammeAttr), 0 };
  h->payload = (GrammeTable){ (uint32_t) words_at, img->payload.count + 1, 8, 0 };
  h->total_bytes = *bytes;
  GrammeAttr *rows = (GrammeAttr *) (void *) (out + attrs_at);
  for (uint32_t i = 0; i < img->attrs.count; i++)
    rows[i] = *gramme_image_attr (img, i);
  for (uint32_t i = 0; i < img->payload.count; i++)
    ((uint64_t *) (void *) (out + words_at))[i] = gramme_image_payload (img, i);
  GrammeNode *row = node_of (h, node);
  for (uint32_t i = 0; i < n_attrs; i++)
    rows[img->attrs.count + i] = *gramme_image_attr (img, row->first_attr + i);
  rows[img->attrs.count + n_attrs] = (GrammeAttr){ 9999, GRAMME_TYPE_I, img->payload.count, 1 };
  row->first_attr = img->attrs.count;
  row->n_attrs = n_attrs + 1;
  return out;
}

void
kit_graph_unknown (Kit *k)
{
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 2, 3);
  g_autoptr (GmImage) image = gm_image_new (g, NULL);
  uint32_t n_nodes = g->nodes->len;
  for (uint32_t node = 0; node < n_nodes; node++) {
    for (size_t i = 0; i < G_N_ELEMENTS (futures); i++) {
      g_autofree GrammeImage *changed = g_memdup2 (image->bytes, image->length);
      changed->abi_minor = GRAMME_IMAGE_MINOR + 1;
      futures[i].change (changed, node);
      expect_no (k, changed, image->length, n_nodes, node, futures[i].what);
    }
    size_t bytes;
    g_autofree void *changed = with_attribute (image->bytes, node, &bytes);
    expect_no (k, changed, bytes, n_nodes, node, "with an attribute");
  }
  kit_close (k);
}

/* Compiles and runs the nodes of a graph that the plugin takes. */
static void
check_text (Kit *k, const char *text)
{
  g_autoptr (GmGraph) g = kit_tidy_outputs (kit_text_graph (k, text));
  GmTensor **in = kit_inputs (g, 5, GM_RANDOM_TAME);
  kit_check_graph (k, g, in);
  kit_free_tensors (in, g->inputs->len);
}

void
kit_graph_shapes (Kit *k)
{
  static const char *const types[] = { "f32[]",           "f32[1]",
                                       "f32[0]",          "f32[3, 0, 2]",
                                       "f32[1, 1, 1, 1]", "f32[2, 1, 3, 1, 2, 1, 2, 1]",
                                       "f32[1025]",       "f32[2, 4099]",
                                       "f32[700, 3]" };
  static const char *const bodies[] = { "%0 = add %x %x\n %1 = mul %0 %x\n %2 = neg %1\n",
                                        "%0 = exp %x\n %1 = sub %0 %x\n %2 = tanh %1\n" };
  kit_open (k);
  for (size_t i = 0; i < G_N_ELEMENTS (types); i++)
    for (size_t b = 0; b < G_N_ELEMENTS (bodies); b++) {
      g_autofree char *text =
          g_strdup_printf ("shapes (%%x: %s) -> (%%2, %%0) {\n %s}", types[i], bodies[b]);
      check_text (k, text);
    }
  k->left = true;
  check_text (k, "reduced (%x: f32[6, 1030]) -> (%0, %1) {\n %0 = sum %x dims=[1] keepdim=false\n "
                 "%1 = amax %x dims=[0] keepdim=true\n}");
  check_text (k, "product (%x: f32[5, 7], %y: f32[7, 3]) -> (%0) {\n %0 = matmul %x %y\n}");
  kit_close (k);
}

/* Finds ops of one or two operands that the plugin takes, whose result has the operands' shape and
 * dtype; returns their number. */
static unsigned
plain_ops (Kit *k, GmOp ops[4])
{
  unsigned n = 0;
  for (int op = 1; op < GM_N_OPS && n < 4; op++)
    if (gm_op_set_has (&k->ops, op) && gm_ops[op].family == GM_FAMILY_POINTWISE
        && gm_ops[op].types == GM_TYPES_ARITH)
      ops[n++] = (GmOp) op;
  return n;
}

void
kit_graph_many_nodes (Kit *k)
{
  GmOp ops[4];
  kit_open (k);
  kit_learn (k);
  unsigned n_ops = plain_ops (k, ops);
  if (!n_ops)
    kit_skip (k, "it takes no elementwise op");
  g_autoptr (GmGraph) g = gm_graph_new ("many", NULL);
  GmMeta m = gm_meta_make (GM_F32, 1, (const int64_t[]){ 2 });
  GmValueId x = gm_graph_add_input (g, "x", &m), y = gm_graph_add_input (g, "y", &m), last = x;
  bool cheap = g_strv_length (k->manifest->needs) == 0; /* a compiler takes long for so much text */
  for (uint32_t i = 0; i < (cheap ? MANY_NODES : MANY_NODES / 20); i++) {
    GmOp op = ops[i % 7 % n_ops];
    last = gm_graph_add_node (g, op, (GmValueId[]){ last, y }, gm_ops[op].arity, NULL, NULL, NULL);
  }
  gm_graph_add_output (g, last, GM_OUTPUT_USER);
  GmTensor **in = kit_inputs (g, 3, GM_RANDOM_TAME);
  uint32_t taken = kit_check_graph (k, g, in);
  kit_note (k, "it takes %u of %u nodes", taken, g->nodes->len);
  kit_free_tensors (in, g->inputs->len);
  kit_close (k);
}

void
kit_graph_symbolic (Kit *k)
{
  kit_open (k);
  for (size_t i = 0; kit_sized_texts[i]; i++) {
    g_autoptr (GmGraph) g = kit_text_graph (k, kit_sized_texts[i]);
    g_autofree GmVerdict *v = kit_ask (k, g);
    uint32_t yes = 0;
    for (uint32_t n = 0; n < g->nodes->len; n++) {
      if (!v[n].yes && v[n].reason == GRAMME_REASON_NONE)
        kit_fail (k, NULL,
                  "says NO to a node with a size that is an expression, and gives no reason");
      yes += v[n].yes;
    }
    if (yes == g->nodes->len && kit_check_sized (k, g, 0, 0))
      kit_note (k, "it takes sizes that are expressions");
  }
  kit_close (k);
}

/* -- Verdicts ---------------------------------------------------------------------------------- */

void
kit_support_rows (Kit *k)
{
  static const uint32_t extra[] = { 0, 8, 24, 240 };
  kit_open (k);
  for (uint32_t i = 0; i < k->n_graphs; i++) {
    uint64_t seed;
    g_autoptr (GmGraph) g = kit_random_graph (k, i, (GmRandomGraph){ 0 }, &seed);
    k->wide = extra[seed % G_N_ELEMENTS (extra)];
    g_free (kit_ask (k, g));
  }
  kit_close (k);
}

typedef struct {
  Kit *k;
  const GmGraph *g;
  const GmVerdict *first;
} Again;

static void
compare_verdicts (Again *a, const char *who)
{
  g_autofree GmVerdict *v = kit_ask (a->k, a->g);
  for (uint32_t i = 0; i < a->g->nodes->len; i++)
    if (v[i].yes != a->first[i].yes || v[i].cluster != a->first[i].cluster
        || v[i].reason != a->first[i].reason)
      kit_fail (a->k, NULL, "%s says something else of node %u, %s, than before", who, i,
                gm_ops[gm_graph_node (a->g, i)->op].name);
}

static void
ask_elsewhere (void *data, unsigned i)
{
  compare_verdicts (data, "another thread");
}

/* Returns a graph that the simplest plugins take, since they may take no node of random graphs. */
static GmGraph *
plain_graph (Kit *k)
{
  g_autoptr (GString) text =
      g_string_new ("plain (%x: f32[3, 4], %y: f32[3, 4]) -> (%15) {\n %0 = add %x %y\n");
  for (int i = 1; i < 16; i++)
    g_string_append_printf (text, " %%%d = %s %%%d %%y\n", i, i % 2 ? "mul" : "add", i - 1);
  g_string_append (text, "}");
  return kit_text_graph (k, text->str);
}

void
kit_support_same_again (Kit *k)
{
  kit_open (k);
  GrammeBackend *first = k->backend, *second = kit_open_another (k);
  for (uint32_t i = 0; i <= k->n_graphs; i++) {
    uint64_t seed;
    g_autoptr (GmGraph) g =
        i == 0 ? plain_graph (k)
               : kit_random_graph (k, i - 1, (GmRandomGraph){ .strided = true }, &seed);
    g_autofree GmVerdict *v = kit_ask (k, g);
    Again a = { k, g, v };
    compare_verdicts (&a, "it");
    compare_verdicts (&a, "it");
    k->backend = second;
    compare_verdicts (&a, "a second instance");
    k->backend = first;
    kit_on_threads (3, ask_elsewhere, &a);
  }
  k->plugin.api.close (second);
  kit_close (k);
}

void
kit_support_reasons (Kit *k)
{
  kit_open (k);
  for (uint32_t i = 0; i < k->n_graphs; i++) {
    uint64_t seed;
    g_autoptr (GmGraph) g = kit_random_graph (k, i, (GmRandomGraph){ .strided = true }, &seed);
    g_autofree GmVerdict *v = kit_ask (k, g);
    for (uint32_t n = 0; n < g->nodes->len; n++) {
      const char *op = gm_ops[gm_graph_node (g, n)->op].name;
      if (v[n].yes)
        continue;
      if (v[n].reason == GRAMME_REASON_NONE)
        kit_fail (k, NULL, "says NO to %s, and gives no reason", op);
      if (v[n].reason > GRAMME_REASON_CONTROL
          && !g_hash_table_contains (k->manifest->reasons, GUINT_TO_POINTER (v[n].reason)))
        kit_fail (k, NULL, "says NO to %s for reason %#x, which is not in the manifest's [reasons]",
                  op, v[n].reason);
    }
  }
  kit_close (k);
}

void
kit_support_yes_compiles (Kit *k)
{
  kit_check_random (k, (GmRandomGraph){ .strided = true }, GM_RANDOM_TAME);
}

/* Withholds some nodes from the plugin, so that the remaining nodes are cut into other regions. */
void
kit_support_convex_parts (Kit *k)
{
  uint32_t regions_seen = 0;
  kit_open (k);
  kit_learn (k);
  for (uint32_t i = 0; i < k->n_graphs; i++) {
    uint64_t seed, state;
    g_autoptr (GmGraph) g = kit_random_graph (k, i, (GmRandomGraph){ 0 }, &seed);
    g_autofree GmVerdict *v = kit_ask (k, g);
    state = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint32_t n = 0; n < g->nodes->len; n++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      v[n].yes = v[n].yes && state >> 60 > 4;
    }
    if (!g->outputs->len)
      continue;
    g_autoptr (GmRegions) regions = gm_regions_new (g, v);
    for (guint r = 0; r < regions->regions->len; r++) {
      const GmRegion *region = regions->regions->pdata[r];
      GrammeExecutable *e;
      if (region->host)
        continue;
      int32_t code = kit_try_compile (k, region->graph, NULL, &e);
      g_autofree char *text = gm_graph_text (region->graph);
      if (code != GRAMME_OK)
        kit_fail (k, NULL,
                  "says YES to more than this, and compile of this part answers %d (%s): %.500s",
                  code, k->said, text);
      kit_destroy (k, e);
      regions_seen++;
    }
  }
  if (!regions_seen)
    kit_skip (k, "it takes no node of %u random graphs", k->n_graphs);
  kit_close (k);
}
