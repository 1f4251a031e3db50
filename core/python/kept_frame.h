/* SPDX-License-Identifier: Apache-2.0
 * kept_frame.h -- frames of resumed functions that something outlives: what a program keeps of an exception keeps its frames.
 */
#ifndef GM_PYTHON_KEPT_FRAME_H
#define GM_PYTHON_KEPT_FRAME_H

#include "core/python/cpython.h"

/* Functions that the code of a resumed function calls.  Borrowed.
 * ask ():        its own frame, if something keeps that beyond its end; else None.
 * follow (old):  `old`, such a frame that has returned, gives up its variables and keeps the frame that calls this instead. */
extern PyObject *gm_kept_frame_ask, *gm_kept_frame_follow;

int gm_py_init_kept_frame (void);

#endif
