/* SPDX-License-Identifier: Apache-2.0
 * api.c -- the table of torch's functions, their signatures, and the call.
 *
 * Rows come from two tables: api.def, and every POINTWISE row of the op table whose name is not in
 * api.def. A signature is text ("input, dim=None, *, dtype=None"), parsed once; binding follows
 * Python's rules and reports errors in Python's words. A call copies no arguments except to reorder
 * them: items of a "*rest" are the caller's own.
 */
#include "core/api/api_private.h"
#include "core/tensor/device.h"

#include <stdlib.h>

/* -- Rows -------------------------------------------------------------------------------------- */

static GmArg
run_pointwise (const GmApi *api, GmBuilder *b, GmArg *a)
{
  return gm_pointwise (api, b, a, api->op, a, api->n_args);
}

#define F GM_API_FUNCTION
#define M GM_API_METHOD
#define I GM_API_INPLACE
#define NN GM_API_NN
#define V (GM_API_INPLACE | GM_API_RESHAPES)
#define S GM_API_SIZES
#define N GM_API_NUMBERS
#define W GM_API_VIEWS
#define Z GM_API_RESIZES
#define R GM_API_OUTSIDE_RUNTIME
#define E GM_API_FLOATS
#define X GM_API_FLOATING
static const GmApi named_rows[] = {
#define API(row_name, row_run, row_where, row_signature, row_doc)                                  \
  { .name = #row_name,                                                                             \
    .signature = row_signature,                                                                    \
    .doc = row_doc,                                                                                \
    .where = row_where,                                                                            \
    .run = gm_run_##row_run },
#include "core/api/api.def"
};
#undef F
#undef M
#undef I
#undef NN
#undef V
#undef S
#undef N
#undef W
#undef Z
#undef R
#undef X
#undef E

static GmApi *rows;
static size_t n_rows;

/* -- Signatures -------------------------------------------------------------------------------- */

static GmArg
parse_default (const char *text)
{
  if (!strcmp (text, "None"))
    return (GmArg){ .kind = GM_ARG_NONE };
  if (!strcmp (text, "True") || !strcmp (text, "False"))
    return (GmArg){ .kind = GM_ARG_BOOL, .i = text[0] == 'T' };
  if (!strcmp (text, "()"))
    return (GmArg){ .kind = GM_ARG_LIST, .is_tuple = true };
  if (text[0] == '\'') {
    char *s = g_strndup (text + 1, strlen (text) - 2);
    GmArg a = { .kind = GM_ARG_STR, .s = g_intern_string (s) };
    g_free (s);
    return a;
  }
  if (strpbrk (text, ".e") || !strcmp (text, "inf"))
    return (GmArg){ .kind = GM_ARG_FLOAT, .d = g_ascii_strtod (text, NULL) };
  return (GmArg){ .kind = GM_ARG_INT, .i = g_ascii_strtoll (text, NULL, 10) };
}

/* Arguments of torch's functions that have no effect here: the values that each accepts, besides
 * None and False, and the text for other values. */
enum { UNREAD_ANYTHING, UNREAD_NOTHING, UNREAD_STRIDED };
static const struct {
  const char *name;
  int may_be;
  const char *instead;
} unread[] = {
  { "layout", UNREAD_STRIDED,
    "tensors are dense, gramme.strided: keep indices and values as two tensors" },
  { "pin_memory", UNREAD_ANYTHING, NULL }, /* copies to a GPU accept ordinary memory of the CPU */
  { "sparse", UNREAD_NOTHING, "gradients are dense: leave it out" },
  { "sparse_grad", UNREAD_NOTHING, "gradients are dense: leave it out" },
  { "out_dtype", UNREAD_NOTHING, "cast the operands before" },
  { "cudnn_enabled", UNREAD_ANYTHING, NULL },
  { "cudnn_enable", UNREAD_ANYTHING, NULL },
  { "implicit", UNREAD_ANYTHING, NULL },
};

static int
find_unread (const char *name)
{
  for (size_t k = 0; k < G_N_ELEMENTS (unread); k++)
    if (!strcmp (name, unread[k].name))
      return (int) k;
  return -1;
}

/* Moves the other names out of a part, "name|other=default", into the row. */
static void
parse_aliases (GmApi *row, int i, char *part)
{
  char *bar = strchr (part, '|'), *equals = strchr (part, '=');
  if (!bar || (equals && equals < bar))
    return;
  g_autofree char *others = equals ? g_strndup (bar, (gsize) (equals - bar)) : g_strdup (bar);
  g_autofree char *closed = g_strconcat (others, "|", NULL);
  row->aliases[i] = g_intern_string (closed);
  memmove (bar, equals ? equals : "", equals ? strlen (equals) + 1 : 1);
}

static void
parse_signature (GmApi *row)
{
  row->star = row->n_positional = row->generator = row->device = row->format = -1;
  g_auto (GStrv) parts = g_strsplit (row->signature, ",", -1);
  g_autoptr (GString) clean = g_string_new (NULL);
  for (char **p = parts; *p; p++) {
    char *part = g_strstrip (*p);
    if (!*part)
      continue;
    bool star = !strcmp (part, "*");
    g_assert (star || row->n_args < GM_API_MAX_ARGS);
    if (!star)
      parse_aliases (row, row->n_args, part);
    g_string_append_printf (clean, "%s%s", clean->len ? ", " : "", part);
    if (star) {
      row->n_positional = row->n_args;
      continue;
    }
    int i = row->n_args++;
    GmArg none = { .kind = GM_ARG_ABSENT };
    if (part[0] == '*') {
      row->star = i;
      row->n_positional = i;
      part++;
    }
    char *equals = strchr (part, '=');
    if (equals)
      *equals++ = 0;
    row->defaults[i] = equals ? parse_default (equals) : none;
    row->arg_names[i] = g_intern_string (part);
    if (strcmp (part, "generator") == 0)
      row->generator = i;
    if (strcmp (part, "device") == 0)
      row->device = i;
    if (strcmp (part, "memory_format") == 0)
      row->format = i;
    if (find_unread (part) >= 0)
      row->unread |= 1u << i;
  }
  row->signature = g_intern_string (clean->str);
  if (row->n_positional < 0)
    row->n_positional = row->n_args;
}

/* -- The table, made once ---------------------------------------------------------------------- */

static int
by_name (const void *x, const void *y)
{
  return strcmp (((const GmApi *) x)->name, ((const GmApi *) y)->name);
}

static const char *
pointwise_doc (GmOp op)
{
  static const char *const types[] = {
    [GM_TYPES_ANY] = "any dtype",
    [GM_TYPES_ARITH] = "numeric dtypes; the result has the promoted dtype of the operands",
    [GM_TYPES_FLOAT] = "floating dtypes; integers and bools are taken as the default dtype",
    [GM_TYPES_COMPARE] = "any dtype, operands are promoted to one; the result is bool",
    [GM_TYPES_LOGICAL] = "any dtype, taken as bool (nonzero is True); the result is bool",
    [GM_TYPES_BITWISE] = "integers and bool; floating dtypes are an error",
    [GM_TYPES_SELECT] =
        "a bool condition; the other two are promoted to one dtype, which is the result's",
  };
  const GmOpInfo *info = &gm_ops[op];
  g_autofree char *text = g_strdup_printf (
      "Elementwise %s: %s.\n\nShapes: the operands broadcast.  Dtypes: %s.\n"
      "Errors: RuntimeError if the shapes do not broadcast or the dtype does not fit.",
      info->name, info->value, types[info->types]);
  return g_intern_string (text);
}

static const GmApi *
search (const GmApi *in, size_t n, const char *name)
{
  GmApi key = { .name = name };
  return bsearch (&key, in, n, sizeof *in, by_name);
}

static GmApi *
rows_make (size_t *n)
{
  size_t named = G_N_ELEMENTS (named_rows), total = named;
  GmApi *r = g_new0 (GmApi, named + GM_N_OPS);
  memcpy (r, named_rows, sizeof named_rows);
  qsort (r, named, sizeof *r, by_name);
  for (int op = 1; op < GM_N_OPS; op++) {
    static const char *const signatures[] = { "", "input", "input, other",
                                              "condition, input, other" };
    const GmOpInfo *info = &gm_ops[op];
    if (!info->name || info->family != GM_FAMILY_POINTWISE || search (r, named, info->name)
        || op == GM_OP_overwrite) /* only in graphs */
      continue;
    r[total++] = (GmApi){ .name = info->name,
                          .signature = signatures[info->arity],
                          .doc = pointwise_doc ((GmOp) op),
                          .where = GM_API_FUNCTION | GM_API_METHOD | GM_API_INPLACE | GM_API_SIZES
                                   | GM_API_NUMBERS | GM_API_FLOATS,
                          .op = (GmOp) op,
                          .run = run_pointwise };
  }
  qsort (r, total, sizeof *r, by_name);
  for (size_t i = 0; i < total; i++) {
    g_assert (i == 0 || strcmp (r[i - 1].name, r[i].name)); /* each name has one row */
    parse_signature (&r[i]);
    r[i].autocast = gm_autocast_policy (r[i].name);
  }
  *n = total;
  return r;
}

const GmApi *
gm_api_rows (size_t *n)
{
  static gsize made;
  if (g_once_init_enter (&made)) {
    rows = rows_make (&n_rows);
    g_once_init_leave (&made, 1);
  }
  if (n)
    *n = n_rows;
  return rows;
}

const GmApi *
gm_api_find (const char *name)
{
  size_t n;
  const GmApi *r = gm_api_rows (&n);
  return search (r, n, name);
}

/* -- Binding ----------------------------------------------------------------------------------- */

static int
find_argument (const GmApi *api, const char *name)
{
  for (int i = 0; i < api->n_args; i++)
    if (!strcmp (api->arg_names[i], name))
      return i;
  return -1;
}

/* Returns the index of the argument that `name` stands for, by an alias of the row or by numpy's
 * name for it, which torch accepts, too; -1: none. */
static int
find_alias (const GmApi *api, const char *name)
{
  size_t n = strlen (name);
  for (int i = 0; i < api->n_args; i++)
    for (const char *at = api->aliases[i]; at && (at = strstr (at, name)); at += n)
      if (at[-1] == '|' && at[n] == '|')
        return i;
  static const char *const alias[][2] = { { "axis", "dim" },
                                          { "axis", "dims" },
                                          { "keepdims", "keepdim" },
                                          { "x", "input" },
                                          { "self", "input" } };
  for (size_t k = 0; k < G_N_ELEMENTS (alias); k++)
    if (!strcmp (name, alias[k][0])) {
      int i = find_argument (api, alias[k][1]);
      if (i >= 0)
        return i;
    }
  return -1;
}

static void
fail_count (const GmApi *api, GmBuilder *b, int given)
{
  int least = 0;
  while (least < api->n_positional && api->defaults[least].kind == GM_ARG_ABSENT)
    least++;
  if (least == api->n_positional)
    gm_b_fail (b, GM_ERROR_TYPE, "%s() takes %d positional argument%s but %d %s given", api->name,
               least, least == 1 ? "" : "s", given, given == 1 ? "was" : "were");
  else
    gm_b_fail (b, GM_ERROR_TYPE, "%s() takes from %d to %d positional arguments but %d were given",
               api->name, least, api->n_positional, given);
}

/* Returns the positionals from the star on as one list: x itself if it is a list alone, else a
 * tuple that borrows the n items. */
static GmArg
rest (const GmArg *x, int n)
{
  if (n == 1 && x[0].kind == GM_ARG_LIST)
    return x[0];
  return (GmArg){ .kind = GM_ARG_LIST, .is_tuple = true, .n = (uint16_t) n, .items = (GmArg *) x };
}

static bool
bind (const GmApi *api, GmBuilder *b, GmArg *out, const GmArg *x, int n, const char *const *names,
      const GmArg *keywords, int n_keywords)
{
  int direct = MIN (n, api->n_positional);
  uint32_t given = 0;
  memcpy (out, x, (size_t) direct * sizeof *x);
  given = (1u << direct) - 1;
  if (n > direct) {
    if (api->star < 0) {
      fail_count (api, b, n);
      return false;
    }
    out[api->star] = rest (x + direct, n - direct);
    given |= 1u << api->star;
  }
  for (int k = 0; k < n_keywords; k++) {
    int i = find_argument (api, names[k]);
    i = i < 0 ? find_alias (api, names[k]) : i;
    if (i < 0) {
      gm_b_fail (b, GM_ERROR_TYPE, "%s() got an unexpected keyword argument '%s'; it is %s(%s)",
                 api->name, names[k], api->name, api->signature);
      return false;
    }
    if (given >> i & 1) {
      gm_b_fail (b, GM_ERROR_TYPE, "%s() got multiple values for argument '%s'", api->name,
                 names[k]);
      return false;
    }
    out[i] = i == api->star ? rest (&keywords[k], 1) : keywords[k];
    given |= 1u << i;
  }
  for (int i = 0; i < api->n_args; i++) {
    if (given >> i & 1)
      continue;
    out[i] = i == api->star ? rest (NULL, 0) : api->defaults[i];
    if (out[i].kind == GM_ARG_ABSENT) {
      gm_b_fail (b, GM_ERROR_TYPE,
                 "%s() missing required argument: '%s' (position %d); it is %s(%s)", api->name,
                 api->arg_names[i], i + 1, api->name, api->signature);
      return false;
    }
  }
  return true;
}

/* -- In place ---------------------------------------------------------------------------------- */

/* Writes the result of a row without an in-place form of its own into the first argument. */
static GmArg
write_back (const GmApi *api, GmBuilder *b, GmArg *a, GmArg result)
{
  if (gm_b_failed (b) || result.kind != GM_ARG_TENSOR)
    return gm_give (NULL);
  if (api->where & GM_API_RESIZES && result.v == a[0].v)
    return result;
  if (api->where & GM_API_RESHAPES)
    return gm_give (gm_b_set (b, a[0].v, result.v));
  GmDtype from = (GmDtype) META (result.v)->dtype, to = (GmDtype) META (a[0].v)->dtype;
  if (gm_dtypes[from].category > gm_dtypes[to].category)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "%s_(): the result has dtype %s, which cannot be written into a tensor of dtype %s",
        api->name, gm_dtypes[from].torch_name, gm_dtypes[to].torch_name));
  return gm_give (b->vt->into (b, a[0].v, GM_OP_copy, &result.v, 1, NULL));
}

/* -- out= -------------------------------------------------------------------------------------- */

/* Returns `out` after `result` is written into it, cast to out's dtype. A tensor without elements
 * becomes the result instead; any other gets the result's shape first, as in resize_. */
static GmVal
put_out (const GmApi *api, GmBuilder *b, GmVal out, GmVal result)
{
  const GmMeta *to = META (out), *from = META (result);
  if (from->requires_grad)
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): functions with out=... arguments don't support automatic "
                      "differentiation, but one of the arguments requires grad.",
                      api->name);
  if (gm_dtypes[from->dtype].category > gm_dtypes[to->dtype].category)
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): result type %s can't be cast to the desired output type %s", api->name,
                      gm_dtypes[from->dtype].torch_name, gm_dtypes[to->dtype].torch_name);
  if (!gm_meta_same_shape (from, to) && gm_meta_numel (to) == 0)
    return gm_b_set (b, out, gm_b_contiguous (b, gm_b_cast (b, result, (GmDtype) to->dtype)));
  GmVal own = gm_b_op (b, GM_OP_copy, &result, 1, NULL); /* the result may be a view of the tensor
                                                            that is written */
  if (own && !gm_meta_same_shape (from, to)) {
    if (!b->vt->resized) {
      g_autofree char *have = gm_meta_text (to), *want = gm_meta_text (from);
      return gm_b_fail (
          b, GM_ERROR_UNSUPPORTED,
          "%s(): out= is %s, but the result is %s: plain Python resizes it; pass one of "
          "its shape, or an empty one",
          api->name, have, want);
    }
    GmVal resized = b->vt->resized (b, out, META (own)->ndim, META (own)->sizes);
    out = resized ? gm_b_set (b, out, resized) : NULL;
    if (!out)
      return NULL;
  }
  return own ? b->vt->into (b, out, GM_OP_copy, &own, 1, NULL) : NULL;
}

void
gm_api_put_out (const GmApi *api, GmBuilder *b, const GmArg *out, GmArg *result)
{
  if (result->kind == GM_ARG_TENSOR && out->kind == GM_ARG_TENSOR) {
    result->v = put_out (api, b, out->v, result->v);
    return;
  }
  bool fits = result->kind == GM_ARG_LIST && out->kind == GM_ARG_LIST && result->n == out->n;
  for (int i = 0; fits && i < out->n; i++)
    fits = out->items[i].kind == GM_ARG_TENSOR && result->items[i].kind == GM_ARG_TENSOR;
  if (!fits) {
    gm_b_fail (b, GM_ERROR_TYPE, "%s(): out= must be %s", api->name,
               result->kind == GM_ARG_LIST ? "a tuple of as many tensors as there are results"
                                           : "a Tensor");
    return;
  }
  for (int i = 0; i < out->n && !gm_b_failed (b); i++)
    result->items[i].v = put_out (api, b, out->items[i].v, result->items[i].v);
}

/* Copies all keywords but out= to rest_names and rest and returns their number. *out: the argument
 * of out= (borrowed), NULL if there is none, or if the row has an argument `out` of its own. */
static int
take_out (const GmApi *api, const char *const *names, const GmArg *keywords, int n,
          const char **rest_names, GmArg *rest, const GmArg **out)
{
  int k = 0;
  *out = NULL;
  for (int i = 0; i < n; i++) {
    if (strcmp (names[i], "out") == 0 && find_argument (api, "out") < 0) {
      *out = keywords[i].kind == GM_ARG_NONE ? NULL : &keywords[i];
      continue;
    }
    rest_names[k] = names[i];
    rest[k++] = keywords[i];
  }
  return k;
}

static GmArg
call_out (const GmApi *api, GmBuilder *b, const GmArg *positional, int n_positional,
          const char *const *names, const GmArg *keywords, int n_keywords)
{
  g_autofree const char **rest_names = g_new (const char *, n_keywords);
  g_autofree GmArg *rest = g_new (GmArg, n_keywords);
  const GmArg *out;
  int n = take_out (api, names, keywords, n_keywords, rest_names, rest, &out);
  GmArg result = gm_api_call (api, false, b, positional, n_positional, rest_names, rest, n);
  if (out && !gm_b_failed (b))
    gm_api_put_out (api, b, out, &result);
  if (!gm_b_failed (b))
    return result;
  gm_arg_clear (&result);
  return gm_give (NULL);
}

/* -- Sizes that are expressions ---------------------------------------------------------------- */

/* Replaces the sizes in `a` that are expressions by numbers, if the row does not take expressions
 * there; `ints`: it takes them as ints. A list that changes is copied, as lists are the caller's
 * own; `copies` owns the copies. */
static void
make_numbers (const GmApi *api, GmBuilder *b, GmArg *a, bool ints, GPtrArray *copies)
{
  switch (a->kind) {
  case GM_ARG_INT:
    if (!ints)
      a->i = gm_size_number (a->i);
    break;
  case GM_ARG_TENSOR:
    if (!(api->where & GM_API_SIZES)) {
      GmMeta m = *META (a->v);
      gm_meta_set_numbers (&m); /* the builder's meta has the numbers from now on */
    }
    break;
  case GM_ARG_LIST:
  case GM_ARG_SLICE:
    if (api->where & GM_API_SIZES)
      break; /* sizes, parts of a subscript, tensors: taken as they are */
    a->items = g_memdup2 (a->items, a->n * sizeof *a->items);
    g_ptr_array_add (copies, a->items);
    for (int i = 0; i < a->n; i++)
      make_numbers (api, b, &a->items[i], false, copies);
    break;
  default:
    break;
  }
}

static GmVal
generator_of (const GmApi *api, GmBuilder *b, const GmArg *x)
{
  const GmMeta *m = x->kind == GM_ARG_TENSOR ? META (x->v) : NULL;
  if (m && m->dtype == GM_I64 && m->ndim == 1 && m->sizes[0] == 2)
    return x->v;
  return gm_b_fail (
      b, GM_ERROR_TYPE,
      "%s(): the generator must be a gramme.Generator, or its state, an int64 tensor of 2 elements",
      api->name);
}

/* -- The device of new tensors ----------------------------------------------------------------- */

/* Returns the device of a tensor, or of the first in a list that is not on the CPU. */
static int
device_in (GmBuilder *b, const GmArg *x)
{
  if (x->kind == GM_ARG_TENSOR)
    return META (x->v)->device;
  int device = 0;
  for (int i = 0; x->kind == GM_ARG_LIST && i < x->n && device != GM_DEVICE_CUDA; i++)
    if (x->items[i].kind == GM_ARG_TENSOR)
      device = META (x->items[i].v)->device;
  return device;
}

/* Returns the device of device=; else that of the tensors among the arguments; else the default
 * device. */
static int
device_of_call (const GmApi *api, GmBuilder *b, const GmArg *a)
{
  const GmArg *said = api->device >= 0 ? &a[api->device] : NULL;
  int device = 0, beside = 0;
  if (said && said->kind == GM_ARG_STR && gm_device_find (said->s, &device))
    return device;
  if (said && said->kind == GM_ARG_INT && said->i == 0)
    return GM_DEVICE_CUDA;
  if (said && said->kind != GM_ARG_NONE) {
    const char *name = said->kind == GM_ARG_STR ? said->s : gm_arg_kind_name (said);
    gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): there is no device %s: %s", api->name, name,
               gm_device_instead (name));
    return 0;
  }
  for (int i = 0; i < api->n_args && beside != GM_DEVICE_CUDA; i++)
    if (i != api->generator && (device = device_in (b, &a[i])))
      beside = device;
  return beside ? beside : api->device >= 0 ? gm_default_device () : GM_DEVICE_CPU;
}

static bool
is_argument (const GmApi *api, const GmArg *a, GmVal v)
{
  bool is = false;
  for (int i = 0; i < api->n_args && !is; i++) {
    is = a[i].kind == GM_ARG_TENSOR && a[i].v == v;
    for (int k = 0; a[i].kind == GM_ARG_LIST && k < a[i].n && !is; k++)
      is = a[i].items[k].kind == GM_ARG_TENSOR && a[i].items[k].v == v;
  }
  return is;
}

/* Replaces each tensor in `result` that is an argument by a new view of it: a later change of the
 * result's shape must not change the argument's. For rows with VIEWS. */
static void
part_from_arguments (const GmApi *api, GmBuilder *b, const GmArg *a, GmArg *result)
{
  for (int i = 0; result->kind == GM_ARG_LIST && i < result->n; i++)
    part_from_arguments (api, b, a, &result->items[i]);
  if (result->kind == GM_ARG_TENSOR && result->v && is_argument (api, a, result->v))
    result->v = gm_b_alias (b, result->v);
}

/* -- Layouts ----------------------------------------------------------------------------------- */

typedef enum { FORMAT_AS_IT_IS, FORMAT_ROWS, FORMAT_CHANNELS_LAST, FORMAT_CHANNELS_LAST_3D } Format;

/* Returns the layout that memory_format asks for; AS_IT_IS leaves it to the row's function. */
static Format
format_of (const GmApi *api, GmBuilder *b, const GmArg *a)
{
  static const char *const names[] = { "preserve_format", "contiguous_format", "channels_last",
                                       "channels_last_3d" };
  if (a->kind == GM_ARG_NONE)
    return FORMAT_AS_IT_IS;
  for (int f = 0; a->kind == GM_ARG_STR && f < (int) G_N_ELEMENTS (names); f++)
    if (strcmp (a->s, names[f]) == 0)
      return (Format) f;
  gm_b_fail (b, GM_ERROR_TYPE,
             "%s(): memory_format is gramme.preserve_format, contiguous_format, channels_last or "
             "channels_last_3d, not %s",
             api->name, a->kind == GM_ARG_STR ? a->s : gm_arg_kind_name (a));
  return FORMAT_AS_IT_IS;
}

/* Returns v in that layout: itself if it lies so already, else a copy. */
static GmVal
in_format (const GmApi *api, GmBuilder *b, GmVal v, Format format)
{
  static const int64_t last[] = { 0, 2, 3, 1 }, first[] = { 0, 3, 1, 2 },
                       last_3d[] = { 0, 2, 3, 4, 1 }, first_3d[] = { 0, 4, 1, 2, 3 };
  bool is_3d = format == FORMAT_CHANNELS_LAST_3D;
  if (format == FORMAT_ROWS)
    return gm_b_contiguous (b, v);
  if (META (v)->ndim != (is_3d ? 5 : 4))
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): required rank %d tensor to use %s format, not one of %d dimensions",
                      api->name, is_3d ? 5 : 4, is_3d ? "channels_last_3d" : "channels_last",
                      META (v)->ndim);
  GmVal turned = gm_b_permute (b, v, is_3d ? last_3d : last), rows = gm_b_contiguous (b, turned);
  return rows == turned ? v : gm_b_permute (b, rows, is_3d ? first_3d : first);
}

/* Sets an error if an argument without effect has a value that would have an effect in torch. */
static void
check_unread (const GmApi *api, GmBuilder *b, const GmArg *a)
{
  for (uint32_t left = api->unread; left; left &= left - 1) {
    int i = __builtin_ctz (left);
    if (a[i].kind == GM_ARG_NONE || (a[i].kind == GM_ARG_BOOL && !a[i].i))
      continue;
    int k = find_unread (api->arg_names[i]);
    bool fits = unread[k].may_be == UNREAD_ANYTHING
                || (unread[k].may_be == UNREAD_STRIDED && a[i].kind == GM_ARG_STR
                    && strcmp (a[i].s, "strided") == 0);
    const char *given = a[i].kind == GM_ARG_STR    ? a[i].s
                        : a[i].kind == GM_ARG_BOOL ? "True"
                                                   : gm_arg_kind_name (&a[i]);
    if (!fits)
      gm_b_fail (b, GM_ERROR_UNSUPPORTED, "%s(): %s cannot be %s: %s", api->name, api->arg_names[i],
                 given, unread[k].instead);
  }
}

static GmArg
run (const GmApi *api, bool inplace, GmBuilder *b, GmArg *a)
{
  uint8_t before = b->device;
  b->device = (uint8_t) device_of_call (api, b, a);
  if (G_UNLIKELY (api->generator >= 0) && a[api->generator].kind != GM_ARG_NONE)
    b->generator = generator_of (api, b, &a[api->generator]);
  Format format =
      G_UNLIKELY (api->format >= 0) ? format_of (api, b, &a[api->format]) : FORMAT_AS_IT_IS;
  if (G_UNLIKELY (api->unread))
    check_unread (api, b, a);
  GmArg result = gm_b_failed (b) ? gm_give (NULL) : api->run (api, b, a);
  if (G_UNLIKELY (format) && !gm_b_failed (b) && result.kind == GM_ARG_TENSOR)
    result = gm_give (in_format (api, b, result.v, format));
  b->generator = NULL;
  b->device = before;
  if (api->where & GM_API_VIEWS && GM_CALL_MODE (a) != GM_CALL_INPLACE && !gm_b_failed (b))
    part_from_arguments (api, b, a, &result);
  return GM_CALL_MODE (a) == GM_CALL_INPLACE ? write_back (api, b, a, result) : result;
}

/* Sets an error if the call's result relies on a guess of a size. This error replaces an earlier
 * one, which may come from the guess. */
static void
check_guesses (const GmApi *api, GmBuilder *b, GmSizes *sizes)
{
  g_autoptr (GError) open = NULL;
  if (gm_sizes_check (sizes, &open))
    return;
  g_clear_error (&b->error);
  gm_b_fail (b, GM_ERROR_UNSUPPORTED, "%s(): %s", api->name, open->message);
}

static GmArg
run_symbolic (const GmApi *api, bool inplace, GmBuilder *b, GmArg *a, GmSizes *sizes)
{
  GmSizes *was = gm_sizes_enter (sizes);
  g_autoptr (GPtrArray) copies = g_ptr_array_new_with_free_func (g_free);
  for (int i = 0; i < api->n_args; i++)
    make_numbers (api, b, &a[i], api->where & GM_API_NUMBERS, copies);
  GmArg result = run (api, inplace, b, a);
  check_guesses (api, b, sizes);
  gm_sizes_enter (was);
  return result;
}

/* -- The call ---------------------------------------------------------------------------------- */

GmArg
gm_api_call (const GmApi *api, bool inplace, GmBuilder *b, const GmArg *positional,
             int n_positional, const char *const *names, const GmArg *keywords, int n_keywords)
{
  GmArg a[GM_API_MAX_ARGS + 1];
  for (int k = 0; k < n_keywords && !inplace && (api->where & GM_API_FUNCTION); k++)
    if (strcmp (names[k], "out") == 0 && find_argument (api, "out") < 0)
      return call_out (api, b, positional, n_positional, names, keywords, n_keywords);
  if (gm_b_failed (b) || !bind (api, b, a, positional, n_positional, names, keywords, n_keywords))
    return gm_give (NULL);
  if (G_UNLIKELY (b->autocast) && api->autocast && !inplace)
    gm_autocast_args (api, b, a);
  if (api->where & GM_API_FLOATING && a[0].kind == GM_ARG_TENSOR) {
    GmDtype d = (GmDtype) META (a[0].v)->dtype;
    if (!gm_dtype_is_float (d))
      return gm_give (gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                                 "%s(): takes floating dtypes, not %s; cast the input first",
                                 api->name, gm_dtypes[d].torch_name));
  }
  a[GM_API_MAX_ARGS] =
      (GmArg){ .kind = GM_ARG_INT, .i = inplace ? GM_CALL_INPLACE : GM_CALL_FRESH };
  if (inplace && a[0].kind != GM_ARG_TENSOR)
    return gm_give (gm_arg_fail (api, b, a, 0, "Tensor"));
  GmSizes *sizes = gm_b_sizes (b);
  if (G_UNLIKELY (b->gradient) && api->where & GM_API_OUTSIDE_RUNTIME)
    b->marks |= GM_MARK_OUTSIDE_RUNTIME;
  GmArg result =
      G_UNLIKELY (sizes) ? run_symbolic (api, inplace, b, a, sizes) : run (api, inplace, b, a);
  if (!sizes && G_UNLIKELY ((sizes = gm_b_sizes (b)) != NULL)) /* the function made a size depend on
                                                                  data */
    check_guesses (api, b, sizes);
  if (gm_b_failed (b)) {
    if (b->outside && api->where & GM_API_OUTSIDE_RUNTIME)
      b->error->code = GM_ERROR_RUNTIME;
    gm_arg_clear (&result);
    result = gm_give (NULL);
  }
  b->marks = 0;
  return result;
}

void
gm_arg_clear (GmArg *a)
{
  if (a->kind == GM_ARG_LIST && a->items) {
    for (int i = 0; i < a->n; i++)
      gm_arg_clear (&a->items[i]);
    g_free (a->items);
  }
  *a = (GmArg){ .kind = GM_ARG_NONE };
}

GmArg
gm_give_list (const GmVal *v, int n, bool tuple, const char *fields)
{
  GmArg list = { .kind = GM_ARG_LIST,
                 .is_tuple = tuple,
                 .n = (uint16_t) n,
                 .fields = fields,
                 .items = g_new0 (GmArg, MAX (n, 1)) };
  for (int i = 0; i < n; i++)
    list.items[i] = gm_give (v[i]);
  return list;
}
