/* SPDX-License-Identifier: Apache-2.0
 * gpu_unit.h -- the CUDA text of a graph, and the list of launches that runs it.
 *
 * A program (codegen) becomes kernels, one or a few for each step.  A kernel gets one record of
 * addresses; their meaning (NvArg) and the size of the grid are in its launch.  All launches of a
 * run go to one stream, in order, so a kernel sees what earlier ones wrote.  Sizes are numbers in
 * the text; those that only the run knows (plugins/codegen/size_code.h) follow the addresses, and
 * are z<row> in the text.  The range of index arithmetic decides if it has 32 bits; where only the
 * run knows the range, there are two kernels, and the launch chooses.
 *
 * Invariant: addresses are multiples of 16 bytes where NvArg.offset is one (run.c sees to it).
 * Owner: everything is the unit's; nv_unit_clear frees it.
 */
#ifndef GM_NVRTC_GPU_UNIT_H
#define GM_NVRTC_GPU_UNIT_H

#include "plugins/codegen/loop_plan.h"

/* Kind of memory in addition to CgMemory's: the word that records an index out of range. */
#define NV_MEMORY_ERROR 16u

typedef struct {
  uint32_t memory, index; /* a CgMemory or NV_MEMORY_ERROR */
  bool dynamic;           /* TEMP: in the part after the workspace's fixed one */
  int64_t offset;         /* in bytes, may be symbolic; TEMP: offset in the workspace */
} NvArg;

typedef struct NvProduct NvProduct; /* product.h */

typedef struct {
  char name[64];
  /* Not NULL: no kernel, but the library's; of the fields below only arguments and node are used */
  NvProduct *product;
  int64_t grid; /* number of blocks, in one dimension; may be symbolic; no launch if it is 0 */
  /* Largest index, may be symbolic.  If it is not a number there is a kernel <name>_64, too. */
  int64_t most;
  uint32_t block, first_arg, n_args, first_size, n_sizes;
  int32_t node; /* node of the image, whose name is for messages */
} NvLaunch;

#define NV_MAX_ARGS (CG_MAX_MEMBERS * 4 + 8)
#define NV_MAX_SIZES 128

/* The kernel that is being printed. */
typedef struct {
  char name[64];
  /* beside: number of blocks that must fit on a multiprocessor; 0: no requirement */
  uint32_t block, beside;
  CgText text;
  struct {
    NvArg arg;
    const char *elem; /* such as "f32" */
    bool writes;
  } args[NV_MAX_ARGS];
  uint32_t n_args;
  int64_t sizes[NV_MAX_SIZES]; /* symbolic sizes that the text uses */
  uint32_t n_sizes;
  int64_t most;
  int32_t node;
} NvKernel;

typedef struct NvAttention NvAttention; /* attention.h */
typedef struct NvEpilogue NvEpilogue;   /* product.h */

/* Steps of a program that become one launch, found before it is printed. */
typedef struct {
  bool library;   /* true if a library for products is available */
  int capability; /* of the GPU that is compiled for: 90 is 9.0; 0: not known */
  NvAttention *attentions;
  NvEpilogue *epilogues;
  uint32_t n_attentions, n_epilogues;
} NvFound;

#define NV_OPS GRAMME_OP_NEXT
#define NV_TYPES 8

typedef struct {
  const CgProgram *p;
  const char *prefix; /* prefix of kernels' names */
  const NvFound *found;
  CgText functions, kernels;
  NvKernel k;
  NvLaunch *launches;
  uint32_t n_launches, launch_room;
  NvArg *args;
  uint32_t n_args, arg_room;
  int64_t *sizes; /* sizes of all launches */
  uint32_t n_sizes, size_room;
  uint32_t n_names;
  uint64_t ws_bytes;     /* bytes of the workspace: temporaries, then partial results */
  int64_t dynamic_bytes; /* bytes of the dynamic part; may be symbolic */
  bool checks_index, has_mma;
  bool quick;       /* nv_apply uses quick forms, which may set `odd` (point.h) */
  const char *form; /* nv_apply uses <form>_<name>_<work> of the prelude; NULL: op_<name>_<work> */
  uint8_t *counted; /* by value: see count.h */
  uint8_t used[2][NV_OPS][NV_TYPES]; /* values, folds: functions that are printed already */
  GrammeStatus *status;
  int32_t code; /* the first failure */
  bool oom;
} NvUnit;

/* Searches for steps that become one launch, and changes the program accordingly; library and
 * capability must be set. */
int32_t nv_found_look (NvFound *found, CgProgram *p, GrammeStatus *status);
void nv_found_clear (NvFound *found);
/* Prints all kernels of a program in which `found` was found; GRAMME_OK, UNSUPPORTED or NO_MEMORY.
 * The text of the unit is functions, then kernels; the prelude goes before them. */
int32_t nv_unit_print (NvUnit *u, const CgProgram *p, const NvFound *found, const char *prefix,
                       GrammeStatus *status);
void nv_unit_clear (NvUnit *u);
/* Returns the reason for get_support why there is no kernel for a node; NONE if there is one. */
uint32_t nv_unit_reason (const GrammeImage *image, const GrammeNode *n);

/* -- For the files that print kernels (gpu_unit.c) --------------------------------------------- */

/* Return the names of a dtype in memory and in computations: f16 is "f16" and "f32". */
const char *nv_elem (uint32_t dtype);
const char *nv_work (uint32_t dtype);
/* Begins a kernel, and returns its text; `label` names it.  node: or -1. */
CgText *nv_begin (NvUnit *u, const char *label, uint32_t block, int32_t node);
/* Return the number of the argument for the first element of a value, of a place in the workspace,
 * of the error word; equal places share an argument. */
uint32_t nv_arg (NvUnit *u, uint32_t value, bool writes);
uint32_t nv_arg_output (NvUnit *u, uint32_t output, uint32_t dtype);
uint32_t nv_arg_scratch (NvUnit *u, NvArg place, const char *elem, bool writes);
uint32_t nv_arg_error (NvUnit *u);
/* Adds an argument even if another argument is the same place. */
void nv_slot (NvUnit *u, uint32_t value, bool writes);
void nv_end (NvUnit *u, int64_t grid);
/* Ends with a launch of the library instead of a kernel; the launch owns the product. */
void nv_end_product (NvUnit *u, NvProduct *product);
/* Reserves aligned memory for partial results; bytes may be symbolic. */
NvArg nv_scratch (NvUnit *u, int64_t bytes);
/* Returns a size in the kernel's text: "12u", "z3".  NVZ is for arguments of `put`. */
const char *nv_size (NvUnit *u, int64_t size, char text[CG_SIZE_TEXT_BYTES]);
#define NVZ(u, size) nv_size ((u), (size), (char[CG_SIZE_TEXT_BYTES]){ 0 })
/* Raises the largest index of the kernel that is being printed to at least `size`, which may be
 * symbolic. */
void nv_reach (NvUnit *u, int64_t size);
/* Prints the function of an op of the table unless it was printed: op_<name>_<work>,
 * fold_<name>_<work> and init_<name>_<work>. */
void nv_need_value (NvUnit *u, uint32_t op, const char *work);
void nv_need_fold (NvUnit *u, uint32_t op, const char *work);
/* Print expressions into `out`. load: memory to worked value; store: worked value to memory; cast:
 * worked to worked. */
void nv_load (char *out, size_t room, uint32_t dtype, const char *memory);
void nv_store (char *out, size_t room, uint32_t dtype, const char *worked);
void nv_cast (char *out, size_t room, uint32_t from, uint32_t to, const char *worked);
/* Prints the worked value of a literal. */
void nv_literal (const NvUnit *u, char *out, size_t room, uint32_t value);
/* True if the prelude has a quick form of this pointwise node, quick_<name>_<work>. */
bool nv_is_quick (const NvUnit *u, const GrammeNode *n);
/* True if the op takes many instructions. */
bool nv_is_costly (uint32_t op);
/* nv_rounds: true if n's result is rounded to a half. nv_apply prints the result of pointwise node
 * n, from its operands' expressions: rounded_<dtype> (...) if so. */
bool nv_rounds (const NvUnit *u, const GrammeNode *n);
void nv_apply (NvUnit *u, char *out, size_t room, const GrammeNode *n, char operands[3][256]);
/* Returns an upper bound of one past the last element that a value reaches; may be symbolic. */
int64_t nv_extent (NvUnit *u, const CgValue *v);
int32_t nv_fail (NvUnit *u, int32_t code, int32_t node, const char *what);

/* -- Questions about a program (gpu_unit.c) ---------------------------------------------------- */

/* Returns the node that makes this value with this op, or NULL. */
const GrammeNode *nv_made_by (const CgProgram *p, uint32_t value, uint32_t op);
/* Returns the number of nodes and outputs that use a value. */
uint32_t nv_uses (const CgProgram *p, uint32_t value);
/* Returns the stride of dimension d of `ndim`, to which the value is broadcast. */
int64_t nv_broadcast_stride (const CgValue *v, uint32_t ndim, uint32_t d);

/* -- Kinds of steps ---------------------------------------------------------------------------- */

void nv_print_points (NvUnit *u, uint32_t step);  /* points.c: LOOP without reductions */
void nv_print_rows (NvUnit *u, uint32_t step);    /* rows.c: LOOP with reductions */
void nv_print_columns (NvUnit *u, uint32_t step); /* columns.c */
void nv_print_copy (NvUnit *u, uint32_t step);    /* calls.c */
void nv_print_call (NvUnit *u, uint32_t step);
void nv_print_matmul (NvUnit *u, uint32_t node);   /* gpu_matmul.c */
void nv_print_index (NvUnit *u, uint32_t node);    /* gpu_index.c */
void nv_print_convolve (NvUnit *u, uint32_t node); /* gpu_convolve.c */

#endif
