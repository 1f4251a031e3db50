/* SPDX-License-Identifier: Apache-2.0
 * iterator.h -- the kinds of iterators that exist while recording.
 */
#ifndef GM_TRACE_ITERATOR_H
#define GM_TRACE_ITERATOR_H

#include "core/trace/recorder.h"

typedef enum {
  GM_ITER_SEQUENCE,  /* items[0]: a constant, tuple, list, dict or view */
  GM_ITER_REVERSED,  /* items[0]: a constant, tuple or list */
  GM_ITER_ENUMERATE, /* items[0]: an iterator */
  GM_ITER_ZIP,       /* items: iterators */
  GM_ITER_MAP,       /* items[0]: a function, the others iterators */
  GM_ITER_FILTER,    /* items[0]: a function or None; items[1]: an iterator */
} GmIterKind;

/* `start`: the first position, or enumerate's first number. */
const GmTracker *gm_iterator_new (GmRecorder *r, GmIterKind kind, const GmTracker *const *items,
                                  uint32_t n, int64_t start);

#endif
