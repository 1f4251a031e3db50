/* SPDX-License-Identifier: Apache-2.0
 * status.h -- converts between the boundary's status and our GError.
 */
#ifndef GM_PLUGIN_STATUS_H
#define GM_PLUGIN_STATUS_H

#include <glib.h>

#include "plugin-api/gramme-plugin.h"

/* Clears *s before a call of a plugin: its head and message[0], not all 512 bytes. */
static inline void
gm_status_clear (GrammeStatus *s)
{
  s->struct_size = sizeof *s;
  s->code = GRAMME_OK;
  s->node = -1;
  s->flags = 0;
  s->message[0] = 0;
}

/* Fills *s (NULL is fine) within its struct_size.  Returns `code`. */
int32_t gm_status_set (GrammeStatus *s, int32_t code, int32_t node, const char *format, ...)
    G_GNUC_PRINTF (4, 5);
/* Fills *s from `error`, which is freed.  Returns the status code. */
int32_t gm_status_take_error (GrammeStatus *s, GError *error);

/* Sets *error for a failed call of a plugin: "back end "tcc": <doing>: <message>".  code: the
 * function's result. */
void gm_status_to_error (const GrammeStatus *s, int32_t code, const char *backend,
                         const char *doing, GError **error);
/* Returns the message, terminated even if the plugin did not do so, or the code's own text.
 * Borrowed. */
const char *gm_status_text (const GrammeStatus *s, int32_t code);

#endif
