/* SPDX-License-Identifier: Apache-2.0
 * profile.h -- what is remembered of the sizes that a function was compiled for, from one compilation
 * to the next, and from one process to the next.
 *
 * A row is a source ("L['x']") with the sizes and strides that it was last recorded with; each that
 * was then found to be another is marked as varying for ever, also where a recording then fixes it:
 * the profile is a superset.  Whoever records asks it which sizes to make symbols.  A size of 0 or 1
 * is recorded as that number, once; what meets such a size again is recorded for all sizes.
 * Instances of a class that share a function have rows of their own: that one is larger than another says
 * nothing of either.
 * Threads: one at a time.
 */
#ifndef GM_SYM_PROFILE_H
#define GM_SYM_PROFILE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define GM_PROFILE_DIMS 8

typedef enum {
  GM_VARIES_NOT, /* one value so far */
  GM_VARIES,     /* several */
  GM_VARIES_ALL, /* and 0 and 1 were among them, recorded for themselves: now it is to be general */
} GmVaries;

typedef struct {
  char *source;
  uint32_t instance; /* 0: the first, or no method */
  uint8_t ndim; /* of an int: 1, its value being the size; of a float: 1, the size being its bits */
  bool value;   /* of a number that is no argument: kept as text only if it varies */
  int64_t sizes[GM_PROFILE_DIMS], strides[GM_PROFILE_DIMS];
  uint8_t size_varies[GM_PROFILE_DIMS], stride_varies[GM_PROFILE_DIMS]; /* GmVaries; GM_VARIES_NOT, GM_VARIES */
  uint8_t special[GM_PROFILE_DIMS];   /* times that a varying size was recorded as 0 or 1, ... */
  uint64_t special_in[GM_PROFILE_DIMS]; /* ... and in which recording that was */
} GmProfileRow;

typedef struct {
  GPtrArray *rows; /* GmProfileRow */
  GHashTable *by_source; /* GmProfileRow set, by source and instance */
  uint32_t instance; /* whose rows are asked for */
  bool changed;      /* since it was made, read or written ... */
  bool widened;      /* ... and so that more varies */
  bool added;        /* ... and there are rows of sizes that were seen and not read */
} GmProfile;

GmProfile *gm_profile_new (void);
void gm_profile_free (GmProfile *p); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmProfile, gm_profile_free)

/* The row of a source, brought up to date with what it is now.  Strides may be NULL. */
const GmProfileRow *gm_profile_see (GmProfile *p, const char *source, uint32_t ndim, const int64_t *sizes,
                                    const int64_t *strides);
/* The same for a number that is no argument: what it is when it does not vary says nothing to
 * another process. */
const GmProfileRow *gm_profile_see_value (GmProfile *p, const char *source, int64_t value);
/* True if the number of the row, which varies, may be recorded as the number that it is now: it was
 * in fewer than `most` recordings.  recording: the number of this one, not 0. */
bool gm_profile_settle (GmProfile *p, const GmProfileRow *row, uint32_t most, uint64_t recording);
/* Whether size d of the row, which varies and is 0 or 1, is to be recorded as that number; if that was done before, it is general from
 * now on.  recording: its number, not 0. */
bool gm_profile_special (GmProfile *p, const GmProfileRow *row, uint32_t d, uint64_t recording);

/* As text, one row a line, and back: rows that are there already are widened.  False: the text is none
 * of gm_profile_text's; then nothing is changed.  Caller frees. */
char *gm_profile_text (const GmProfile *p);
bool gm_profile_read (GmProfile *p, const char *text);

#endif
