/* SPDX-License-Identifier: Apache-2.0
 * kit_memory.c -- buffers between inaccessible pages, and the description of a fault.
 *
 * Every buffer is an area in a table.  A buffer that is taken away stays mapped without access
 * rights until its row of the table is reused, so that a pointer which was kept points to nothing
 * else meanwhile.  The handler finds the area of the address that faulted and reports the rule that
 * was broken; the processor distinguishes reads from writes.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "tools/kit/kit.h"

#define N_AREAS 16384
#define PATTERN 0xd7

static const struct {
  const char *read_beyond, *write_beyond, *inside;
} rules[KIT_N_KINDS] = {
  [KIT_RECORD] = { "GPP-2", "GPP-2", "GPP-4" },    [KIT_IMAGE] = { "GPP-2", "GPP-2", "GPP-4" },
  [KIT_INPUT] = { "GPP-8", "GPP-8", "GPP-4" },     [KIT_OUTPUT] = { "GPP-8", "GPP-8", "GPP-4" },
  [KIT_WORKSPACE] = { "GPP-8", "GPP-8", "GPP-4" },
};

typedef enum { UNUSED, LIVE, GONE } State;
typedef struct {
  char *map, *data;
  size_t map_bytes, bytes;
  State state;
  KitKind kind;
  char what[48];
} Area;

static Area areas[N_AREAS];
static uint32_t next_area;
static GMutex lock;
static size_t page;
static Kit *the_kit;

/* Returns the number of a free row, or else of the oldest buffer that was taken away. */
static uint32_t
take_area (void)
{
  for (uint32_t i = 0; i < N_AREAS; i++) {
    Area *a = &areas[next_area];
    uint32_t here = next_area;
    next_area = (next_area + 1) % N_AREAS;
    if (a->state == LIVE)
      continue;
    if (a->state == GONE)
      munmap (a->map, a->map_bytes);
    return here;
  }
  g_error ("more than %d buffers at once", N_AREAS);
}

static char *
map_between (size_t bytes, size_t *map_bytes)
{
  *map_bytes = (bytes + page - 1) / page * page + 2 * page;
  char *map =
      mmap (NULL, *map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED
      || mprotect (map + page, *map_bytes - 2 * page, PROT_READ | PROT_WRITE) != 0)
    g_error ("no memory for a buffer of %zu bytes", bytes);
  return map;
}

KitMem
kit_mem_new (Kit *k, KitKind kind, size_t bytes, size_t align, bool left, const char *what)
{
  KitMem m = { .bytes = bytes };
  if (!page)
    page = (size_t) sysconf (_SC_PAGESIZE);
  m.map = map_between (MAX (bytes, (size_t) 1), &m.map_bytes);
  char *first = m.map + page, *last = m.map + m.map_bytes - page;
  memset (first, PATTERN, (size_t) (last - first));
  m.data = left ? first : (char *) ((uintptr_t) (last - bytes) & ~(uintptr_t) (align - 1));
  g_mutex_lock (&lock);
  m.area = take_area ();
  Area *a = &areas[m.area];
  *a = (Area){ .map = m.map,
               .data = m.data,
               .map_bytes = m.map_bytes,
               .bytes = bytes,
               .state = LIVE,
               .kind = kind };
  g_strlcpy (a->what, what, sizeof a->what);
  g_mutex_unlock (&lock);
  return m;
}

static void
protect (const KitMem *m, int rights)
{
  if (mprotect (m->map + page, m->map_bytes - 2 * page, rights) != 0)
    g_error ("the rights of a page cannot be changed");
}

void
kit_mem_read_only (KitMem *m)
{
  protect (m, PROT_READ);
}

void
kit_mem_check (Kit *k, const KitMem *m)
{
  const char *first = m->map + page, *last = m->map + m->map_bytes - page;
  const Area *a = &areas[m->area];
  for (const char *c = first; c < last; c++) {
    if (c == m->data)
      c += m->bytes;
    if (c < last && *c != (char) PATTERN)
      kit_fail (k, rules[a->kind].write_beyond, "writes %td bytes %s %s (%zu bytes)",
                c < m->data ? m->data - c : c - m->data - (ptrdiff_t) m->bytes + 1,
                c < m->data ? "before" : "past the end of", a->what, m->bytes);
  }
}

void
kit_mem_take_away (Kit *k, KitMem *m)
{
  if (!m->map)
    return;
  protect (m, PROT_NONE);
  g_mutex_lock (&lock);
  areas[m->area].state = GONE;
  g_mutex_unlock (&lock);
  *m = (KitMem){ 0 };
}

/* -- Faults ------------------------------------------------------------------------------------ */

static bool
was_write (void *context)
{
#if defined(__x86_64__)
  return ((ucontext_t *) context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
  (void) context;
  return false;
#endif
}

static const char *
rule_beyond (const Area *a, bool write)
{
  if (a->kind == KIT_RECORD && the_kit->record_rule)
    return the_kit->record_rule;
  return write ? rules[a->kind].write_beyond : rules[a->kind].read_beyond;
}

/* Handles a fault: reports the area of the address and the broken rule, and ends the process. Calls
 * functions that are not safe in a handler, since this process ends anyway. */
static void
on_fault (int number, siginfo_t *info, void *context)
{
  const char *at = info->si_addr;
  bool write = was_write (context);
  for (uint32_t i = 0; i < N_AREAS; i++) {
    const Area *a = &areas[i];
    if (a->state == UNUSED || at < a->map || at >= a->map + a->map_bytes)
      continue;
    if (at < a->data)
      kit_fail (the_kit, rule_beyond (a, write), "%s %td bytes before %s (%zu bytes)",
                write ? "writes" : "reads", a->data - at, a->what, a->bytes);
    if (at >= a->data + a->bytes)
      kit_fail (the_kit, rule_beyond (a, write), "%s %td bytes past the end of %s (%zu bytes)",
                write ? "writes" : "reads", at - a->data - (ptrdiff_t) a->bytes + 1, a->what,
                a->bytes);
    if (a->state == GONE)
      kit_fail (the_kit, rules[a->kind].inside, "touches %s after the call that it was for",
                a->what);
    kit_fail (the_kit, rules[a->kind].inside, "writes to %s, which is read-only", a->what);
  }
  signal (number, SIG_DFL); /* another address: the default action follows */
}

void
kit_mem_catch_faults (Kit *k)
{
  static char stack[65536];
  const stack_t alternative = { .ss_sp = stack, .ss_size = sizeof stack };
  struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
  page = (size_t) sysconf (_SC_PAGESIZE);
  the_kit = k;
  sigemptyset (&action.sa_mask);
  sigaltstack (&alternative, NULL);
  sigaction (SIGSEGV, &action, NULL);
  sigaction (SIGBUS, &action, NULL);
}
