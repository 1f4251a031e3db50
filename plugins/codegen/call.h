/* SPDX-License-Identifier: Apache-2.0
 * call.h -- calls finished functions of codegen, and computes their workspace, for the back ends.
 */
#ifndef CODEGEN_CALL_H
#define CODEGEN_CALL_H

#include <gramme-plugin-util.h>

#include "plugins/codegen/code_text.h"

/* Type of the function that codegen prints for a graph. Returns a code of GRAMME_. */
typedef int (*CgEntry) (void *const *in, void *const *out, char *workspace, const int64_t *sizes,
                        void *status);

/* Computes the bytes of workspace for a run: the fixed part, and the dynamic one for these values
 * of the image's sizes. */
static inline int32_t
codegen_workspace (const CgProgram *p, const CgText *t, const int64_t *sizes, uint64_t *bytes,
                   GrammeStatus *status)
{
  int64_t dynamic = 0;
  if (t->dynamic_bytes != 0
      && (!sizes || !codegen_size_eval (p->sizes, t->dynamic_bytes, sizes, &dynamic)
          || dynamic < 0))
    return gramme_fail (
        status, GRAMME_NO_MEMORY, -1,
        "the temporaries of these sizes take more bytes than there are numbers for");
  *bytes = t->ws_bytes + (uint64_t) dynamic;
  return GRAMME_OK;
}

/* Calls the function of a role with the addresses in args. entry: NULL if the role was not
 * compiled, which is an error. */
static inline int32_t
codegen_call (CgEntry entry, const GrammeRunArgs *args, GrammeStatus *status)
{
  void *in[args->n_inputs + 1], *out[args->n_outputs + 1];
  if (!entry)
    return gramme_fail (status, GRAMME_STATE, -1, "role %u was not compiled", args->role);
  for (uint32_t i = 0; i < args->n_inputs; i++)
    in[i] = gramme_tensor_address (&args->inputs[i]);
  for (uint32_t i = 0; i < args->n_outputs; i++)
    out[i] = gramme_tensor_address (&args->outputs[i]);
  return entry (in, out, args->workspace, args->sizes, status);
}

static inline void
codegen_describe (GrammeExecInfo *out, uint64_t code_bytes, const CgProgram *forward,
                  const CgProgram *backward)
{
  const CgProgram *programs[] = { forward, backward };
  if (GRAMME_HAS (out, GrammeExecInfo, code_bytes))
    out->code_bytes = code_bytes;
  if (GRAMME_HAS (out, GrammeExecInfo, constant_bytes))
    for (int k = 0; k < 2; k++)
      for (uint32_t i = 0; i < programs[k]->n_consts; i++)
        out->constant_bytes += programs[k]->consts[i].bytes;
}

#endif
