/* SPDX-License-Identifier: Apache-2.0
 * profile.h -- the sizes that a function was compiled for, remembered from one compilation to the
 * next, and from one process to the next.
 *
 * A row is a source ("L['x']") with the sizes and strides that it was last recorded with; each size
 * that then differed is marked as varying for ever, also where a recording then fixes it: the
 * profile is a superset.  A recorder reads from the profile which sizes to make symbols.  A size of
 * 0 or 1 is recorded as that number, once; when such a size occurs again, it is recorded for all
 * sizes.  Instances of a class that share a function have rows of their own: a difference between
 * instances does not mean that a size varies.
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
  GM_VARIES,     /* several values so far */
  GM_VARIES_ALL, /* several, and 0 and 1 were among them, recorded for themselves: now the size is
                  * to be general */
} GmVaries;

typedef struct {
  char *source;
  uint32_t instance; /* number of the instance; 0: the first, or the function is no method */
  uint8_t ndim; /* of an int: 1, its value being the size; of a float: 1, the size being its bits */
  bool value;   /* of a number that is no argument: kept as text only if it varies */
  int64_t sizes[GM_PROFILE_DIMS], strides[GM_PROFILE_DIMS];
  /* Says, as GmVaries, which sizes vary; for strides only GM_VARIES_NOT or GM_VARIES. */
  uint8_t size_varies[GM_PROFILE_DIMS], stride_varies[GM_PROFILE_DIMS];
  uint8_t special[GM_PROFILE_DIMS];     /* times that a varying size was recorded as 0 or 1, ... */
  uint64_t special_in[GM_PROFILE_DIMS]; /* ... and number of the recording in which it was */
} GmProfileRow;

typedef struct {
  GPtrArray *rows;       /* GmProfileRow */
  GHashTable *by_source; /* GmProfileRow set, by source and instance */
  uint32_t instance;     /* the instance whose rows are used */
  bool changed;          /* true if the profile changed since it was made, read or written ... */
  bool widened;          /* ... by a size that was found to vary */
  bool added;            /* ... by new rows of sizes that were seen, not read from a text */
} GmProfile;

GmProfile *gm_profile_new (void);
void gm_profile_free (GmProfile *p); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmProfile, gm_profile_free)

/* Returns the row of a source, borrowed, after updating it with the present sizes: sizes that
 * differ are marked as varying.  Strides may be NULL. */
const GmProfileRow *gm_profile_see (GmProfile *p, const char *source, uint32_t ndim,
                                    const int64_t *sizes, const int64_t *strides);
/* Does the same as gm_profile_see for a number that is not an argument.  Such a number is
 * written to the text only if it varies: else it has no use in another process. */
const GmProfileRow *gm_profile_see_value (GmProfile *p, const char *source, int64_t value);
/* True if the row's number, which varies, may be recorded as its present value: fewer than
 * `most` recordings have done that.  recording: the number of this recording, not 0. */
bool gm_profile_settle (GmProfile *p, const GmProfileRow *row, uint32_t most, uint64_t recording);
/* True if size d of the row, which varies and is 0 or 1 now, is to be recorded as that number;
 * if an earlier recording did that, the size is recorded for all sizes from now on.  recording: the
 * number of this recording, not 0. */
bool gm_profile_special (GmProfile *p, const GmProfileRow *row, uint32_t d, uint64_t recording);

/* Convert a profile to text, one row a line, and back.  gm_profile_text: the caller frees the
 * text. gm_profile_read adds the rows in the text and widens rows that exist already; false: the
 * text is not from gm_profile_text, and nothing is changed. */
char *gm_profile_text (const GmProfile *p);
bool gm_profile_read (GmProfile *p, const char *text);

#endif
