/* SPDX-License-Identifier: Apache-2.0
 * slice.c -- see slice.h.
 *
 * A declaration goes from one semicolon, or end of a function's body, to the next.  It defines the
 * names that are not in brackets, in an enumeration's braces, or in (*NAME), unless an earlier
 * declaration defines them; it needs the declarations that define the other names in it.  This
 * holds for the C of source.h, not for all C.
 */
#include "plugins/codegen/slice.h"

#include <stdlib.h>

typedef struct {
  const char *text;
  uint32_t len;
  uint32_t first_need, n_needs; /* range of needs: other declarations, all earlier */
  bool external;
} Item;

typedef struct {
  const char *text;
  uint32_t len, item;
} Name;

struct CgSource {
  Item *items;
  uint32_t n_items, *needs, n_needs, n_names, mask;
  Name *names; /* a hash table of mask + 1 places */
};

static const char keywords[] = " static inline extern const typedef struct enum union unsigned "
                               "signed int long short char float double void _Bool for if "
                               "else return while do switch case default break sizeof volatile "
                               "__attribute__ __inline __extension__ goto continue ";

/* -- Words ------------------------------------------------------------------------------------- */

static bool
is_word (char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static uint32_t
word_length (const char *at)
{
  uint32_t n = 0;
  while (is_word (at[n]))
    n++;
  return n;
}

static bool
is_keyword (const char *word, uint32_t len)
{
  for (const char *k = keywords; (k = strstr (k, " ")) && k[1]; k++)
    if (strncmp (k + 1, word, len) == 0 && k[1 + len] == ' ')
      return true;
  return false;
}

static Name *
find (const CgSource *s, const char *word, uint32_t len)
{
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (uint32_t i = 0; i < len; i++)
    hash = (hash ^ (unsigned char) word[i]) * 16777619u;
  for (;; hash++) {
    Name *n = &s->names[hash & s->mask];
    if (!n->text || (n->len == len && memcmp (n->text, word, len) == 0))
      return n;
  }
}

/* -- Reading ----------------------------------------------------------------------------------- */

static void
need (CgSource *s, uint32_t item, uint32_t other)
{
  Item *it = &s->items[item];
  for (uint32_t i = 0; i < it->n_needs; i++)
    if (s->needs[it->first_need + i] == other)
      return;
  s->needs[s->n_needs++] = other;
  it->n_needs++;
}

/* Reads one declaration. Returns the beginning of the next one; NULL at the end. */
static const char *
read_item (CgSource *s, const char *at)
{
  while (*at == ' ' || *at == '\n' || *at == ';')
    at++;
  if (!*at)
    return NULL;
  uint32_t item = s->n_items++;
  const char *start = at, *last = at; /* last: the last character that is not a space */
  int parens = 0, braces = 0;
  bool body = false, enumeration = strncmp (at, "enum", 4) == 0 && !is_word (at[4]);
  s->items[item] =
      (Item){ .text = at, .first_need = s->n_needs, .external = strncmp (at, "extern ", 7) == 0 };
  for (; *at; at++) {
    if (is_word (*at)) {
      uint32_t len = word_length (at);
      if ((*at < '0' || *at > '9') && !is_keyword (at, len)) {
        Name *n = find (s, at, len);
        bool pointer =
            parens == 1 && braces == 0 && at[-1] == '*' && at[-2] == '(' && at[len] == ')';
        bool outside = parens == 0 && (braces == 0 || enumeration);
        if (!n->text && (outside || pointer))
          *n = (Name){ at, len, item };
        else if (n->text && n->item != item)
          need (s, item, n->item);
      }
      last = at + len - 1;
      at += len - 1;
      continue;
    }
    if (*at == '(')
      parens++;
    else if (*at == ')')
      parens--;
    else if (*at == '{') {
      body = body || (braces == 0 && *last == ')');
      braces++;
    } else if (*at == '}')
      braces--;
    else if (*at == '#' && at[-1] == '\n') { /* a pragma inside a body ends with its line */
      while (at[1] && at[1] != '\n')
        at++;
    }
    if (*at != ' ' && *at != '\n')
      last = at;
    if (parens == 0 && braces == 0 && (*at == ';' || (*at == '}' && body))) {
      at++;
      break;
    }
  }
  s->items[item].len = (uint32_t) (at - start);
  return at;
}

CgSource *
codegen_source_new (const char *text)
{
  CgSource *s = calloc (1, sizeof *s);
  uint32_t room = 1, words = 0;
  for (const char *c = text; *c; c++) {
    room += *c == ';' || *c == '}';
    words += is_word (*c) && !is_word (c[1]);
  }
  if (!s)
    return NULL;
  for (s->mask = 1024; s->mask < words; s->mask *= 2)
    ;
  s->names = calloc (s->mask, sizeof (Name));
  s->items = calloc (room, sizeof (Item));
  s->needs = calloc (words + 1, sizeof (uint32_t));
  s->mask--;
  if (!s->names || !s->items || !s->needs) {
    codegen_source_free (s);
    return NULL;
  }
  for (const char *at = text; at;)
    at = read_item (s, at);
  return s;
}

void
codegen_source_free (CgSource *s)
{
  if (!s)
    return;
  free (s->names);
  free (s->items);
  free (s->needs);
  free (s);
}

/* -- Taking ------------------------------------------------------------------------------------ */

void
codegen_slice (const CgSource *s, const char *body, CgText *out)
{
  char *wanted = calloc (s->n_items + 1, 1);
  if (!wanted) {
    out->oom = true;
    return;
  }
  for (const char *at = body; *at; at++)
    if (is_word (*at)) {
      uint32_t len = word_length (at);
      const Name *n = find (s, at, len);
      if (n->text)
        wanted[n->item] = 1;
      at += len - 1;
    }
  /* A declaration's needs stand before it. */
  for (uint32_t i = s->n_items; i-- > 0;)
    for (uint32_t k = 0; wanted[i] && k < s->items[i].n_needs; k++)
      wanted[s->needs[s->items[i].first_need + k]] = 1;
  for (uint32_t i = 0; i < s->n_items; i++) {
    const Item *it = &s->items[i];
    if (!wanted[i])
      continue;
    if (it->external) {
      const char *name = strstr (it->text, "(*") + 2;
      char symbol[GRAMME_TILE_NAME_BYTES];
      snprintf (symbol, sizeof symbol, "%.*s", (int) word_length (name), name);
      add_symbol (out, symbol, CG_SYMBOL_EXTERNAL, NULL);
      put (out, "%.*s\n", (int) it->len - 7, it->text + 7);
    } else
      put (out, "%.*s\n", (int) it->len, it->text);
  }
  free (wanted);
}
