/* SPDX-License-Identifier: Apache-2.0
 * threads.c -- see threads.h.
 *
 * A thread is a coroutine: a stack and its position on it.  It runs until it finishes, or waits for
 * its warp (a shuffle) or its block (a barrier).  A thread that finishes passes its stack to the
 * next, so kernels without shuffles and barriers run on one stack.
 * A shuffle leaves its value in one of two rows of the warp, in turn, since no thread can be two
 * shuffles ahead.
 */
#include "tests/gpu/threads.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_THREADS 1024
#define STACK_BYTES ((size_t) 64 * 1024)
#define WARP 32

typedef enum { FRESH, RUNS, WAITS_WARP, WAITS_BLOCK, LEAVES_BLOCK, DONE } State;

typedef struct {
  State state;
  void *sp;
  char *stack;
  unsigned shuffles; /* number of shuffles that it has reached */
} Thread;

typedef struct {
  unsigned values[2][WARP], arrived[2];
  unsigned complete; /* number of shuffles that all lanes have reached */
} Warp;

struct gm_sim gm_simulation;

static Thread threads[MAX_THREADS];
static Warp warps[MAX_THREADS / WARP];
static char *stacks[MAX_THREADS]; /* unused stacks */
static unsigned n_stacks;
static void *scheduler_sp;
static unsigned current, n_threads;
static void (*run_kernel) (void *const *);
static void *const *run_args;

/* -- Coroutines -------------------------------------------------------------------------------- */

/* Saves the registers that a call preserves on this stack, stores the stack pointer, and continues
 * on the other stack. */
void gm_sim_switch (void **save, void *to);
__asm__(".text\n"
        ".globl gm_sim_switch\n"
        ".hidden gm_sim_switch\n"
        ".type gm_sim_switch, @function\n"
        "gm_sim_switch:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size gm_sim_switch, .-gm_sim_switch\n");

static void
wait_as (State state)
{
  Thread *t = &threads[current];
  t->state = state;
  gm_sim_switch (&t->sp, scheduler_sp);
}

static void
begin (void)
{
  run_kernel (run_args);
  wait_as (DONE);
}

static void
resume (unsigned i)
{
  Thread *t = &threads[i];
  current = i;
  gm_simulation.thread = i;
  if (t->state == FRESH) {
    t->stack = stacks[--n_stacks];
    uint64_t *top = (uint64_t *) (void *) (t->stack + STACK_BYTES) - 8;
    memset (top, 0, 8 * sizeof *top);
    top[6] = (uint64_t) (uintptr_t) begin; /* return address of the first switch */
    t->sp = top;
  }
  t->state = RUNS;
  gm_sim_switch (&scheduler_sp, t->sp);
  if (t->state == DONE)
    stacks[n_stacks++] = t->stack;
}

/* -- What kernels call ------------------------------------------------------------------------- */

static unsigned
exchange (unsigned value, unsigned from)
{
  unsigned me = current, lane = me % WARP, number = ++threads[me].shuffles, row = number % 2;
  Warp *w = &warps[me / WARP];
  w->values[row][lane] = value;
  if (++w->arrived[row] == WARP) {
    w->arrived[row] = 0;
    w->complete = number;
  }
  wait_as (WAITS_WARP);
  return w->values[row][from < WARP ? from : lane];
}

static unsigned
down (unsigned value, int by)
{
  return exchange (value, current % WARP + (unsigned) by);
}

static void
barrier (void)
{
  wait_as (WAITS_BLOCK);
}

/* -- A block ----------------------------------------------------------------------------------- */

static bool
is_ready (unsigned i)
{
  const Thread *t = &threads[i];
  return t->state == FRESH || t->state == LEAVES_BLOCK
         || (t->state == WAITS_WARP && warps[i / WARP].complete >= t->shuffles);
}

static unsigned
common_divisor (unsigned a, unsigned b)
{
  while (b) {
    unsigned r = a % b;
    a = b;
    b = r;
  }
  return a;
}

/* Returns number i of a permutation of n. */
static unsigned
place (unsigned i, unsigned n, unsigned seed)
{
  const char *order = getenv ("GM_SIM_ORDER");
  if (order && !strcmp (order, "up"))
    return i;
  if (order && !strcmp (order, "down"))
    return n - 1 - i;
  unsigned step = 1 + 2 * (seed % 512);
  while (common_divisor (n, step) != 1)
    step += 2;
  return (unsigned) (((uint64_t) i * step + seed) % n);
}

static unsigned
count (State state)
{
  unsigned n = 0;
  for (unsigned i = 0; i < n_threads; i++)
    n += threads[i].state == state;
  return n;
}

static const char *
run_block (unsigned seed)
{
  memset (warps, 0, sizeof warps);
  for (unsigned i = 0; i < n_threads; i++)
    threads[i] = (Thread){ .state = FRESH };
  for (;;) {
    bool moved = false;
    unsigned first = place (0, n_threads, seed), second = place (n_threads > 1, n_threads, seed),
             step = (second + n_threads - first) % n_threads;
    for (unsigned i = 0, k = first; i < n_threads; i++, k = (k + step) % n_threads)
      if (is_ready (k)) {
        resume (k);
        moved = true;
      }
    if (count (DONE) == n_threads)
      return NULL;
    if (count (WAITS_BLOCK) == n_threads)
      for (unsigned i = 0; i < n_threads; i++)
        threads[i].state = LEAVES_BLOCK;
    else if (!moved)
      return count (WAITS_BLOCK) ? "some threads wait at a barrier to which others never come"
                                 : "some lanes wait in a shuffle to which others never come";
    seed = seed * 1103515245u + 12345u;
  }
}

const char *
gm_sim_run (void (*kernel) (void *const *), void *const *args, unsigned n_blocks, unsigned block,
            char *shared, size_t shared_bytes)
{
  static char *all;
  if (block > MAX_THREADS)
    return "a block has more than 1024 threads";
  if (!all) {
    all = mmap (NULL, MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
      abort ();
  }
  n_stacks = 0;
  for (unsigned i = 0; i < MAX_THREADS; i++)
    stacks[n_stacks++] = all + (size_t) i * STACK_BYTES;
  n_threads = block;
  run_kernel = kernel;
  run_args = args;
  const char *errors = getenv ("GM_SIM_ESTIMATES");
  if (!errors || sscanf (errors, "%d,%d", &gm_simulation.ex2_error, &gm_simulation.rcp_error) != 2)
    gm_simulation.ex2_error = gm_simulation.rcp_error = 0;
  gm_simulation.down = down;
  gm_simulation.from = exchange;
  gm_simulation.barrier = barrier;
  for (unsigned i = 0; i < n_blocks; i++) {
    gm_simulation.block = place (i, n_blocks, n_blocks * 7 + block);
    if (shared_bytes)
      memset (shared, 0xa5, shared_bytes);
    const char *wrong = run_block (gm_simulation.block * 2654435761u + 17);
    if (wrong)
      return wrong;
  }
  return NULL;
}
