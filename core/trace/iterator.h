/* SPDX-License-Identifier: Apache-2.0
 * iterator.h -- the kinds of iterators that exist while recording.
 */
#ifndef GM_TRACE_ITERATOR_H
#define GM_TRACE_ITERATOR_H

#include "core/trace/recorder.h"

typedef enum {
  GM_ITER_SEQUENCE,   /* items[0]: a constant, tuple, list, dict or view */
  GM_ITER_REVERSED,   /* likewise */
  GM_ITER_ENUMERATE,  /* items[0]: an iterator */
  GM_ITER_ZIP,        /* items: iterators */
  GM_ITER_ZIP_STRICT, /* likewise; all must end together */
  GM_ITER_MAP,        /* items[0]: a function, the others iterators */
  GM_ITER_FILTER,     /* items[0]: a function or None; items[1]: an iterator */
  GM_ITER_DEQUE, /* items: a deque and its gm_deque_change when it began, unless that was NULL */
  GM_ITER_DEQUE_REVERSED, /* likewise, from its end */
  GM_ITER_SET,        /* items: a set, its contents when it began, a tuple of them in table order */
  GM_ITER_GETITEM,    /* items[0]: an object with __getitem__ alone */
  GM_ITER_CALLABLE,   /* items[0]: a function, items[1]: the value that ends it */
  GM_ITER_COUNT,      /* items[0]: start, items[1]: step */
  GM_ITER_CYCLE,      /* items[0]: an iterator */
  GM_ITER_REPEAT,     /* items[0]: an object; start is the number of times, -1 for ever */
  GM_ITER_CHAIN,      /* items[0]: an iterator over iterables */
  GM_ITER_LONGEST,    /* items: iterators, then the value that fills */
  GM_ITER_SLICE,      /* items: an iterator, first, last or None, step */
  GM_ITER_ACCUMULATE, /* items: an iterator, a function or None, the first value or NULL */
  GM_ITER_STARMAP,    /* items[0]: a function, items[1]: an iterator */
  GM_ITER_TAKEWHILE,
  GM_ITER_DROPWHILE,
  GM_ITER_FILTERFALSE,
  GM_ITER_COMPRESS, /* items: two iterators */
  GM_ITER_PAIRWISE, /* items[0]: an iterator */
  GM_ITER_GROUPBY,  /* items: an iterator, a function or None */
  GM_ITER_GROUP,    /* items: a groupby, the key of the group */
  GM_ITER_TUPLES,   /* items: a tuple of all that product, combinations ... give, their class, its
                       arguments */
} GmIterKind;

/* gm_iterator_new: `start` is the first position, or enumerate's first number. */
/* Returns a new instance of a class of the module itertools; NULL, without a break: it has no
 * model. */
const GmTracker *gm_itertools_call (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* Returns chain.from_iterable (iterables). */
const GmTracker *gm_iterator_chain (GmRecorder *r, const GmTracker *iterables);
/* Returns the next value of the kinds of itertools. */
const GmTracker *gm_itertools_next (GmRecorder *r, const GmTracker *t, int64_t at);
void gm_iterator_move (GmRecorder *r, const GmTracker *t, int64_t position);

const GmTracker *gm_iterator_new (GmRecorder *r, GmIterKind kind, const GmTracker *const *items,
                                  uint32_t n, int64_t start);

/* True of an iterator over a list, tuple, dict, set or text that has ended: CPython's has let go of
 * it then. */
bool gm_iterator_is_done (GmRecorder *r, const GmTracker *t);

/* reversed () of what has an order. */
const GmTracker *gm_iterator_reversed (GmRecorder *r, const GmTracker *sequence);

/* Returns a marker that is another object after each change of a deque that its iterators do not
 * survive; NULL before the first. */
const GmTracker *gm_deque_change (GmRecorder *r, const GmTracker *t);

/* Returns a type that is called with an iterator; iter () of an instance returns that iterator and
 * runs no code: iterated.c. */
PyTypeObject *gm_iterated_type (void);

#endif
