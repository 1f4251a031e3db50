/* SPDX-License-Identifier: Apache-2.0
 * parse.h -- what the parts of the parser of graph text share: words, values, types; private to this room.
 *
 * Each reads what comes next and moves past it.  Those that give a bool have set the error, with line and column, where it is false;
 * `take` and `keyword` do not: they ask.
 */
#ifndef GM_GRAPH_PARSE_H
#define GM_GRAPH_PARSE_H

#include "core/graph/graph.h"

typedef struct {
  const char *text, *at;
  GmGraph *g;
  GHashTable *names; /* owned text -> value id + 1 */
  int depth; /* graphs around this one */
  const GmGraph *around; /* the innermost of them, or NULL */
  GError **error;
} GmParser;

/* -- Words, parse_text.c ----------------------------------------------------------------------- */

/* False, always; `place` is where the text is wrong. */
bool gm_parse_fail (GmParser *p, const char *place, const char *format, ...) G_GNUC_PRINTF (3, 4);
void gm_parse_skip_blanks (GmParser *p);
/* Blanks, ends of lines and comments. */
void gm_parse_skip_lines (GmParser *p);
/* Is the token next? */
bool gm_parse_take (GmParser *p, const char *token);
bool gm_parse_expect (GmParser *p, const char *token);
size_t gm_parse_word_length (const char *s);
/* Is the word next, as a whole? */
bool gm_parse_keyword (GmParser *p, const char *word);
/* The caller frees it; NULL: there is none, and the error says that `what` was expected. */
char *gm_parse_word (GmParser *p, const char *what);

/* %name of a value that is there; of a new one, which `define` then puts there (takes the name). */
bool gm_parse_use (GmParser *p, GmValueId *out);
bool gm_parse_name (GmParser *p, char **out);
void gm_parse_define (GmParser *p, char *name, GmValueId id);

/* A number, or an expression over symbols. */
bool gm_parse_size (GmParser *p, int64_t *out);
bool gm_parse_integer (GmParser *p, int64_t *out);
/* Is an attribute that may be an expression one, that is, does it not begin or not end as a number? */
bool gm_parse_is_expression (GmParser *p);
/* true, false, inf, nan */
bool gm_parse_is_number_word (GmParser *p);
/* After the opening bracket, up to the closing one: at most GM_MAX_DIMS sizes or integers. */
bool gm_parse_list (GmParser *p, const char *close, bool sizes, int64_t *list, uint8_t *n);
bool gm_parse_dtype (GmParser *p, uint8_t *out);
/* f32[2, n]{n, 1}@cuda */
bool gm_parse_type (GmParser *p, GmMeta *m);

/* -- Memory of inputs, parse_alias.c ------------------------------------------------------------ */

/* What is said behind inputs: they may name others that come later. */
GArray *gm_parse_aliases_new (void);
bool gm_parse_alias (GmParser *p, GmValueId input, GArray *aliases);
/* When all inputs are there: into the graph. */
bool gm_parse_resolve_aliases (GmParser *p, GArray *aliases);

#endif
