/* SPDX-License-Identifier: Apache-2.0
 * shown_text.c -- what a back end can show of itself and of what it generated (gramme.text).
 */
#include "core/run/exec.h"
#include "core/plugin/status.h"

#include "plugin-api/gramme-ext-draft.h"

static char *
get (GmBackend *b, GrammeExecutable *e, const char *kind, GError **error)
{
  const GrammeBackendApi *api = &b->plugin->api;
  const GrammeText *texts =
      api->get_extension ? api->get_extension (b->instance, GRAMME_TEXT_ID) : NULL;
  GrammeStatus status;
  uint64_t bytes = 0;
  gm_status_clear (&status);
  if (!texts) {
    g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                 "back end %s has no text to show of what it generates; GRAMME_LOGS=output_code "
                 "shows what it logs",
                 b->name);
    return NULL;
  }
  int32_t code = texts->get (b->instance, e, kind, NULL, 0, &bytes, &status);
  char *text = code == GRAMME_OK ? g_try_malloc (bytes + 1) : NULL;
  if (text)
    code = texts->get (b->instance, e, kind, text, bytes + 1, &bytes, &status);
  if (text && code == GRAMME_OK)
    return text;
  g_free (text);
  gm_status_to_error (&status, code == GRAMME_OK ? GRAMME_NO_MEMORY : code, b->name, "text", error);
  return NULL;
}

char *
gm_exec_text (GmExec *e, const char *kind, GError **error)
{
  if (e->executable)
    return get (e->backend, e->executable, kind, error);
  g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "back end %s compiled nothing: %s",
               e->backend->name,
               e->fallback_reason ? e->fallback_reason : "there is nothing to compute");
  return NULL;
}

char *
gm_backend_text (GmBackend *b, const char *kind)
{
  return get (b, NULL, kind, NULL);
}
