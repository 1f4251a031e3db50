/* SPDX-License-Identifier: Apache-2.0
 * hostile.c -- plugins that must be refused, each for its own reason.  Built by the tests with one
 * of the switches below.
 *
 *   GOOD             nothing is wrong with it
 *   WRONG_SYMBOL     exports the query of another major version
 *   WRONG_MAJOR      its manifest says another major version
 *   NEWER_MINOR      built against a later minor; nothing is wrong with it
 *   NEEDS_NEWER      its min-host-minor is above the host's
 *   NO_NOTE          has no manifest
 *   GARBAGE_NOTE     its note holds bytes that are no key file
 *   LONG_NOTE        its note claims more bytes than the file has
 *   BAD_NAME         its name would reach a terminal with control characters
 *   MISMATCH         the note and the descriptor differ
 *   NO_COMPILE       the table lacks `compile`
 *   SHORT_TABLE      the table claims to be so short that mandatory functions are missing
 *   SHORT_DESCRIPTOR the descriptor claims 8 bytes
 *   NULL_API         the descriptor has no table
 *   TABLE_AT_END     its table lacks the last function, and behind it is an inaccessible page
 *   REFUSES          the query says no, with a message
 *   OPEN_FAILS       open fails, with a message
 *   SLOW_OPEN        open takes five seconds
 *   FLUSH_TO_ZERO    its constructor changes the floating-point mode
 *   WRITES_PAST      get_support fills a row too many
 *   GARBAGE          says YES to everything and computes nothing
 *   RUN_FAILS, RUN_INDEX, COMPILE_FAILS, COMPILE_INTERNAL, SUPPORT_FAILS, UNTERMINATED: failures of
 *   later calls LIES             says YES and then UNSUPPORTED
 */
#include <stdlib.h>
#include <unistd.h>

#include <gramme-plugin-util.h>

#if defined(__x86_64__) && defined(FLUSH_TO_ZERO)
#include <xmmintrin.h>

__attribute__ ((constructor)) static void
change_mode (void)
{
  _mm_setcsr (_mm_getcsr () | 0x8040u);
}
#endif

struct GrammeBackend {
  int unused;
};
struct GrammeExecutable {
  int unused;
};
static GrammeBackend the_backend;
static GrammeExecutable the_executable;

static int32_t
open_it (const GrammeHost *host, const GrammeOption *options, uint32_t n, GrammeBackend **out,
         GrammeStatus *status)
{
  (void) host, (void) options, (void) n;
#ifdef SLOW_OPEN
  sleep (5);
#endif
#ifdef OPEN_FAILS
  return gramme_fail (status, GRAMME_INCOMPATIBLE, -1, "the moon is not full");
#endif
  (void) status;
  *out = &the_backend;
  return GRAMME_OK;
}

static void
close_it (GrammeBackend *b)
{
  (void) b;
}

/* True if the image has two inputs of [2, 3], like the graphs that a probe runs. */
static inline int
is_trial (const GrammeImage *image)
{
  const GrammeValue *v = gramme_image_value (image, 0);
  return image->inputs.count == 2 && v->ndim == 2 && gramme_value_size (image, v, 0) == 2
         && gramme_value_size (image, v, 1) == 3;
}

static int32_t
get_support (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts, uint32_t stride,
             GrammeStatus *status)
{
  (void) b;
#ifdef SUPPORT_FAILS
  return gramme_fail (status, GRAMME_INTERNAL, -1, "it lost its tables");
#endif
  (void) status;
#ifdef WRITES_PAST
  if (!(is_trial (image)))
    memset ((char *) verdicts + (size_t) image->nodes.count * stride, 0, stride);
#endif
#ifndef GARBAGE
  if (is_trial (image))
    return GRAMME_OK; /* the trial's graphs: this plugin computes nothing, so it must say NO */
#endif
  for (uint32_t i = 0; i < image->nodes.count; i++)
    ((GrammeVerdict *) (void *) ((char *) verdicts + (size_t) i * stride))->support = GRAMME_YES;
  return GRAMME_OK;
}

static int32_t
compile_it (GrammeBackend *b, const GrammeCompileRequest *r, GrammeExecutable **out,
            GrammeStatus *status)
{
  (void) b, (void) r;
#if defined(COMPILE_FAILS)
  return gramme_fail (status, GRAMME_TOOLCHAIN, -1, "cc is not installed; apt-get install gcc");
#elif defined(COMPILE_INTERNAL)
  return gramme_fail (status, GRAMME_INTERNAL, -1, "a bug");
#elif defined(LIES)
  return gramme_fail (status, GRAMME_UNSUPPORTED, 0, "on second thoughts, no");
#elif defined(UNTERMINATED)
  memset (status->message, 'x', sizeof status->message);
  return GRAMME_TOOLCHAIN;
#endif
  (void) status;
#if defined(COMPILE_FAILS_ON_WISH)
  if (getenv ("HOSTILE_WISH"))
    return gramme_fail (status, GRAMME_TOOLCHAIN, -1, "cc is not installed; apt-get install gcc");
#elif defined(COMPILE_IS_SLOW)
  usleep (50000);
#endif
  *out = &the_executable;
  return GRAMME_OK;
}

static int32_t
exec_info (GrammeExecutable *e, GrammeExecInfo *out, GrammeStatus *status)
{
  (void) e, (void) out, (void) status;
  return GRAMME_OK;
}

static int32_t
run_it (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status)
{
  (void) e, (void) args, (void) status;
#if defined(RUN_FAILS)
  return gramme_fail (status, GRAMME_DEVICE, -1, "the device caught fire");
#elif defined(RUN_INDEX)
  return gramme_fail (status, GRAMME_INDEX, -1, "index 7 is out of range");
#endif
  return GRAMME_OK;
}

static void
destroy (GrammeExecutable *e)
{
  (void) e;
}

static const GrammeBackendApi api = {
#ifdef SHORT_TABLE
  .struct_size = 16,
#else
  .struct_size = sizeof (GrammeBackendApi),
#endif
  .open = open_it,
  .close = close_it,
  .get_support = get_support,
#ifndef NO_COMPILE
  .compile = compile_it,
#endif
  .exec_info = exec_info,
  .run = run_it,
  .destroy = destroy,
};

/* -- Note and descriptor, each wrong in its way ------------------------------------------------ */

#define KEYS "id=org.example.hostile\nname=hostile\nversion=1\ndevices=cpu;\n"
#define HEAD(abi, minimum) "[gramme-plugin]\nabi=" abi "\nmin-host-minor=" minimum "\n"

#if defined(WRONG_MAJOR)
#define TEXT HEAD ("7.0", "0") KEYS
#elif defined(NEWER_MINOR)
#define TEXT HEAD ("0.9", "0") KEYS
#elif defined(NEEDS_NEWER)
#define TEXT HEAD ("0.9", "3") KEYS
#elif defined(GARBAGE_NOTE)
#define TEXT "\001\002 this is [no key file\n=\n"
#elif defined(BAD_NAME)
#define TEXT HEAD ("0.0", "0") "id=org.example.hostile\nname=\033[31mred\nversion=1\n"
#else
#define TEXT HEAD ("0.0", "0") KEYS
#endif

#ifndef NO_NOTE
static const struct {
  uint32_t name_bytes, text_bytes, type;
  char name[8];
  char text[(sizeof (TEXT) + 3) / 4 * 4];
} note __attribute__ ((section (".note.gramme.plugin"), used,
                       aligned (4))) = { sizeof (GRAMME_NOTE_NAME),
#ifdef LONG_NOTE
                                         0xfffffff0u,
#else
                                         sizeof (TEXT),
#endif
                                         GRAMME_NOTE_TYPE, GRAMME_NOTE_NAME, TEXT };
#endif

#ifdef TABLE_AT_END
#include <sys/mman.h>

#define TABLE_BYTES offsetof (GrammeBackendApi, get_extension)
static GrammePlugin at_end;

/* For the test only: a query must be pure, and a constructor must do nothing. */
__attribute__ ((constructor)) static void
make_table (void)
{
  size_t page = (size_t) sysconf (_SC_PAGESIZE);
  char *pages = mmap (NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  GrammeBackendApi shorter = api;
  shorter.struct_size = TABLE_BYTES;
  memcpy (pages + page - TABLE_BYTES, &shorter, TABLE_BYTES);
  mprotect (pages, page, PROT_READ);
  mprotect (pages + page, page, PROT_NONE);
  at_end =
      (GrammePlugin){ .struct_size = sizeof at_end,
                      .manifest = TEXT,
                      .api = (const GrammeBackendApi *) (void *) (pages + page - TABLE_BYTES) };
}
#endif

static const GrammePlugin descriptor = {
#ifdef SHORT_DESCRIPTOR
  8,
#else
  sizeof (GrammePlugin),
#endif
#ifdef NEWER_MINOR
  9,
#else
  0,
#endif
  0,
  0,
#ifdef MISMATCH
  TEXT "more=here\n",
#else
  TEXT,
#endif
#ifdef NULL_API
  NULL
#else
  &api
#endif
};

#ifdef WRONG_SYMBOL
#define gramme_plugin_query_v0 gramme_plugin_query_v9
GRAMME_EXPORT const GrammePlugin *gramme_plugin_query_v9 (const GrammeHost *host,
                                                          GrammeStatus *status);
#endif

const GrammePlugin *
gramme_plugin_query_v0 (const GrammeHost *host, GrammeStatus *status)
{
  (void) host, (void) status;
#ifdef REFUSES
  gramme_fail (status, GRAMME_INCOMPATIBLE, -1, "only on Tuesdays");
  return NULL;
#endif
#ifdef TABLE_AT_END
  return &at_end;
#endif
  return &descriptor;
}
