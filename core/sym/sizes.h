/* SPDX-License-Identifier: Apache-2.0
 * sizes.h -- working with sizes that may be symbolic: one object for a compilation.
 *
 * A GmSizes holds the expressions (GmSym), the facts about them (GmSizeFacts), and for each symbol
 * the value that it has in the example at hand, its hint.  All graphs of one compilation share one
 * GmSizes, so a size means the same in all of them, and a fact that any layer learns ends as a
 * guard.
 *
 * Code that computes shapes is written once, with gm_size_mul, gm_size_eq and so on in place of *
 * and ==.  Numbers stay plain numbers: the cost is a comparison.  Where a symbol is met, the
 * thread's current GmSizes (gm_sizes_enter) does the work: arithmetic makes rows, and a question
 * that the facts leave open is answered by the hints, and the answer becomes a fact.  Where there
 * is no hint, or nothing may be added (`frozen`), the question is kept in `undecided` and the
 * answer is a guess: the caller must call gm_sizes_check before using results of it.  Without
 * current sizes all are numbers, also those that look like a row.
 *
 * Threads: one at a time; the reference count is atomic.
 */
#ifndef GM_SYM_SIZES_H
#define GM_SYM_SIZES_H

#include "core/sym/size_facts.h"

/* A symbol whose value no input determines: it is the element of an output of the recorded
 * graph. */
typedef struct {
  uint32_t symbol, output;
} GmSizeCount;

typedef struct {
  GmSym *sym; /* owned, as the other members */
  GmSizeFacts *facts;
  GArray *hints;       /* int64_t, by symbol number; GM_SIZE_NO_HINT */
  GHashTable *named;   /* keys of gm_sizes_named: name -> key */
  GArray *counts;      /* GmSizeCount, in the order in which they are computed */
  GHashTable *said;    /* number of a fact + 1 -> text of the error if it does not hold in a run */
  bool frozen;         /* true if answers come from the facts alone, and no fact is added */
  char *undecided;     /* the first question without an answer, as text; NULL: none */
  GmSizeFact question; /* the question of `undecided`; it stays when the text is taken */
  uint32_t n_failed;   /* number of gm_sizes_check calls that failed for such a question */
  void (*on_fact) (void *data, const GmSizeFact *fact); /* called for each fact that a question
                                                         * added */
  void *on_fact_data;
  gint refs;
} GmSizes;

#define GM_SIZE_NO_HINT INT64_MIN

GmSizes *gm_sizes_new (void);
GmSizes *gm_sizes_ref (GmSizes *s);
void gm_sizes_unref (GmSizes *s); /* NULL is fine */
/* Returns a copy whose rows and symbols have the same numbers; facts learned later in either are
 * not known in the other. */
GmSizes *gm_sizes_copy (const GmSizes *s);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmSizes, gm_sizes_unref)

GmSizeFact gm_size_fact_not (GmSizeFact f);
/* Returns, as text, a fact that the program might state to decide a question: the fact itself or
 * its contrary.  Caller frees. */
char *gm_sizes_advice (const GmSizes *s, GmSizeFact question);

/* Makes s (NULL: none) the thread's current sizes and returns the former ones; to leave, the
 * caller enters those again. */
GmSizes *gm_sizes_enter (GmSizes *s);
GmSizes *gm_sizes_current (void);

typedef struct {
  uint32_t rows, facts;
} GmSizesMark;
GmSizesMark gm_sizes_mark (const GmSizes *s);
void gm_sizes_truncate (GmSizes *s, GmSizesMark m);

/* Returns the symbol of this name, made with a hint; for a name that exists only the hint is
 * replaced. */
int64_t gm_sizes_symbol (GmSizes *s, const char *name, int64_t hint);
/* Returns a symbol for a key of any length ("L['x'].size(0)").  The symbol is called s and a
 * number: a hash of the key, or the next number that no other key has.  So the symbol has the same
 * name in every process, whatever other symbols exist. */
int64_t gm_sizes_named (GmSizes *s, const char *key, int64_t hint);
/* Returns a new symbol from min to max without a hint, for a size that depends on the elements
 * of a tensor.  `what`: for messages. */
int64_t gm_sizes_counted (GmSizes *s, const char *what, int64_t min, int64_t max);
/* True if all symbols of the size have a hint. */
bool gm_sizes_has_hint (const GmSizes *s, int64_t size);
/* True if the fact is about a symbol without a hint: then no guard can test it, and each run of
 * the graph checks it. */
static inline bool
gm_sizes_fact_is_open (const GmSizes *s, const GmSizeFact *fact)
{
  return !gm_sizes_has_hint (s, fact->a) || !gm_sizes_has_hint (s, fact->b);
}
/* True if the size is this symbol, or an expression that contains it. */
bool gm_sizes_uses (const GmSizes *s, int64_t size, uint32_t symbol);
const char *gm_sizes_symbol_name (const GmSizes *s, uint32_t symbol);
int64_t gm_sizes_nth_symbol (const GmSizes *s, uint32_t symbol);
/* Evaluates a size for the hints into *out; false if a hint is missing or the expression has no
 * value. */
bool gm_sizes_hint (const GmSizes *s, int64_t size, int64_t *out);
/* Stores in *out the only value that the size can have by the facts; false if there are several. */
bool gm_sizes_is_number (GmSizes *s, int64_t size, int64_t *out);
/* Returns the only value that the size can have by the facts; if there are several, the size
 * itself. */
int64_t gm_sizes_simplest (GmSizes *s, int64_t size);

GmTruth gm_sizes_ask (GmSizes *s, GmRel rel, int64_t a, int64_t b); /* by the facts alone */
/* Answers if the relation holds, by the facts or else by the hints: then the answer becomes a
 * fact. */
bool gm_sizes_decide (GmSizes *s, GmRel rel, int64_t a, int64_t b);

/* True if each question since the last call was decided; else false, with GM_ERROR_UNSUPPORTED,
 * which names the question. */
bool gm_sizes_check (GmSizes *s, GError **error);

/* Returns facts and hints in the form in which they follow a graph's signature: "n = 7, 2 <= n";
 * NULL if there are none.  Caller frees. */
char *gm_sizes_text (const GmSizes *s);
/* Parses a list of facts and hints at *text and moves *text past it.  False with GM_ERROR_VALUE. */
bool gm_sizes_parse (GmSizes *s, const char **text, GError **error);

/* -- With the current sizes -------------------------------------------------------------------- */

int64_t gm_size_compute (GmSymKind kind, int64_t a, int64_t b);
bool gm_size_decide (GmRel rel, int64_t a, int64_t b);

#define gm_sizes_are_numbers(a, b) (!gm_size_is_symbolic (a) && !gm_size_is_symbolic (b))

/* Returns a * b.  A product of numbers saturates at INT64_MAX. */
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

/* Returns a / b rounded down.  Of numbers: b is not 0. */
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

/* Returns the lesser (MIN) or the greater (MAX) size.  The comparison is decided, so the result
 * is a or b and no new row; only where the elements of a tensor decide, the result is a MIN or MAX
 * row. */
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

/* True if the relation holds for certain, by the facts; false where the facts do not decide it.
 * Adds no fact. */
bool gm_size_surely (GmRel rel, int64_t a, int64_t b);
static inline bool
gm_size_same (int64_t a, int64_t b)
{
  return a == b || (!gm_sizes_are_numbers (a, b) && gm_size_surely (GM_REL_EQ, a, b));
}

/* True if the sizes are equal, as gm_size_eq says; where the elements of a tensor decide, true
 * only if the facts say so.  For short cuts, and for differences that affect no element. */
bool gm_size_eq_if_known (int64_t a, int64_t b);

/* Stores in *out the size to which dimensions of sizes a and b broadcast; false if they do not
 * fit.  If the facts leave open how they fit, the way of the hints becomes a fact. */
bool gm_size_broadcast (int64_t a, int64_t b, int64_t *out);
/* True if a dimension of size a can become one of size b by repeating it or by leaving it. */
bool gm_size_expands (int64_t a, int64_t b);
/* Returns the size, or 1 if it is 0, as a factor of a row-major stride. */
int64_t gm_size_at_least_1 (int64_t a);
/* Returns the value of a size as a number, and makes their equality a fact: for results that can
 * be computed for numbers only. */
int64_t gm_size_number (int64_t a);
/* Returns a number for estimates, which must not change what is computed: the hint of the size,
 * or `or_else` if it has none. */
int64_t gm_size_guess (int64_t a, int64_t or_else);
/* Returns the size as text: caller frees. */
char *gm_size_text (int64_t a);

#endif
