/* SPDX-License-Identifier: Apache-2.0
 * error.c -- the quark of GM_ERROR.  The codes and their meanings are in error.h.
 */
#include "core/base/error.h"

/* Returns the quark as G_DEFINE_QUARK does, but safely if the first errors of several threads occur
 * at once. */
GQuark
gm_error_quark (void)
{
  static GQuark known; /* atomic */
  GQuark q = __atomic_load_n (&known, __ATOMIC_RELAXED);
  if (q == 0)
    __atomic_store_n (&known, q = g_quark_from_static_string ("gramme-error-quark"),
                      __ATOMIC_RELAXED);
  return q;
}
