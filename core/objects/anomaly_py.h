/* SPDX-License-Identifier: Apache-2.0
 * anomaly_py.h -- C functions behind gramme.autograd.anomaly_mode.
 */
#ifndef GM_OBJECTS_ANOMALY_PY_H
#define GM_OBJECTS_ANOMALY_PY_H

#include "core/objects/types.h"

int gm_py_init_anomaly (PyObject *module);

#endif
