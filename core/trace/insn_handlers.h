/* SPDX-License-Identifier: Apache-2.0
 * insn_handlers.h -- the handlers of insns.def.  A handler runs with r->pc at the following
 * instruction; a jump overwrites it.
 */
#ifndef GM_TRACE_INSN_HANDLERS_H
#define GM_TRACE_INSN_HANDLERS_H

#include "core/trace/recorder.h"

#define INSN(NAME, handler, ...) void gm_insn_##handler (GmRecorder *r, const GmInsn *i);
#include "core/bytecode/insns.def"

#endif
