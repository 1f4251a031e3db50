/* SPDX-License-Identifier: Apache-2.0
 * kept_frame.h -- frames of resumed functions that are kept beyond their end, for example by an
 * exception that the program keeps.
 */
#ifndef GM_OBJECTS_KEPT_FRAME_H
#define GM_OBJECTS_KEPT_FRAME_H

#include "core/objects/cpython.h"

/* Functions that the code of a resumed function calls.  Borrowed.
 * ask ():       its own frame object, if something keeps that beyond its end, or the dict of its
 *               variables; else None.
 * adopt (old):  the frame that calls this gets `old`, such an object whose frame has returned, as
 *               its frame object.  In a tuple of one: that frame may have caught an exception,
 *               whose traceback refers to it. */
extern PyObject *gm_kept_frame_ask, *gm_kept_frame_adopt;

int gm_py_init_kept_frame (void);

#endif
