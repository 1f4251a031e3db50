/* SPDX-License-Identifier: Apache-2.0
 * tensor.c -- making, sharing and releasing tensors; single elements.
 *
 * Structs come from the allocator's per-thread lists, so a small tensor costs three list
 * operations.  A view's base is always the tensor at the root, which keeps release flat: freeing a
 * view frees at most one more tensor.
 */
#include "core/tensor/tensor.h"

#include <string.h>

#include "core/tensor/alloc.h"
#include "core/tensor/device.h"
#include "core/tensor/storage.h"

void (*gm_tensor_autograd_free) (GmAutograd *ag);
uint64_t gm_tensor_watch_epoch;

/* Adds a reference. gatomicrefcount counts up from 1; the builtins avoid a call into GLib on the
 * hottest path. */
#define REF(rc) ((void) __atomic_fetch_add ((rc), 1, __ATOMIC_RELAXED))

/* Drops a reference; true if it was the last one. The holder of the only reference shares the
 * object with no other thread: no atomic write is needed. */
static inline bool
UNREF (gatomicrefcount *rc)
{
  return __atomic_load_n (rc, __ATOMIC_ACQUIRE) == 1
         || __atomic_fetch_sub (rc, 1, __ATOMIC_ACQ_REL) == 1;
}

/* -- Storage ----------------------------------------------------------------------------------- */

static GmStorage *
storage_new (void *data, size_t bytes)
{
  GmStorage *s = gm_block_take (sizeof *s);
  *s = (GmStorage){ .refs = 1, .data = data, .bytes = bytes, .born = gm_storage_epoch_get () };
  return s;
}

/* Largest memory that is allocated together with its storage, in one block, behind the struct. (Not
 * under AddressSanitizer: a write before the memory would hit the storage unnoticed.) */
#ifdef __SANITIZE_ADDRESS__
#define TOGETHER_MAX 0
#else
#define TOGETHER_MAX 2048
#endif
#define HEAD ((sizeof (GmStorage) + GM_ALLOC_ALIGN - 1) / GM_ALLOC_ALIGN * GM_ALLOC_ALIGN)

/* Returns a storage with fresh memory; NULL: out of memory. */
static GmStorage *
storage_new_fresh (size_t bytes)
{
  void *data = NULL;
  if (bytes > TOGETHER_MAX || bytes == 0)
    return bytes && !(data = gm_alloc (bytes)) ? NULL : storage_new (data, bytes);
  GmStorage *s = gm_alloc_behind (HEAD, bytes);
  if (s)
    *s = (GmStorage){ .refs = 1,
                      .data = (char *) s + HEAD,
                      .bytes = bytes,
                      .together = true,
                      .born = gm_storage_epoch_get () };
  return s;
}

static void
companion_unref (GmCompanion *c)
{
  if (c && UNREF (&c->refs))
    c->destroy (c);
}

void
gm_tensor_set_companion (GmTensor *t, GmCompanion *c)
{
  GmCompanion *old = t->storage->companion;
  if (c)
    REF (&c->refs);
  t->storage->companion = c;
  companion_unref (old);
}

static void
storage_unref (GmStorage *s)
{
  if (!UNREF (&s->refs))
    return;
  companion_unref (s->companion);
  if (s->together) {
    size_t behind = s->bytes;
    if (G_UNLIKELY (s->data
                    != (char *) s + HEAD)) { /* memory that has grown is a block of its own */
      gm_free (s->data, s->bytes);
      behind = GPOINTER_TO_SIZE (s->owner);
    }
    gm_free_behind (s, HEAD, behind);
    return;
  }
  if (s->release)
    s->release (s->owner, s->data, s->bytes);
  else
    gm_free (s->data, s->bytes);
  gm_block_give (s, sizeof *s);
}

static GmCounter *
counter_ref (GmCounter *c)
{
  if (G_UNLIKELY (c != NULL))
    REF (&c->refs);
  return c;
}

static void
counter_unref (GmCounter *c)
{
  if (G_UNLIKELY (c != NULL) && UNREF (&c->refs))
    gm_block_give (c, sizeof *c);
}

/* -- Making ------------------------------------------------------------------------------------ */

/* Makes a tensor; steals the reference to `storage`. */
static GmTensor *
tensor_make (const GmMeta *m, int64_t offset, GmStorage *storage)
{
  GmTensor *t = gm_block_take (sizeof *t);
  t->refs = 1;
  t->watched = false;
  t->meta = *m;
  t->offset = offset;
  t->storage = storage;
  t->base = NULL;
  t->counter = NULL;
  t->autograd = NULL;
  t->wrapper = NULL;
  return t;
}

/* Computes the bytes that the meta needs; false on overflow. */
static inline bool
meta_bytes (const GmMeta *m, size_t *out)
{
  int64_t n = 1;
  bool fits = true;
  for (int i = 0; i < m->ndim; i++) {
    int64_t size = m->sizes[i];
    g_assert (size >= 0);
    if (size == 0) {
      *out = 0;
      return true;
    }
    fits &= !__builtin_mul_overflow (n, size, &n);
  }
  int64_t bytes;
  fits &= !__builtin_mul_overflow (n, (int64_t) gm_dtype_size (m->dtype), &bytes);
  *out = (size_t) bytes;
  return fits;
}

static GmTensor *
fail_memory (const GmMeta *m, GError **error)
{
  g_autofree char *text = gm_meta_text (m);
  size_t bytes;
  if (!meta_bytes (m, &bytes))
    g_set_error (
        error, GM_ERROR, GM_ERROR_MEMORY,
        "cannot make a tensor %s: its size in bytes does not fit in 63 bits; check the sizes",
        text);
  else
    g_set_error (error, GM_ERROR, GM_ERROR_MEMORY,
                 "cannot allocate %zu bytes for a tensor %s (%zu bytes are in use); make it "
                 "smaller, or drop tensors "
                 "that are no longer needed",
                 bytes, text, gm_alloc_live_bytes ());
  return NULL;
}

static GmTensor *
new_on_device (const GmMeta *m, size_t bytes, GError **error)
{
  const GmDevice *d = gm_device_get (m->device, error);
  void *data = NULL;
  if (!d || (bytes && !(data = d->alloc (bytes, error))))
    return NULL;
  GmTensor *t = tensor_make (m, 0, storage_new (data, bytes));
  t->storage->release = bytes ? d->release : NULL;
  t->meta.requires_grad = 0;
  return t;
}

GmTensor *
gm_tensor_new (const GmMeta *m, GError **error)
{
#ifdef GM_DEBUG_CHECKS
  g_assert (gm_meta_is_dense (m));
#endif
  size_t bytes;
  bool fits = meta_bytes (m, &bytes);
  if (G_UNLIKELY (m->device != GM_DEVICE_CPU) && fits)
    return new_on_device (m, bytes, error);
  GmStorage *storage = G_LIKELY (fits) ? storage_new_fresh (bytes) : NULL;
  if (G_UNLIKELY (!storage))
    return fail_memory (m, error);
  GmTensor *t = tensor_make (m, 0, storage);
  t->meta.requires_grad = 0;
  return t;
}

GmTensor *
gm_tensor_new_zeros (const GmMeta *m, GError **error)
{
  if (G_UNLIKELY (m->device != GM_DEVICE_CPU)) {
    g_autoptr (GmTensor) there = gm_tensor_new (m, error);
    size_t bytes = there ? there->storage->bytes : 0;
    if (there
        && (!bytes || gm_device_get (m->device, error)->zero (there->storage->data, bytes, error)))
      return g_steal_pointer (&there);
    return NULL;
  }
  GmTensor *t = gm_tensor_new (m, error);
  if (t && t->storage->bytes)
    memset (t->storage->data, 0, t->storage->bytes);
  return t;
}

GmTensor *
gm_tensor_new_scalar (GmScalar s, GmDtype dtype, GError **error)
{
  GmMeta m = gm_meta_make (dtype, 0, NULL);
  GmTensor *t = gm_tensor_new (&m, error);
  if (t)
    gm_scalar_store (s, dtype, t->storage->data);
  return t;
}

GmTensor *
gm_tensor_new_view (GmTensor *t, const GmMeta *m, int64_t offset)
{
  REF (&t->storage->refs);
  GmTensor *v = tensor_make (m, offset, t->storage), *base = gm_tensor_view_base (t);
  v->base = gm_tensor_ref (base ? base : t);
  v->counter = counter_ref (t->counter);
  return v;
}

void
gm_tensor_leave_base (GmTensor *t)
{
  if (!t->base || t->base->storage == t->storage)
    return;
  GmTensor *old = t->base;
  t->base = NULL;
  gm_tensor_unref (old);
}

GmTensor *
gm_tensor_new_alias (GmTensor *t)
{
  REF (&t->storage->refs);
  GmTensor *a = tensor_make (&t->meta, t->offset, t->storage);
  a->meta.requires_grad = 0;
  a->counter = counter_ref (t->counter);
  return a;
}

void
gm_tensor_count_apart (GmTensor *t)
{
  counter_unref (t->counter);
  t->counter = gm_block_take (sizeof *t->counter);
  *t->counter = (GmCounter){ .refs = 1 };
}

void
gm_tensor_become (GmTensor *t, const GmTensor *src)
{
  GmStorage *old = t->storage;
  GmCounter *counter = t->counter;
  uint8_t requires_grad = t->meta.requires_grad;
  g_assert (t->meta.dtype == src->meta.dtype);
  REF (&src->storage->refs);
  t->counter = counter_ref (src->counter);
  counter_unref (counter);
  t->storage = src->storage;
  t->meta = src->meta;
  t->meta.requires_grad = requires_grad;
  t->offset = src->offset;
  gm_tensor_meta_changed (t);
  if (t->storage == old)
    (*gm_tensor_writes (t))++;
  storage_unref (old);
}

/* Grows the memory. If storage and memory are one block (`together`), the old bytes behind the
 * struct stay allocated, unused, when the data moves: `owner` is their number. */
bool
gm_storage_grow (GmTensor *t, size_t bytes, GError **error)
{
  GmStorage *s = t->storage;
  if (bytes <= s->bytes)
    return true;
  if (s->release || s->readonly || t->meta.device != GM_DEVICE_CPU) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "Trying to resize storage that is not resizable: its %zu bytes are %s, and %zu "
                 "are asked for; clone () the tensor first",
                 s->bytes, t->meta.device == GM_DEVICE_CPU ? "another library's" : "a device's",
                 bytes);
    return false;
  }
  void *data = gm_alloc (bytes);
  if (!data) {
    g_set_error (error, GM_ERROR, GM_ERROR_MEMORY,
                 "cannot allocate %zu bytes for a tensor that is resized", bytes);
    return false;
  }
  if (s->bytes)
    memcpy (data, s->data, s->bytes);
  memset ((char *) data + s->bytes, 0, bytes - s->bytes); /* zeros: the same contents in plain
                                                           * Python and compiled */
  if (!s->together)
    gm_free (s->data, s->bytes);
  else if (s->data == (char *) s + HEAD)
    s->owner = GSIZE_TO_POINTER (s->bytes);
  else
    gm_free (s->data, s->bytes);
  s->data = data;
  s->bytes = bytes;
  __atomic_fetch_add (&gm_tensor_watch_epoch, 1, __ATOMIC_RELAXED);
  return true;
}

GmTensor *
gm_tensor_resized (GmTensor *t, int ndim, const int64_t *sizes, GError **error)
{
  GmMeta m = gm_meta_make ((GmDtype) t->meta.dtype, ndim, sizes);
  size_t bytes, before = (size_t) t->offset * gm_dtype_size (t->meta.dtype);
  m.device = t->meta.device;
  if (!meta_bytes (&m, &bytes) || __builtin_add_overflow (bytes, before, &bytes))
    return fail_memory (&m, error);
  if (gm_meta_numel (&m) > 0 && !gm_storage_grow (t, bytes, error))
    return NULL;
  GmTensor *made = gm_tensor_new_alias (t);
  made->meta = m;
  return made;
}

GmTensor *
gm_tensor_new_foreign (const GmMeta *m, void *data, size_t bytes, bool readonly,
                       void (*release) (void *owner, void *data, size_t bytes), void *owner)
{
  GmStorage *s = storage_new (data, bytes);
  s->readonly = readonly;
  s->release = release;
  s->owner = owner;
  return tensor_make (m, 0, s);
}

/* -- Sharing ----------------------------------------------------------------------------------- */

GmTensor *
gm_tensor_ref (GmTensor *t)
{
  REF (&t->refs);
  return t;
}

void
gm_tensor_unref (GmTensor *t)
{
  if (!t || !UNREF (&t->refs))
    return;
  gm_tensor_meta_changed (t);
  if (t->autograd) {
    GmAutograd *ag = t->autograd;
    t->autograd = NULL;
    gm_tensor_autograd_free (ag);
  }
  storage_unref (t->storage);
  counter_unref (t->counter);
  GmTensor *base = t->base;
  gm_block_give (t, sizeof *t);
  gm_tensor_unref (base);
}

/* -- Elements ---------------------------------------------------------------------------------- */

static char *
element (const GmTensor *t, const int64_t *index)
{
  int64_t at = t->offset;
  for (int i = 0; i < t->meta.ndim; i++) {
    g_assert (index[i] >= 0 && index[i] < t->meta.sizes[i]);
    at += index[i] * t->meta.strides[i];
  }
  return (char *) t->storage->data + at * (int64_t) gm_dtype_size (t->meta.dtype);
}

/* Moves one element to another device's memory (to_device) or from there. */
static bool
move_element (const GmTensor *t, const int64_t *index, void *bits, bool to_device)
{
  g_autoptr (GError) error = NULL;
  const GmDevice *d = gm_device_get (t->meta.device, &error);
  size_t bytes = gm_dtype_size (t->meta.dtype);
  bool good =
      d
      && (to_device
              ? d->copy (element (t, index), t->meta.device, bits, GM_DEVICE_CPU, bytes, &error)
              : d->copy (bits, GM_DEVICE_CPU, element (t, index), t->meta.device, bytes, &error));
  if (!good)
    g_warning ("an element of a tensor on device %s is lost: %s", gm_device_name (t->meta.device),
               error->message);
  return good;
}

GmScalar
gm_tensor_get (const GmTensor *t, const int64_t *index)
{
  uint64_t bits = 0;
  if (G_UNLIKELY (t->meta.device != GM_DEVICE_CPU)) {
    move_element (t, index, &bits, false);
    return gm_scalar_load ((GmDtype) t->meta.dtype, &bits);
  }
  return gm_scalar_load ((GmDtype) t->meta.dtype, element (t, index));
}

void
gm_tensor_set (GmTensor *t, const int64_t *index, GmScalar s)
{
  uint64_t bits = 0;
  if (G_UNLIKELY (t->meta.device != GM_DEVICE_CPU)) {
    gm_scalar_store (s, (GmDtype) t->meta.dtype, &bits);
    move_element (t, index, &bits, true);
    return;
  }
  gm_scalar_store (s, (GmDtype) t->meta.dtype, element (t, index));
}

/* Finds the bytes that t can reach: [*lo, *hi); empty if both are equal. */
static void
reach (const GmTensor *t, uintptr_t *lo, uintptr_t *hi)
{
  const int64_t size = gm_dtype_size (t->meta.dtype);
  int64_t first = t->offset, last = t->offset;
  for (int i = 0; i < t->meta.ndim; i++) {
    if (t->meta.sizes[i] == 0) {
      *lo = *hi = 0;
      return;
    }
    int64_t step = (t->meta.sizes[i] - 1) * t->meta.strides[i];
    *(step < 0 ? &first : &last) += step;
  }
  *lo = (uintptr_t) t->storage->data + (uintptr_t) (first * size);
  *hi = (uintptr_t) t->storage->data + (uintptr_t) ((last + 1) * size);
}

bool
gm_tensor_may_overlap (const GmTensor *a, const GmTensor *b)
{
  /* Addresses, not storages: two storages may stand for the same foreign memory. */
  uintptr_t a_lo, a_hi, b_lo, b_hi;
  reach (a, &a_lo, &a_hi);
  reach (b, &b_lo, &b_hi);
  return a_lo < b_hi && b_lo < a_hi && a_lo != a_hi && b_lo != b_hi;
}
