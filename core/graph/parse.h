/* SPDX-License-Identifier: Apache-2.0
 * parse.h -- declarations shared by the parts of the parser of graph text: words, values, types;
 * private to this room.
 *
 * Each function reads what comes next and moves past it.  A function that returns false has set the
 * error, with line and column; except `take` and `keyword`, which only test.
 */
#ifndef GM_GRAPH_PARSE_H
#define GM_GRAPH_PARSE_H

#include "core/graph/graph.h"

typedef struct {
  const char *text, *at;
  GmGraph *g;
  GHashTable *names;     /* owned text -> value id + 1 */
  int depth;             /* number of graphs around this graph */
  const GmGraph *around; /* the innermost graph around this graph, or NULL */
  GError **error;
} GmParser;

/* -- Words, parse_text.c ----------------------------------------------------------------------- */

/* Sets the error and returns false; `place`: where in the text the error is. */
bool gm_parse_fail (GmParser *p, const char *place, const char *format, ...) G_GNUC_PRINTF (3, 4);
void gm_parse_skip_blanks (GmParser *p);
/* Skips blanks, ends of lines and comments. */
void gm_parse_skip_lines (GmParser *p);
/* Moves past the token `token` and returns true if it comes next. */
bool gm_parse_take (GmParser *p, const char *token);
bool gm_parse_expect (GmParser *p, const char *token);
size_t gm_parse_word_length (const char *s);
/* Moves past the word and returns true if it comes next, and not only as the beginning of a
 * longer word. */
bool gm_parse_keyword (GmParser *p, const char *word);
/* Returns a word, which the caller frees; NULL: there is none, and the error says that `what` was
 * expected. */
char *gm_parse_word (GmParser *p, const char *what);

/* Parse the %name of a known value, or of a new value, which gm_parse_define then adds (it
 * steals the name). */
bool gm_parse_use (GmParser *p, GmValueId *out);
bool gm_parse_name (GmParser *p, char **out);
void gm_parse_define (GmParser *p, char *name, GmValueId id);

/* Parses a number, or an expression over symbols. */
bool gm_parse_size (GmParser *p, int64_t *out);
bool gm_parse_integer (GmParser *p, int64_t *out);
/* True if an attribute that may be an expression is one: it does not begin, or does not end, as
 * a number does. */
bool gm_parse_is_expression (GmParser *p);
/* True if one of the words true, false, inf, nan comes next. */
bool gm_parse_is_number_word (GmParser *p);
/* Parses the rest of a list whose opening bracket was read, up to `close`: at most GM_MAX_DIMS
 * sizes or, if `sizes` is false, integers. */
bool gm_parse_list (GmParser *p, const char *close, bool sizes, int64_t *list, uint8_t *n);
bool gm_parse_dtype (GmParser *p, uint8_t *out);
/* Parses a type: f32[2, n]{n, 1}@cuda */
bool gm_parse_type (GmParser *p, GmMeta *m);

/* -- Memory of inputs, parse_alias.c ----------------------------------------------------------- */

/* Returns an empty list of facts about inputs' memory as they are read; these may name inputs
 * that come later. */
GArray *gm_parse_aliases_new (void);
bool gm_parse_alias (GmParser *p, GmValueId input, GArray *aliases);
/* Adds the facts to the graph, once all inputs have been read. */
bool gm_parse_resolve_aliases (GmParser *p, GArray *aliases);

#endif
