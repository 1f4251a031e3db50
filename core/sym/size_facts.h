/* SPDX-License-Identifier: Apache-2.0
 * size_facts.h -- known facts about sizes, and their consequences.
 *
 * A recorder that meets `if n % 8 == 0` with a symbolic n asks here first: a question that the
 * facts decide needs no guard.  An open question is decided by the example's sizes, and the answer
 * is added as a fact, which becomes a guard.  At the end gm_size_facts_needed() tells which facts
 * are implied by the others and need no guard.
 *
 * Answers are sound, not complete: YES and NO hold for all values of the symbols for which the
 * facts hold and the expressions are defined (no overflow, no division by zero); UNKNOWN promises
 * nothing. Bounds and divisors of single symbols come from the GmSym's rows (gm_sym_assume); a
 * later narrowing there takes effect when the next fact is added.
 *
 * How: an expression becomes a linear form over atoms (symbols, products, quotients, max (x, 0)),
 * with equalities substituted; then interval arithmetic, congruences, and a short search for a sum
 * of facts that proves the rest.
 * Threads: one at a time.
 */
#ifndef GM_SYM_SIZE_FACTS_H
#define GM_SYM_SIZE_FACTS_H

#include "core/sym/sym.h"

typedef struct GmSizeFacts GmSizeFacts;

typedef enum { GM_NO, GM_YES, GM_UNKNOWN } GmTruth;

typedef enum {
  GM_REL_EQ,
  GM_REL_NE,
  GM_REL_LT,
  GM_REL_LE,
  GM_N_RELS,
} GmRel;

typedef struct {
  GmRel rel;
  int64_t a, b; /* sizes of the GmSym */
} GmSizeFact;

/* Returns an empty set of facts about sizes of s, which is borrowed and must outlive the facts. */
GmSizeFacts *gm_size_facts_new (const GmSym *s);
void gm_size_facts_free (GmSizeFacts *f); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmSizeFacts, gm_size_facts_free)

/* Answers if a `rel` b holds by the facts.  Divisibility is gm_sym_op (MOD) compared with 0. */
GmTruth gm_size_facts_ask (GmSizeFacts *f, GmRel rel, int64_t a, int64_t b);
/* Answers if two sizes broadcast as in numpy: YES if they are equal or one of them is 1, NO if
 * that cannot be.  *out: the size of the result, set only for YES. */
GmTruth gm_size_facts_broadcast (GmSizeFacts *f, int64_t a, int64_t b, int64_t *out);
/* Stores the least and the greatest value that the size can have; INT64_MIN and INT64_MAX for no
 * bound. */
void gm_size_facts_bounds (GmSizeFacts *f, int64_t size, int64_t *min, int64_t *max);

/* Adds the fact a `rel` b.  False, with nothing changed, if the facts say that it does not hold. */
bool gm_size_facts_add (GmSizeFacts *f, GmRel rel, int64_t a, int64_t b);
uint32_t gm_size_facts_n (const GmSizeFacts *f);
GmSizeFact gm_size_facts_nth (const GmSizeFacts *f, uint32_t i);
/* Sets needed[i] to true if fact i is not implied by other needed facts.  `needed` has
 * gm_size_facts_n entries. */
void gm_size_facts_needed (const GmSizeFacts *f, bool *needed);

/* Drops all facts from number n on, with what is known of rows of the GmSym that were made
 * since: to be called after gm_sym_truncate, and before any question. */
void gm_size_facts_truncate (GmSizeFacts *f, uint32_t n);

/* Returns the fact as text: "n == m", "n <= 2*m".  Caller frees. */
char *gm_size_fact_text (const GmSym *s, const GmSizeFact *fact);

#endif
