/* SPDX-License-Identifier: Apache-2.0
 * jit.c -- see jit.h.
 *
 * No library and no header of tcc's is used (-nostdlib -nostdinc), so the plugin works where the
 * tcc package is not installed.  The code gets pages of its own, which are writable, then
 * executable, never both: tcc_relocate requests both, and the linker's --wrap sends that call here.
 */
#include "plugins/tcc/jit.h"
#include "plugins/tcc/reserve.h"

#include <libtcc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pthread.h>

extern int __real_mprotect (void *at, size_t bytes, int how);
int __wrap_mprotect (void *at, size_t bytes, int how);

/* Replaces mprotect for libtcc, and does nothing, since libtcc writes to the pages after that call;
 * translate sets the protection at the end. */
int
__wrap_mprotect (void *at, size_t bytes, int how)
{
  return (how & PROT_WRITE) && (how & PROT_EXEC) ? 0 : __real_mprotect (at, bytes, how);
}

/* Serialises calls of libtcc. Debian's libtcc has a lock of its own; other builds may not. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void
on_message (void *data, const char *text)
{
  GrammeStatus *said = data;
  if (!said->message[0])
    snprintf (said->message, sizeof said->message, "%s", text);
}

static int32_t
translate (TCCState *s, TccCode *code, const CgText *t, const char *name, const GrammeStatus *said,
           GrammeStatus *status)
{
  tcc_set_options (s, "-nostdlib -nostdinc");
  tcc_set_output_type (s, TCC_OUTPUT_MEMORY);
  for (uint32_t i = 0; i < t->n_symbols; i++)
    tcc_add_symbol (s, t->symbols[i].name, t->symbols[i].address);
  if (tcc_compile_string (s, t->text) < 0 || said->message[0])
    return gramme_fail (status, GRAMME_INTERNAL, -1, "libtcc does not accept generated text: %s",
                        said->message);
  int size = tcc_relocate (s, NULL);
  if (size < 0 || said->message[0])
    return gramme_fail (status, GRAMME_INTERNAL, -1, "libtcc cannot link generated text: %s",
                        said->message);
  size_t page = (size_t) sysconf (_SC_PAGESIZE);
  code->bytes = ((size_t) size + page - 1) / page * page;
  code->pages =
      mmap (NULL, code->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code->pages == MAP_FAILED) {
    code->pages = NULL;
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for %zu bytes of code",
                        code->bytes);
  }
  if (tcc_relocate (s, code->pages) < 0)
    return gramme_fail (status, GRAMME_TOOLCHAIN, -1, "libtcc cannot make code in memory: %s",
                        said->message);
  code->entry = tcc_get_symbol (s, name);
  if (mprotect (code->pages, code->bytes, PROT_READ | PROT_EXEC) != 0 || !code->entry)
    return gramme_fail (status, GRAMME_TOOLCHAIN, -1,
                        "the code's pages cannot be made executable: a security policy may forbid "
                        "it; use another back end");
  return GRAMME_OK;
}

int32_t
tcc_jit (TccCode *code, const CgText *t, const char *name, const GrammeHost *host, void *job,
         GrammeStatus *status)
{
  GrammeStatus said;
  gramme_status_init (&said);
  *code = (TccCode){ 0 };
  pthread_mutex_lock (&lock);
  TCCState *s = tcc_reserve_begin () ? tcc_new () : NULL;
  int32_t result;
  if (!s) {
    result = gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for libtcc");
  } else {
    tcc_set_error_func (s, &said, on_message);
    result = translate (s, code, t, name, &said, status);
    tcc_delete (s);
  }
  tcc_reserve_end ();
  pthread_mutex_unlock (&lock);
  if (said.message[0] && GRAMME_HAS_FN (host, GrammeHost, diag))
    host->diag (job, GRAMME_LOG_ERROR, -1, said.message, strlen (said.message));
  if (result != GRAMME_OK)
    tcc_jit_free (code);
  return result;
}

void
tcc_jit_free (TccCode *code)
{
  if (code->pages)
    munmap (code->pages, code->bytes);
  *code = (TccCode){ 0 };
}
