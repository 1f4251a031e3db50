/* SPDX-License-Identifier: Apache-2.0
 * status.c -- the table of status codes: the text for a plugin that gives no message, and the error
 * that a user sees.
 */
#include "core/plugin/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"

typedef struct {
  const char *text;
  GmError error;
} Code;

static const Code codes[] = {
  [GRAMME_OK] = { "no error", GM_ERROR_BACKEND },
  [GRAMME_UNSUPPORTED] = { "it does not support this", GM_ERROR_BACKEND },
  [GRAMME_INTERNAL] = { "an internal error", GM_ERROR_BACKEND },
  [GRAMME_INVALID] = { "an option or argument is wrong", GM_ERROR_VALUE },
  [GRAMME_NO_MEMORY] = { "there is not enough memory", GM_ERROR_MEMORY },
  [GRAMME_TOOLCHAIN] = { "a tool that it needs is missing or broken", GM_ERROR_BACKEND },
  [GRAMME_CANCELLED] = { "it was interrupted", GM_ERROR_BACKEND },
  [GRAMME_DEVICE] = { "the device failed", GM_ERROR_BACKEND },
  [GRAMME_DATA] = { "stored data are damaged", GM_ERROR_BACKEND },
  [GRAMME_INCOMPATIBLE] = { "it does not fit this gramme or this machine", GM_ERROR_BACKEND },
  [GRAMME_STATE] = { "a call out of order", GM_ERROR_BACKEND },
  [GRAMME_NOT_FOUND] = { "there is no such thing", GM_ERROR_BACKEND },
  [GRAMME_INDEX] = { "an index is out of range", GM_ERROR_INDEX },
  [GRAMME_DEADLINE] = { "it took too long", GM_ERROR_BACKEND },
  [GRAMME_CONDITION] = { "a condition on its data does not hold", GM_ERROR_RUNTIME },
};

int32_t
gm_status_set (GrammeStatus *s, int32_t code, int32_t node, const char *format, ...)
{
  if (!s || !GRAMME_HAS (s, GrammeStatus, message))
    return code;
  va_list args;
  va_start (args, format);
  vsnprintf (s->message, sizeof s->message, format, args);
  va_end (args);
  s->code = code;
  s->node = node;
  return code;
}

int32_t
gm_status_take_error (GrammeStatus *s, GError *error)
{
  int32_t code = GRAMME_INVALID;
  if (error->domain == GM_ERROR)
    switch ((GmError) error->code) {
    case GM_ERROR_INDEX:
      code = GRAMME_INDEX;
      break;
    case GM_ERROR_MEMORY:
      code = GRAMME_NO_MEMORY;
      break;
    case GM_ERROR_UNSUPPORTED:
      code = GRAMME_UNSUPPORTED;
      break;
    case GM_ERROR_RUNTIME:
      code = GRAMME_CONDITION;
      break;
    default:
      break;
    }
  gm_status_set (s, code, -1, "%s", error->message);
  g_error_free (error);
  return code;
}

static const Code *
code_find (int32_t code)
{
  return code > GRAMME_OK && code < (int32_t) G_N_ELEMENTS (codes) ? &codes[code]
                                                                   : &codes[GRAMME_INTERNAL];
}

const char *
gm_status_text (const GrammeStatus *s, int32_t code)
{
  if (s->message[0] && memchr (s->message, 0, sizeof s->message)
      && g_utf8_validate (s->message, -1, NULL))
    return s->message;
  return code_find (code)->text;
}

void
gm_status_to_error (const GrammeStatus *s, int32_t code, const char *backend, const char *doing,
                    GError **error)
{
  g_set_error (error, GM_ERROR, code_find (code)->error, "back end \"%s\": %s: %s", backend, doing,
               gm_status_text (s, code));
}
