/* SPDX-License-Identifier: Apache-2.0
 * witness.h -- a few sets of values of the symbols for which all facts hold (private to core/sym).
 *
 * If a question has different answers in two sets, the facts do not decide it: that is known at
 * once, where a search for a proof would use its whole budget.  If all sets agree, only their
 * answer has to be proved.  There may be no sets at all, where facts are hard to satisfy: then the
 * search decides.
 */
#ifndef GM_SYM_WITNESS_H
#define GM_SYM_WITNESS_H

#include "core/sym/algebra.h"
#include "core/sym/size_facts.h"

#define GM_N_WITNESSES 4

typedef struct {
  int64_t values[GM_N_WITNESSES];
  uint8_t known; /* bits: the sets in which the row has a value */
} GmWitnessRow;

typedef struct {
  const GmSym *s;
  GArray *rows;     /* GmWitnessRow: the rows that were needed so far, in order */
  uint8_t alive;    /* bits: the sets for which the facts hold */
  uint32_t n_facts; /* number of facts tested so far */
} GmWitness;

/* Bits that say how a compared with b in the sets. */
enum {
  GM_WAS_LESS = 1,
  GM_WAS_EQUAL = 2,
  GM_WAS_GREATER = 4,
};

void gm_witness_init (GmWitness *w, const GmSym *s);
void gm_witness_clear (GmWitness *w);
/* Drops all sets; needed when facts or rows have been dropped. */
void gm_witness_reset (GmWitness *w);
/* Replaces sets for which a new fact does not hold.  facts: all n facts; g has their
 * consequences. */
void gm_witness_update (GmWitness *w, GmAlgebra *g, const GmSizeFact *facts, uint32_t n);
unsigned gm_witness_compare (GmWitness *w, GmAlgebra *g, int64_t a, int64_t b);

#endif
