/* SPDX-License-Identifier: Apache-2.0
 * fuzz_manifest.c -- the readers of plugin files on mutants: ELF headers, the note, the key file,
 * and users' options checked against it.  GPH-9: whatever the bytes are, the readers return, and a
 * refusal has a reason.
 *
 *   fuzz_manifest [COUNT [SEED]]    COUNT mutants, one half of a text, the other of a shared object
 *   clang -fsanitize=fuzzer,address -DLIBFUZZER ... is a target for libFuzzer, and so for AFL++
 *
 * Built with sanitizers, a read out of bounds ends the run.
 */
#include "core/plugin/manifest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char text_seed[] =
    "[gramme-plugin]\nabi=0.1\nmin-host-minor=0\nid=org.example.foo\nname=foo\nversion=1.2.0\n"
    "license=MIT\nrank=100\nbit-exact=true\ndevices=cpu;cuda;\ndtypes=f32;f64;\nflags=backward;\n"
    "[option level]\ntype=int\nrange=-3..3\ndefault=2\nhelp=how hard\n[option tier]\ntype=choice\n"
    "values=quick;best;\n[reasons]\n0x10001=no\n";

static void
die (const char *what)
{
  fprintf (stderr, "%s\n", what);
  abort ();
}

/* -- One input --------------------------------------------------------------------------------- */

static int
try_text (const char *bytes, size_t n)
{
  GmRefused why = { 0 };
  GmManifest *partial = NULL;
  char *text = g_strndup (bytes, n); /* as the readers pass it: it ends at the first NUL */
  if (!g_utf8_validate (text, -1, NULL)) {
    g_free (text);
    return 0;
  }
  GmManifest *m = gm_manifest_parse (text, &partial, &why);
  int good = m != NULL;
  if (good == (why.code != GM_REFUSAL_NONE) || (!good && (!why.text || !why.text[0])))
    die ("a manifest is neither read nor refused with a reason");
  for (guint i = 0; m && i < m->options->len; i++) {
    const GmPluginOption *o = m->options->pdata[i];
    GError *error = NULL;
    if (!gm_manifest_check_option (m, o->key, o->fallback ? o->fallback : "3", &error))
      g_error_free (error);
  }
  if (m)
    gm_manifest_reason (m, 0x10001);
  gm_manifest_free (m);
  gm_manifest_free (partial);
  gm_refused_clear (&why);
  return good;
}

static int elf_fd = -1;

static int
try_elf (const unsigned char *bytes, size_t n)
{
  GmRefused why = { 0 };
  if (ftruncate (elf_fd, 0) != 0 || pwrite (elf_fd, bytes, n, 0) != (ssize_t) n)
    die ("the file cannot be written");
  bool good = gm_elf_check (elf_fd, &why);
  if (good == (why.code != GM_REFUSAL_NONE))
    die ("headers are neither good nor refused");
  gm_refused_clear (&why);
  char *text = gm_elf_read_manifest (elf_fd, &why);
  if ((text != NULL) == (why.code != GM_REFUSAL_NONE))
    die ("a note is neither read nor refused");
  if (text)
    try_text (text, strlen (text));
  g_free (text);
  gm_refused_clear (&why);
  return good;
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput (const uint8_t *bytes, size_t n);

int
LLVMFuzzerTestOneInput (const uint8_t *bytes, size_t n)
{
  if (elf_fd < 0)
    elf_fd = memfd_create ("fuzz", MFD_CLOEXEC);
  if (n > 4 && memcmp (bytes, "\177ELF", 4) == 0)
    try_elf (bytes, n);
  else
    try_text ((const char *) bytes, n);
  return 0;
}
#else

/* -- Mutants ----------------------------------------------------------------------------------- */

static uint64_t
draw (uint64_t *state)
{
  *state ^= *state << 13; /* xorshift64 (Marsaglia 2003) */
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

static size_t
mutate_text (uint64_t *state, char *out, size_t room)
{
  static const char *const pieces[] = {
    "=",        "[",     "]",        "\n", ";",
    "..",       "-",     "\\",       "0x", "99999999999999999999",
    "[option ", "type=", "\xc3\xa9", "#",  "true",
    "abi=",     "\n\n",  "name="
  };
  size_t n = sizeof text_seed - 1;
  memcpy (out, text_seed, n);
  for (unsigned k = 1 + draw (state) % 4; k > 0; k--) {
    size_t at = draw (state) % n;
    const char *piece = pieces[draw (state) % G_N_ELEMENTS (pieces)];
    switch (draw (state) % 5) {
    case 0:
      out[at] ^= (char) (1u << draw (state) % 8);
      break;
    case 1:
      out[at] = (char) draw (state);
      break;
    case 2: /* inserts a piece */
      if (n + strlen (piece) < room) {
        memmove (out + at + strlen (piece), out + at, n - at);
        memcpy (out + at, piece, strlen (piece));
        n += strlen (piece);
      }
      break;
    case 3: { /* removes some bytes */
      /* MIN evaluates its arguments twice */
      size_t some = 1 + draw (state) % 12, gone = MIN (some, n - at);
      memmove (out + at, out + at + gone, n - at - gone);
      n -= gone;
      break;
    }
    default:
      n = draw (state) % 30 ? n : at;
    }
    if (n == 0)
      return 0;
  }
  return n;
}

/* Mutates headers and the note more often than code. */
static size_t
mutate_elf (uint64_t *state, unsigned char *bytes, size_t n, size_t note)
{
  static const uint32_t odd[] = { 0,          1,          7,          0xff,      0xffff,
                                  0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff8 };
  for (unsigned k = 1 + draw (state) % 4; k > 0; k--) {
    size_t from = draw (state) % 3 == 0 ? note : 0, span = from ? 600 : draw (state) % 4 ? 1024 : n;
    size_t at = from + draw (state) % MIN (span, n - from - 4);
    uint32_t word = odd[draw (state) % G_N_ELEMENTS (odd)];
    if (draw (state) % 2)
      bytes[at] ^= (unsigned char) (1u << draw (state) % 8);
    else
      memcpy (bytes + (at & ~(size_t) 3), &word, sizeof word);
  }
  return draw (state) % 20 ? n : draw (state) % (n + 1);
}

int
main (int argc, char **argv)
{
  uint64_t count = argc > 1 ? strtoull (argv[1], NULL, 0) : 1000000, good = 0, good_elf = 0;
  uint64_t state = (argc > 2 ? strtoull (argv[2], NULL, 0) : 1) * 0x9e3779b97f4a7c15u + 1;
  const char *file = g_getenv ("GM_FUZZ_PLUGIN");
  gchar *seed = NULL;
  gsize n = 0, note = 0;
  if (!file || !g_file_get_contents (file, &seed, &n, NULL) || n < 4096) {
    fprintf (stderr, "GM_FUZZ_PLUGIN names a plugin to start from\n");
    return 2;
  }
  for (gsize i = 0; i + 15 < n && !note; i++)
    if (memcmp (seed + i, "[gramme-plugin]", 15) == 0)
      note = i - 20;
  n = MIN (n, (gsize) 1 << 16);
  seed = g_realloc (seed, n);
  elf_fd = memfd_create ("fuzz", MFD_CLOEXEC);
  unsigned char *elf = g_malloc (n);
  for (uint64_t i = 0; i < count; i++) {
    if (i % 2) {
      char text[2048];
      size_t length = mutate_text (&state, text, sizeof text);
      good += (uint64_t) try_text (text, length);
    } else {
      memcpy (elf, seed, n);
      size_t length = mutate_elf (&state, elf, n, note < n ? note : 0);
      good_elf += (uint64_t) try_elf (elf, length);
    }
  }
  printf ("%lu mutants; %lu texts and %lu files were good\n", (unsigned long) count,
          (unsigned long) good, (unsigned long) good_elf);
  close (elf_fd);
  g_free (elf);
  g_free (seed);
  return 0;
}
#endif
