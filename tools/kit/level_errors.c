/* SPDX-License-Identifier: Apache-2.0
 * level_errors.c -- level 8: a plugin's behaviour without memory, tools or time.
 */
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/image.h"
#include "tools/kit/kit.h"

#define MAX_FAILURES 400
#define STOP_MS 200
#define ASK_MS 100
#define GROWTH_BYTES (64 * 1024)

/* -- Memory ------------------------------------------------------------------------------------ */

/* Compiles and runs once while a service fails. Returns true if compile and run succeeded. The next
 * try must not be affected. */
static bool
try_once (Kit *k, const GmGraph *g, GmTensor *const *in, GmTensor *const *want)
{
  GrammeExecutable *e;
  g_autofree char *why = NULL;
  int32_t code = kit_try_compile (k, g, NULL, &e);
  if (code != GRAMME_OK) {
    if (!k->said[0])
      kit_fail (k, "GPP-10", "answers %d, and has no message", code);
    return false;
  }
  code = kit_try_run (k, e, GRAMME_FORWARD, g, in, want, NULL, &why);
  if (code == GRAMME_OK && why)
    kit_fail (k, NULL, "says OK although something failed, and %s", why);
  kit_destroy (k, e);
  return code == GRAMME_OK;
}

static GmGraph *
graph_with_constants (Kit *k)
{
  kit_open (k);
  kit_learn (k);
  for (uint32_t i = 0; i < 200; i++) {
    /* Finds a graph for which the plugin asks the host for memory, if there is one. */
    uint64_t seed;
    GmGraph *g = kit_random_graph (k, i, (GmRandomGraph){ .n_nodes = 10, .no_empty = true }, &seed),
            *taken = NULL;
    uint64_t before = k->host.n_allocs;
    GrammeExecutable *e;
    if (g->outputs->len && kit_takes_all (k, g) && kit_try_compile (k, g, NULL, &e) == GRAMME_OK) {
      kit_destroy (k, e);
      taken = k->host.n_allocs > before ? g : NULL;
    }
    if (taken)
      return taken;
    gm_graph_free (g);
  }
  return kit_small_graph (k, 3, 4);
}

void
kit_errors_allocation (Kit *k)
{
  g_autoptr (GmGraph) g = graph_with_constants (k);
  GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME), **want = kit_interpret (k, g, in);
  unsigned failures = 0;
  for (; failures < MAX_FAILURES; failures++) {
    k->host.n_allocs = 0;
    k->host.fail_at = failures + 1;
    bool good = try_once (k, g, in, want);
    bool reached = k->host.n_allocs >= k->host.fail_at;
    k->host.fail_at = 0;
    if (!try_once (k, g, in, want))
      kit_fail (k, NULL, "after allocation %u had failed it does not work any more", failures + 1);
    if (!reached || (good && k->host.n_allocs == 0))
      break;
  }
  kit_note (k, "%u allocations of the host's memory failed in turn", failures);
  kit_free_tensors (in, g->inputs->len);
  kit_free_tensors (want, g->outputs->len);
  kit_close (k);
  if (k->host.live_blocks)
    kit_fail (k, "GPP-12", "has %" G_GUINT64_FORMAT " blocks of the host's memory after close",
              k->host.live_blocks);
}

/* kit_malloc_fail makes the program's malloc (kit_malloc.c) fail in the n-th call from the plugin's
 * own code; kit_malloc_count returns their number. */
void kit_malloc_fail (const void *from, const void *to, uint64_t at);
uint64_t kit_malloc_count (void);

typedef struct {
  const void *inside, *from, *to;
} Range;

static int
find_range (struct dl_phdr_info *info, size_t size, void *data)
{
  Range *r = data;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW (Phdr) *p = &info->dlpi_phdr[i];
    const char *from = (const char *) info->dlpi_addr + p->p_vaddr;
    if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && (const char *) r->inside >= from
        && (const char *) r->inside < from + p->p_memsz) {
      r->from = from;
      r->to = from + p->p_memsz;
      return 1;
    }
  }
  return 0;
}

void
kit_errors_no_memory (Kit *k)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  kit_skip (k, "the sanitizer has its own malloc");
#endif
  unsigned failures = 0;
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 3, 4);
  GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME), **want = kit_interpret (k, g, in);
  Range r = { 0 };
  memcpy (&r.inside, &k->plugin.api.compile, sizeof r.inside);
  if (!dl_iterate_phdr (find_range, &r))
    kit_skip (k, "its code is not found in memory");
  for (uint64_t n = 1; n < MAX_FAILURES; n++) {
    GrammeBackend *first = k->backend, *b = NULL;
    kit_malloc_fail (r.from, r.to, n);
    kit_doing (k, "opening it while its allocation %u fails", (unsigned) n);
    int32_t code = k->plugin.api.open (k->host.table, NULL, 0, &b, kit_status (k));
    if (code == GRAMME_OK) {
      k->backend = b;
      try_once (k, g, in, want);
    }
    uint64_t reached = kit_malloc_count ();
    kit_malloc_fail (NULL, NULL, 0);
    if (code == GRAMME_OK)
      k->plugin.api.close (b);
    k->backend = first;
    if (reached < n)
      break;
    failures++;
    if (!try_once (k, g, in, want))
      kit_fail (k, NULL, "after its allocation %u had failed it does not work any more", failures);
  }
  kit_note (k, "%u of its own allocations failed in turn", failures);
  kit_close (k);
}

void
kit_errors_run_grows (Kit *k)
{
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 4, 4);
  GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME), **want = kit_interpret (k, g, in);
  GrammeExecutable *e = kit_compile (k, g, NULL);
  k->times = 100; /* one-time work is done after the first run */
  kit_run (k, e, GRAMME_FORWARD, g, in, want, NULL);
  size_t before = mallinfo2 ().uordblks + mallinfo2 ().hblkhd;
  uint64_t blocks = k->host.live_bytes;
  k->times = 10000;
  kit_run (k, e, GRAMME_FORWARD, g, in, want, NULL);
  size_t after = mallinfo2 ().uordblks + mallinfo2 ().hblkhd;
  if (after > before + GROWTH_BYTES || k->host.live_bytes > blocks)
    kit_fail (k, NULL, "10,000 runs leave %zu bytes",
              after - before + (size_t) (k->host.live_bytes - blocks));
  kit_destroy (k, e);
  kit_close (k);
}

/* -- Status codes ------------------------------------------------------------------------------ */

void
kit_errors_flags (Kit *k)
{
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 2, 2);
  for (uint32_t bit = 8; bit < 32; bit += 5) {
    GrammeExecutable *e;
    k->flags = 1u << bit;
    int32_t code = kit_try_compile (k, g, NULL, &e);
    if (code != GRAMME_UNSUPPORTED)
      kit_fail (
          k, NULL,
          "answers %d to a request with flag %#x, which nobody knows yet: UNSUPPORTED is meant",
          code, k->flags);
  }
  kit_close (k);
}

void
kit_errors_messages (Kit *k)
{
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 2, 2);
  GrammeExecutable *e;
  k->flags = 1u << 30;
  if (kit_try_compile (k, g, NULL, &e) == GRAMME_OK)
    kit_destroy (k, e);
  else if (!k->said[0] || !g_utf8_validate (k->said, -1, NULL))
    kit_fail (k, NULL, "does not support a request, and its message is %s",
              k->said[0] ? "not UTF-8" : "empty");
  k->flags = 0;
  /* Nodes to which it said NO, which the host never sends. */
  static const char text[] = "odd (%x: f8e5m2[2, 3]) -> (%1) {\n %0 = cast %x dtype=f64\n %1 = "
                             "cumsum %0 dim=0 reverse=true\n}";
  g_autoptr (GmGraph) odd = kit_text_graph (k, text);
  if (!kit_takes_all (k, odd)) {
    int32_t code = kit_try_compile (k, odd, NULL, &e);
    if (code == GRAMME_OK)
      kit_destroy (k, e);
    else if (!k->said[0])
      kit_fail (k, NULL, "answers %d to what it does not take, and has no message", code);
  }
  kit_close (k);
}

void
kit_errors_tools (Kit *k)
{
  if (!g_strv_length (k->manifest->needs))
    kit_skip (k, "its manifest names no tools");
  g_setenv ("PATH", "/nonexistent", TRUE);
  g_setenv ("GRAMME_CC", "nonexistent-compiler", TRUE);
  kit_load (k);
  GrammeBackend *b = NULL;
  GrammeStatus *status = kit_status (k);
  kit_doing (k, "opening it without tools");
  int32_t code = k->plugin.api.open (k->host.table, NULL, 0, &b, status);
  if (code != GRAMME_OK) {
    if (!status->message[0])
      kit_fail (k, NULL, "open answers %d without its tools, and does not say what is missing",
                code);
    return;
  }
  k->backend = b;
  g_autoptr (GmGraph) g = kit_small_graph (k, 2, 2);
  GrammeExecutable *e;
  g_autofree char *why = NULL;
  code = kit_try_compile (k, g, NULL, &e);
  if (code == GRAMME_OK) {
    GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME);
    code = kit_try_run (k, e, GRAMME_FORWARD, g, in, NULL, NULL, &why);
    kit_destroy (k, e);
    if (code == GRAMME_OK)
      kit_note (k, "it works without its tools");
    g_strlcpy (k->said, why ? why : "", sizeof k->said);
  }
  if (code != GRAMME_OK && code != GRAMME_TOOLCHAIN)
    kit_fail (k, NULL, "answers %d without its tools, not TOOLCHAIN: %s", code, k->said);
  bool named = code == GRAMME_OK;
  for (char **n = k->manifest->needs; *n && !named; n++)
    named = strstr (k->said, *n) || strstr (k->said, "nonexistent-compiler");
  if (!named)
    kit_fail (k, NULL, "does not say which tool is missing: %s", k->said);
  kit_close (k);
}

/* -- Time -------------------------------------------------------------------------------------- */

void
kit_errors_stop (Kit *k)
{
  kit_open (k);
  g_autoptr (GmGraph) g = kit_chain (k, 8, 16, 60);
  uint64_t asked = 0, late = 0;
  for (uint64_t at = 1; at <= 50; at++) {
    GrammeExecutable *e;
    kit_host_watch (&k->host);
    k->host.stop_at = at;
    int32_t code = kit_try_compile (k, g, NULL, &e);
    uint64_t now = kit_now_ns ();
    asked = k->host.n_progress;
    k->host.stop_at = 0;
    if (asked < at) {
      if (code == GRAMME_OK)
        kit_destroy (k, e);
      break;
    }
    if (code != GRAMME_CANCELLED)
      kit_fail (k, NULL, "progress said stop at call %u, and compile answers %d, not CANCELLED",
                (unsigned) at, code);
    /* The machine may be busy. */
    if (asked == at && now - k->host.last_ns > STOP_MS * (uint64_t) 1000000 && ++late > 3)
      kit_fail (k, NULL, "goes on for %u ms after progress said stop",
                (unsigned) ((now - k->host.last_ns) / 1000000));
    GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME), **want = kit_interpret (k, g, in);
    e = kit_compile (k, g, NULL);
    kit_run (k, e, GRAMME_FORWARD, g, in, want, NULL);
    kit_destroy (k, e);
    kit_free_tensors (in, g->inputs->len);
    kit_free_tensors (want, g->outputs->len);
  }
  if (asked == 0)
    kit_note (k, "a compile of %u nodes is over before it asks whether to go on", g->nodes->len);
  kit_close (k);
}

void
kit_errors_progress (Kit *k)
{
  kit_open (k);
  uint64_t worst = 0;
  for (int i = 0; i < 3; i++) { /* the best of three, since the machine may be busy */
    g_autoptr (GmGraph) g = kit_chain (k, 8, 16, 500);
    GrammeExecutable *e;
    kit_host_watch (&k->host);
    if (kit_try_compile (k, g, NULL, &e) == GRAMME_OK)
      kit_destroy (k, e);
    uint64_t gap = MAX (k->host.longest_ns, kit_now_ns () - k->host.last_ns);
    worst = i == 0 ? gap : MIN (worst, gap);
  }
  if (worst > ASK_MS * (uint64_t) 1000000)
    kit_fail (k, NULL, "a compile goes on for %u ms without asking progress",
              (unsigned) (worst / 1000000));
  kit_close (k);
}
