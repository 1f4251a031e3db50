/* SPDX-License-Identifier: Apache-2.0
 * gpu_program.h -- a compiled graph on its device: module, constants, launches.
 */
#ifndef GM_NVRTC_GPU_PROGRAM_H
#define GM_NVRTC_GPU_PROGRAM_H

#include "plugins/nvrtc/compiler.h"
#include "plugins/nvrtc/replay.h"
#include "plugins/nvrtc/gpu_unit.h"

#include <pthread.h>

/* A graph of the request, forward or backward. */
typedef struct {
  bool present;
  NvLaunch *launches;
  NvArg *args;
  int64_t *size_list; /* sizes of all launches, one after the other */
  CgSizes sizes;      /* table of these sizes */
  char **where;       /* by launch: "mul at train.py:12" */
  uint32_t n_launches, n_args, n_consts;
  uint64_t ws_bytes;
  int64_t dynamic_bytes; /* size of the part after that; may be symbolic */
  bool checks_index;
  NvReplay *replay; /* NULL: all runs are plain */
  /* Host memory of constants, and their addresses on the device. */
  struct {
    void *data;
    uint64_t bytes;
    NvAddress address;
  } * consts;
  /* Two for each launch, once the module is loaded: with 32-bit and, if it exists, 64-bit
   * indices. */
  void **functions;
} NvRole;

typedef struct {
  int32_t device_number;
  NvImage image;
  char arch[32];
  char *text;       /* CUDA, if it was to be kept */
  bool has_kernels; /* false: all launches are the library's, and there is no image */
  NvRole roles[2];
  pthread_mutex_t lock; /* protects loading */
  NvDevice *device;     /* not NULL: loaded */
  void *module;
} NvProgram;

/* Moves the data that launches need out of a printed unit, and names its nodes.  replays: see
 * replay.h. */
int32_t nv_role_take (NvRole *r, NvUnit *u, CgProgram *p, const GrammeDebug *debug, bool replays,
                      GrammeStatus *status);
int32_t nv_program_run (NvProgram *p, const GrammeRunArgs *args, GrammeStatus *status);
void nv_program_clear (NvProgram *p);

#endif
