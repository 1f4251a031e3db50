/* SPDX-License-Identifier: Apache-2.0
 * level_cache.c -- level 10: code stored on disk, and the extensions for devices.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin-api/gramme-ext-draft.h"
#include "tools/kit/kit.h"

#define MAX_FLIPS 4000

/* -- Fingerprints ------------------------------------------------------------------------------ */

static void
take_fingerprint (Kit *k, uint8_t out[32])
{
  memset (out, 0, 32);
  kit_doing (k, "asking for the fingerprint");
  int32_t code = k->plugin.api.fingerprint (k->backend, GM_DEVICE_CPU, 0, out, kit_status (k));
  if (code != GRAMME_OK)
    kit_fail (k, NULL, "fingerprint answers %d", code);
}

/* Reads the fingerprint in a process of its own, in which memory has other addresses, a moment
 * later. */
static void
fingerprint_elsewhere (Kit *k, unsigned i, uint8_t out[32])
{
  int ends[2], status = 0;
  if (pipe (ends) != 0)
    kit_skip (k, "there is no pipe");
  pid_t child = fork ();
  if (child == 0) {
    if (mmap (NULL, (i + 1) << 24, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
        || !g_malloc (1000 * i + 1))
      _exit (3);
    g_setenv ("TMPDIR", i ? "/var/tmp" : "/tmp", TRUE);
    g_usleep (i * 1100000);
    kit_open (k);
    take_fingerprint (k, out);
    _exit (write (ends[1], out, 32) == 32 ? 0 : 3);
  }
  close (ends[1]);
  bool got = read (ends[0], out, 32) == 32;
  close (ends[0]);
  if (waitpid (child, &status, 0) != child || status != 0 || !got)
    kit_fail (k, NULL, "fingerprint does not come back in a process of its own");
}

void
kit_cache_fingerprint (Kit *k)
{
  uint8_t prints[4][32];
  for (unsigned i = 0; i < 2; i++) {
    kit_host_init (k, k->host_minor);
    if (i == 0) {
      /* This process must not load the plugin yet, so it cannot find out if there is one. */
      pid_t child = fork ();
      int status = 0;
      if (child == 0) {
        kit_load (k);
        _exit (k->plugin.api.fingerprint ? 0 : 1);
      }
      if (waitpid (child, &status, 0) != child || status != 0)
        kit_skip (k, "it has no fingerprint, so its results are never stored");
    }
    fingerprint_elsewhere (k, i, prints[i]);
  }
  kit_open (k);
  take_fingerprint (k, prints[2]);
  kit_close (k);
  kit_open (k);
  take_fingerprint (k, prints[3]);
  for (int i = 1; i < 4; i++)
    if (memcmp (prints[0], prints[i], 32) != 0)
      kit_fail (k, NULL, "the fingerprint is another one in another %s",
                i == 1 ? "process" : "instance");
  GrammeBackend *b = k->backend;
  if (kit_has_flag (k, "serialize")
      && (!k->plugin.api.get_extension || !k->plugin.api.get_extension (b, GRAMME_SERIALIZE_ID)))
    kit_fail (k, NULL, "its manifest says serialize, and it has no " GRAMME_SERIALIZE_ID);
  kit_close (k);
}

/* -- Artefacts --------------------------------------------------------------------------------- */

static const GrammeSerialize *
serializer (Kit *k)
{
  kit_open (k);
  const GrammeSerialize *s = k->plugin.api.get_extension
                                 ? k->plugin.api.get_extension (k->backend, GRAMME_SERIALIZE_ID)
                                 : NULL;
  if (!s)
    kit_skip (k, "it does not have " GRAMME_SERIALIZE_ID);
  if (!k->plugin.api.fingerprint)
    kit_fail (k, "GPP-18", "has " GRAMME_SERIALIZE_ID " and no fingerprint");
  return s;
}

static KitMem
write_one (Kit *k, const GrammeSerialize *s, GrammeExecutable *e)
{
  uint64_t bytes = 0;
  kit_doing (k, "writing an executable");
  int32_t code = s->size (e, &bytes, kit_status (k));
  if (code == GRAMME_UNSUPPORTED)
    kit_skip (k, "this executable cannot be stored");
  if (code != GRAMME_OK || bytes > (uint64_t) 1 << 31)
    kit_fail (k, NULL, "size answers %d and %" G_GUINT64_FORMAT " bytes", code, bytes);
  KitMem m = kit_mem_new (k, KIT_OUTPUT, (size_t) bytes, 1, false, "the bytes to write");
  code = s->write (e, m.data, bytes, kit_status (k));
  if (code != GRAMME_OK)
    kit_fail (k, NULL, "write answers %d", code);
  return m;
}

static int32_t
read_one (Kit *k, const GrammeSerialize *s, const GmGraph *g, const void *bytes, size_t n,
          GrammeExecutable **e)
{
  k->reader = s;
  k->stored = bytes;
  k->n_stored = n;
  int32_t code = kit_try_compile (k, g, NULL, e);
  k->reader = NULL;
  return code;
}

void
kit_cache_round_trip (Kit *k)
{
  const GrammeSerialize *s = serializer (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 4, 9);
  GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME), **want = kit_interpret (k, g, in);
  GrammeExecutable *e = kit_compile (k, g, NULL), *again = kit_compile (k, g, NULL), *back;
  KitMem a = write_one (k, s, e), b = write_one (k, s, again);
  if (a.bytes != b.bytes || memcmp (a.data, b.data, a.bytes) != 0)
    kit_fail (k, NULL, "equal requests give other bytes: an address, a time, a name of a file?");
  kit_destroy (k, e);
  kit_destroy (k, again);
  int32_t code = read_one (k, s, g, a.data, a.bytes, &back);
  if (code != GRAMME_OK)
    kit_fail (k, NULL, "does not read what it has written: %d, %s", code, k->said);
  for (int i = 0; i < 2; i++)
    kit_run (k, back, GRAMME_FORWARD, g, in, want, NULL);
  KitMem c = write_one (k, s, back);
  if (a.bytes != c.bytes || memcmp (a.data, c.data, a.bytes) != 0)
    kit_fail (k, NULL, "what was read and is written again has other bytes");
  kit_destroy (k, back);
  kit_close (k);
}

/* Fails the case unless the bytes are refused, or the executable read from them gives the right
 * results. */
static void
expect_refused (Kit *k, const GrammeSerialize *s, const GmGraph *g, const void *bytes, size_t n,
                const char *what, size_t at)
{
  GrammeExecutable *e;
  kit_doing (k, "reading an artefact that is %s at byte %zu", what, at);
  int32_t code = read_one (k, s, g, bytes, n, &e);
  if (code == GRAMME_OK)
    kit_fail (k, NULL,
              "takes an artefact that is %s at byte %zu; a checksum over all of it is the least",
              what, at);
  if (code != GRAMME_DATA && code != GRAMME_NO_MEMORY)
    kit_fail (k, NULL, "answers %d to an artefact that is %s at byte %zu, not DATA", code, what,
              at);
}

void
kit_cache_damage (Kit *k)
{
  const GrammeSerialize *s = serializer (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 4, 9);
  GrammeExecutable *e = kit_compile (k, g, NULL);
  KitMem good = write_one (k, s, e);
  kit_destroy (k, e);
  g_autofree char *bytes = g_memdup2 (good.data, good.bytes);
  size_t n = good.bytes, step = MAX (n * 8 / MAX_FLIPS, (size_t) 1),
         cut = MAX (n / 300, (size_t) 1);
  for (size_t bit = k->first_seed % step; bit < n * 8; bit += step) {
    bytes[bit / 8] ^= (char) (1 << bit % 8);
    expect_refused (k, s, g, bytes, n, "changed", bit / 8);
    bytes[bit / 8] ^= (char) (1 << bit % 8);
  }
  for (size_t length = 0; length < n; length += cut)
    expect_refused (k, s, g, bytes, length, "cut off", length);
  g_autofree char *longer = g_malloc0 (n + 64);
  memcpy (longer, bytes, n);
  expect_refused (k, s, g, longer, n + 64, "followed by zeros", n);
  kit_close (k);
}

/* -- Devices ----------------------------------------------------------------------------------- */

static const void *
extension (Kit *k, const char *id)
{
  kit_open (k);
  const void *x = k->plugin.api.get_extension ? k->plugin.api.get_extension (k->backend, id) : NULL;
  if (!x)
    kit_skip (k, "it does not have %s", id);
  return x;
}

void
kit_device_memory (Kit *k)
{
  const GrammeMemory *m = extension (k, GRAMME_MEMORY_ID);
  enum { BYTES = 4000 };
  g_autofree uint8_t *host = g_malloc (BYTES), *back = g_malloc0 (BYTES);
  for (int i = 0; i < BYTES; i++)
    host[i] = (uint8_t) (i * 7);
  for (uint32_t kind = GRAMME_MEMORY_DEVICE; kind <= GRAMME_MEMORY_SHARED; kind++) {
    void *p = NULL, *q = NULL;
    kit_doing (k, "using device memory of kind %u", kind);
    int32_t code = m->alloc (k->backend, 0, kind, BYTES, 256, &p, kit_status (k));
    if (code == GRAMME_UNSUPPORTED)
      continue;
    if (code != GRAMME_OK || !p || (uintptr_t) p % 256)
      kit_fail (k, NULL, "alloc of kind %u answers %d, and %p for an alignment of 256", kind, code,
                p);
    if (m->alloc (k->backend, 0, kind, BYTES, 256, &q, kit_status (k)) != GRAMME_OK || q == p)
      kit_fail (k, NULL, "two blocks are one, or there is no second");
    if (m->copy (k->backend, p, 0, host, -1, BYTES, NULL, kit_status (k)) != GRAMME_OK
        || m->copy (k->backend, q, 0, p, 0, BYTES, NULL, kit_status (k)) != GRAMME_OK
        || m->copy (k->backend, back, -1, q, 0, BYTES, NULL, kit_status (k)) != GRAMME_OK
        || memcmp (host, back, BYTES) != 0)
      kit_fail (k, NULL,
                "what is copied to the device, on it, and back, is something else (kind %u)", kind);
    for (uint32_t bytes = 1; bytes <= 8; bytes *= 2) {
      uint64_t element = UINT64_C (0x8877665544332211);
      if (m->fill (k->backend, q, 0, element, bytes, BYTES / bytes, NULL, kit_status (k))
              != GRAMME_OK
          || m->copy (k->backend, back, -1, q, 0, BYTES, NULL, kit_status (k)) != GRAMME_OK)
        kit_fail (k, NULL, "fill with elements of %u bytes fails", bytes);
      for (uint32_t i = 0; i < BYTES / bytes; i++)
        if (memcmp (back + (size_t) i * bytes, &element, bytes) != 0)
          kit_fail (k, NULL, "fill with elements of %u bytes writes others", bytes);
    }
    m->free (k->backend, 0, kind, p, BYTES, 256);
    m->free (k->backend, 0, kind, q, BYTES, 256);
    void *none = NULL;
    if (m->alloc (k->backend, 0, kind, (uint64_t) 1 << 62, 64, &none, kit_status (k))
        != GRAMME_NO_MEMORY)
      kit_fail (k, NULL, "2^62 bytes of kind %u are not NO_MEMORY", kind);
  }
  kit_close (k);
  if (k->host.live_blocks)
    kit_fail (k, NULL, "has blocks of the host's memory after close");
}

/* Runs on a stream, and records an event for another stream: the work before the event is done when
 * the event has fired. */
void
kit_device_streams (Kit *k)
{
  const GrammeStream *s = extension (k, GRAMME_STREAM_ID);
  if (!g_strv_contains ((const char *const *) k->manifest->devices, "cpu"))
    kit_skip (k, "its streams are of a device whose memory the kit cannot look at");
  g_autoptr (GmGraph) g = kit_small_graph (k, 100, 50);
  GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME), **want = kit_interpret (k, g, in);
  GrammeExecutable *e = kit_compile (k, g, NULL);
  void *a = NULL, *b = NULL, *event = NULL;
  kit_doing (k, "making streams");
  if (s->create (k->backend, 0, &a, kit_status (k)) != GRAMME_OK
      || s->create (k->backend, 0, &b, kit_status (k)) != GRAMME_OK || a == b)
    kit_fail (k, NULL, "two streams cannot be made");
  k->streams = s;
  k->stream = a;
  for (int i = 0; i < 20; i++)
    kit_run (k, e, GRAMME_FORWARD, g, in, want, NULL);
  k->streams = NULL;
  int32_t done = 0;
  kit_doing (k, "using an event");
  if (s->record (k->backend, a, &event, kit_status (k)) != GRAMME_OK
      || s->wait (k->backend, b, event, kit_status (k)) != GRAMME_OK
      || s->synchronize (k->backend, b, kit_status (k)) != GRAMME_OK)
    kit_fail (k, NULL, "an event of one stream does not let the other go on");
  if (s->query (k->backend, event, &done, kit_status (k)) != GRAMME_OK || !done)
    kit_fail (k, NULL, "a stream that waited for an event is through, and the event has not fired");
  s->destroy_event (k->backend, event);
  s->destroy (k->backend, a);
  s->destroy (k->backend, b);
  kit_destroy (k, e);
  kit_close (k);
}
