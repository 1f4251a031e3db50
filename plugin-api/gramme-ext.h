/* SPDX-License-Identifier: Apache-2.0
 * gramme-ext.h -- what host and plugin offer each other beyond their tables, by name.
 *
 * The host's: host->get_extension (host->ctx, ID).  A plugin's: its get_extension (b, ID).  Every
 * extension is a constant table with struct_size first, or NULL: there is no such thing here.  Ids
 * are matched exactly; the number after the slash is the extension's own version, and an
 * incompatible change is a new id.  Version 0 may still change; gramme-ext-draft.h has extensions
 * without enough experience yet.  Give your own a name of your domain: com.acme.trace/2.
 *
 * | id | whose | what for |
 * |---|---|---|
 * | gramme.kernels/0 | host | eager's kernels, one node at a time |
 * | gramme.tiles/0 | host | the primitives that kernels are made of |
 * | gramme.source/0 | host | the arithmetic of the tiles, as text to inline |
 * | gramme.threads/1 | host | the host's threads, for loops in a run |
 * | gramme.serialize/1 | plugin | executables as bytes, for a cache on disk |
 *
 * A back end on the CPU gets its bits right by using kernels or tiles: the arithmetic is written
 * once, in the host.  Thread tags are those of gramme-plugin.h.
 */
#ifndef GRAMME_EXT_H
#define GRAMME_EXT_H

#include "gramme-plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- Kernels: one node at a time --------------------------------------------------------------- */

#define GRAMME_KERNELS_ID "gramme.kernels/0"

typedef struct GrammeKernel
    GrammeKernel; /* the host's: a node decoded once; immutable, any thread may run it */

/* Runs nodes of all families but MOVEMENT and the op `constant`, on the CPU. The results are
 * eager's, to the last bit. A value of an image keeps its elements from the node that makes it to
 * the end of the executable's run: for that long the host may keep data that it derives from them,
 * such as a right-hand side that is packed for several products. All functions: [any]. */
typedef struct {
  uint32_t struct_size, reserved;
  void *ctx;
  /* Runs one node.  Decodes it in every call: for prototypes and constants folded at compile time.
   * The tensors must have the shapes and dtypes of the image's values; strides are the tensors'
   * own. */
  int32_t (*run_node) (void *ctx, const GrammeImage *image, uint32_t node, const GrammeTensor *in,
                       uint32_t n_in, const GrammeTensor *out, GrammeStatus *status);
  /* Decodes a node: op, attributes, and the geometry of inputs and result as the image has it.
   * Keeps nothing of the image. */
  int32_t (*prepare) (void *ctx, const GrammeImage *image, uint32_t node, GrammeKernel **out,
                      GrammeStatus *status);
  /* Makes a kernel that copies value `from`, laid out as the image has it, to the layout of `to`;
   * both have one shape and dtype. */
  int32_t (*prepare_copy) (void *ctx, const GrammeImage *image, uint32_t from, uint32_t to,
                           GrammeKernel **out, GrammeStatus *status);
  /* Runs a prepared node. data: the addresses of the first elements of the inputs, then of the
   * result. The result overlaps no input; that of a POINTWISE node may be an input: the same
   * address, dtype, sizes and strides. */
  int32_t (*run) (GrammeKernel *kernel, void *const *data, GrammeStatus *status);
  void (*release) (GrammeKernel *kernel);
  /* Computes the distance, in bytes, of a MOVEMENT node's first element from its input's; its
   * strides are in the image. */
  int32_t (*view_offset) (void *ctx, const GrammeImage *image, uint32_t node, int64_t *bytes,
                          GrammeStatus *status);
  /* Since minor 1. Does what `run` does, for a kernel whose node may have symbolic sizes or
   * strides; sizes: the values of the image's `sizes` rows (GrammeRunArgs). `run` refuses such a
   * kernel. */
  int32_t (*run_sized) (GrammeKernel *kernel, void *const *data, const int64_t *sizes,
                        GrammeStatus *status);
} GrammeKernels;

/* -- Tiles: the primitives that kernels are made of -------------------------------------------- */

#define GRAMME_TILES_ID "gramme.tiles/0"

/* Sets out[i] = value (a[i], b[i], c[i]) for i < n, any n; unused operands are NULL. out may be the
 * same pointer as an operand of the same element size, else it overlaps none. No alignment is
 * needed. */
typedef void (*GrammeTilePointwise) (void *out, const void *a, const void *b, const void *c,
                                     size_t n);
/* Sets out[i] = (out's type) in[i]. */
typedef void (*GrammeTileCast) (void *out, const void *in, size_t n);
/* Returns the dtype of accumulators: f16 and bf16 are summed in f32 and cast when all is folded,
 * every other dtype in itself. */
static inline uint32_t
gramme_tile_accumulator (uint32_t dtype)
{
  return dtype == GRAMME_DTYPE_F16 || dtype == GRAMME_DTYPE_BF16 ? GRAMME_DTYPE_F32 : dtype;
}
/* Sets *acc = combine (*acc, block (x[0..n))), n <= tile_elems, *acc of the accumulator's dtype:
 * one block of a reduction, in the order that makes bits equal. A reduction of N elements starts at
 * reduce_init and folds blocks of tile_elems one after the other, the last one shorter. */
typedef void (*GrammeTileFold) (void *acc, const void *x, size_t n);
/* Sets acc[j] = combine (acc[j], block (x[0..rows)[j])) for each column j < width, rows <=
 * tile_elems; row r begins row_stride_bytes * r after x, its elements are contiguous. The same bits
 * as a Fold over each column. */
typedef void (*GrammeTileFoldColumns) (void *acc, const void *x, ptrdiff_t row_stride_bytes,
                                       size_t rows, size_t width);
/* If some x[i] is better than *best, or *index < 0, sets *best = x[i] and *index = base + i for the
 * first best i. *best is of the accumulator's dtype. NaN is better than every number; the first NaN
 * stays. */
typedef void (*GrammeTileArgFold) (void *best, int64_t *index, const void *x, int64_t base,
                                   size_t n);
/* Copies n elements of 1, 2, 4 or 8 bytes from or to strided memory; strides in elements, any sign
 * or 0. */
typedef void (*GrammeTileGather) (void *out, const void *in, ptrdiff_t in_stride, size_t n,
                                  size_t elem_bytes);
typedef void (*GrammeTileScatter) (void *out, ptrdiff_t out_stride, const void *in, size_t n,
                                   size_t elem_bytes);
/* Writes Philox4x32-10 numbers: n values from element `first` of the stream (seed, draw offset). */
typedef void (*GrammeTileRandom) (void *out, uint64_t seed, uint64_t offset, uint64_t first,
                                  size_t n);
/* Computes C = A B, one pair of matrices. Sizes and strides in elements; each operand needs one of
 * its two strides to be 1, or must be copied first. C is row-major with row stride ldc. Equal
 * arguments give equal bits. k == 0 writes zeros. */
typedef void (*GrammeTileMatmul) (int64_t m, int64_t n, int64_t k, const void *a,
                                  int64_t a_row_stride, int64_t a_col_stride, const void *b,
                                  int64_t b_row_stride, int64_t b_col_stride, void *c, int64_t ldc);

typedef void (*GrammeTileFn) (void); /* any of the above: cast it to the type of its kind */

enum {
  GRAMME_TILE_POINTWISE =
      1,                /* op, dtype of the operands (SELECT: of b and c)  GrammeTilePointwise */
  GRAMME_TILE_CAST = 2, /* dtype = to, from = the input's                  GrammeTileCast */
  GRAMME_TILE_FOLD = 3, /* op, dtype                                       GrammeTileFold */
  GRAMME_TILE_FOLD_COLUMNS = 4, /* op, dtype GrammeTileFoldColumns */
  GRAMME_TILE_ARG_FOLD = 5, /* op, dtype                                       GrammeTileArgFold */
  GRAMME_TILE_GATHER = 6,   /*                                                 GrammeTileGather */
  GRAMME_TILE_SCATTER = 7,  /*                                                 GrammeTileScatter */
  GRAMME_TILE_UNIFORM = 8,  /* dtype                                           GrammeTileRandom */
  GRAMME_TILE_NORMAL = 9,   /* dtype                                           GrammeTileRandom */
  GRAMME_TILE_MATMUL = 10,  /* dtype                                           GrammeTileMatmul */
  /* op, dtype, from = a second op: out[i] = second (op (a[i], b[i]), c[i]).  GRAMME_TILE_BEHIND in
   * `from`: second (c[i], op (a[i], b[i])).  Some pairs of cheap ops have one. GrammeTilePointwise
   */
  GRAMME_TILE_PAIR = 11
};
#define GRAMME_TILE_BEHIND 0x100u
/* Bit in `from` of FOLD and FOLD_COLUMNS: accumulators are float64, begin as 0 and are cast when
 * all is folded. Only sums of float32 have such tiles, and only sums of more than one block use
 * them: for one block the bits are the same either way. */
#define GRAMME_TILE_WIDE 0x200u

#define GRAMME_TILE_NAME_BYTES 64

typedef struct {
  uint32_t struct_size;
  uint32_t tile_elems; /* the block of reductions and the chunk that drivers work in */
  void *ctx;
  const char *isa; /* "avx2", "avx512" */
  /* [any] Returns the primitive's address, or NULL if it is not defined; parameters that the kind
   * does not mention are ignored. dtypes are GRAMME_DTYPE numbers. name, if not NULL, gets
   * GRAMME_TILE_NAME_BYTES at most: a C identifier, one per primitive ("gm_tile_tanh_f32"). */
  GrammeTileFn (*find) (void *ctx, uint32_t kind, uint32_t op, uint32_t dtype, uint32_t from,
                        char *name);
  /* [any] Writes the neutral element of a reduction of dtype, one element of the accumulator's
   * dtype. OK or NOT_FOUND. */
  int32_t (*reduce_init) (void *ctx, uint32_t op, uint32_t dtype, void *out);
} GrammeTiles;

/* -- Source: the arithmetic of the tiles as text ----------------------------------------------- */

#define GRAMME_SOURCE_ID "gramme.source/0"

/* C for gcc, without includes, to be compiled with `flags`: core/tiles/source.h lists its
 * functions. Functions that are inlined from it have the bits of the tiles. `find` returns the
 * address for a name that the text declares as an extern pointer; NULL: the name is unknown. */
typedef struct {
  uint32_t struct_size, vector_bytes;
  void *ctx;
  const char *text, *flags;
  void *(*find) (void *ctx, const char *name); /* [any] */
} GrammeSource;

GRAMME_STATIC_ASSERT (sizeof (GrammeSource) == 40, "no padding");

/* -- Threads ----------------------------------------------------------------------------------- */

#define GRAMME_THREADS_ID "gramme.threads/1"

/* One set of threads for the whole process, so that back ends do not compete for cores. Usable
 * after a fork, too. */
typedef struct {
  uint32_t struct_size, reserved;
  void *ctx;
  /* [any] Returns the greatest number of tasks that run at once, the caller's thread included;
   * never 0. */
  uint32_t (*count) (void *ctx);
  /* [any] Calls task (arg, i) once for each i < n, in any order, on the calling thread and others,
   * and returns when all have returned. Within a task: one after the other, on the calling thread.
   * The result of a task must not depend on the thread that runs it. */
  void (*run) (void *ctx, uint32_t n, void (*task) (void *arg, uint32_t i), void *arg);
} GrammeThreads;

/* -- Serialization: a plugin's ----------------------------------------------------------------- */

#define GRAMME_SERIALIZE_ID "gramme.serialize/1"

/* Stores executables, for a cache on disk. The host's key is a digest of the images, the constants'
 * digests, the options, the plugin's id and build, and the api's `fingerprint`, which a plugin with
 * this extension must have; so the bytes need not repeat any of these. The manifest has the flag
 * `serialize`. */
typedef struct {
  uint32_t struct_size, flags; /* flags: none yet */
  /* [any] Computes the number of bytes that `write` writes. UNSUPPORTED: this executable cannot be
   * stored. */
  int32_t (*size) (GrammeExecutable *e, uint64_t *bytes, GrammeStatus *status);
  /* [any] Writes exactly `bytes` bytes. No addresses, no time, no names of files: equal requests
   * give equal bytes in every process. */
  int32_t (*write) (GrammeExecutable *e, void *out, uint64_t bytes, GrammeStatus *status);
  /* [compile] Makes an executable instead of compile, for the very request that the bytes were made
   * from, in a process with the same fingerprint. The bytes are 64-byte aligned and borrowed for
   * the call. They are hostile input: DATA if anything about them is odd, and the host compiles. */
  int32_t (*read) (GrammeBackend *b, const GrammeCompileRequest *request, const void *bytes,
                   uint64_t n, GrammeExecutable **out, GrammeStatus *status);
} GrammeSerialize;

GRAMME_STATIC_ASSERT (sizeof (GrammeThreads) == 32, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeSerialize) == 32, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeKernels) == 72, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeTiles) == 40, "no padding");

#ifdef __cplusplus
}
#endif
#endif
