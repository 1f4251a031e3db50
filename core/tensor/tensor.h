/* SPDX-License-Identifier: Apache-2.0
 * tensor.h -- strided tensors over shared, reference-counted storage.
 *
 * A tensor is a meta, an offset and a storage; views share the storage.  The version counter is the
 * storage's, except for tensors of x.data: any write through any view advances it, and autograd
 * compares it.  Autograd's own state hangs off `autograd`, which is opaque to this room
 * (core/autograd sets the destroy function).
 * Threads: reference counts are atomic; the caller protects contents and metadata (Python: the
 * GIL).
 */
#ifndef GM_TENSOR_TENSOR_H
#define GM_TENSOR_TENSOR_H

#include "core/base/error.h"
#include "core/tensor/meta.h"

/* Object of a language that the elements stand for. A companion lives as long as the storage, and
 * as its copies made with gm_tensor_share_companion. */
typedef struct GmCompanion {
  gatomicrefcount refs;
  void (*destroy) (struct GmCompanion *c);
} GmCompanion;

typedef struct GmStorage {
  gatomicrefcount refs;
  uint32_t version; /* advanced by every in-place write */
  void *data;       /* NULL only if bytes == 0 */
  size_t bytes;
  bool together; /* data stands behind this struct, in its block: tensor.c */
  uint32_t born; /* gm_storage_epoch at its birth */
  bool readonly; /* e.g. a read-only buffer from Python: in-place ops on it are refused */
  void (*release) (void *owner, void *data, size_t bytes); /* NULL: gm_alloc's */
  void *owner;
  GmCompanion *companion; /* owned, or NULL */
} GmStorage;

/* Number of the newest fence of the process, advanced by each fence that is raised (fence.h):
 * memory gets it at its birth. Only memory whose elements no other tensor has may be given the new
 * number. */
extern uint32_t gm_storage_epoch;

static inline uint32_t
gm_storage_epoch_get (void)
{
  return __atomic_load_n (&gm_storage_epoch, __ATOMIC_RELAXED);
}

/* A counter of writes that the storage's counter does not count: writes to x.data and to its views.
 */
typedef struct {
  gatomicrefcount refs;
  uint32_t version;
} GmCounter;

typedef struct GmAutograd GmAutograd; /* core/autograd */

typedef struct GmTensor {
  gatomicrefcount refs;
  bool watched; /* a change of its meta, or its end, advances gm_tensor_watch_epoch */
  GmMeta meta;
  int64_t offset; /* elements from storage->data to element [0, ..., 0] */
  GmStorage *storage;
  struct GmTensor *base; /* owned; the tensor this is a view of (never itself a view), or NULL */
  GmCounter *counter;    /* owned, or NULL: the storage's version counts */
  GmAutograd *autograd;  /* owned through gm_tensor_autograd_free; NULL until something needs it */
  void *wrapper;         /* borrowed: the Python object of this tensor while it exists */
} GmTensor;

/* Advanced when a watched tensor's meta changes and when a watched tensor dies: while it is
 * unchanged, all metas read from watched tensors hold.  Code that writes to the meta of a tensor
 * that other code may hold must call gm_tensor_meta_changed. */
extern uint64_t gm_tensor_watch_epoch;

static inline uint64_t
gm_tensor_watch_epoch_get (void)
{
  return __atomic_load_n (&gm_tensor_watch_epoch, __ATOMIC_RELAXED);
}

static inline void
gm_tensor_watch (GmTensor *t)
{
  t->watched = true;
}

static inline void
gm_tensor_meta_changed (GmTensor *t)
{
  if (G_UNLIKELY (t->watched))
    __atomic_fetch_add (&gm_tensor_watch_epoch, 1, __ATOMIC_RELAXED);
}

/* Returns the tensor that t is a view of (borrowed); NULL if there is none, or if that tensor has
 * moved to other memory since. */
static inline struct GmTensor *
gm_tensor_view_base (const struct GmTensor *t)
{
  return t->base && t->base->storage == t->storage ? t->base : NULL;
}

/* Drops t's base after the base got other memory (set_): t is no longer a view of it. Other views
 * are unchanged. */
void gm_tensor_leave_base (GmTensor *t);

#define gm_tensor_data(t)                                                                          \
  ((void *) ((char *) (t)->storage->data + (t)->offset * (int64_t) gm_dtype_size ((t)->meta.dtype)))

/* Returns a new tensor with strides as in `m` (must be dense, non-overlapping) and uninitialised
 * memory; reference count 1.  Errors: GM_ERROR_MEMORY if the bytes overflow or cannot be had.
 * requires_grad of `m` is ignored (0). */
GmTensor *gm_tensor_new (const GmMeta *m, GError **error);
GmTensor *gm_tensor_new_zeros (const GmMeta *m, GError **error);
/* Returns a 0-d CPU tensor holding `s` as `dtype`.  Fails only for lack of memory. */
GmTensor *gm_tensor_new_scalar (GmScalar s, GmDtype dtype, GError **error);
/* Returns a view: shares storage, base = t->base or t.  offset in elements from the storage's
 * start. */
GmTensor *gm_tensor_new_view (GmTensor *t, const GmMeta *m, int64_t offset);
/* Returns another tensor on the same storage with no base relation and no autograd state (detach,
 * DLPack). */
GmTensor *gm_tensor_new_alias (GmTensor *t);
/* Returns the counter of writes to t. */
static inline uint32_t *
gm_tensor_writes (const GmTensor *t)
{
  return G_UNLIKELY (t->counter != NULL) ? &t->counter->version : &t->storage->version;
}
/* Gives t, an alias that is not used yet, a counter of its own writes, from 0. */
void gm_tensor_count_apart (GmTensor *t);
/* Replaces t's memory, offset, shape and strides by those of `src`, of the same dtype; t keeps its
 * identity, its autograd state, requires_grad and its base. If src shares t's memory the version
 * advances, as for a write; other memory has its own version. */
void gm_tensor_become (GmTensor *t, const GmTensor *src);
/* Returns a tensor over foreign memory; release (owner, data, bytes) is called once, when the
 * storage dies. */
GmTensor *gm_tensor_new_foreign (const GmMeta *m, void *data, size_t bytes, bool readonly,
                                 void (*release) (void *owner, void *data, size_t bytes),
                                 void *owner);
GmTensor *gm_tensor_ref (GmTensor *t);
void gm_tensor_unref (GmTensor *t); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmTensor, gm_tensor_unref)

/* Gives t's storage the companion `c`, to which it adds a reference; NULL: none. */
void gm_tensor_set_companion (GmTensor *t, GmCompanion *c);
/* Shares the companion of `from` with `to`, which received the elements of `from`. */
static inline void
gm_tensor_share_companion (GmTensor *to, const GmTensor *from)
{
  if (G_UNLIKELY (from->storage->companion))
    gm_tensor_set_companion (to, from->storage->companion);
}

/* Frees the autograd state of a tensor. Set once by core/autograd. */
extern void (*gm_tensor_autograd_free) (GmAutograd *ag);

/* gm_tensor_get reads, gm_tensor_set writes the element at `index` (ndim entries, in range:
 * asserted). */
GmScalar gm_tensor_get (const GmTensor *t, const int64_t *index);
void gm_tensor_set (GmTensor *t, const int64_t *index, GmScalar s);

/* True if memory of a and b can overlap: exact for "same storage and byte ranges overlap",
 * conservative inside. */
bool gm_tensor_may_overlap (const GmTensor *a, const GmTensor *b);

/* The options of printing tensors, for the whole process. */
typedef struct {
  int precision;     /* digits behind the point */
  int64_t threshold; /* tensors of more elements are summarised */
  int edge;          /* number of elements shown at each edge then */
  int line_width;
  int scientific; /* 1 or 0; -1: decided by the numbers */
} GmPrintOptions;
#define GM_PRINT_OPTIONS_DEFAULT                                                                   \
  {                                                                                                \
    4, 1000, 3, 80, -1                                                                             \
  }
extern GmPrintOptions gm_print_options;

/* Returns t as torch prints it: tensor([[1., 2.], ...], dtype=...), summarised above
 * gm_print_options.threshold elements.  `suffix` is put before the last parenthesis (",
 * requires_grad=True"), NULL for none.  Caller frees. */
char *gm_tensor_text (const GmTensor *t, const char *suffix);

/* -- Memory (alloc.c) -------------------------------------------------------------------------- */

/* Allocates 64-byte aligned memory from a caching allocator with size classes; NULL when there is
 * none (never aborts).  gm_free takes the size that was asked for.  Thread: any.  GM_FAIL_ALLOC=k
 * makes the k-th call fail (tests). */
void *gm_alloc (size_t bytes);
void gm_free (void *p, size_t bytes);
/* Return the bytes in live allocations now, and the highest number since gm_alloc_reset_peak. */
size_t gm_alloc_live_bytes (void);
size_t gm_alloc_peak_bytes (void);
void gm_alloc_reset_peak (void);

#endif
