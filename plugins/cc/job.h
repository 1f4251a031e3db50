/* SPDX-License-Identifier: Apache-2.0
 * job.h -- one unit of C on its way through a compiler.
 *
 * A job runs on a thread and in a process of its own, as many at a time as there are processors; whoever started it watches its
 * state, waits, or lets go of it.  What comes out is bytes: a shared object that refers to nothing of this process, so that it
 * can be kept and loaded again (load.h).
 */
#ifndef CC_JOB_H
#define CC_JOB_H

#include <gramme-plugin-util.h>
#include <stdbool.h>

typedef enum {
  CC_JOB_WAITING, /* for a processor */
  CC_JOB_RUNNING,
  CC_JOB_DONE,  /* there is an artefact */
  CC_JOB_FAILED /* there is a message */
} CcState;

typedef struct CcJob CcJob;

#define CC_JOB_LIMIT_S 600 /* of the compiler, where the user says no other */

/* `compiler`: a program and its first arguments, separated by spaces; `flags` likewise.  Takes over `text` (of malloc).  A compiler that
 * runs longer than limit_s is stopped, with its children, and the job fails.  NULL, with a status, if no thread can be had.  Thread: any, as
 * for all functions here. */
CcJob *cc_job_start (const char *compiler, const char *flags, char *text, size_t len, int limit_s,
                     GrammeStatus *status);
CcState cc_job_state (CcJob *job);
/* Until it is DONE or FAILED. */
CcState cc_job_wait (CcJob *job);
/* The same, for timeout_ms at most: false if it is neither. */
bool cc_job_wait_for (CcJob *job, int timeout_ms);
/* After DONE: valid as long as the job. */
const void *cc_job_artefact (CcJob *job, size_t *bytes);
/* After FAILED: what the compiler said, or why there was none. */
const char *cc_job_message (CcJob *job);
/* Lets go; stops the compiler if it runs. */
void cc_job_free (CcJob *job);

#endif
