/* SPDX-License-Identifier: Apache-2.0
 * dict_version.c -- see dict_version.h.
 *
 * On 3.11 every write to a dict gives it a version that no dict had before, and an object's attributes are in its dict once somebody has asked
 * for that.  On later versions an attribute can change where it stands in the object without a new version of the dict: no number
 * is relied upon there, and every record is checked.
 */
#include "core/python/dict_version.h"

size_t
gm_dict_version_offset (void)
{
#if PY_VERSION_HEX < 0x030c0000
  return offsetof (PyDictObject, ma_version_tag);
#else
  return 0;
#endif
}

bool (*gm_dict_watch_fn (void)) (PyObject *)
{
  return NULL;
}
