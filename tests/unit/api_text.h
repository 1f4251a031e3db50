/* SPDX-License-Identifier: Apache-2.0
 * api_text.h -- calls of torch's functions, written as text: call (b, in, "sum(A, dim=1,
 * keepdim=True)").
 *
 * Arguments: one capital letter is a tensor of the list below, then numbers, True, False, None,
 * 'text', (tuples), [lists], 1:3:2 (slices, in a tuple), ... and dtypes by name.  A method's
 * in-place form is written with its underscore.
 */
#ifndef API_TEXT_H
#define API_TEXT_H

#include <stdio.h>

#include "core/api/api.h"
#include "tests/unit/grad_check.h"

enum { IN_A, IN_B, IN_C, IN_S, IN_V, IN_W, IN_P, IN_Q, IN_T, IN_I, IN_M, IN_K, IN_E, N_IN };
static const char in_letters[] = "ABCSVWPQTIMKE";

/* tests/unit/api_values.py has the same formulas. */
static inline void
inputs_make (GmTensor *in[N_IN])
{
  static const struct {
    int ndim;
    int64_t sizes[3];
    double scale, step, phase, shift;
  } waves[] = {
    [IN_A] = { 2, { 3, 4 }, 1.5, 1.3, 0.7, 0 },      [IN_B] = { 2, { 3, 4 }, 0.8, 0.9, 1.9, 2 },
    [IN_C] = { 3, { 2, 3, 4 }, 1.2, 1.7, 0.1, 0.1 }, [IN_S] = { 0, { 0 }, 1, 1, 0.9, 0 },
    [IN_V] = { 1, { 4 }, 1.1, 2.1, 0.4, 0.3 },       [IN_W] = { 2, { 4, 3 }, 0.9, 1.1, 0.2, 0 },
    [IN_P] = { 2, { 3, 4 }, 0.35, 1.9, 0.3, 0.5 },   [IN_Q] = { 2, { 3, 4 }, 0.3, 0.7, 2.3, 0.5 },
  };
  for (int k = IN_A; k <= IN_Q; k++) {
    in[k] = tensor_f64 (waves[k].ndim, waves[k].sizes);
    for (int64_t i = 0; i < gm_meta_numel (&in[k]->meta); i++)
      elements (in[k])[i] =
          waves[k].shift + waves[k].scale * sin (waves[k].step * (double) i + waves[k].phase);
  }
  in[IN_T] = ints_i64 (1, (int64_t[]){ 3 }, (int64_t[]){ 2, 0, 3 });
  in[IN_I] = ints_i64 (2, (int64_t[]){ 2, 2 }, (int64_t[]){ 1, 0, 2, -1 });
  in[IN_K] = ints_i64 (2, (int64_t[]){ 3, 2 }, (int64_t[]){ 3, 0, 1, 1, 0, 2 });
  in[IN_E] = ints_i64 (2, (int64_t[]){ 2, 2 }, (int64_t[]){ 0, 1, 1, -1 });
  GmMeta m = gm_meta_make (GM_BOOL, 2, (int64_t[]){ 3, 4 });
  in[IN_M] = gm_tensor_new (&m, NULL);
  for (int i = 0; i < 12; i++)
    ((uint8_t *) gm_tensor_data (in[IN_M]))[i] = i % 3 == 0 || i == 7;
}

typedef struct {
  const char *at;
  const GmVal *in;
  GmArg pool[96];
  int used;
} Text;

static inline void
skip_blank (Text *t)
{
  while (*t->at == ' ')
    t->at++;
}

static inline bool
take_char (Text *t, char c)
{
  skip_blank (t);
  if (*t->at != c)
    return false;
  t->at++;
  return true;
}

static inline bool
take_word (Text *t, const char *word)
{
  size_t n = strlen (word);
  skip_blank (t);
  if (strncmp (t->at, word, n) || g_ascii_isalnum (t->at[n]) || t->at[n] == '_')
    return false;
  t->at += n;
  return true;
}

static inline GmArg parse_value (Text *t);

static inline GmArg
parse_list (Text *t, char end, bool tuple)
{
  GmArg items[16];
  int n = 0;
  while (!take_char (t, end)) {
    items[n++] = parse_value (t);
    take_char (t, ',');
  }
  GmArg list = {
    .kind = GM_ARG_LIST, .is_tuple = tuple, .n = (uint16_t) n, .items = &t->pool[t->used]
  };
  memcpy (list.items, items, sizeof *items * (size_t) n);
  t->used += n;
  return list;
}

static inline GmArg
parse_atom (Text *t)
{
  skip_blank (t);
  if (take_word (t, "None"))
    return (GmArg){ .kind = GM_ARG_NONE };
  if (take_word (t, "True") || take_word (t, "False"))
    return (GmArg){ .kind = GM_ARG_BOOL, .i = t->at[-2] == 'u' };
  if (take_word (t, "..."))
    return (GmArg){ .kind = GM_ARG_ELLIPSIS };
  if (take_word (t, "inf"))
    return (GmArg){ .kind = GM_ARG_FLOAT, .d = INFINITY };
  for (int d = 0; d < GM_N_DTYPES; d++)
    if (take_word (t, gm_dtypes[d].torch_name))
      return (GmArg){ .kind = GM_ARG_DTYPE, .dtype = (GmDtype) d };
  const char *letter = *t->at ? strchr (in_letters, *t->at) : NULL;
  if (letter) {
    t->at++;
    return (GmArg){ .kind = GM_ARG_TENSOR, .v = t->in[letter - in_letters] };
  }
  if (*t->at == '\'') {
    const char *end = strchr (t->at + 1, '\'');
    char *s = g_strndup (t->at + 1, (gsize) (end - t->at - 1));
    GmArg a = { .kind = GM_ARG_STR, .s = g_intern_string (s) };
    g_free (s);
    t->at = end + 1;
    return a;
  }
  if (take_char (t, '('))
    return parse_list (t, ')', true);
  if (take_char (t, '['))
    return parse_list (t, ']', false);
  char *end;
  int64_t i = g_ascii_strtoll (t->at, &end, 10);
  if (*end == '.' || *end == 'e') {
    double d = g_ascii_strtod (t->at, &end);
    t->at = end;
    return (GmArg){ .kind = GM_ARG_FLOAT, .d = d };
  }
  ck_assert_msg (end != t->at, "cannot parse \"%s\"", t->at);
  t->at = end;
  return (GmArg){ .kind = GM_ARG_INT, .i = i };
}

static inline GmArg
parse_value (Text *t)
{
  GmArg part[3] = { { .kind = GM_ARG_NONE }, { .kind = GM_ARG_NONE }, { .kind = GM_ARG_NONE } };
  int n = 0;
  skip_blank (t);
  if (*t->at != ':')
    part[0] = parse_atom (t);
  while (take_char (t, ':')) {
    n++;
    skip_blank (t);
    if (*t->at && !strchr (":,)", *t->at))
      part[n] = parse_atom (t);
  }
  if (n == 0)
    return part[0];
  GmArg s = { .kind = GM_ARG_SLICE, .n = 3, .items = &t->pool[t->used] };
  memcpy (s.items, part, sizeof part);
  t->used += 3;
  return s;
}

static inline GmArg
call (GmBuilder *b, const GmVal *in, const char *text)
{
  Text t = { .at = text, .in = in };
  char name[64], keyword_names[8][32];
  const char *names[8];
  GmArg positional[12], keywords[8];
  int n = 0, k = 0;
  size_t length = strcspn (text, "(");
  memcpy (name, text, length);
  name[length] = 0;
  const GmApi *api = gm_api_find (name);
  bool inplace = !api && name[length - 1] == '_';
  if (inplace) {
    name[length - 1] = 0;
    api = gm_api_find (name);
  }
  ck_assert_msg (api != NULL, "there is no function %s", name);
  t.at = text + length + 1;
  while (!take_char (&t, ')')) {
    skip_blank (&t);
    size_t word = strspn (t.at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (word && t.at[word] == '=' && !g_ascii_isdigit (*t.at)) {
      snprintf (keyword_names[k], sizeof *keyword_names, "%.*s", (int) word, t.at);
      names[k] = keyword_names[k];
      t.at += word + 1;
      keywords[k++] = parse_value (&t);
    } else {
      positional[n++] = parse_value (&t);
    }
    take_char (&t, ',');
  }
  return gm_api_call (api, inplace, b, positional, n, names, keywords, k);
}

#endif
