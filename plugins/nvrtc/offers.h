/* SPDX-License-Identifier: Apache-2.0
 * offers.h -- the extensions for devices with memory of their own: gramme.memory and gramme.stream.
 */
#ifndef NVRTC_OFFERS_H
#define NVRTC_OFFERS_H

#include <gramme-ext-draft.h>

extern const GrammeMemory nv_memory;
extern const GrammeStream nv_streams;

#endif
