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
  GM_ITER_DEQUE, /* items: a deque, and the gm_deque_change at the start of the iteration, unless
                    that was NULL */
  GM_ITER_DEQUE_REVERSED, /* likewise, from its end */
  GM_ITER_SET,        /* items: a set; its contents at the start; a tuple of them in table order */
  GM_ITER_GETITEM,    /* items[0]: an object with __getitem__ but no __iter__ */
  GM_ITER_CALLABLE,   /* items[0]: a function, items[1]: the value that ends it */
  GM_ITER_COUNT,      /* items[0]: start, items[1]: step */
  GM_ITER_CYCLE,      /* items[0]: an iterator */
  GM_ITER_REPEAT,     /* items[0]: an object; start is the number of times, -1 for ever */
  GM_ITER_CHAIN,      /* items[0]: an iterator over iterables */
  GM_ITER_LONGEST,    /* items: iterators, then the fill value */
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
  GM_ITER_TUPLES,   /* items: a tuple of all results of product, combinations ..., their class, and
                       its arguments */
} GmIterKind;

/* gm_iterator_new returns a new iterator of the kind; `start`: its first position, or enumerate's
 * first number. */
/* Returns a new instance of `type`, a class of the module itertools; NULL, without a break: the
 * class has no model. */
const GmTracker *gm_itertools_call (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* Returns chain.from_iterable (iterables). */
const GmTracker *gm_iterator_chain (GmRecorder *r, const GmTracker *iterables);
/* Returns the next value of an iterator of one of itertools' kinds, at position `at`; NULL: the
 * end, or a break. */
const GmTracker *gm_itertools_next (GmRecorder *r, const GmTracker *t, int64_t at);
void gm_iterator_move (GmRecorder *r, const GmTracker *t, int64_t position);

const GmTracker *gm_iterator_new (GmRecorder *r, GmIterKind kind, const GmTracker *const *items,
                                  uint32_t n, int64_t start);

/* True for an iterator over a list, tuple, dict, set or text that has ended: CPython's iterator has
 * then dropped its reference to the sequence. */
bool gm_iterator_is_done (GmRecorder *r, const GmTracker *t);

/* Returns reversed (sequence) for sequences, dicts and their views. */
const GmTracker *gm_iterator_reversed (GmRecorder *r, const GmTracker *sequence);

/* Returns a marker that is replaced at each change of the deque t that invalidates its iterators;
 * NULL before the first change. */
const GmTracker *gm_deque_change (GmRecorder *r, const GmTracker *t);

/* Returns a type (borrowed) whose instances wrap an iterator: iter () of an instance returns the
 * iterator and runs no code of the user's. See iterated.c. */
PyTypeObject *gm_iterated_type (void);

#endif
