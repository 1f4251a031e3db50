/* SPDX-License-Identifier: Apache-2.0
 * support.c -- asks a plugin for its verdicts, with guard rows behind its rows, and checks the
 * answers.
 */
#include "core/run/support.h"

#include <string.h>

#include "core/ops/ops.h"
#include "core/plugin/status.h"

/* The number of rows behind the plugin's that must stay as they are: a plugin that writes out of
 * bounds most likely writes here. */
#define GUARD_ROWS 64
#define PATTERN 0x5a
#define SIZED_MINOR 1 /* first minor whose headers say that attributes may be symbolic */

/* -- Operators by minor ------------------------------------------------------------------------ */

/* The version of each op, by code, in each minor that was released; one row per minor, oldest
 * first. */
static const uint8_t released[][GM_N_OPS] = {
  {
#define OP(name, code, version) [code] = version,
#include "core/plugin/released/0.0.def"
  },
};
G_STATIC_ASSERT (GRAMME_ABI_MAJOR == 0);
G_STATIC_ASSERT (G_N_ELEMENTS (released) == GRAMME_ABI_MINOR
                 || G_N_ELEMENTS (released) == GRAMME_ABI_MINOR + 1);

uint32_t
gm_op_minor (uint32_t op, uint32_t version)
{
  for (uint32_t minor = 0; op < GM_N_OPS && minor < G_N_ELEMENTS (released); minor++)
    if (released[minor][op] >= version)
      return minor;
  return GRAMME_ABI_MINOR; /* not released yet: part of the next release */
}

/* -- Asking ------------------------------------------------------------------------------------ */

static GmVerdict
judge (const GrammeVerdict *said, const GrammeImage *image, const GrammeNode *n,
       uint32_t built_against, uint32_t (*op_minor) (uint32_t, uint32_t))
{
  GmVerdict v = { .reason = said->reason };
  if (op_minor (n->op, n->op_version) > built_against) {
    v.reason = op_minor (n->op, 1) > built_against ? GRAMME_REASON_OP : GRAMME_REASON_OP_VERSION;
    return v;
  }
  for (uint32_t i = 0; i < n->n_attrs && built_against < SIZED_MINOR; i++)
    if (gramme_attr_is_symbolic (image, gramme_image_attr (image, n->first_attr + i))) {
      /* Such a plugin would read symbolic attributes as numbers. */
      v.reason = GRAMME_REASON_DYNAMIC;
      return v;
    }
  v.yes = said->support == GRAMME_YES || said->support == GRAMME_PREFER;
  v.cluster = said->cluster;
  return v;
}

GmSupportCode
gm_support_ask (const GmPlugin *plugin, GrammeBackend *instance, const GrammeImage *image,
                uint32_t (*op_minor) (uint32_t op, uint32_t version), GmVerdict **verdicts,
                char **why)
{
  *verdicts = NULL;
  uint32_t n = image->nodes.count;
  g_autofree GrammeVerdict *rows = g_new0 (GrammeVerdict, n + GUARD_ROWS);
  memset (rows + n, PATTERN, GUARD_ROWS * sizeof *rows);
  GrammeStatus status;
  gm_status_clear (&status);
  int32_t code = plugin->api.get_support (instance, image, rows, sizeof *rows, &status);
  const uint8_t *guard = (const uint8_t *) (rows + n);
  for (size_t i = 0; i < GUARD_ROWS * sizeof *rows; i++)
    if (guard[i] != PATTERN) {
      *why = g_strdup_printf ("it writes past the %u verdicts that it was asked for", n);
      return GM_SUPPORT_OVERRUN;
    }
  if (code != GRAMME_OK) {
    *why = g_strdup_printf ("it cannot say what it supports: %s", gm_status_text (&status, code));
    return GM_SUPPORT_FAILED;
  }
  GmVerdict *out = g_new (GmVerdict, n + 1);
  for (uint32_t i = 0; i < n; i++)
    out[i] = judge (&rows[i], image, gramme_image_node (image, i),
                    (uint32_t) plugin->manifest->abi_minor, op_minor);
  *verdicts = out;
  return GM_SUPPORT_TOLD;
}
