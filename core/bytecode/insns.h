/* SPDX-License-Identifier: Apache-2.0
 * insns.h -- the handlers of insns.def.  A handler runs with r->pc at the following instruction; a
 * jump overwrites it.
 */
#ifndef GM_BYTECODE_INSNS_H
#define GM_BYTECODE_INSNS_H

#include "core/trace/recorder.h"

#define INSN(NAME, handler, ...) void gm_insn_##handler (GmRecorder *r, const GmInsn *i);
#include "core/bytecode/insns.def"

#endif
