/* SPDX-License-Identifier: Apache-2.0
 * report.h -- what users are told: break reports, status, entries.
 */
#ifndef GM_PYTHON_REPORT_H
#define GM_PYTHON_REPORT_H

#include "core/python/code_cache.h"

/* The report of a break: place, message, the user's line with carets, the id and the hint.  Caller frees. */
char *gm_report_break_text (const GmBreakInfo *stop);

/* Dicts and lists for Python; docstrings of CompiledFunction.status and .entries say what is in them.  New reference or
 * NULL with an exception. */
PyObject *gm_report_status (const GmCodeCache *cache, const GmConfig *config);
PyObject *gm_report_entries (const GmCodeCache *cache, const GmConfig *config);
/* Dicts likewise, of the entries of this code object alone, for all configurations, the newest
 * first. */
PyObject *gm_report_own_entries (const GmCodeCache *cache);

#endif
