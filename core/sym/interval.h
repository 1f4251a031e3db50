/* SPDX-License-Identifier: Apache-2.0
 * interval.h -- arithmetic on intervals of 64-bit numbers (private to core/sym).
 *
 * Bounds are computed in 128 bits, where no intermediate result overflows; a bound beyond FAR
 * counts as no bound.
 */
#ifndef GM_SYM_INTERVAL_H
#define GM_SYM_INTERVAL_H

#include "core/sym/algebra.h"

static const GmInterval anything = { INT64_MIN, INT64_MAX };

typedef __int128 Wide;
#define FAR ((Wide) 1 << 100)

/* Returns a lower bound in 128 bits, where -FAR stands for no bound. */
static inline Wide
wide_min (int64_t v)
{
  return v == INT64_MIN ? -FAR : v;
}

static inline Wide
wide_max (int64_t v)
{
  return v == INT64_MAX ? FAR : v;
}

static inline int64_t
narrow_bound (Wide v)
{
  return v <= INT64_MIN ? INT64_MIN : v >= INT64_MAX ? INT64_MAX : (int64_t) v;
}

/* Returns x * y, where FAR stands for infinity and 0 * infinity is 0. */
static inline Wide
wide_times (Wide x, Wide y)
{
  if (!x || !y)
    return 0;
  bool minus = (x < 0) != (y < 0);
  if (x == FAR || x == -FAR || y == FAR || y == -FAR)
    return minus ? -FAR : FAR;
  Wide r = x * y; /* both within 2^64 */
  return r > FAR ? FAR : r < -FAR ? -FAR : r;
}

static inline GmInterval
interval_times (GmInterval x, GmInterval y)
{
  Wide x0 = wide_min (x.min), x1 = wide_max (x.max), y0 = wide_min (y.min), y1 = wide_max (y.max);
  Wide p[4] = { wide_times (x0, y0), wide_times (x0, y1), wide_times (x1, y0),
                wide_times (x1, y1) };
  Wide lo = p[0], hi = p[0];
  for (int i = 1; i < 4; i++) {
    lo = MIN (lo, p[i]);
    hi = MAX (hi, p[i]);
  }
  return (GmInterval){ narrow_bound (lo), narrow_bound (hi) };
}

/* Returns an interval that contains x // y for all values in x and y; y is at least 1. */
static inline GmInterval
interval_quotient (GmInterval x, GmInterval y)
{
  GmInterval r = anything;
  if (x.min != INT64_MIN && (x.min < 0 || y.max != INT64_MAX))
    r.min = gm_floor_div (x.min, x.min < 0 ? y.min : y.max);
  else if (x.min >= 0)
    r.min = 0;
  if (x.max != INT64_MAX && (x.max >= 0 || y.max != INT64_MAX))
    r.max = gm_floor_div (x.max, x.max < 0 ? y.max : y.min);
  else if (x.max < 0)
    r.max = -1;
  return r;
}

#endif
