/* SPDX-License-Identifier: Apache-2.0
 * report.h -- texts and tables for users: break reports, status, entries.
 */
#ifndef GM_CAPTURE_REPORT_H
#define GM_CAPTURE_REPORT_H

#include "core/capture/code_cache.h"

/* Returns the report of a break: place, message, the line of the user's code with carets, the id
 * and the hint.  The caller frees. */
char *gm_report_break_text (const GmBreakInfo *stop);

/* Return dicts and lists for Python; the docstrings of CompiledFunction.status and .entries
 * describe them.  New reference, or NULL with an exception. */
PyObject *gm_report_status (const GmCodeCache *cache, const GmConfig *config);
PyObject *gm_report_entries (const GmCodeCache *cache, const GmConfig *config);
/* Returns a list of the dicts of gm_report_entries for the entries of this code object alone,
 * for all configurations, the newest entry first.  New reference, or NULL with an exception. */
PyObject *gm_report_own_entries (const GmCodeCache *cache);

#endif
