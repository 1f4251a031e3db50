/* SPDX-License-Identifier: Apache-2.0
 * job.h -- the compilation of one unit of C.
 *
 * A job runs on a thread and in a process of its own, as many at a time as there are processors.
 * Its owner can read its state, wait for it, or release it.  The result is the bytes of a shared
 * object that refers to nothing in this process, so that it can be stored and loaded again
 * (load.h).
 */
#ifndef CC_JOB_H
#define CC_JOB_H

#include <gramme-plugin-util.h>
#include <stdbool.h>

typedef enum {
  CC_JOB_WAITING, /* for a processor */
  CC_JOB_RUNNING,
  CC_JOB_DONE,  /* the artefact exists */
  CC_JOB_FAILED /* the message exists */
} CcState;

typedef struct CcJob CcJob;

#define CC_JOB_LIMIT_S 600 /* time limit of the compiler, unless the user gives another */

/* Starts a job.  `compiler`: a program and its first arguments, separated by spaces; `flags`
 * likewise. Steals `text` (of malloc), also on failure.  A compiler that runs longer than limit_s
 * is stopped, with its children, and the job fails.  NULL, with a status, if no thread can be
 * started.  Thread: any, as for all functions here. */
CcJob *cc_job_start (const char *compiler, const char *flags, char *text, size_t len, int limit_s,
                     GrammeStatus *status);
/* Waits until the job is DONE or FAILED; returns its state. */
CcState cc_job_wait (CcJob *job);
/* Waits for the job for timeout_ms at most; false if it has not ended by then. */
bool cc_job_wait_for (CcJob *job, int timeout_ms);
/* Returns the bytes of a job that is DONE; valid as long as the job. */
const void *cc_job_artefact (CcJob *job, size_t *bytes);
/* Returns the message of a job that has FAILED: the compiler's, or why it did not run. */
const char *cc_job_message (CcJob *job);
/* Releases the job; stops the compiler if it runs. */
void cc_job_free (CcJob *job);

#endif
