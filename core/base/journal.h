/* SPDX-License-Identifier: Apache-2.0
 * journal.h -- the undo log of everything that changes in place.
 *
 * Before a slot (container, key) is overwritten, its old value is appended.  A mark is the
 * journal's length: it costs nothing to take, whatever has been written before it.  Rolling back
 * passes the records after the mark, last first, to a function that restores the old values, and
 * forgets them.  The journal does not interpret the three words: ids, pointers, indices, with one
 * value of the caller's choice for "was absent".
 */
#ifndef GM_BASE_JOURNAL_H
#define GM_BASE_JOURNAL_H

#include <glib.h>
#include <stdint.h>

typedef struct {
  uintptr_t container, key, old;
} GmWrite;

typedef struct {
  GmWrite *writes;
  uint32_t len, cap;
} GmJournal;

typedef uint32_t GmJournalMark;

void gm_journal_init (GmJournal *j);
void
gm_journal_clear (GmJournal *j); /* frees the memory; the journal may be used again after init */
void gm_journal_grow (GmJournal *j); /* slow path of append */

static inline void
gm_journal_append (GmJournal *j, uintptr_t container, uintptr_t key, uintptr_t old)
{
  if (G_UNLIKELY (j->len == j->cap))
    gm_journal_grow (j);
  j->writes[j->len++] = (GmWrite){ container, key, old };
}

static inline GmJournalMark
gm_journal_mark (const GmJournal *j)
{
  return j->len;
}

/* Undoes all writes after `to`, last first, through `undo`, which must not append. `to` is asserted
 * to be a mark of this journal that was not rolled back past. */
void gm_journal_rollback (GmJournal *j, GmJournalMark to,
                          void (*undo) (void *owner, const GmWrite *w), void *owner);

#endif
