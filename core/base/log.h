/* SPDX-License-Identifier: Apache-2.0
 * log.h -- messages of the program on stderr, and the switches for its developers.
 *
 * GRAMME_LOGS=graph_breaks,+guards,-cache selects channels (rows of logs.def; "all" is every one;
 * later entries win).  GM_DEBUG=rjp names stages to dump, GM_STRESS=rollback,arena names things to
 * force.  Each variable is read once.
 */
#ifndef GM_BASE_LOG_H
#define GM_BASE_LOG_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum {
#define LOG(NAME, ...) GM_LOG_##NAME,
#include "core/base/logs.def"
  GM_N_LOGS,
} GmLogChannel;

typedef struct {
  const char *name; /* name in GRAMME_LOGS */
  const char *help;
} GmLogInfo;
extern const GmLogInfo gm_logs[GM_N_LOGS];

/* True if the channel is open.  Cheap enough to test before building a message.  Thread: any. */
bool gm_log_on (GmLogChannel ch);
/* Applies a list such as "guards,-cache" on top of the open channels.  False and GM_ERROR_VALUE
 * (the message names the channels) at an unknown name; the names before it take effect. */
bool gm_log_set (const char *list, GError **error);

/* Prints one message, possibly of several lines; each line gets the prefix "[gramme:<channel>] ".
 * Prints nothing if the channel is off. */
void gm_log (GmLogChannel ch, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* Prints "[gramme] warning: ...", always. */
void gm_log_warn (const char *format, ...) G_GNUC_PRINTF (1, 2);

/* True if the stage letter c is in GM_DEBUG. */
bool gm_debug_letter (char c);
/* True if `what` is in the comma list GM_STRESS. */
bool gm_stress (const char *what);
/* Returns the number behind `what` in GM_STRESS: 7 for "what:7", 1 for "what" alone, 0 if it is not
 * in the list. */
uint32_t gm_stress_number (const char *what);

#endif
