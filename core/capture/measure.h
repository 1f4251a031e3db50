/* SPDX-License-Identifier: Apache-2.0
 * measure.h -- see measure.c.
 */
#ifndef GM_CAPTURE_MEASURE_H
#define GM_CAPTURE_MEASURE_H

#include <Python.h>

int gm_py_init_measure (PyObject *module);

#endif
