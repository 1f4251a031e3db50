/* SPDX-License-Identifier: Apache-2.0
 * autocast.c -- functions that run in a smaller dtype while the program enables it.
 *
 * The arguments of a call are cast before its row runs, through the same builder: eager executes
 * the casts, a recording has them as nodes, and gradients go through them. The dtypes, one for each
 * device, are in the builder, so that a recording follows its own program and not the thread that
 * records. Rejected: to keep the cast of a weight for its next use. The sum of its gradients would
 * then be taken in the smaller dtype.
 */
#include "core/api/api_private.h"

#include <string.h>

#include "core/base/thread.h"

static GM_THREAD uint8_t now;

uint8_t
gm_autocast_mode (void)
{
  return now;
}

uint8_t
gm_autocast_set (uint8_t mode)
{
  uint8_t old = now;
  now = mode;
  return old;
}

/* Returns the position of a device's bits in a mode: the dtype + 1 in four bits, first for the CPU,
 * then for CUDA. */
static int
shift_of (int device)
{
  return device == GM_DEVICE_CUDA ? 4 : 0;
}

GmDtype
gm_autocast_dtype (uint8_t mode, int device)
{
  int number = mode >> shift_of (device) & 15;
  return number ? (GmDtype) (number - 1) : GM_N_DTYPES;
}

uint8_t
gm_autocast_with (uint8_t mode, int device, GmDtype dtype)
{
  int shift = shift_of (device), number = dtype == GM_N_DTYPES ? 0 : (int) dtype + 1;
  return (uint8_t) ((mode & ~(15 << shift)) | number << shift);
}

static const struct {
  const char *name;
  GmAutocast policy;
} rows[] = {
#define AUTOCAST(name, policy) { #name, GM_AUTOCAST_##policy },
#include "core/api/autocast.def"
};

GmAutocast
gm_autocast_policy (const char *name)
{
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
    if (strcmp (rows[i].name, name) == 0)
      return rows[i].policy;
  return GM_AUTOCAST_NONE;
}

/* Returns the dtype of a tensor that autocast may change; GM_N_DTYPES for all others. */
static GmDtype
eligible (GmBuilder *b, const GmArg *a)
{
  GmDtype d = a->kind == GM_ARG_TENSOR ? (GmDtype) gm_b_meta (b, a->v)->dtype : GM_N_DTYPES;

  return d == GM_F32 || d == GM_F16 || d == GM_BF16 ? d : GM_N_DTYPES;
}

static GmDtype
widest (GmBuilder *b, const GmArg *args, int n, GmDtype so_far)
{
  for (int i = 0; i < n; i++) {
    GmDtype d = args[i].kind == GM_ARG_LIST ? widest (b, args[i].items, args[i].n, so_far)
                                            : eligible (b, &args[i]);
    if (d != GM_N_DTYPES)
      so_far = so_far == GM_N_DTYPES || so_far == d ? d : GM_F32;
  }
  return so_far;
}

/* Casts arguments in place to dtype `to`. Lists belong to this call: the code that converted the
 * arguments made them for it. */
static void
cast (GmBuilder *b, GmArg *args, int n, GmDtype to)
{
  for (int i = 0; i < n; i++) {
    if (args[i].kind == GM_ARG_LIST)
      cast (b, args[i].items, args[i].n, to);
    else if (eligible (b, &args[i]) != GM_N_DTYPES)
      args[i].v = gm_b_cast (b, args[i].v, to);
  }
}

/* Returns the device of the first tensor that autocast may change; -1: there is none. */
static int
device_of (GmBuilder *b, const GmArg *args, int n)
{
  int device = -1;
  for (int i = 0; i < n && device < 0; i++)
    if (args[i].kind == GM_ARG_LIST)
      device = device_of (b, args[i].items, args[i].n);
    else if (eligible (b, &args[i]) != GM_N_DTYPES)
      device = gm_b_meta (b, args[i].v)->device;
  return device;
}

void
gm_autocast_args (const GmApi *api, GmBuilder *b, GmArg *args)
{
  int device = device_of (b, args, api->n_args);
  GmDtype lower = device < 0 ? GM_N_DTYPES : gm_autocast_dtype (b->autocast, device), to;
  if (lower == GM_N_DTYPES)
    return;
  to = api->autocast == GM_AUTOCAST_LOWER ? lower
       : api->autocast == GM_AUTOCAST_F32 ? GM_F32
                                          : widest (b, args, api->n_args, GM_N_DTYPES);
  if (to != GM_N_DTYPES)
    cast (b, args, api->n_args, to);
}
