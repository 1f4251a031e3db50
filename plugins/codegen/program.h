/* SPDX-License-Identifier: Apache-2.0
 * program.h -- a graph image as steps over buffers, from which code generators print.
 *
 * codegen_build (fuse.c) reads an image once and makes a program: an ordered list of steps.  A LOOP
 * step has pointwise nodes, and reductions over trailing dimensions, that share one iteration
 * space: their values live in tiles of 512 elements and are stored in memory only if a node outside
 * of the step reads them.  COLUMNS is a reduction over leading dimensions.  Every other node is a
 * CALL of the host's own kernel.  memory.c then gives every stored value a place in one workspace.
 *
 * Views cost nothing: a MOVEMENT node's value is its root's memory with an offset and strides of
 * its own. Sizes, strides and offsets may be symbolic (size_code.h).  Then temporaries of symbolic
 * size lie behind all that has a number: the workspace has a fixed part and a dynamic one, which
 * begins at `dyn` in generated code.  Requires: a valid image.  Owner: all memory is the program's,
 * freed by codegen_free.
 */
#ifndef CODEGEN_PROGRAM_H
#define CODEGEN_PROGRAM_H

#include <gramme-ext.h>
#include "plugins/codegen/size_code.h"

#define CG_NONE 0xffffffffu
/* Maximum number of nodes of a loop, which keeps its tiles within the first-level cache. */
#define CG_MAX_MEMBERS 48

typedef enum {
  CG_MEMORY_NONE,   /* only in tiles */
  CG_MEMORY_INPUT,  /* index: number of the graph's input */
  CG_MEMORY_OUTPUT, /* index: number of the graph's output */
  CG_MEMORY_CONST,  /* index: number of the program's constant */
  CG_MEMORY_TEMP,   /* at `offset` of the workspace */
} CgMemory;

/* Roles of a value inside the loop that makes it. */
typedef enum { CG_FULL, CG_ROW } CgRole;

typedef struct {
  uint32_t dtype, elem_bytes, ndim; /* dtype: GRAMME_DTYPE number */
  int64_t sizes[8], strides[8];     /* in elements; these and other int64_t may be symbolic */
  int64_t numel;
  uint32_t node;      /* producer, or CG_NONE for an input */
  uint32_t view_of;   /* input of the MOVEMENT node that makes it, or CG_NONE */
  uint32_t root;      /* the value that owns the memory: itself unless it is a view */
  int64_t view_bytes; /* bytes from the root's first element */
  /* True if it shows the root's bytes as other elements, or views such a value. */
  bool recast;
  /* The fields below are for roots. */
  uint8_t memory;       /* CgMemory */
  uint8_t role;         /* CgRole */
  bool literal;         /* a `full` node: the element's bits are in `bits` */
  bool stored;          /* must be stored in memory */
  bool sinks;           /* made by the loop that its single reader joins: fuse.c */
  uint32_t index, step; /* step: the step that makes it; CG_NONE: it exists from the start */
  bool dynamic;         /* TEMP: in the workspace's dynamic part */
  int64_t offset;
  uint64_t bits;
} CgValue;

typedef enum { CG_LOOP, CG_COLUMNS, CG_CALL, CG_COPY } CgKind;

typedef struct {
  uint8_t kind;
  uint32_t ndim;
  int64_t sizes[8];    /* LOOP: the iteration space */
  int split;           /* LOOP: dimensions from here on are reduced; -1: no reduction */
  int64_t rows, inner; /* LOOP with a split: products of the two parts */
  uint32_t n_members, first_member; /* range of program.members: nodes, in order */
  uint32_t members[CG_MAX_MEMBERS];
  uint32_t node;                     /* COLUMNS, CALL */
  uint32_t from, to;                 /* COPY: number of the value and of the output */
  int64_t width, n_rows, row_stride; /* COLUMNS, in elements */
} CgStep;

typedef struct {
  const GrammeImage *image;
  const GrammeTiles *tiles;
  const GrammeKernels *kernels;
  const GrammeThreads *threads;  /* set between building and printing; NULL: no loop is divided */
  const GrammeTensor *constants; /* by the image's slots; used while building only */
  CgSizes *sizes;
  CgValue *values;
  uint32_t n_values;
  CgStep *steps;
  uint32_t n_steps;
  /* Memory known at compile time, 64-byte aligned: constant tensors, and `full` nodes that are read
   * as memory. */
  struct {
    void *data;
    uint64_t bytes;
  } * consts;
  uint32_t n_consts;
  uint64_t temp_bytes;   /* bytes of temporaries in the workspace, before the printer's tiles */
  int64_t dynamic_bytes; /* bytes of temporaries of symbolic size */
  uint8_t *shared;       /* by input and output: true if they may share memory; NULL: none may */
  uint32_t shared_in, shared_out;
} CgProgram;

/* Builds a program.  GRAMME_OK; UNSUPPORTED or NO_MEMORY with the status filled in.  `constants`:
 * by slot of the image. */
int32_t codegen_build (CgProgram *p, const GrammeImage *image, const GrammeTensor *constants,
                       const GrammeTiles *tiles, const GrammeKernels *kernels,
                       GrammeStatus *status);
void codegen_free (CgProgram *p);

/* Assigns the offsets of temporaries, so that those that live at different times share bytes
 * (memory.c). */
int32_t codegen_plan_memory (CgProgram *p, GrammeStatus *status);

/* Find outputs that may use the memory of an input (buffer_reuse.c). codegen_find_shared is called
 * while the image exists; codegen_may_share then answers as GrammeDonation.may_share. */
int32_t codegen_find_shared (CgProgram *p, GrammeStatus *status);
int32_t codegen_may_share (const CgProgram *p, uint32_t input, uint32_t output);

/* -- Questions (operand_strides.c) ------------------------------------------------------------- */

/* Returns the tile primitive of a POINTWISE, CAST or REDUCE (fold) node; NULL: there is none. */
GrammeTileFn codegen_tile (const CgProgram *p, uint32_t node, char *name);
/* Returns the value behind views, if it is a `full` node and they show its elements; else
 * CG_NONE. */
uint32_t codegen_literal (const CgProgram *p, uint32_t value);
/* Returns the row value of step `s` that `value` repeats at every point of the space (rows of the
 * space if `as_row`), through views that only repeat it; CG_NONE: there is none. */
uint32_t codegen_row_value (const CgProgram *p, uint32_t s, uint32_t value, bool as_row);
/* Computes strides of `value` over the dimensions of the step's space, 0 where it is broadcast; for
 * a row operand over the first `split` dimensions.  False if it does not fit. */
bool codegen_strides (const CgProgram *p, const CgStep *s, uint32_t value, bool as_row,
                      int64_t strides[8]);
/* True if dimensions [from, to) are contiguous for these strides; *stride: the innermost stride. */
bool codegen_collapses (const CgProgram *p, const int64_t *sizes, const int64_t *strides, int from,
                        int to, int64_t *stride);

#endif
