/* SPDX-License-Identifier: Apache-2.0
 * fake_cuda.c -- a driver without a GPU, for tests: GRAMME_CUDA_DRIVER names this library.
 *
 * Its "CUBIN" is a shared object, which fake_nvrtc.c makes.  Kernels run as coroutines (threads.c).
 * It is stricter than a GPU:
 *   - device addresses carry a mark that no processor takes: host code that touches device memory
 *     dies, and a kernel that is given anything but an address of live device memory makes the
 *     launch fail;
 *   - memory ends where a page begins that nobody may touch (or up to 15 bytes before; those are
 *     watched), is full of rubbish at first, and taken away when it is freed;
 *   - a device's own stream, the first that is made, cannot be captured: what other threads launch
 *     there would be captured, too;
 *   - nothing runs before a wait: launches and copies are queued by stream, and run when that
 *     stream is waited for; a wait for an event runs the event's stream up to it, and no further.
 *     So code that forgets to wait reads rubbish.
 *
 * GM_FAKE_CAPABILITY (90) and GM_FAKE_VERSION (13000) are the GPU's and the driver's.
 * GM_FAKE_WIDE gives the kernel with 64-bit indices where there are two.
 * GM_FAKE_CAPTURE=0 captures nothing; GM_FAKE_VERBOSE prints the graphs that are launched, and the
 * error that ends the context.
 * GM_FAKE_FAIL=kernel:N makes launch N (from 1) end with an illegal address, alloc:N the N-th
 * allocation run out of memory.
 */
#include "tests/gpu/fake_cuda.h"
#include "tests/gpu/threads.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MARK ((uint64_t) 1 << 62)
#define MAX_BLOCKS 65536
#define ZONE 0xc3 /* fills the rest of the pages around blocks */

typedef unsigned long long Address;

enum {
  OK = 0,
  INVALID = 1,
  OUT_OF_MEMORY = 2,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  LAUNCH_FAILED = 719,
  NOT_SUPPORTED = 801
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int sticky; /* the error that has ended the context */
static char sticky_text[256];

/* -- Memory ------------------------------------------------------------------------------------ */

typedef struct {
  char *map;
  size_t mapped, bytes;
  char *data;
} Block;

static Block blocks[MAX_BLOCKS];
static unsigned n_blocks;
static size_t in_use;

static const Block *
find_block (Address address, size_t bytes)
{
  uint64_t at = address & ~MARK;
  for (unsigned i = n_blocks; address & MARK && i-- > 0;)
    if (blocks[i].map && at >= (uint64_t) (uintptr_t) blocks[i].data
        && at + bytes <= (uint64_t) (uintptr_t) blocks[i].data + blocks[i].bytes)
      return &blocks[i];
  return NULL;
}

static char *
host_of (Address address)
{
  return (char *) (uintptr_t) (address & ~MARK);
}

static long
number_of (const char *variable, long absent)
{
  const char *text = getenv (variable);
  return text && *text ? atol (text) : absent;
}

static long
fails_at (const char *what)
{
  const char *text = getenv ("GM_FAKE_FAIL");
  size_t n = strlen (what);
  return text && !strncmp (text, what, n) && text[n] == ':' ? atol (text + n + 1) : 0;
}

static int flush (void);

EXPORT int
cuMemAlloc_v2 (Address *out, size_t bytes)
{
  static long n_allocs;
  size_t page = (size_t) sysconf (_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
  pthread_mutex_lock (&lock);
  Block *b = NULL;
  for (unsigned i = 0; i < n_blocks && !b; i++)
    if (!blocks[i].map)
      b = &blocks[i];
  if (!b && n_blocks < MAX_BLOCKS)
    b = &blocks[n_blocks++];
  int result = b && bytes && ++n_allocs != fails_at ("alloc") ? OK : OUT_OF_MEMORY;
  if (result == OK) {
    char *map =
        mmap (NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect (map + page, room, PROT_READ | PROT_WRITE) != 0) {
      result = OUT_OF_MEMORY;
    } else {
      *b = (Block){ .map = map,
                    .mapped = room + 2 * page,
                    .bytes = bytes,
                    .data = map + page + (room - bytes) / 16 * 16 };
      memset (map + page, ZONE, room);
      memset (b->data, 0xa5, bytes);
      *out = (uint64_t) (uintptr_t) b->data | MARK;
      in_use += bytes;
    }
  }
  pthread_mutex_unlock (&lock);
  return result;
}

EXPORT int
cuMemFree_v2 (Address address)
{
  pthread_mutex_lock (&lock);
  int result = flush ();
  Block *b = (Block *) find_block (address, 1);
  if (b && b->data == host_of (address)) {
    size_t page = (size_t) sysconf (_SC_PAGESIZE);
    for (char *c = b->map + page; c < b->map + b->mapped - page; c++)
      if ((c < b->data || c >= b->data + b->bytes) && (unsigned char) *c != ZONE) {
        fprintf (stderr,
                 "fake driver: a kernel wrote beside its memory, %td bytes from the start of a "
                 "block of %zu\n",
                 c - b->data, b->bytes);
        abort ();
      }
    in_use -= b->bytes;
    munmap (b->map, b->mapped);
    *b = (Block){ 0 };
  } else {
    result = INVALID;
  }
  pthread_mutex_unlock (&lock);
  return result;
}

EXPORT int
cuMemGetInfo_v2 (size_t *free_bytes, size_t *total)
{
  *total = (size_t) 4 << 30;
  *free_bytes = *total - in_use;
  return OK;
}

/* -- Modules ----------------------------------------------------------------------------------- */

typedef struct {
  void *handle;
  char *shared;
  unsigned long shared_bytes;
} Module;

typedef struct {
  const Module *module;
  void (*run) (void *const *);
  unsigned n_args, n_sizes;
} Function;

/* An image is "GMSIM", its length in decimal, a newline, and the shared object. */
EXPORT int
cuModuleLoadData (void **module, const void *image)
{
  char name[64];
  size_t length = 0;
  int head = 0;
  if (sscanf (image, "GMSIM %zu\n%n", &length, &head) != 1 || head == 0)
    return 209;
  static unsigned number;
  snprintf (name, sizeof name, "/tmp/gramme-sim-%d-%u.so", getpid (),
            __atomic_add_fetch (&number, 1, __ATOMIC_RELAXED));
  Module *m = calloc (1, sizeof *m);
  /* A new name, since the loader identifies files by their names. */
  FILE *f = m ? fopen (name, "wx") : NULL;
  bool good = f && fwrite ((const char *) image + head, 1, length, f) == length;
  if (f && fclose (f) != 0)
    good = false;
  if (!good) {
    free (m);
    return OUT_OF_MEMORY;
  }
  m->handle = dlopen (name, RTLD_NOW | RTLD_LOCAL);
  unlink (name);
  if (!m->handle) {
    fprintf (stderr, "fake driver: %s\n", dlerror ());
    free (m);
    return 218;
  }
  *(struct gm_sim **) dlsym (m->handle, "gm_sim") = &gm_simulation;
  char *(*shared) (unsigned long *) = (char *(*) (unsigned long *) ) dlsym (m->handle, "gm_shared");
  m->shared = shared (&m->shared_bytes);
  *module = m;
  return OK;
}

EXPORT int
cuModuleUnload (void *module)
{
  Module *m = module;
  pthread_mutex_lock (&lock);
  int result = flush ();
  pthread_mutex_unlock (&lock);
  dlclose (m->handle);
  free (m);
  return result;
}

EXPORT int
cuModuleGetFunction (void **function, void *module, const char *name)
{
  Module *m = module;
  char count[200], wide[160];
  snprintf (wide, sizeof wide, "%s_64", name);
  if (getenv ("GM_FAKE_WIDE") && dlsym (m->handle, wide))
    name = wide;
  snprintf (count, sizeof count, "%s_n_args", name);
  const unsigned *n = dlsym (m->handle, count);
  snprintf (count, sizeof count, "%s_n_sizes", name);
  const unsigned *n_sizes = dlsym (m->handle, count);
  void *run = dlsym (m->handle, name);
  Function *f = n && n_sizes && run ? malloc (sizeof *f) : NULL; /* never freed: there are few */
  if (!f)
    return NOT_FOUND;
  *f = (Function){ .module = m, .n_args = *n, .n_sizes = *n_sizes };
  memcpy (&f->run, &run, sizeof run);
  *function = f;
  return OK;
}

/* -- The queue --------------------------------------------------------------------------------- */

typedef struct Work {
  struct Work *next;
  enum { LAUNCH, CALL, COPY_IN, COPY_OUT, COPY, FILL, RECORD, WAIT } kind;
  int (*call) (void *data);
  size_t extra; /* bytes of args */
  struct Event *event;
  unsigned long number; /* number of the event's record */
  const Function *function;
  unsigned grid, block;
  Address to, from;
  void *host;
  unsigned char byte;
  size_t bytes;
  void *args[]; /* or the bytes to copy */
} Work;

typedef struct List {
  Work *first, **last;
} List;

typedef struct Stream {
  struct Stream *next;
  List list;
  List *captured; /* not NULL: requests go there */
  int is_first;   /* true for the first stream, a device's own, on which all threads launch */
} Stream;

/* `recorded`: number of the last record that was enqueued; `done`: of the last that has run. */
typedef struct Event {
  Stream *stream;
  unsigned long recorded, done;
} Event;

static Stream default_stream, *streams = &default_stream;

/* Returns the stream of a handle.  NULL and the driver's names of its default streams are the same
 * stream. */
static Stream *
stream_of (void *handle)
{
  return (uintptr_t) handle <= 2 ? &default_stream : handle;
}

static void
append (List *l, Work *w)
{
  if (!l->last)
    l->last = &l->first;
  *l->last = w;
  l->last = &w->next;
}

static int
add (Work *w, void *stream)
{
  Stream *s = stream_of (stream);
  if (!w)
    return OUT_OF_MEMORY;
  pthread_mutex_lock (&lock);
  int result = sticky;
  if (result) {
    free (w);
  } else {
    append (s->captured ? s->captured : &s->list, w);
  }
  pthread_mutex_unlock (&lock);
  return result;
}

static int
die (int result, const char *text)
{
  if (!sticky) {
    sticky = result;
    snprintf (sticky_text, sizeof sticky_text, "%s", text);
    if (getenv ("GM_FAKE_VERBOSE"))
      fprintf (stderr, "fake driver: %s\n", text);
  }
  return result;
}

static int
launch (Work *w)
{
  static long n_launches;
  void *args[1024];
  unsigned n = w->function->n_args;
  if (++n_launches == fails_at ("kernel"))
    return die (ILLEGAL_ADDRESS, "an illegal memory access was encountered");
  for (unsigned i = 0; i < n; i++) {
    Address a = (Address) (uintptr_t) w->args[i];
    if (a == 0) { /* a kernel without arguments, or a tensor without elements: reading it crashes */
      args[i] = NULL;
      continue;
    }
    if (!find_block (a, 0))
      return die (ILLEGAL_ADDRESS, "an argument is no address of device memory");
    args[i] = host_of (a);
  }
  for (unsigned i = 0; i < w->function->n_sizes; i++)
    args[n + i] = w->args[n + i];
  const char *wrong = gm_sim_run (w->function->run, args, w->grid, w->block,
                                  w->function->module->shared, w->function->module->shared_bytes);
  return wrong ? die (LAUNCH_FAILED, wrong) : OK;
}

static void run_next (Stream *s);

static int
run_work (Work *w)
{
  switch (w->kind) {
  case RECORD:
    w->event->done = w->number;
    return OK;
  case WAIT:
    while (w->event->done < w->number && w->event->stream->list.first)
      run_next (w->event->stream);
    return OK;
  case LAUNCH:
    return launch (w);
  case CALL: {
    int result = w->call (w->args);
    return result ? die (result, "a library's call failed") : OK;
  }
  case COPY_IN:
    if (!find_block (w->to, w->bytes))
      return die (INVALID, "a copy to no device memory");
    memcpy (host_of (w->to), w->args, w->bytes);
    return OK;
  case COPY_OUT:
    if (!find_block (w->from, w->bytes))
      return die (INVALID, "a copy from no device memory");
    memcpy (w->host, host_of (w->from), w->bytes);
    return OK;
  case COPY:
    if (!find_block (w->from, w->bytes) || !find_block (w->to, w->bytes))
      return die (INVALID, "a copy of no device memory");
    memmove (host_of (w->to), host_of (w->from), w->bytes);
    return OK;
  default:
    if (!find_block (w->to, w->bytes))
      return die (INVALID, "a fill of no device memory");
    memset (host_of (w->to), w->byte, w->bytes);
    return OK;
  }
}

/* Runs the stream's next request.  The caller holds the lock. */
static void
run_next (Stream *s)
{
  Work *w = s->list.first;
  s->list.first = w->next;
  if (!s->list.first)
    s->list.last = &s->list.first;
  if (!sticky)
    run_work (w);
  free (w);
}

static int
run_stream (Stream *s)
{
  while (s->list.first)
    run_next (s);
  return sticky;
}

/* Runs all streams, the youngest first. */
static int
flush (void)
{
  for (Stream *s = streams; s; s = s->next)
    run_stream (s);
  return sticky;
}

static Work *
work (int kind, size_t extra)
{
  Work *w = calloc (1, sizeof *w + extra);
  if (w) {
    w->kind = kind;
    w->extra = extra;
  }
  return w;
}

EXPORT int
cuLaunchKernel (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
                void **parameters, void **extra)
{
  const Function *f = function;
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 || block_y != 1
      || block_z != 1 || shared_bytes || extra)
    return INVALID;
  size_t bytes = (f->n_args + f->n_sizes) * sizeof (void *);
  Work *w = work (LAUNCH, bytes);
  if (w) {
    w->function = f;
    w->grid = grid_x;
    w->block = block_x;
    memcpy (w->args, parameters[0], bytes);
  }
  return add (w, stream);
}

int
fake_enqueue (void *stream, int (*run) (void *data), const void *data, size_t bytes)
{
  Work *w = work (CALL, bytes);
  if (w) {
    w->call = run;
    memcpy (w->args, data, bytes);
  }
  return add (w, stream);
}

char *
fake_memory (uint64_t address, size_t bytes)
{
  return find_block (address, bytes) ? host_of (address) : NULL;
}

/* -- Graphs ------------------------------------------------------------------------------------ */

EXPORT int
cuStreamBeginCapture_v2 (void *stream, int mode)
{
  Stream *s = stream_of (stream);
  if (mode != 2 || s == &default_stream || s->is_first || s->captured)
    return INVALID;
  if (number_of ("GM_FAKE_CAPTURE", 1) == 0)
    return NOT_SUPPORTED;
  s->captured = calloc (1, sizeof *s->captured);
  return s->captured ? OK : OUT_OF_MEMORY;
}

EXPORT int
cuStreamEndCapture (void *stream, void **graph)
{
  Stream *s = stream_of (stream);
  *graph = s->captured;
  s->captured = NULL;
  return *graph ? OK : INVALID;
}

static List *
copy_list (const List *from)
{
  List *l = calloc (1, sizeof *l);
  for (const Work *w = from->first; w && l; w = w->next) {
    Work *copy = work (w->kind, w->extra);
    if (!copy)
      abort ();
    memcpy (copy, w, sizeof *w + w->extra);
    copy->next = NULL;
    append (l, copy);
  }
  return l;
}

EXPORT int
cuGraphInstantiateWithFlags (void **executable, void *graph, unsigned long long flags)
{
  *executable = flags ? NULL : copy_list (graph);
  return *executable ? OK : INVALID;
}

EXPORT int
cuGraphLaunch (void *executable, void *stream)
{
  List *l = copy_list (executable);
  int result = l ? OK : OUT_OF_MEMORY;
  if (getenv ("GM_FAKE_VERBOSE"))
    fprintf (stderr, "fake driver: a graph is launched\n");
  for (Work *w = l ? l->first : NULL, *next; w; w = next) {
    next = w->next;
    w->next = NULL;
    int one = add (w, stream);
    result = result ? result : one;
  }
  free (l);
  return result;
}

EXPORT int
cuGraphDestroy (void *graph)
{
  List *l = graph;
  for (Work *w = l->first, *next; w; w = next) {
    next = w->next;
    free (w);
  }
  free (l);
  return OK;
}

EXPORT int
cuGraphExecDestroy (void *executable)
{
  return cuGraphDestroy (executable);
}

/* -- Copies ------------------------------------------------------------------------------------ */

EXPORT int
cuMemcpyHtoDAsync_v2 (Address to, const void *from, size_t bytes, void *stream)
{
  Work *w = work (COPY_IN, bytes);
  if (w) {
    w->to = to;
    w->bytes = bytes;
    memcpy (w->args, from, bytes);
  }
  return add (w, stream);
}

EXPORT int
cuMemcpyDtoHAsync_v2 (void *to, Address from, size_t bytes, void *stream)
{
  Work *w = work (COPY_OUT, 0);
  if (w) {
    w->host = to;
    w->from = from;
    w->bytes = bytes;
  }
  return add (w, stream);
}

EXPORT int
cuMemcpyDtoDAsync_v2 (Address to, Address from, size_t bytes, void *stream)
{
  Work *w = work (COPY, 0);
  if (w) {
    w->to = to;
    w->from = from;
    w->bytes = bytes;
  }
  return add (w, stream);
}

EXPORT int
cuMemsetD8Async (Address to, unsigned char byte, size_t n, void *stream)
{
  Work *w = work (FILL, 0);
  if (w) {
    w->to = to;
    w->byte = byte;
    w->bytes = n;
  }
  return add (w, stream);
}

EXPORT int
cuStreamSynchronize (void *stream)
{
  pthread_mutex_lock (&lock);
  int result = run_stream (stream_of (stream));
  pthread_mutex_unlock (&lock);
  return result;
}

EXPORT int
cuCtxSynchronize (void)
{
  pthread_mutex_lock (&lock);
  int result = flush ();
  pthread_mutex_unlock (&lock);
  return result;
}

EXPORT int
cuStreamQuery (void *stream)
{
  pthread_mutex_lock (&lock);
  int result = sticky ? sticky : stream_of (stream)->list.first ? NOT_READY : OK;
  pthread_mutex_unlock (&lock);
  return result;
}

EXPORT int
cuStreamCreate (void **stream, unsigned flags)
{
  Stream *s = calloc (1, sizeof *s);
  (void) flags;
  if (!s)
    return OUT_OF_MEMORY;
  pthread_mutex_lock (&lock);
  s->is_first = streams == &default_stream;
  s->next = streams;
  streams = s;
  pthread_mutex_unlock (&lock);
  *stream = s;
  return OK;
}

/* -- Events ------------------------------------------------------------------------------------ */

EXPORT int
cuEventCreate (void **event, unsigned flags)
{
  (void) flags;
  *event = calloc (1, sizeof (Event));
  return *event ? OK : OUT_OF_MEMORY;
}

EXPORT int
cuEventRecord (void *event, void *stream)
{
  Event *e = event;
  e->stream = stream_of (stream);
  if (!e->stream->list.first && !sticky) { /* there is nothing to wait for */
    e->done = ++e->recorded;
    return OK;
  }
  Work *w = work (RECORD, 0);
  if (w) {
    w->event = e;
    w->number = ++e->recorded;
  }
  return add (w, stream);
}

EXPORT int
cuStreamWaitEvent (void *stream, void *event, unsigned flags)
{
  Event *e = event;
  Work *w = e->stream ? work (WAIT, 0) : NULL;
  (void) flags;
  if (!e->stream)
    return OK; /* never recorded */
  if (w) {
    w->event = e;
    w->number = e->recorded;
  }
  return add (w, stream);
}

EXPORT int
cuEventQuery (void *event)
{
  Event *e = event;
  pthread_mutex_lock (&lock);
  int result = sticky ? sticky : e->done < e->recorded ? NOT_READY : OK;
  pthread_mutex_unlock (&lock);
  return result;
}

EXPORT int
cuEventSynchronize (void *event)
{
  Event *e = event;
  pthread_mutex_lock (&lock);
  while (e->done < e->recorded && e->stream->list.first)
    run_next (e->stream);
  int result = sticky;
  pthread_mutex_unlock (&lock);
  return result;
}

/* Returns any number of milliseconds, since nothing here takes time. */
EXPORT int
cuEventElapsedTime (float *ms, void *from, void *to)
{
  const Event *a = from, *b = to;
  if (!a->recorded || !b->recorded)
    return INVALID;
  if (a->done < a->recorded || b->done < b->recorded)
    return NOT_READY;
  *ms = 0.5f;
  return OK;
}

/* Frees nothing: a stream may still wait for the event. */
EXPORT int
cuEventDestroy_v2 (void *event)
{
  (void) event;
  return OK;
}

/* -- The rest of the driver -------------------------------------------------------------------- */

static int some; /* its address stands for the context */

#define TRIVIAL(name, parameters, body)                                                            \
  EXPORT int name parameters                                                                       \
  {                                                                                                \
    body;                                                                                          \
    return OK;                                                                                     \
  }
TRIVIAL (cuInit, (unsigned flags), (void) flags)
TRIVIAL (cuDriverGetVersion, (int *version), *version = (int) number_of ("GM_FAKE_VERSION", 13000))
TRIVIAL (cuDeviceGetCount, (int *n), *n = 1)
TRIVIAL (cuDeviceGet, (int *device, int ordinal), *device = ordinal)
TRIVIAL (cuDeviceGetName, (char *name, int room, int device),
         snprintf (name, (size_t) room, "simulated GPU %d", device))
TRIVIAL (cuDeviceTotalMem_v2, (size_t * bytes, int device), *bytes = (size_t) 4 << 30;
         (void) device)
TRIVIAL (cuDeviceGetAttribute, (int *value, int attribute, int device),
         *value = attribute == 75   ? (int) number_of ("GM_FAKE_CAPABILITY", 90) / 10
                  : attribute == 76 ? (int) number_of ("GM_FAKE_CAPABILITY", 90) % 10
                                    : 0;
         (void) device)
TRIVIAL (cuDevicePrimaryCtxRetain, (void **context, int device), *context = &some; (void) device)
TRIVIAL (cuCtxSetCurrent, (void *context), (void) context)
TRIVIAL (cuGetErrorName, (int error, const char **name),
         *name = error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                 : error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                          : "CUDA_ERROR_LAUNCH_FAILED")
TRIVIAL (cuGetErrorString, (int error, const char **text),
         *text = error == sticky ? sticky_text : "out of memory")
