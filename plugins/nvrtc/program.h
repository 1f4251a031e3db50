/* SPDX-License-Identifier: Apache-2.0
 * program.h -- a compiled graph on its device: module, constants, launches.
 */
#ifndef NVRTC_PROGRAM_H
#define NVRTC_PROGRAM_H

#include "plugins/nvrtc/compiler.h"
#include "plugins/nvrtc/replay.h"
#include "plugins/nvrtc/unit.h"

#include <pthread.h>

/* One graph of the request. */
typedef struct {
  bool present;
  NvLaunch *launches;
  NvArg *args;
  int64_t *size_list; /* of launches, one after the other */
  CgSizes sizes;      /* what those are */
  char **where; /* by launch: "mul at train.py:12" */
  uint32_t n_launches, n_args, n_consts;
  uint64_t ws_bytes;
  int64_t dynamic_bytes; /* after that: a size */
  bool checks_index;
  NvReplay *replay; /* NULL: all runs are plain */
  /* Host memory of constants, and their places on the device. */
  struct {
    void *data;
    uint64_t bytes;
    NvAddress address;
  } * consts;
  void **functions; /* two to a launch, once the module is loaded: with indices of 32 bits and, if there is one, of 64 */
} NvRole;

typedef struct {
  int32_t device_number;
  NvImage image;
  char arch[32];
  char *text; /* CUDA, if it is to be kept */
  bool has_kernels; /* else all launches are the library's, and there is no image */
  NvRole roles[2];
  pthread_mutex_t lock; /* for loading */
  NvDevice *device;     /* not NULL: loaded */
  void *module;
} NvProgram;

/* Moves what the launches need out of a printed unit, and names its nodes.  replays: see replay.h. */
int32_t nv_role_take (NvRole *r, NvUnit *u, CgProgram *p, const GrammeDebug *debug, bool replays, GrammeStatus *status);
int32_t nv_program_run (NvProgram *p, const GrammeRunArgs *args, GrammeStatus *status);
void nv_program_clear (NvProgram *p);

#endif
