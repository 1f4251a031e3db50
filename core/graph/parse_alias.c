/* SPDX-License-Identifier: Apache-2.0
 * parse_alias.c -- graph text on the memory of inputs: is %a, aliases %a+4, view %a+4, view
 * f32[8]+4; made 2.
 */
#include "core/graph/alias.h"
#include "core/graph/parse.h"

/* Facts about an input, with the names of other inputs, which are looked up once all inputs have
 * been read. */
typedef struct {
  GmValueId input;
  GmGraphAlias alias;
  char *same, *shares; /* owned names */
  bool is_base;
  const char *place;
} AliasText;

static void
alias_text_clear (void *data)
{
  AliasText *t = data;
  g_free (t->same);
  g_free (t->shares);
}

GArray *
gm_parse_aliases_new (void)
{
  GArray *aliases = g_array_new (FALSE, FALSE, sizeof (AliasText));
  g_array_set_clear_func (aliases, alias_text_clear);
  return aliases;
}

static bool
parse_distance (GmParser *p, int64_t *out)
{
  gm_parse_skip_blanks (p);
  const char *place = p->at;
  bool minus = *place == '-';
  if (*place != '+' && !minus)
    return gm_parse_fail (p, place, "expected a distance in elements, such as +4");
  p->at++;
  if (!g_ascii_isdigit (*p->at) || !gm_parse_integer (p, out))
    return gm_parse_fail (p, place, "expected a distance in elements, such as +4");
  *out = minus ? -*out : *out;
  return true;
}

static bool
parse_other (GmParser *p, char **name, int64_t *distance)
{
  g_clear_pointer (name, g_free);
  return gm_parse_expect (p, "%") && (*name = gm_parse_word (p, "the name of an input after '%'"))
         && (!distance || parse_distance (p, distance));
}

static bool
parse_base (GmParser *p, AliasText *t)
{
  gm_parse_skip_blanks (p);
  if (*p->at == '%') {
    t->is_base = true;
    return parse_other (p, &t->shares, &t->alias.offset);
  }
  t->alias.has_base_meta = true;
  if (!gm_parse_type (p, &t->alias.base_meta))
    return false;
  t->alias.base_meta.requires_grad = gm_parse_keyword (p, "requires_grad");
  return parse_distance (p, &t->alias.base_offset);
}

static bool
parse_made (GmParser *p, uint32_t *made)
{
  const char *place = p->at;
  int64_t number;
  if (!gm_parse_integer (p, &number))
    return false;
  *made = (uint32_t) number;
  return (number > 0 && number < UINT32_MAX)
         || gm_parse_fail (p, place, "expected a number from 1 on");
}

bool
gm_parse_alias (GmParser *p, GmValueId input, GArray *texts)
{
  AliasText t = { .input = input,
                  .alias = { .same = GM_NO_ID, .shares = GM_NO_ID, .base = GM_NO_ID },
                  .place = p->at };
  bool ok = true, any = false;
  for (bool more = true; ok && more; any |= more) {
    if (gm_parse_keyword (p, "leaf"))
      t.alias.leaf = true;
    else if (gm_parse_keyword (p, "made"))
      ok = parse_made (p, &t.alias.made);
    else if (gm_parse_keyword (p, "is"))
      ok = parse_other (p, &t.same, NULL);
    else if (gm_parse_keyword (p, "aliases"))
      ok = parse_other (p, &t.shares, &t.alias.offset);
    else if (gm_parse_keyword (p, "view"))
      ok = parse_base (p, &t);
    else
      more = false;
  }
  if (any && ok)
    g_array_append_val (texts, t);
  else
    alias_text_clear (&t);
  return ok;
}

static bool
find_input (GmParser *p, const AliasText *t, const char *name, GmValueId *out)
{
  if (!name)
    return true;
  *out = GPOINTER_TO_UINT (g_hash_table_lookup (p->names, name)) - 1u;
  return *out != GM_NO_ID || gm_parse_fail (p, t->place, "there is no input %%%s", name);
}

bool
gm_parse_resolve_aliases (GmParser *p, GArray *texts)
{
  for (guint i = 0; i < texts->len; i++) {
    AliasText *t = &g_array_index (texts, AliasText, i);
    if (!find_input (p, t, t->same, &t->alias.same)
        || !find_input (p, t, t->shares, &t->alias.shares))
      return false;
    t->alias.base = t->is_base ? t->alias.shares : GM_NO_ID;
    gm_graph_set_alias (p->g, t->input, &t->alias);
  }
  for (guint i = 0; i < texts->len; i++) {
    const AliasText *t = &g_array_index (texts, AliasText, i);
    const char *problem;
    if (gm_graph_alias_problem (p->g, t->input, &problem) != GM_RULE_NONE)
      return gm_parse_fail (p, t->place, "the input %s", problem);
  }
  return true;
}
