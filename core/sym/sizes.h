/* SPDX-License-Identifier: Apache-2.0
 * sizes.h -- working with sizes that may be symbolic: one object for a compilation.
 *
 * A GmSizes holds the expressions (GmSym), what is known of them (GmSizeFacts), and for each symbol
 * the value that it has in the example at hand, its hint.  All graphs of one compilation share one,
 * so a size means the same in all of them, and whatever layer learns a fact, it ends as a guard.
 *
 * Code that computes shapes is written once, with gm_size_mul, gm_size_eq and so on in place of *
 * and ==.  Numbers stay plain numbers: the cost is a comparison.  Where a symbol is met, the
 * thread's current GmSizes (gm_sizes_enter) does the work: arithmetic makes rows, and a question
 * that the facts leave open is answered by the hints, and the answer becomes a fact.  Where there
 * is no hint, or nothing may be added (`frozen`), the question is kept in `undecided` and the
 * answer is a guess: who asked has to look (gm_sizes_check) before using what came of it.
 * Without current sizes all are numbers, also those that look like a row.
 *
 * Threads: one at a time; the reference count is atomic.
 */
#ifndef GM_SYM_SIZES_H
#define GM_SYM_SIZES_H

#include "core/sym/size_facts.h"

/* A symbol that no input has: the element of an output of the recorded graph, which that computes. */
typedef struct {
  uint32_t symbol, output;
} GmSizeCount;

typedef struct {
  GmSym *sym;         /* owned, as the rest */
  GmSizeFacts *facts;
  GArray *hints;      /* int64_t, by symbol number; GM_SIZE_NO_HINT */
  GHashTable *named;  /* what gm_sizes_named gave: name -> key */
  GArray *counts;     /* GmSizeCount, in the order in which they are computed */
  GHashTable *said;   /* by number of a fact + 1: what the error says where it does not hold */
  bool frozen;        /* answers from the facts alone */
  char *undecided;    /* the first question without an answer, as text; NULL: none */
  GmSizeFact question; /* the same; it stays when the text was taken */
  void (*on_fact) (void *data, const GmSizeFact *fact); /* told of each fact that a question added */
  void *on_fact_data;
  gint refs;
} GmSizes;

#define GM_SIZE_NO_HINT INT64_MIN

GmSizes *gm_sizes_new (void);
GmSizes *gm_sizes_ref (GmSizes *s);
void gm_sizes_unref (GmSizes *s); /* NULL is fine */
/* With the same numbers of rows and symbols; what is learned of the one, the other does not know. */
GmSizes *gm_sizes_copy (const GmSizes *s);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmSizes, gm_sizes_unref)

GmSizeFact gm_size_fact_not (GmSizeFact f);
/* What the program might say so that a question is decided: the fact or its contrary, as text.  Caller frees. */
char *gm_sizes_advice (const GmSizes *s, GmSizeFact question);

/* Makes s (NULL: none) the thread's current sizes and returns what was; leave by entering that. */
GmSizes *gm_sizes_enter (GmSizes *s);
GmSizes *gm_sizes_current (void);

typedef struct {
  uint32_t rows, facts;
} GmSizesMark;
GmSizesMark gm_sizes_mark (const GmSizes *s);
void gm_sizes_truncate (GmSizes *s, GmSizesMark m);

/* A symbol with a hint, which a second call with the same name only replaces. */
int64_t gm_sizes_symbol (GmSizes *s, const char *name, int64_t hint);
/* The same for what has a name of its own, as long as one likes ("L['x'].size(0)"): the symbol is called s and a number, the hash of
 * the key, or the next one that no other key has.  So it has the same name in every process, whatever else is there. */
int64_t gm_sizes_named (GmSizes *s, const char *key, int64_t hint);
/* A symbol without a hint, because data says what it is: from min to max.  `what`: for people. */
int64_t gm_sizes_counted (GmSizes *s, const char *what, int64_t min, int64_t max);
/* Whether all symbols of it have a hint. */
bool gm_sizes_has_hint (const GmSizes *s, int64_t size);
/* Whether the fact is about such a symbol: then no guard can tell, and each run checks it. */
static inline bool
gm_sizes_fact_is_open (const GmSizes *s, const GmSizeFact *fact)
{
  return !gm_sizes_has_hint (s, fact->a) || !gm_sizes_has_hint (s, fact->b);
}
const char *gm_sizes_symbol_name (const GmSizes *s, uint32_t symbol);
int64_t gm_sizes_nth_symbol (const GmSizes *s, uint32_t symbol);
/* The value of a size for the hints; false if one is missing or it has none. */
bool gm_sizes_hint (const GmSizes *s, int64_t size, int64_t *out);
/* The one value that a size can have by the facts; false if there are several. */
bool gm_sizes_is_number (GmSizes *s, int64_t size, int64_t *out);
/* The number that a size is by the facts, else the size. */
int64_t gm_sizes_simplest (GmSizes *s, int64_t size);

GmTruth gm_sizes_ask (GmSizes *s, GmRel rel, int64_t a, int64_t b); /* by the facts alone */
bool gm_sizes_decide (GmSizes *s, GmRel rel, int64_t a, int64_t b); /* also by the hints: see above */
int64_t gm_sizes_op (GmSizes *s, GmSymKind kind, int64_t a, int64_t b);

/* Whether all was decided since the last call: else GM_ERROR_UNSUPPORTED with the question. */
bool gm_sizes_check (GmSizes *s, GError **error);

/* Facts and hints as they stand behind a graph's signature: "n = 7, 2 <= n"; NULL if there are
 * none.  Caller frees. */
char *gm_sizes_text (const GmSizes *s);
/* Parses such a list at *text and moves it past.  Errors: GM_ERROR_VALUE. */
bool gm_sizes_parse (GmSizes *s, const char **text, GError **error);

/* -- With the current sizes -------------------------------------------------------------------- */

int64_t gm_size_compute (GmSymKind kind, int64_t a, int64_t b);
bool gm_size_decide (GmRel rel, int64_t a, int64_t b);

#define gm_sizes_are_numbers(a, b) (!gm_size_is_symbolic (a) && !gm_size_is_symbolic (b))

/* Numbers: saturates at INT64_MAX. */
static inline int64_t
gm_size_mul (int64_t a, int64_t b)
{
  int64_t r;
  if (G_LIKELY (gm_sizes_are_numbers (a, b)))
    return __builtin_mul_overflow (a, b, &r) ? INT64_MAX : r;
  return gm_size_compute (GM_SYM_MUL, a, b);
}

static inline int64_t
gm_size_add (int64_t a, int64_t b)
{
  int64_t r;
  if (G_LIKELY (gm_sizes_are_numbers (a, b)))
    return __builtin_add_overflow (a, b, &r) ? INT64_MAX : r;
  return gm_size_compute (GM_SYM_ADD, a, b);
}

static inline int64_t
gm_size_sub (int64_t a, int64_t b)
{
  if (G_LIKELY (gm_sizes_are_numbers (a, b)))
    return (int64_t) ((uint64_t) a - (uint64_t) b);
  return gm_size_compute (GM_SYM_ADD, a, gm_size_compute (GM_SYM_MUL, b, -1));
}

/* Numbers: b is not 0. */
static inline int64_t
gm_size_floordiv (int64_t a, int64_t b)
{
  if (G_LIKELY (gm_sizes_are_numbers (a, b)))
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
  return gm_size_compute (GM_SYM_FLOORDIV, a, b);
}

static inline int64_t
gm_size_mod (int64_t a, int64_t b)
{
  if (G_LIKELY (gm_sizes_are_numbers (a, b)))
    return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
  return gm_size_compute (GM_SYM_MOD, a, b);
}

static inline bool
gm_size_eq (int64_t a, int64_t b)
{
  return a == b || (!gm_sizes_are_numbers (a, b) && gm_size_decide (GM_REL_EQ, a, b));
}

static inline bool
gm_size_lt (int64_t a, int64_t b)
{
  return gm_sizes_are_numbers (a, b) ? a < b : gm_size_decide (GM_REL_LT, a, b);
}

static inline bool
gm_size_le (int64_t a, int64_t b)
{
  return gm_sizes_are_numbers (a, b) ? a <= b : gm_size_decide (GM_REL_LE, a, b);
}

/* The lesser, the greater: decided, so the result is one of the two and no min or max row; but a row where data decides. */
int64_t gm_size_extremum (GmSymKind kind, int64_t a, int64_t b);
static inline int64_t
gm_size_min (int64_t a, int64_t b)
{
  return gm_sizes_are_numbers (a, b) ? MIN (a, b) : gm_size_extremum (GM_SYM_MIN, a, b);
}

static inline int64_t
gm_size_max (int64_t a, int64_t b)
{
  return gm_sizes_are_numbers (a, b) ? MAX (a, b) : gm_size_extremum (GM_SYM_MAX, a, b);
}

/* The same for certain, by the facts; false where that is open.  Adds no fact. */
bool gm_size_surely (GmRel rel, int64_t a, int64_t b);
static inline bool
gm_size_same (int64_t a, int64_t b)
{
  return a == b || (!gm_sizes_are_numbers (a, b) && gm_size_surely (GM_REL_EQ, a, b));
}

/* Equal, as gm_size_eq says; where data decides, only if that is certain: for short cuts, and for what matters to no element. */
bool gm_size_eq_if_known (int64_t a, int64_t b);

/* What two sizes give when shapes are broadcast: false if they do not fit.  Of the ways in which
 * they may fit, the one that the hints show becomes a fact, and nothing else is asked. */
bool gm_size_broadcast (int64_t a, int64_t b, int64_t *out);
/* Whether a dimension of size a can be repeated or left to become one of size b. */
bool gm_size_expands (int64_t a, int64_t b);
/* The size, or 1 if it is 0: what a row-major stride is multiplied by. */
int64_t gm_size_at_least_1 (int64_t a);
/* The number, which becomes a fact: for what can be computed for numbers only. */
int64_t gm_size_number (int64_t a);
/* A number for estimates, which must not change what is computed: the hint, or `or_else`. */
int64_t gm_size_guess (int64_t a, int64_t or_else);
/* As text: caller frees. */
char *gm_size_text (int64_t a);

#endif
