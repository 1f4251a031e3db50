/* SPDX-License-Identifier: Apache-2.0
 * gpu_program.c -- see gpu_program.h.
 *
 * A run copies operands to the device if they are not there (tensors of the CPU, and results back),
 * launches the kernels in order and, if anything came from the CPU, waits for the result.
 * Addresses that kernels get are multiples of 16 bytes: other operands are copied first.  Graphs
 * that check indices read the error word, which waits for the device.
 */
#include "plugins/nvrtc/gpu_program.h"

#include "plugins/nvrtc/product.h"

#include <stdlib.h>

/* -- Taking a unit ----------------------------------------------------------------------------- */

static char *
name_node (const CgProgram *p, int32_t node, const GrammeDebug *debug)
{
  char text[256];
  const char *where = debug && node >= 0 && (uint32_t) node < debug->n_nodes && debug->node_where
                          ? debug->node_where[node]
                          : NULL;
  const char *op =
      node >= 0 ? gramme_op_facts (gramme_image_node (p->image, (uint32_t) node)->op).name : "copy";
  snprintf (text, sizeof text, "%s%s%s", op, where ? " at " : "", where ? where : "");
  return strdup (text);
}

int32_t
nv_role_take (NvRole *r, NvUnit *u, CgProgram *p, const GrammeDebug *debug, bool replays,
              GrammeStatus *status)
{
  *r = (NvRole){ .present = true,
                 .launches = u->launches,
                 .args = u->args,
                 .size_list = u->sizes,
                 .sizes = *p->sizes,
                 .dynamic_bytes = u->dynamic_bytes,
                 .n_launches = u->n_launches,
                 .n_args = u->n_args,
                 .n_consts = p->n_consts,
                 .ws_bytes = u->ws_bytes,
                 .checks_index = u->checks_index };
  u->launches = NULL;
  u->args = NULL;
  u->sizes = NULL;
  *p->sizes = (CgSizes){ 0 };
  r->where = calloc (r->n_launches + 1, sizeof *r->where);
  r->functions = calloc (2 * r->n_launches + 1, sizeof *r->functions);
  r->consts = calloc (r->n_consts + 1, sizeof *r->consts);
  bool good = r->where && r->functions && r->consts;
  /* A single kernel is one launch with or without a graph; the index check waits for the device. */
  if (replays && r->n_launches > 1 && !r->checks_index)
    good = (r->replay = nv_replay_new ()) != NULL && good;
  for (uint32_t i = 0; i < r->n_launches && good; i++)
    good = (r->where[i] = name_node (p, r->launches[i].node, debug)) != NULL;
  for (uint32_t i = 0; i < r->n_consts && r->consts; i++) {
    r->consts[i].data = p->consts[i].data;
    r->consts[i].bytes = p->consts[i].bytes;
    p->consts[i].data = NULL;
  }
  return good ? GRAMME_OK
              : gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for a compiled graph");
}

static void
role_clear (NvRole *r)
{
  for (uint32_t i = 0; i < r->n_launches && r->where; i++)
    free (r->where[i]);
  for (uint32_t i = 0; i < r->n_consts && r->consts; i++)
    free (r->consts[i].data);
  nv_replay_free (r->replay, NULL); /* for a program that was never loaded, which has no graph */
  free (r->where);
  free (r->functions);
  free (r->consts);
  for (uint32_t i = 0; i < r->n_launches; i++)
    if (r->launches[i].product)
      nv_product_free (r->launches[i].product);
  free (r->launches);
  free (r->args);
  free (r->size_list);
  codegen_sizes_free (&r->sizes);
  *r = (NvRole){ 0 };
}

/* -- Loading ----------------------------------------------------------------------------------- */

static int32_t
load_module (NvProgram *p, NvDevice *d, GrammeStatus *status)
{
  const NvCuda *c = nv_cuda (NULL);
  if (!p->image.bytes)
    return GRAMME_OK;
  int result = c->cuModuleLoadData (&p->module, p->image.image);
  if (result == 209)
    return gramme_fail (status, GRAMME_DEVICE, -1,
                        "the kernels were compiled for %s, the GPU (%s) has compute capability "
                        "%d.%d; leave option arch out",
                        p->arch, nv_device_name (d), nv_device_capability (d) / 10,
                        nv_device_capability (d) % 10);
  if (result)
    return nv_device_fail (d, result, "compiled kernels cannot be loaded", status);
  for (int role = 0; role < 2; role++)
    for (uint32_t i = 0; i < p->roles[role].n_launches; i++) {
      NvRole *r = &p->roles[role];
      const NvLaunch *l = &r->launches[i];
      char wide[sizeof l->name + 4];
      if (l->product)
        continue;
      snprintf (wide, sizeof wide, "%s_64", l->name);
      result = c->cuModuleGetFunction (&r->functions[2 * i], p->module, l->name);
      if (result == 0 && codegen_is_symbolic (l->most))
        result = c->cuModuleGetFunction (&r->functions[2 * i + 1], p->module, wide);
      if (result)
        return nv_device_fail (d, result, l->name, status);
    }
  return GRAMME_OK;
}

static int32_t
load_all (NvProgram *p, NvDevice *d, GrammeStatus *status)
{
  int32_t code = load_module (p, d, status);
  bool copied = false;
  for (int role = 0; role < 2; role++)
    for (uint32_t i = 0; i < p->roles[role].n_consts && code == GRAMME_OK; i++) {
      NvRole *r = &p->roles[role];
      code = nv_device_alloc (d, r->consts[i].bytes, &r->consts[i].address, status);
      if (code == GRAMME_OK)
        code = nv_device_to_device (d, r->consts[i].address, r->consts[i].data, r->consts[i].bytes,
                                    status);
      copied = true;
    }
  /* Waits, since any stream may read them. */
  return copied && code == GRAMME_OK ? nv_device_synchronize (d, status) : code;
}

static void
unload (NvProgram *p, NvDevice *d)
{
  for (int role = 0; role < 2; role++) {
    nv_replay_free (p->roles[role].replay, d);
    p->roles[role].replay = NULL;
  }
  for (int role = 0; role < 2; role++)
    for (uint32_t i = 0; i < p->roles[role].n_consts; i++) {
      NvRole *r = &p->roles[role];
      if (r->consts[i].address)
        nv_device_free (d, r->consts[i].address);
      r->consts[i].address = 0;
    }
  if (p->module && nv_device_enter (d, NULL) == GRAMME_OK) {
    nv_device_synchronize_all (d, NULL); /* a kernel may still be running */
    nv_cuda (NULL)->cuModuleUnload (p->module);
  }
  p->module = NULL;
}

static int32_t
load (NvProgram *p, GrammeStatus *status)
{
  NvDevice *d = __atomic_load_n (&p->device, __ATOMIC_ACQUIRE);
  if (d)
    return nv_device_enter (d, status);
  d = nv_device (p->device_number, status);
  if (!d)
    return status ? status->code : GRAMME_DEVICE;
  int32_t code = nv_device_enter (d, status);
  pthread_mutex_lock (&p->lock);
  if (!p->device && code == GRAMME_OK) {
    code = load_all (p, d, status);
    if (code == GRAMME_OK)
      __atomic_store_n (&p->device, d, __ATOMIC_RELEASE);
    else
      unload (p, d);
  }
  pthread_mutex_unlock (&p->lock);
  return code;
}

void
nv_program_clear (NvProgram *p)
{
  if (p->device)
    unload (p, p->device);
  role_clear (&p->roles[0]);
  role_clear (&p->roles[1]);
  nv_image_clear (&p->image);
  free (p->text);
  pthread_mutex_destroy (&p->lock);
}

/* -- Operands ---------------------------------------------------------------------------------- */

/* An operand on the device: the tensor's own memory, or a copy. */
typedef struct {
  NvAddress address;
  uint64_t bytes;
  bool copied, gaps;
} Operand;

static Operand
measure (const GrammeTensor *t)
{
  int64_t last = 0, n = 1;
  for (int32_t i = 0; i < t->ndim; i++) {
    n *= t->shape[i];
    last += (t->shape[i] - 1) * t->strides[i];
  }
  uint64_t elem = t->dtype_bits / 8;
  return (Operand){ .bytes = n ? (uint64_t) (last + 1) * elem : 0, .gaps = last + 1 != n };
}

static int32_t
bring (NvDevice *d, Operand *o, const GrammeTensor *t, bool fill, GrammeStatus *status)
{
  void *data = gramme_tensor_address (t);
  *o = measure (t);
  bool here = t->device_type == 2;
  if (here && (uintptr_t) data % 16 == 0) {
    o->address = (NvAddress) (uintptr_t) data;
    return GRAMME_OK;
  }
  int32_t code = nv_device_alloc (d, o->bytes, &o->address, status);
  if (code != GRAMME_OK)
    return code;
  o->copied = true;
  if (!fill && !o->gaps)
    return GRAMME_OK;
  return here ? nv_device_copy (d, o->address, (NvAddress) (uintptr_t) data, o->bytes, status)
              : nv_device_to_device (d, o->address, data, o->bytes, status);
}

static int32_t
take_back (NvDevice *d, const Operand *o, const GrammeTensor *t, GrammeStatus *status)
{
  void *data = gramme_tensor_address (t);
  if (!o->copied)
    return GRAMME_OK;
  return t->device_type == 2
             ? nv_device_copy (d, (NvAddress) (uintptr_t) data, o->address, o->bytes, status)
             : nv_device_to_host (d, data, o->address, o->bytes, status);
}

/* -- Launches ---------------------------------------------------------------------------------- */

typedef struct {
  const NvRole *role;
  Operand *in, *out;
  NvAddress workspace, dynamic, error;
  const int64_t *values; /* values of the role's sizes */
} Places;

static NvAddress
place_of (const Places *at, const NvArg *a)
{
  NvAddress offset = (NvAddress) codegen_size_value (a->offset, at->values);
  switch (a->memory) {
  case CG_MEMORY_INPUT:
    return at->in[a->index].address + offset;
  case CG_MEMORY_OUTPUT:
    return at->out[a->index].address + offset;
  case CG_MEMORY_CONST:
    return at->role->consts[a->index].address + offset;
  case NV_MEMORY_ERROR:
    return at->error;
  default:
    return (a->dynamic ? at->dynamic : at->workspace) + offset;
  }
}

/* Fills in the kernel's record: addresses, then sizes. False: a size has no value for this run. */
static bool
fill_record (const Places *at, const NvLaunch *l, uint64_t *record)
{
  const NvRole *r = at->role;
  uint32_t n = 0;
  for (uint32_t k = 0; k < l->n_args; k++) {
    const NvArg *a = &r->args[l->first_arg + k];
    if (codegen_size_value (a->offset, at->values) < 0)
      return false;
    record[n++] = place_of (at, a);
  }
  if (n == 0)
    record[n++] = 0;
  for (uint32_t k = 0; k < l->n_sizes; k++) {
    int64_t value = codegen_size_value (r->size_list[l->first_size + k], at->values);
    if (value < 0)
      return false;
    record[n++] = (uint64_t) value;
  }
  if (l->n_sizes == 0)
    record[n] = 0;
  return true;
}

static int32_t
launch_product (NvDevice *d, const NvRole *r, uint32_t i, const Places *at, NvKept *kept,
                GrammeStatus *status)
{
  enum { MOST = 4 };
  const NvLaunch *l = &r->launches[i];
  NvAddress addresses[MOST] = { 0 };
  const char *what = r->where[i];
  for (uint32_t k = 0; k < l->n_args && k < MOST; k++) {
    const NvArg *a = &r->args[l->first_arg + k];
    if (codegen_size_value (a->offset, at->values) < 0)
      return gramme_fail (status, GRAMME_NO_MEMORY, -1,
                          "%s: these sizes are more than a GPU counts to", what);
    addresses[k] = place_of (at, a);
  }
  return nv_product_run (l->product, d, addresses, at->values, what, kept, status);
}

static int32_t
launch_all (NvDevice *d, const NvRole *r, const Places *at, NvKept *kept, GrammeStatus *status)
{
  const NvCuda *c = nv_cuda (NULL);
  uint64_t record[NV_MAX_ARGS + NV_MAX_SIZES];
  for (uint32_t i = 0; i < r->n_launches; i++) {
    const NvLaunch *l = &r->launches[i];
    if (l->product) {
      int32_t code = launch_product (d, r, i, at, kept, status);
      if (code != GRAMME_OK)
        return code;
      continue;
    }
    int64_t grid = codegen_size_value (l->grid, at->values),
            most = codegen_size_value (l->most, at->values);
    if (grid == 0)
      continue;
    if (grid < 0 || most < 0 || grid > INT32_MAX || !fill_record (at, l, record))
      return gramme_fail (status, GRAMME_NO_MEMORY, -1,
                          "kernel %s (%s): these sizes are more than a GPU counts to", l->name,
                          r->where[i]);
    bool wide = codegen_is_symbolic (l->most) && most >= INT32_MAX;
    void *parameters[] = { record };
    int result = c->cuLaunchKernel (r->functions[2 * i + wide], (unsigned) grid, 1, 1, l->block, 1,
                                    1, 0, nv_device_stream (d), parameters, NULL);
    if (result) {
      char what[400];
      snprintf (what, sizeof what, "kernel %s (%s)", l->name, r->where[i]);
      return nv_device_fail (d, result, what, status);
    }
  }
  return GRAMME_OK;
}

/* Adds the names of all kernels to the message of a device's error, which is found only after the
 * launches, so that the failed one is unknown. */
static int32_t
name_kernels (const NvRole *r, int32_t code, GrammeStatus *status)
{
  char names[260] = "", before[480];
  size_t len = 0;
  if (code != GRAMME_DEVICE || !status)
    return code;
  for (uint32_t i = 0; i < r->n_launches && len + 40 < sizeof names; i++) {
    int n = snprintf (names + len, sizeof names - len, "%s%s (%s)", i ? ", " : "",
                      r->launches[i].name, r->where[i]);
    len += n > 0 ? (size_t) n : 0;
  }
  memcpy (before, status->message, sizeof before);
  before[sizeof before - 1] = 0;
  return gramme_fail (status, code, -1, "%.200s; the kernels since the last wait were %.250s",
                      before, names);
}

/* Fails because a node's requirement does not hold. */
static int32_t
fail_condition (int32_t node, int64_t condition, GrammeStatus *status)
{
  enum { RUNTIME = GRAMME_CONDITION, VALUE = GRAMME_INVALID };
  switch (condition) {
#define CONDITION(code, NAME, error, message)                                                      \
  case code:                                                                                       \
    return gramme_fail (status, error, node, "%s", message);
#include <gramme-ops.def>
  default:
    return gramme_fail (status, GRAMME_CONDITION, node, "a condition on the data does not hold");
  }
}

static int32_t
check_error_word (NvDevice *d, const NvRole *r, NvAddress error, GrammeStatus *status)
{
  int64_t said[2] = { 0, 0 };
  int32_t code = nv_device_to_host (d, said, error, sizeof said, status);
  if (code != GRAMME_OK || said[0] == 0)
    return code;
  if (said[0] < 0)
    return fail_condition ((int32_t) (-1 - said[0]), said[1], status);
  const char *what = "a node";
  for (uint32_t i = 0; i < r->n_launches; i++)
    if (r->launches[i].node == (int32_t) said[0] - 1)
      what = r->where[i];
  return gramme_fail (status, GRAMME_INDEX, (int32_t) said[0] - 1,
                      "%s: index %lld is out of bounds", what, (long long) said[1]);
}

#define ERROR_BYTES 16
#define ERROR_ROOM 256

/* Computes the bytes of the whole workspace: fixed part, error word, and the dynamic part for the
 * run's sizes. */
static int32_t
measure_workspace (const NvRole *r, const int64_t *values, uint64_t *bytes, GrammeStatus *status)
{
  int64_t dynamic = codegen_size_value (r->dynamic_bytes, values);
  if (dynamic < 0 || dynamic > INT64_MAX / 2)
    return gramme_fail (
        status, GRAMME_NO_MEMORY, -1,
        "the temporaries of these sizes take more bytes than there are numbers for");
  *bytes = r->ws_bytes + (r->checks_index ? ERROR_ROOM : 0) + (uint64_t) dynamic;
  return GRAMME_OK;
}

typedef struct {
  NvDevice *d;
  Places at;
} Launching;

static int32_t
launch_with (void *data, NvAddress workspace, NvKept *kept, GrammeStatus *status)
{
  Launching *l = data;
  const NvRole *r = l->at.role;
  l->at.workspace = workspace;
  l->at.error = workspace + r->ws_bytes;
  l->at.dynamic = l->at.error + (r->checks_index ? ERROR_ROOM : 0);
  int32_t code =
      r->checks_index ? nv_device_zero (l->d, l->at.error, ERROR_BYTES, status) : GRAMME_OK;
  if (code == GRAMME_OK)
    code = launch_all (l->d, r, &l->at, kept, status);
  if (code == GRAMME_OK && r->checks_index)
    code = name_kernels (r, check_error_word (l->d, r, l->at.error, status), status);
  return code;
}

#define MAX_KEY 96

/* Fills in the key of a run: addresses and sizes.  Returns its length; 0 if there are too many, or
 * if the run cannot recur. */
static uint32_t
key_of (const NvRole *r, const GrammeRunArgs *args, const int64_t *values, const Operand *operands,
        uint64_t key[MAX_KEY])
{
  uint32_t n = args->n_inputs + args->n_outputs;
  if (!r->replay || n + r->sizes.n > MAX_KEY)
    return 0;
  for (uint32_t i = 0; i < n; i++) {
    if (operands[i].copied)
      return 0;
    key[i] = operands[i].address;
  }
  for (uint32_t i = 0; i < r->sizes.n; i++)
    key[n + i] = (uint64_t) values[i];
  return n + r->sizes.n;
}

static int32_t
run_with (NvDevice *d, const NvRole *r, const GrammeRunArgs *args, const int64_t *values,
          Operand *in, Operand *out, GrammeStatus *status)
{
  Launching launching = { .d = d, .at = { .role = r, .in = in, .out = out, .values = values } };
  uint64_t key[MAX_KEY];
  NvRun run = { .key = key, .launch = launch_with, .data = &launching };
  int32_t code = measure_workspace (r, values, &run.ws_bytes, status);
  for (uint32_t i = 0; i < args->n_inputs && code == GRAMME_OK; i++)
    code = bring (d, &in[i], &args->inputs[i], true, status);
  for (uint32_t i = 0; i < args->n_outputs && code == GRAMME_OK; i++)
    code = bring (d, &out[i], &args->outputs[i], false, status);
  run.n = code == GRAMME_OK ? key_of (r, args, values, in, key) : 0;
  if (code == GRAMME_OK)
    code = run.n ? nv_replay_run (r->replay, d, &run, status) : nv_plain_run (d, &run, status);
  for (uint32_t i = 0; i < args->n_outputs && code == GRAMME_OK; i++)
    code = name_kernels (r, take_back (d, &out[i], &args->outputs[i], status), status);
  return code;
}

int32_t
nv_program_run (NvProgram *p, const GrammeRunArgs *args, GrammeStatus *status)
{
  const NvRole *r = &p->roles[args->role];
  if (!r->present)
    return gramme_fail (status, GRAMME_STATE, -1, "role %u was not compiled", args->role);
  int32_t code = load (p, status);
  if (code != GRAMME_OK)
    return code;
  uint32_t n = args->n_inputs + args->n_outputs;
  Operand stack[32], *operands = n <= 32 ? stack : malloc (n * sizeof *operands);
  int64_t few[64], *values = r->sizes.n <= 64 ? few : malloc (r->sizes.n * sizeof *values);
  if (!operands || !values) {
    if (operands != stack)
      free (operands);
    if (values != few)
      free (values);
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for a run with %u tensors", n);
  }
  memset (operands, 0, n * sizeof *operands);
  codegen_sizes_values (&r->sizes, args->sizes, values);
  code = run_with (p->device, r, args, values, operands, operands + args->n_inputs, status);
  for (uint32_t i = 0; i < n; i++)
    if (operands[i].copied)
      nv_device_free (p->device, operands[i].address);
  if (operands != stack)
    free (operands);
  if (values != few)
    free (values);
  return code;
}
