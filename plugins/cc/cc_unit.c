/* SPDX-License-Identifier: Apache-2.0
 * cc_unit.c -- see cc_unit.h.
 */
#include "plugins/cc/cc_unit.h"

#include <stdlib.h>

/* Functions that the printer uses beside the host's source, for the ends of rows. */
static const char helpers[] =
#define COPY_ELEMENTS(bytes, type)                                                                 \
  "static inline void copy_elements_" #bytes " (char *to, const char *from, long n)\n{\n"          \
  "  for (long e = 0; e < n; e++)\n    ((" type " *) to)[e] = ((const " type " *) from)[e];\n}\n"
    COPY_ELEMENTS (1, "char") COPY_ELEMENTS (2, "short")
    /* The number of `left` elements that lie in a vector that begins at `first`. */
    "static inline unsigned long part_of (long left, long first, long lanes)\n{\n"
    "  return left <= first ? 0 : left - first < lanes ? left - first : lanes;\n}\n";

char *
cc_unit_text (const CgSource *source, CgText *const *parts, uint32_t n, CgText *externals,
              size_t *len)
{
  CgText body = { 0 };
  *externals = (CgText){ 0 };
  put (&body, "%s", helpers);
  for (uint32_t i = 0; i < n; i++)
    put (&body, "%s", parts[i]->text);
  if (body.text)
    codegen_slice (source, body.text, externals);
  put (externals, "%s", body.text ? body.text : "");
  free (body.text);
  char *text = externals->text;
  *len = externals->len;
  externals->text = NULL;
  externals->len = externals->room = 0;
  if (!body.oom && !externals->oom)
    return text;
  free (text);
  return NULL;
}

int32_t
cc_unit_bind (const CcCode *code, const CgText *symbols, const GrammeSource *host,
              GrammeStatus *status)
{
  for (uint32_t i = 0; i < symbols->n_symbols; i++) {
    const CgSymbol *s = &symbols->symbols[i];
    const void **to = cc_symbol (code, s->name);
    const void *address =
        s->kind == CG_SYMBOL_EXTERNAL ? host->find (host->ctx, s->name) : s->address;
    if (!to || !address)
      return gramme_fail (status, GRAMME_INTERNAL, -1, "`%s` is not in %s", s->name,
                          to ? "the host's source" : "the compiled code");
    *to = address;
  }
  return GRAMME_OK;
}
