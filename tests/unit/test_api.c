/* SPDX-License-Identifier: Apache-2.0
 * test_api.c -- torch's functions: values against numpy, gradients against finite differences,
 * promotion, binding, errors.
 */
#include "tests/unit/api_text.h"

#include <float.h>

/* -- Small language ---------------------------------------------------------------------------- */

typedef struct {
  GmTensor *in[N_IN];
  GmEagerBuilder b;
} Fixture;

static void
set_up (Fixture *f)
{
  inputs_make (f->in);
  gm_eager_builder_init (&f->b);
}

static void
tear_down (Fixture *f)
{
  gm_eager_builder_clear (&f->b);
  unref_all (f->in, N_IN);
}

static GmArg
ask (Fixture *f, const char *text)
{
  return call (&f->b.base, (const GmVal *) f->in, text);
}

static GmTensor *
tensor_of (Fixture *f, const char *text)
{
  GmArg a = ask (f, text);
  ck_assert_msg (!f->b.base.error, "%s: %s", text, f->b.base.error ? f->b.base.error->message : "");
  ck_assert_msg (a.kind == GM_ARG_TENSOR, "%s gives no tensor", text);
  return gm_tensor_from_val (a.v);
}

static void
expect_error (const char *text, GmError code, const char *part)
{
  Fixture f;
  set_up (&f);
  GmArg a = ask (&f, text);
  GError *error = f.b.base.error;
  ck_assert_msg (error != NULL, "%s is no error", text);
  ck_assert_msg (error->code == (int) code && strstr (error->message, part),
                 "%s: \"%s\" is not in (%d): %s", text, part, error->code, error->message);
  ck_assert_int_eq (a.kind, GM_ARG_NONE);
  tear_down (&f);
}

/* Copies all elements of all tensors of a list as doubles; returns the next index. */
static int
flatten (const GmArg *a, double *out, int at)
{
  if (a->kind == GM_ARG_LIST) {
    for (int i = 0; i < a->n; i++)
      at = flatten (&a->items[i], out, at);
    return at;
  }
  GmTensor *t = gm_tensor_from_val (a->v);
  int64_t index[GM_MAX_DIMS] = { 0 };
  for (int64_t i = 0; i < gm_meta_numel (&t->meta); i++) {
    out[at++] = gm_scalar_as_double (gm_tensor_get (t, index));
    for (int d = t->meta.ndim; d-- > 0 && ++index[d] == t->meta.sizes[d];)
      index[d] = 0;
  }
  return at;
}

/* -- Values ------------------------------------------------------------------------------------ */

START_TEST (values_are_those_of_numpy)
{
  static const struct {
    const char *text;
    int n;
    double want[96];
  } rows[] = {
#include "tests/unit/api_values.inc"
  };
  for (size_t r = 0; r < G_N_ELEMENTS (rows); r++) {
    Fixture f;
    set_up (&f);
    double got[512];
    GmArg a = ask (&f, rows[r].text);
    ck_assert_msg (!f.b.base.error, "%s: %s", rows[r].text,
                   f.b.base.error ? f.b.base.error->message : "");
    int n = flatten (&a, got, 0);
    ck_assert_msg (n == rows[r].n, "%s has %d elements, not %d", rows[r].text, n, rows[r].n);
    for (int i = 0; i < n; i++)
      ck_assert_msg (fabs (got[i] - rows[r].want[i]) <= 1e-12 * (1 + fabs (rows[r].want[i])),
                     "%s: element %d is %.17g, not %.17g", rows[r].text, i, got[i],
                     rows[r].want[i]);
    gm_arg_clear (&a);
    tear_down (&f);
  }
}
END_TEST

START_TEST (shapes_are_torchs)
{
  static const struct {
    const char *text, *shape;
  } rows[] = {
    { "sum(C, 1, keepdim=True)", "[2, 1, 4]" },
    { "sum(C, (0, 2))", "[3]" },
    { "mean(A, axis=0, keepdims=True)", "[1, 4]" },
    { "unsqueeze(A, -1)", "[3, 4, 1]" },
    { "unsqueeze(S, 0)", "[1]" },
    { "reshape(C, -1, 12)", "[2, 12]" },
    { "flatten(C, 1)", "[2, 12]" },
    { "flatten(S)", "[1]" },
    { "getitem(C, (None, 0, ..., None))", "[1, 3, 4, 1]" },
    { "getitem(C, (E, :, I))", "[2, 2, 3]" },
    { "getitem(C, (0, :, I))", "[3, 2, 2]" },
    { "getitem(C, (:, I, I))", "[2, 2, 2]" },
    { "getitem(A, ())", "[3, 4]" },
    { "embedding(K, W)", "[3, 2, 3]" },
    { "matmul(V, W)", "[3]" },
    { "matmul(C, V)", "[2, 3]" },
    { "matmul(V, V)", "[]" },
    { "stack((A, A), 1)", "[3, 2, 4]" },
    { "repeat(V, 2, 3)", "[2, 12]" },
    { "expand(S, 2, 3)", "[2, 3]" },
    { "argmax(A, 1, True)", "[3, 1]" },
    { "rand(2, 0, 3)", "[2, 0, 3]" },
    { "zeros(())", "[]" },
    { "norm(A, dim=(0, 1), keepdim=True)", "[1, 1]" },
    { "one_hot(T)", "[3, 4]" },
    { "diagonal(C, 0, 0, 2)", "[3, 2]" },
    { "cross_entropy(A, T)", "[]" },
    { "randint(0, 5, (2, 2))", "[2, 2]" },
    { "randperm(5)", "[5]" },
    { "cat((A, A), -1)", "[3, 8]" },
    { "movedim(C, (0, 1), (2, 0))", "[3, 4, 2]" },
  };
  for (size_t r = 0; r < G_N_ELEMENTS (rows); r++) {
    Fixture f;
    set_up (&f);
    GmTensor *t = tensor_of (&f, rows[r].text);
    g_autofree char *shape = gm_shape_text (t->meta.ndim, t->meta.sizes);
    ck_assert_msg (!strcmp (shape, rows[r].shape), "%s has shape %s, not %s", rows[r].text, shape,
                   rows[r].shape);
    tear_down (&f);
  }
}
END_TEST

/* -- Gradients --------------------------------------------------------------------------------- */

static GmVal
run_text (GmBuilder *b, const GmVal *in, const void *data)
{
  GmArg a = call (b, in, data);
  GmVal v = a.v;
  if (a.kind == GM_ARG_LIST) { /* all parts that have a slope, combined into one number each */
    v = gm_b_scalar (b, gm_scalar_int (0), GM_F64);
    for (int i = 0; i < a.n; i++)
      if (gm_dtype_is_float (gm_b_meta (b, a.items[i].v)->dtype))
        v = gm_b (b, add, v,
                  gm_b (b, mul, gm_b_scalar (b, gm_scalar_float (i + 1), GM_F64),
                        weighted_sum (b, a.items[i].v)));
  }
  gm_arg_clear (&a);
  return v;
}

START_TEST (every_differentiable_function_has_right_slopes)
{
  /* A '2' marks those whose second derivatives are checked as well. */
  static const char *const rows[] = {
    "2add(A, V, alpha=2)",
    "2sub(A, B, alpha=3)",
    "rsub(A, 1)",
    "2div(A, B)",
    "2pow(B, 2)",
    "2pow(B, 3.5)",
    "2pow(B, A)",
    "pow(2, A)",
    "pow(B, 0.5)",
    "pow(B, -1)",
    "2clamp(A, -0.5, 0.7)",
    "clamp(A, max=V)",
    "where(M, A, B)",
    "where(A, M, 0)",
    "2lerp(A, B, 0.3)",
    "2addcmul(A, B, P, value=0.5)",
    "2addcdiv(A, B, P, value=2)",
    "2sum(C, (0, 2), keepdim=True)",
    "mean(C, (0, 1))",
    "2prod(B, 1)",
    "amax(A, 0)",
    "amin(C, (1, 2))",
    "max(A)",
    "2max(A, 1)",
    "min(A, dim=0)",
    "2max(A, B)",
    "2var(A)",
    "var(A, 0, unbiased=False)",
    "2std(A, 1)",
    "2norm(A)",
    "norm(A, 1, 1)",
    "norm(A, inf, 0)",
    "2norm(A, 3, 1)",
    "cumsum(A, 1)",
    "2logsumexp(A, 1)",
    "2softmax(A, 1)",
    "softmax(C, 0)",
    "2log_softmax(A, -1)",
    "reshape(A, 2, -1)",
    "permute(C, 2, 0, 1)",
    "movedim(C, 0, -1)",
    "flatten(C, 1)",
    "unflatten(A, 1, (2, -1))",
    "expand(V, 3, -1)",
    "repeat(A, 2, 1, 3)",
    "tile(A, (2,))",
    "flip(A, 0, 1)",
    "roll(A, (1, -1), (0, 1))",
    "narrow(A, 1, 1, 2)",
    "select(C, 1, -1)",
    "unbind(A, 1)",
    "split(A, 3, 1)",
    "chunk(A, 3, 1)",
    "2cat((A, B), 1)",
    "stack((A, B), -1)",
    "vstack((A, V))",
    "hstack((V, V))",
    "diagonal(C, 1, 1, 2)",
    "contiguous(A)",
    "getitem(C, (1:, None, ::2))",
    "2getitem(A, I)",
    "getitem(C, (:, I, I))",
    "2getitem(C, (E, :, I))",
    "getitem(A, [2, 0, -1])",
    "index_select(A, 1, T)",
    "2gather(A, 1, K)",
    "2scatter_add(A, 1, K, B)",
    "take_along_dim(A, K, 1)",
    "tril(A)",
    "triu(A, 1)",
    "2sort(A, 1)",
    "topk(A, 2, 1)",
    "masked_fill(A, M, 9)",
    "2embedding(K, W)",
    "matmul(A, W)",
    "2matmul(V, W)",
    "matmul(A, V)",
    "2matmul(V, V)",
    "matmul(C, W)",
    "matmul(C, V)",
    "mm(A, W)",
    "mv(A, V)",
    "dot(V, V)",
    "2outer(V, V)",
    "2addmm(S, A, W, beta=2, alpha=0.5)",
    "2linear(C, A, bias=S)",
    "2linear(V, A)",
    "double(A)",
    "clone(A)",
    "relu(A)",
    "2sigmoid(A)",
    "2gelu(A)",
    "2gelu(A, 'tanh')",
    "2silu(A)",
    "logsigmoid(A)",
    "2softplus(A)",
    "softplus(A, 2, 1)",
    "leaky_relu(A, 0.1)",
    "2elu(A, 0.5)",
    "hardtanh(A, -0.5, 0.5)",
    "2layer_norm(C, [4], V, V)",
    "2rms_norm(C, (4,), V, 1e-5)",
    "2batch_norm(A, None, None, V, V, True)",
    "2normalize(A)",
    "normalize(A, 1, 0)",
    "2cosine_similarity(A, B)",
    "2cross_entropy(A, T)",
    "cross_entropy(A, T, V, label_smoothing=0.2)",
    "cross_entropy(A, T, reduction='none')",
    "cross_entropy(A, T, ignore_index=0)",
    "2cross_entropy(A, P)",
    "nll_loss(A, T)",
    "2mse_loss(A, B)",
    "l1_loss(A, B)",
    "smooth_l1_loss(A, B)",
    "huber_loss(A, B, delta=2.0)",
    "2binary_cross_entropy(P, Q)",
    "2binary_cross_entropy_with_logits(A, Q, pos_weight=B)",
    "2kl_div(A, Q)",
    "kl_div(A, B, log_target=True)",
    "2scaled_dot_product_attention(C, C, C, is_causal=True)",
    "nan_to_num(A)",
    "2var_mean(A, 1)",
  };
  for (size_t r = 0; r < G_N_ELEMENTS (rows); r++) {
    bool second = rows[r][0] == '2';
    const char *text = rows[r] + second;
    GmTensor *in[N_IN];
    inputs_make (in);
    GmTensor *used[N_IN];
    memcpy (used, in, sizeof in);
    check_gradients (text, run_text, text, used, IN_T, second);
    unref_all (in, N_IN);
  }
}
END_TEST

START_TEST (clamp_has_slope_one_at_its_bounds)
{
  Fixture f;
  set_up (&f);
  elements (f.in[IN_V])[0] = 0.5;
  gm_tensor_set_requires_grad (f.in[IN_V], true, NULL);
  GmTensor *y = tensor_of (&f, "clamp(V, 0.5, 9.0)");
  GmTensor *g = tensor_of (&f, "ones_like(V)");
  ck_assert (gm_autograd_backward (&y, &g, 1, false, false, NULL));
  ck_assert (elements (gm_tensor_grad (f.in[IN_V]))[0] == 1);
  tear_down (&f);
}
END_TEST

START_TEST (the_norm_of_zero_has_slope_zero)
{
  Fixture f;
  set_up (&f);
  memset (elements (f.in[IN_V]), 0, 32);
  gm_tensor_set_requires_grad (f.in[IN_V], true, NULL);
  GmTensor *y = tensor_of (&f, "norm(V)");
  ck_assert (gm_autograd_backward (&y, NULL, 1, false, false, NULL));
  ck_assert (elements (gm_tensor_grad (f.in[IN_V]))[2] == 0);
  tear_down (&f);
}
END_TEST

START_TEST (the_padding_row_of_an_embedding_gets_no_gradient)
{
  Fixture f;
  set_up (&f);
  gm_tensor_set_requires_grad (f.in[IN_W], true, NULL);
  GmArg e = ask (&f, "embedding(K, W, padding_idx=1)");
  GmTensor *y = gm_tensor_from_val (gm_b_reduce (&f.b.base, GM_OP_sum, e.v, NULL, 0, false));
  ck_assert (gm_autograd_backward (&y, NULL, 1, false, false, NULL));
  double *g = elements (gm_tensor_grad (f.in[IN_W]));
  ck_assert (g[0] == 2 && g[3] == 0 && g[6] == 1 && g[9] == 1);
  tear_down (&f);
}
END_TEST

/* -- Promotion --------------------------------------------------------------------------------- */

START_TEST (dtypes_are_promoted_as_torch_does)
{
  /* Result of torch.result_type; "0" marks a 0-d tensor, py a Python number. */
  static const struct {
    const char *left, *right, *want;
  } rows[] = {
    { "float32", "float64", "float64" },  { "int32", "int64", "int64" },
    { "uint8", "int32", "int32" },        { "bool", "uint8", "uint8" },
    { "int64", "float32", "float32" },    { "bool", "float32", "float32" },
    { "float32", "0float64", "float32" }, { "int64", "0float64", "float64" },
    { "int32", "0int64", "int32" },       { "uint8", "0int64", "uint8" },
    { "0int32", "0int64", "int64" },      { "bool", "0int32", "int32" },
    { "0float64", "int64", "float64" },   { "float64", "py2.5", "float64" },
    { "int64", "py2.5", "float32" },      { "int32", "py2", "int32" },
    { "bool", "py2", "int64" },           { "uint8", "py2", "uint8" },
    { "0float64", "py2.5", "float64" },   { "0int32", "py2.5", "float32" },
    { "bool", "pyTrue", "bool" },         { "float32", "0int64", "float32" },
  };
  for (size_t r = 0; r < G_N_ELEMENTS (rows); r++) {
    Fixture f;
    set_up (&f);
    GmArg x[2];
    for (int side = 0; side < 2; side++) {
      const char *t = side ? rows[r].right : rows[r].left;
      GmDtype d;
      if (g_str_has_prefix (t, "py")) {
        x[side] = t[2] == 'T'       ? (GmArg){ .kind = GM_ARG_BOOL, .i = 1 }
                  : strchr (t, '.') ? (GmArg){ .kind = GM_ARG_FLOAT, .d = 2.5 }
                                    : (GmArg){ .kind = GM_ARG_INT, .i = 2 };
        continue;
      }
      bool zero = *t == '0';
      ck_assert (gm_dtype_parse (t + zero, strlen (t + zero), &d));
      x[side] = (GmArg){ .kind = GM_ARG_TENSOR,
                         .v = gm_b_full (&f.b.base, gm_scalar_int (1), d, zero ? 0 : 1,
                                         (int64_t[]){ 3 }) };
    }
    GmArg sum = gm_api_call (gm_api_find ("add"), false, &f.b.base, x, 2, NULL, NULL, 0);
    no_error (f.b.base.error);
    const char *got = gm_dtypes[gm_b_meta (&f.b.base, sum.v)->dtype].torch_name;
    ck_assert_msg (!strcmp (got, rows[r].want), "%s + %s is %s, not %s", rows[r].left,
                   rows[r].right, got, rows[r].want);
    tear_down (&f);
  }
}
END_TEST

START_TEST (dtypes_of_results)
{
  static const struct {
    const char *text;
    GmDtype want;
  } rows[] = {
    { "div(I, 2)", GM_F32 },
    { "exp(I)", GM_F32 },
    { "floor(I)", GM_I64 },
    { "sum(M)", GM_I64 },
    { "cumsum(M, 0)", GM_I64 },
    { "add(M, M)", GM_BOOL },
    { "mul(M, M)", GM_BOOL },
    { "eq(I, 2.5)", GM_BOOL },
    { "logical_and(C, A)", GM_BOOL },
    { "argmax(A)", GM_I64 },
    { "arange(3)", GM_I64 },
    { "arange(3.0)", GM_F32 },
    { "full((1,), 2)", GM_I64 },
    { "full((1,), True)", GM_BOOL },
    { "full((1,), 1.5)", GM_F32 },
    { "zeros(2)", GM_F32 },
    { "randn(2, dtype=float64)", GM_F64 },
    { "where(M, 1, 2.5)", GM_F32 },
    { "one_hot(T)", GM_I64 },
    { "pow(I, 2.0)", GM_F32 },
    { "sum(A, dtype=float32)", GM_F32 },
    { "float(A)", GM_F32 },
    { "any(A)", GM_BOOL },
    { "max(M)", GM_BOOL },
    { "randint(0, 3, (2,))", GM_I64 },
    { "to(A, float32)", GM_F32 },
    { "to(A, I)", GM_I64 },
    { "to(A, 'cpu')", GM_F64 },
  };
  for (size_t r = 0; r < G_N_ELEMENTS (rows); r++) {
    Fixture f;
    set_up (&f);
    GmTensor *t = tensor_of (&f, rows[r].text);
    ck_assert_msg (t->meta.dtype == rows[r].want, "%s is %s, not %s", rows[r].text,
                   gm_dtypes[t->meta.dtype].torch_name, gm_dtypes[rows[r].want].torch_name);
    tear_down (&f);
  }
}
END_TEST

/* -- Binding and errors ------------------------------------------------------------------------ */

START_TEST (arguments_are_bound_as_python_does)
{
  expect_error ("sum(A, nonsense=1)", GM_ERROR_TYPE, "unexpected keyword argument 'nonsense'");
  expect_error ("sum(A, 1, dim=0)", GM_ERROR_TYPE, "multiple values for argument 'dim'");
  expect_error ("sum()", GM_ERROR_TYPE, "missing required argument: 'input'");
  expect_error ("gather(A, 1)", GM_ERROR_TYPE, "'index'");
  expect_error ("transpose(A, 0, 1, 2)", GM_ERROR_TYPE,
                "takes 3 positional arguments but 4 were given");
  expect_error ("sum(A, 1, True, float32)", GM_ERROR_TYPE,
                "from 1 to 3 positional arguments but 4 were given");
  expect_error ("transpose(A, 'x', 1)", GM_ERROR_TYPE,
                "transpose(): argument 'dim0' must be int, not str");
  expect_error ("sum(A, 'x')", GM_ERROR_TYPE, "argument 'dim' must be tuple of ints, not str");
  expect_error ("reshape(A, 1.5)", GM_ERROR_TYPE, "element of type float at pos 0");
  expect_error ("add(A, 'x')", GM_ERROR_TYPE, "argument 'other' must be Tensor or Number, not str");
  expect_error ("add(1, 2)", GM_ERROR_TYPE, "argument 'input' must be Tensor, not int");
  expect_error ("zeros(2, dtype='x')", GM_ERROR_TYPE, "must be dtype, not str");
  expect_error ("cat(A)", GM_ERROR_TYPE, "tuple of Tensors");
}
END_TEST

START_TEST (impossible_values_are_refused)
{
  expect_error ("sum(A, 2)", GM_ERROR_INDEX, "range of [-2, 1], but got 2");
  expect_error ("sum(A, (0, 0))", GM_ERROR_RUNTIME, "multiple times");
  expect_error ("add(A, W)", GM_ERROR_RUNTIME, "[4, 3]");
  expect_error ("matmul(A, A)", GM_ERROR_RUNTIME, "[3, 4]");
  expect_error ("reshape(A, 5, -1)", GM_ERROR_RUNTIME, "[5, -1]");
  expect_error ("view(A, 13)", GM_ERROR_RUNTIME, "[13]");
  expect_error ("sub(M, M)", GM_ERROR_RUNTIME, "bool");
  expect_error ("mean(I)", GM_ERROR_RUNTIME, "int64");
  expect_error ("bitwise_and(A, A)", GM_ERROR_RUNTIME, "float64");
  expect_error ("pow(I, -1)", GM_ERROR_RUNTIME, "negative integer powers");
  expect_error ("zeros(-1)", GM_ERROR_RUNTIME, "negative dimension");
  expect_error ("zeros(4000000000, 4000000000)", GM_ERROR_MEMORY, "");
  expect_error ("arange(0, 5, 0)", GM_ERROR_RUNTIME, "nonzero");
  expect_error ("arange(0, 5, -1)", GM_ERROR_RUNTIME, "inconsistent");
  expect_error ("cross_entropy(A, K)", GM_ERROR_RUNTIME, "[3, 2]");
  expect_error ("cross_entropy(A, T, reduction='x')", GM_ERROR_VALUE, "'x'");
  expect_error ("dropout(A, 1.5)", GM_ERROR_VALUE, "between 0 and 1");
  expect_error ("clamp(A)", GM_ERROR_RUNTIME, "None");
  expect_error ("topk(A, 9)", GM_ERROR_RUNTIME, "k = 9");
  expect_error ("permute(A, 0, 0)", GM_ERROR_RUNTIME, "once");
  expect_error ("zeros(1, device='mars')", GM_ERROR_RUNTIME, "'cpu'");
  expect_error ("add_(I, A)", GM_ERROR_RUNTIME, "");
  expect_error ("add_(I, 1.5)", GM_ERROR_RUNTIME, "cannot be written into a tensor of dtype int64");
}
END_TEST

START_TEST (subscripts_are_checked)
{
  expect_error ("getitem(A, 3)", GM_ERROR_INDEX,
                "index 3 is out of bounds for dimension 0 with size 3");
  expect_error ("getitem(A, (0, 0, 0))", GM_ERROR_INDEX,
                "too many indices for tensor of dimension 2");
  expect_error ("getitem(A, ::-1)", GM_ERROR_VALUE, "step must be greater than zero");
  expect_error ("getitem(A, (..., ...))", GM_ERROR_INDEX, "single ellipsis");
  expect_error ("getitem(A, 'x')", GM_ERROR_TYPE, "not str");
  expect_error ("getitem(A, B)", GM_ERROR_INDEX, "float64");
  expect_error ("getitem(A, M)", GM_ERROR_UNSUPPORTED, "depends on the values of the mask");
  expect_error ("getitem(A, [7])", GM_ERROR_INDEX, "index 7");
  expect_error ("getitem(W, (:, K))", GM_ERROR_INDEX, "");
  expect_error ("getitem(C, (K, 0))", GM_ERROR_INDEX, "");
}
END_TEST

/* -- Writes ------------------------------------------------------------------------------------ */

static void
expect_elements (GmTensor *t, int n, const double *want)
{
  double got[64];
  int k = flatten (&(GmArg){ .kind = GM_ARG_TENSOR, .v = gm_val_from_tensor (t) }, got, 0);
  ck_assert_int_eq (k, n);
  for (int i = 0; i < n; i++)
    ck_assert_msg (got[i] == want[i], "element %d is %g, not %g", i, got[i], want[i]);
}

START_TEST (in_place_forms_write_into_the_tensor)
{
  static const struct {
    const char *text;
    double want[4];
  } rows[] = {
    { "fill_(V, 3)", { 3, 3, 3, 3 } },
    { "zero_(V)", { 0, 0, 0, 0 } },
  };
  for (size_t r = 0; r < G_N_ELEMENTS (rows); r++) {
    Fixture f;
    set_up (&f);
    ck_assert_ptr_eq (tensor_of (&f, rows[r].text), f.in[IN_V]);
    expect_elements (f.in[IN_V], 4, rows[r].want);
    tear_down (&f);
  }
  Fixture f;
  set_up (&f);
  memcpy (elements (f.in[IN_V]), (double[]){ 1, -2, 3, -4 }, 32);
  static const struct {
    const char *text;
    double want[4];
  } chain[] = {
    { "add_(V, 1, alpha=2)", { 3, 0, 5, -2 } }, { "mul_(V, 2)", { 6, 0, 10, -4 } },
    { "clamp_(V, min=-1)", { 6, 0, 10, -1 } },  { "relu_(V)", { 6, 0, 10, 0 } },
    { "div_(V, 2)", { 3, 0, 5, 0 } },           { "pow_(V, 2)", { 9, 0, 25, 0 } },
    { "sub_(V, V)", { 0, 0, 0, 0 } },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (chain); i++) {
    uint32_t version = gm_tensor_version (f.in[IN_V]);
    ck_assert_ptr_eq (tensor_of (&f, chain[i].text), f.in[IN_V]);
    expect_elements (f.in[IN_V], 4, chain[i].want);
    ck_assert_uint_eq (gm_tensor_version (f.in[IN_V]), version + 1);
  }
  tear_down (&f);
}
END_TEST

START_TEST (assignments_through_subscripts)
{
  static const struct {
    const char *text;
    double want[4];
  } rows[] = {
    { "setitem(V, 1, 9)", { 1, 9, 3, 4 } },       { "setitem(V, 1:3, 9)", { 1, 9, 9, 4 } },
    { "setitem(V, ::2, S)", { 7, 2, 7, 4 } },     { "setitem(V, ..., 0)", { 0, 0, 0, 0 } },
    { "setitem(V, [0, -1], 9)", { 9, 2, 3, 9 } }, { "setitem(V, T, 9)", { 9, 2, 9, 9 } },
    { "setitem(V, I, 5)", { 5, 5, 5, 5 } },
  };
  for (size_t r = 0; r < G_N_ELEMENTS (rows); r++) {
    Fixture f;
    set_up (&f);
    memcpy (elements (f.in[IN_V]), (double[]){ 1, 2, 3, 4 }, 32);
    elements (f.in[IN_S])[0] = 7;
    ask (&f, rows[r].text);
    no_error (f.b.base.error);
    expect_elements (f.in[IN_V], 4, rows[r].want);
    tear_down (&f);
  }
  /* Rows by index: of equal ones the last counts. */
  Fixture f;
  set_up (&f);
  memcpy (gm_tensor_data (f.in[IN_T]), (int64_t[]){ 2, 0, 2 }, 24);
  ask (&f, "setitem(W, T, 1.5)");
  no_error (f.b.base.error);
  ck_assert (elements (f.in[IN_W])[0] == 1.5 && elements (f.in[IN_W])[8] == 1.5
             && elements (f.in[IN_W])[3] != 1.5);
  /* A mask with one value. */
  ask (&f, "setitem(A, M, -1)");
  no_error (f.b.base.error);
  ck_assert (elements (f.in[IN_A])[0] == -1 && elements (f.in[IN_A])[7] == -1
             && elements (f.in[IN_A])[1] != -1);
  tear_down (&f);
}
END_TEST

START_TEST (assignment_is_differentiable)
{
  Fixture f;
  set_up (&f);
  gm_tensor_set_requires_grad (f.in[IN_V], true, NULL);
  ask (&f, "setitem(A, 1, V)");
  no_error (f.b.base.error);
  GmTensor *s = tensor_of (&f, "sum(A)");
  ck_assert (gm_autograd_backward (&s, NULL, 1, false, false, NULL));
  expect_elements (gm_tensor_grad (f.in[IN_V]), 4, (double[]){ 1, 1, 1, 1 });
  tear_down (&f);
}
END_TEST

START_TEST (batch_norm_updates_running_statistics)
{
  Fixture f;
  set_up (&f);
  double before = elements (f.in[IN_V])[0], mean = 0, square = 0;
  for (int i = 0; i < 3; i++)
    mean += elements (f.in[IN_A])[4 * i] / 3;
  for (int i = 0; i < 3; i++)
    square += pow (elements (f.in[IN_A])[4 * i] - mean, 2);
  ask (&f, "batch_norm(A, V, None, None, None, True, 0.25)");
  no_error (f.b.base.error);
  ck_assert (fabs (elements (f.in[IN_V])[0] - (0.75 * before + 0.25 * mean)) < 1e-12);
  memcpy (elements (f.in[IN_V]), (double[]){ 1, 1, 1, 1 }, 32);
  ask (&f, "batch_norm(A, None, V, None, None, True, 0.25)");
  no_error (f.b.base.error);
  ck_assert (fabs (elements (f.in[IN_V])[0] - (0.75 + 0.25 * square / 2)) < 1e-12);
  tear_down (&f);
}
END_TEST

/* -- Random numbers ---------------------------------------------------------------------------- */

START_TEST (random_numbers_follow_the_seed)
{
  Fixture f;
  set_up (&f);
  gm_random_seed (7);
  GmTensor *x = tensor_of (&f, "randn(100)"), *y = tensor_of (&f, "randn(100)");
  gm_random_seed (7);
  GmTensor *again = tensor_of (&f, "randn(100)");
  ck_assert (!memcmp (gm_tensor_data (x), gm_tensor_data (again), 400));
  ck_assert (memcmp (gm_tensor_data (x), gm_tensor_data (y), 400));
  double count[5] = { 0 };
  GmTensor *i = tensor_of (&f, "randint(2, 7, (1000,))");
  for (int k = 0; k < 1000; k++) {
    int64_t v = ((int64_t *) gm_tensor_data (i))[k];
    ck_assert (v >= 2 && v < 7);
    count[v - 2]++;
  }
  for (int k = 0; k < 5; k++)
    ck_assert (count[k] > 130);
  bool seen[20] = { false };
  GmTensor *p = tensor_of (&f, "randperm(20)");
  for (int k = 0; k < 20; k++) {
    int64_t v = ((int64_t *) gm_tensor_data (p))[k];
    ck_assert (!seen[v]);
    seen[v] = true;
  }
  tear_down (&f);
}
END_TEST

START_TEST (dropout_scales_what_it_keeps)
{
  Fixture f;
  set_up (&f);
  GmTensor *ones = tensor_of (&f, "ones(1000, dtype=float64)");
  GmArg x[2] = { { .kind = GM_ARG_TENSOR, .v = gm_val_from_tensor (ones) },
                 { .kind = GM_ARG_FLOAT, .d = 0.25 } };
  GmArg y = gm_api_call (gm_api_find ("dropout"), false, &f.b.base, x, 2, NULL, NULL, 0);
  no_error (f.b.base.error);
  int kept = 0;
  for (int i = 0; i < 1000; i++) {
    double v = elements (gm_tensor_from_val (y.v))[i];
    ck_assert (v == 0 || fabs (v - 1 / 0.75) < 1e-12);
    kept += v != 0;
  }
  ck_assert (kept > 680 && kept < 820);
  ck_assert_ptr_eq (tensor_of (&f, "dropout(A, 0.5, False)"), f.in[IN_A]);
  tear_down (&f);
}
END_TEST

START_TEST (filling_with_random_numbers)
{
  Fixture f;
  set_up (&f);
  ck_assert_ptr_eq (tensor_of (&f, "uniform_(C, -2, 3)"), f.in[IN_C]);
  for (int i = 0; i < 24; i++)
    ck_assert (elements (f.in[IN_C])[i] >= -2 && elements (f.in[IN_C])[i] < 3);
  tensor_of (&f, "normal_(C, 100, 0.001)");
  for (int i = 0; i < 24; i++)
    ck_assert (fabs (elements (f.in[IN_C])[i] - 100) < 0.01);
  tensor_of (&f, "bernoulli_(C)");
  for (int i = 0; i < 24; i++)
    ck_assert (elements (f.in[IN_C])[i] == 0 || elements (f.in[IN_C])[i] == 1);
  tear_down (&f);
}
END_TEST

/* -- Rows -------------------------------------------------------------------------------------- */

START_TEST (every_row_is_found_and_documented)
{
  size_t n;
  const GmApi *rows = gm_api_rows (&n);
  ck_assert (n > 200);
  for (size_t i = 0; i < n; i++) {
    ck_assert_ptr_eq (gm_api_find (rows[i].name), &rows[i]);
    ck_assert_msg (rows[i].doc && strlen (rows[i].doc) > 10 && rows[i].run, "%s has no text",
                   rows[i].name);
    ck_assert (rows[i].n_positional <= rows[i].n_args && rows[i].star < rows[i].n_args);
  }
  ck_assert_ptr_null (gm_api_find ("no_such_function"));
  ck_assert_int_eq (gm_api_find ("exp")->op, GM_OP_exp);
}
END_TEST

START_TEST (named_tuples_name_their_fields)
{
  Fixture f;
  set_up (&f);
  GmArg a = ask (&f, "max(A, 1)");
  ck_assert (a.kind == GM_ARG_LIST && a.is_tuple && a.n == 2);
  ck_assert_str_eq (a.fields, "max values indices");
  gm_arg_clear (&a);
  ck_assert_int_eq (a.kind, GM_ARG_NONE);
  tear_down (&f);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("api");
  TCase *t = tcase_create ("functions");
  tcase_set_timeout (t, 120);
  tcase_add_test (t, values_are_those_of_numpy);
  tcase_add_test (t, shapes_are_torchs);
  tcase_add_test (t, every_differentiable_function_has_right_slopes);
  tcase_add_test (t, clamp_has_slope_one_at_its_bounds);
  tcase_add_test (t, the_norm_of_zero_has_slope_zero);
  tcase_add_test (t, the_padding_row_of_an_embedding_gets_no_gradient);
  tcase_add_test (t, dtypes_are_promoted_as_torch_does);
  tcase_add_test (t, dtypes_of_results);
  tcase_add_test (t, arguments_are_bound_as_python_does);
  tcase_add_test (t, impossible_values_are_refused);
  tcase_add_test (t, subscripts_are_checked);
  tcase_add_test (t, in_place_forms_write_into_the_tensor);
  tcase_add_test (t, assignments_through_subscripts);
  tcase_add_test (t, assignment_is_differentiable);
  tcase_add_test (t, batch_norm_updates_running_statistics);
  tcase_add_test (t, random_numbers_follow_the_seed);
  tcase_add_test (t, dropout_scales_what_it_keeps);
  tcase_add_test (t, filling_with_random_numbers);
  tcase_add_test (t, every_row_is_found_and_documented);
  tcase_add_test (t, named_tuples_name_their_fields);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failures = srunner_ntests_failed (r);
  srunner_free (r);
  return failures ? 1 : 0;
}
