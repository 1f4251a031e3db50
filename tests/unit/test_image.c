/* SPDX-License-Identifier: Apache-2.0
 * Graph images: the records as a plugin reads them, canonical bytes, back to graphs, and hostile
 * bytes.
 */
#include <check.h>
#include <string.h>

#include "core/base/error.h"
#include "core/graph/image.h"
#include "core/sym/sym.h"
#include "tests/fuzz/mutate_image.h"
#include "tests/fuzz/random_graph.h"

static GmGraph *
parse (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) gs = gm_graph_parse (text, &error);
  ck_assert_msg (gs != NULL, "%s\n%s", error ? error->message : "", text);
  return g_ptr_array_steal_index (gs, 0);
}

static GmImage *
image (const GmGraph *g)
{
  g_autoptr (GError) error = NULL;
  GmImage *img = gm_image_new (g, &error);
  ck_assert_msg (img != NULL, "%s", error ? error->message : "");
  ck_assert_msg (gm_image_validate (img->bytes, img->length, &error), "%s",
                 error ? error->message : "");
  ck_assert_uint_eq ((uintptr_t) img->bytes % 64, 0);
  return img;
}

START_TEST (a_plugin_reads_what_the_graph_says)
{
  g_autoptr (GmGraph) g = parse ("g (%x: f32[3, 4]{1, 3}, %i: i64[2]) -> (%3, saved %1) {\n"
                                 "  const 0 : f64[2] = [1.5, -0.0]\n"
                                 "  %0 = sum %x dims=[0, 1] keepdim=true : f32[1, 1]\n"
                                 "  %1 = index_select %x %i dim=1 : f32[3, 2]\n"
                                 "  %2 = constant offset=0 : f64[2]\n"
                                 "  %3 = full sizes=[2, 3] dtype=b1 value=true : b1[2, 3]\n}\n");
  g_autoptr (GmImage) img = image (g);
  const GrammeImage *h = img->bytes;
  ck_assert_uint_eq (h->values.count, 6);
  ck_assert_uint_eq (h->nodes.count, 4);
  const GrammeValue *x = gramme_image_value (h, 0);
  ck_assert (x->dtype_code == 2 && x->dtype_bits == 32 && x->dtype_lanes == 1 && x->ndim == 2
             && x->producer == GRAMME_NONE && x->device_type == 1);
  ck_assert (gramme_value_size (h, x, 0) == 3 && gramme_value_size (h, x, 1) == 4);
  ck_assert (gramme_value_stride (h, x, 0) == 1 && gramme_value_stride (h, x, 1) == 3);

  const GrammeNode *sum = gramme_image_node (h, 0);
  ck_assert (sum->op == GRAMME_OP_sum && sum->op_version == GRAMME_OP_VERSION_sum && sum->n_in == 1
             && sum->out == 2);
  const GrammeAttr *dims = gramme_node_attr (h, sum, GRAMME_ATTR_DIMS);
  ck_assert (dims->type == GRAMME_TYPE_L && dims->count == 2 && gramme_attr_int (h, dims, 1) == 1);
  ck_assert_int_eq (gramme_node_int (h, sum, GRAMME_ATTR_KEEPDIM, 7), 1);
  ck_assert_int_eq (gramme_node_int (h, sum, GRAMME_ATTR_STEP, 7), 7);

  const GrammeNode *select = gramme_image_node (h, 1);
  ck_assert (gramme_node_in (h, select, 0) == 0 && gramme_node_in (h, select, 1) == 1);
  ck_assert_uint_eq (gramme_image_value (h, select->out)->producer, 1);

  const GrammeConstant *k = gramme_image_constant (h, 0);
  ck_assert (k->value == 4 && k->slot == 0 && k->bytes == 16);
  ck_assert_uint_eq (gramme_image_value (h, 4)->flags, GRAMME_VALUE_CONSTANT);
  ck_assert_ptr_eq (img->constants->pdata[0], g->constants->pdata[0]);

  const GrammeAttr *value = gramme_node_attr (h, gramme_image_node (h, 3), GRAMME_ATTR_VALUE);
  ck_assert (value->type == GRAMME_TYPE_S
             && gramme_attr_scalar_kind (h, value) == GRAMME_SCALAR_BOOL
             && gramme_attr_int (h, value, 1) == 1);
  const GrammeAttr *dtype = gramme_node_attr (h, gramme_image_node (h, 3), GRAMME_ATTR_DTYPE);
  ck_assert_uint_eq (gramme_image_payload (h, dtype->first), 6 | 8 << 8 | 1 << 16);

  ck_assert (gramme_image_output (h, 0)->value == 5
             && gramme_image_output (h, 0)->kind == GRAMME_OUTPUT_USER);
  ck_assert (gramme_image_output (h, 1)->value == 3
             && gramme_image_output (h, 1)->kind == GRAMME_OUTPUT_SAVED);
  ck_assert (h->saved.count == 1 && gramme_image_saved (h, 0)->output == 1
             && gramme_image_saved (h, 0)->slot == 0);
}
END_TEST

/* Inputs that were found late, names, lines, unused constants and unused size rows do not change
 * the bytes. */
START_TEST (equal_graphs_have_equal_bytes)
{
  GmMeta m = gm_meta_make (GM_F32, 1, (const int64_t[]){ 2 });
  g_autoptr (GmGraph) a = gm_graph_new ("a", NULL), b = gm_graph_new ("b", NULL);
  g_autoptr (GmTensor) t = gm_tensor_new_scalar (gm_scalar_float (2), GM_F32, NULL),
                       u = gm_tensor_new_scalar (gm_scalar_float (2), GM_F32, NULL),
                       other = gm_tensor_new_scalar (gm_scalar_float (3), GM_F32, NULL);
  GmValueId x = gm_graph_add_input (a, "x", &m), y = gm_graph_add_input (a, "y", &m),
            k = gm_graph_add_constant (a, t, "t.py:1");
  GmValueId v = gm_graph_add_node (a, GM_OP_mul, (GmValueId[]){ x, k }, 2, NULL, "t.py:2", NULL);
  gm_graph_add_output (a,
                       gm_graph_add_node (a, GM_OP_add, (GmValueId[]){ v, y }, 2, NULL, NULL, NULL),
                       GM_OUTPUT_USER);

  g_ptr_array_add (b->constants, gm_tensor_ref (other));
  gm_sym_symbol (gm_graph_sym (b), "n");
  x = gm_graph_add_input (b, "p", &m), k = gm_graph_add_constant (b, u, NULL);
  v = gm_graph_add_node (b, GM_OP_mul, (GmValueId[]){ x, k }, 2, NULL, NULL, NULL);
  y = gm_graph_add_input (b, "q", &m);
  gm_graph_add_output (b,
                       gm_graph_add_node (b, GM_OP_add, (GmValueId[]){ v, y }, 2, NULL, NULL, NULL),
                       GM_OUTPUT_USER);

  g_autoptr (GmImage) ia = image (a), ib = image (b);
  ck_assert_uint_eq (ia->length, ib->length);
  ck_assert_mem_eq (ia->bytes, ib->bytes, ia->length);
  ck_assert_uint_eq (gm_graph_hash (a), gm_graph_hash (b));
  ck_assert_uint_eq (ib->values[y], 1);
  ck_assert_uint_eq (ib->constants->len, 1);
}
END_TEST

START_TEST (writes_are_refused)
{
  g_autoptr (GmGraph) g =
      parse ("g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = copy_ %x %y  # t.py:5\n}\n");
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (gm_image_new (g, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "t.py:5"));
}
END_TEST

START_TEST (symbolic_sizes_become_rows)
{
  g_autoptr (GmGraph) g = parse ("g (%x: f32[k, n], %y: f32[3]) -> (%0) {\n  %0 = view %x "
                                 "sizes=[k*n + 0, 1] : f32[k*n, 1]\n}\n");
  g_autoptr (GmImage) img = image (g);
  const GrammeImage *h = img->bytes;
  ck_assert_uint_eq (h->sizes.count, 3);
  ck_assert (gramme_image_value (h, 0)->flags == GRAMME_VALUE_SYMBOLIC_STRIDES
             && gramme_image_value (h, 1)->flags == 0);
  ck_assert_int_eq (gramme_value_size (h, gramme_image_value (h, 0), 0), -1);
  ck_assert_int_eq (gramme_value_stride (h, gramme_image_value (h, 0), 0), -2); /* n */
  const GrammeSize *product = gramme_image_size (h, 2);
  ck_assert (product->kind == GRAMME_SIZE_MUL && product->a == 0 && product->b == 1);
  ck_assert_int_eq (
      gramme_attr_int (h, gramme_node_attr (h, gramme_image_node (h, 0), GRAMME_ATTR_SIZES), 0),
      -3);
  int64_t values[8];
  bool known[8];
  gm_sym_eval_known (g->sym, (int64_t[]){ 5, 7 }, values, known);
  ck_assert (known[img->size_rows[2]]);
  ck_assert_int_eq (values[img->size_rows[2]], 35);
  g_autoptr (GError) error = NULL;
  g_autoptr (GmGraph) back = gm_image_read (img->bytes, img->length, NULL, 0, &error);
  ck_assert_msg (back != NULL, "%s", error ? error->message : "");
  ck_assert_uint_eq (gm_sym_n_rows (back->sym), 3);
}
END_TEST

START_TEST (other_constants_are_refused)
{
  g_autoptr (GmGraph) g =
      parse ("g () -> (%0) {\n  const 0 : f32[2] = [1.0, 2.0]\n  %0 = constant offset=0\n}\n");
  g_autoptr (GmGraph) h =
      parse ("g () -> (%0) {\n  const 0 : f32[2] = [1.0, 3.0]\n  %0 = constant offset=0\n}\n");
  g_autoptr (GmImage) img = image (g);
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (gm_image_read (img->bytes, img->length, NULL, 0, &error));
  g_clear_error (&error);
  ck_assert_ptr_null (
      gm_image_read (img->bytes, img->length, (GmTensor **) h->constants->pdata, 1, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "constant 0"));
  g_autoptr (GmGraph) back =
      gm_image_read (img->bytes, img->length, (GmTensor **) g->constants->pdata, 1, NULL);
  ck_assert_ptr_nonnull (back);
}
END_TEST

START_TEST (digests_do_not_depend_on_strides)
{
  GmMeta m = gm_meta_make (GM_I32, 2, (const int64_t[]){ 2, 3 }), turned = m;
  turned.strides[0] = 1;
  turned.strides[1] = 2;
  g_autoptr (GmTensor) a = gm_tensor_new_zeros (&m, NULL), b = gm_tensor_new_zeros (&turned, NULL);
  for (int64_t i = 0; i < 6; i++) {
    gm_tensor_set (a, (int64_t[]){ i / 3, i % 3 }, gm_scalar_int (i));
    gm_tensor_set (b, (int64_t[]){ i / 3, i % 3 }, gm_scalar_int (i));
  }
  uint8_t da[32], db[32];
  gm_image_digest (a, da);
  gm_image_digest (b, db);
  ck_assert_mem_eq (da, db, sizeof da);
}
END_TEST

START_TEST (random_graphs_survive_their_image)
{
  for (uint64_t seed = 0; seed < 500; seed++) {
    GmRandomGraph o = { .seed = seed, .strided = seed % 2 };
    g_autoptr (GmGraph) g = gm_random_graph (&o, NULL);
    g_autoptr (GmImage) img = image (g);
    g_autoptr (GError) error = NULL;
    g_autoptr (GmGraph) back = gm_image_read (
        img->bytes, img->length, (GmTensor **) img->constants->pdata, img->constants->len, &error);
    ck_assert_msg (back != NULL, "seed %d: %s", (int) seed, error ? error->message : "");
    ck_assert_msg (gm_graph_verify (back, true, &error), "seed %d: %s", (int) seed,
                   error ? error->message : "");
    g_autoptr (GmImage) again = image (back);
    ck_assert_uint_eq (img->length, again->length);
    ck_assert_mem_eq (img->bytes, again->bytes, img->length);
    ck_assert_uint_eq (gm_graph_hash (g), gm_graph_hash (back));
  }
}
END_TEST

START_TEST (every_short_prefix_is_refused)
{
  GmRandomGraph o = { .seed = 3, .n_nodes = 6 };
  g_autoptr (GmGraph) g = gm_random_graph (&o, NULL);
  g_autoptr (GmImage) img = image (g);
  for (size_t n = 0; n < img->length; n++) {
    g_autofree void *exact = g_malloc (n + 1);
    memcpy (exact, img->bytes, n);
    ck_assert (!gm_image_validate (exact, n, NULL));
  }
}
END_TEST

/* Flips every bit of a small image, one at a time: the image is refused, or another graph that
 * verifies. */
START_TEST (no_flipped_bit_goes_unseen)
{
  g_autoptr (GmGraph) g = parse (
      "g (%x: f32[3, 4], %y: f32[n]) -> (%2, saved %1) {\n  const 0 : f32[4] = [1.0, 2.0, 3.0, "
      "4.0]\n"
      "  %0 = constant offset=0\n  %1 = add %x %0\n  %2 = sum %1 dims=[1] keepdim=false\n}\n");
  g_autoptr (GmImage) img = image (g);
  g_autofree uint8_t *bytes = g_malloc (img->length);
  memcpy (bytes, img->bytes, img->length);
  for (size_t bit = 0; bit < img->length * 8; bit++) {
    bytes[bit / 8] ^= 1u << bit % 8;
    g_autoptr (GmGraph) back = gm_image_read (
        bytes, img->length, (GmTensor **) img->constants->pdata, img->constants->len, NULL);
    if (back)
      ck_assert (gm_graph_verify (back, true, NULL));
    bytes[bit / 8] ^= 1u << bit % 8;
  }
}
END_TEST

START_TEST (mutants_never_crash)
{
  int read = 0;
  for (uint64_t seed = 0; seed < 500; seed++) {
    GmRandomGraph o = { .seed = seed, .strided = true };
    g_autoptr (GmGraph) g = gm_random_graph (&o, NULL);
    g_autoptr (GmImage) img = image (g);
    uint64_t state = seed + 1;
    for (int k = 0; k < 200; k++) {
      g_autofree uint8_t *bytes = g_malloc (img->length);
      memcpy (bytes, img->bytes, img->length);
      size_t n = gm_mutate_image (&state, bytes, img->length);
      g_autofree uint8_t *exact = g_malloc (n + 1);
      memcpy (exact, bytes, n);
      g_autoptr (GError) error = NULL;
      bool valid = gm_image_validate (exact, n, &error);
      ck_assert (valid == !error);
      g_autoptr (GmGraph) back = valid
                                     ? gm_image_read (exact, n, (GmTensor **) img->constants->pdata,
                                                      img->constants->len, NULL)
                                     : NULL;
      if (back) {
        ck_assert_msg (gm_graph_verify (back, true, &error), "seed %d, mutant %d: %s", (int) seed,
                       k, error ? error->message : "");
        g_autoptr (GmImage) again = image (back);
        read++;
      }
    }
  }
  ck_assert_int_gt (read, 1000); /* the mutator reaches past the first checks */
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("image");
  TCase *t = tcase_create ("image");
  tcase_set_timeout (t, 300);
  tcase_add_test (t, a_plugin_reads_what_the_graph_says);
  tcase_add_test (t, equal_graphs_have_equal_bytes);
  tcase_add_test (t, writes_are_refused);
  tcase_add_test (t, symbolic_sizes_become_rows);
  tcase_add_test (t, other_constants_are_refused);
  tcase_add_test (t, digests_do_not_depend_on_strides);
  tcase_add_test (t, random_graphs_survive_their_image);
  tcase_add_test (t, every_short_prefix_is_refused);
  tcase_add_test (t, no_flipped_bit_goes_unseen);
  tcase_add_test (t, mutants_never_crash);
  suite_add_tcase (suite, t);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
