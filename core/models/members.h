/* SPDX-License-Identifier: Apache-2.0
 * members.h -- the attributes of nn.Modules.
 */
#ifndef GM_MODELS_MEMBERS_H
#define GM_MODELS_MEMBERS_H

#include "core/trace/recorder.h"

/* Read and set an attribute of an nn.Module as Members.__getattr__ and __setattr__ do.
 * gm_members_get returns NULL if there is none, which is guarded, or after a break. */
const GmTracker *gm_members_get (GmRecorder *r, const GmTracker *t, PyObject *name);
void gm_members_set (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* Returns the method of nn.Module with this name that core/objects/members_py.c defines, bound
 * to self. */
const GmTracker *gm_members_method (GmRecorder *r, const GmTracker *self, PyObject *name);

/* True if `found`, the __getattr__ or __setattr__ of a class, is nn.Module's own. */
static inline bool
gm_is_members_method (PyObject *found)
{
  return found && Py_IS_TYPE (found, &PyMethodDescr_Type)
         && ((PyDescrObject *) found)->d_type == &PyBaseObject_Type && gm_host.members_type
         && PyDict_GetItemWithError (gm_host.members_type->tp_dict,
                                     ((PyDescrObject *) found)->d_name)
                == found;
}

#endif
