/* SPDX-License-Identifier: Apache-2.0
 * journal.c -- growth and rollback; append and mark are inline in journal.h.
 */
#include "core/base/journal.h"

void
gm_journal_init (GmJournal *j)
{
  *j = (GmJournal){ 0 };
}

void
gm_journal_clear (GmJournal *j)
{
  g_free (j->writes);
  *j = (GmJournal){ 0 };
}

void
gm_journal_grow (GmJournal *j)
{
  g_assert (j->cap <= UINT32_MAX / 2);
  j->cap = j->cap ? j->cap * 2 : 64;
  j->writes = g_renew (GmWrite, j->writes, j->cap);
}

void
gm_journal_rollback (GmJournal *j, GmJournalMark to, void (*undo) (void *owner, const GmWrite *w),
                     void *owner)
{
  g_assert (to <= j->len);
  for (uint32_t i = j->len; i-- > to;) {
    undo (owner, &j->writes[i]);
    g_assert (j->len == i + 1); /* undo appended */
    j->len = i;
  }
}
