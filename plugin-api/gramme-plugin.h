/* SPDX-License-Identifier: Apache-2.0
 * gramme-plugin.h -- what a back end exports and what the host gives it.
 *
 * A back end is a shared object `libgramme-NAME.so` with one exported function,
 * gramme_plugin_query_v0, and a manifest in an ELF note. The host lists plugins from their
 * manifests and runs none of their code; when a program asks for one by name, it is loaded, asked
 * for its GrammePlugin, opened, and given graphs to compile.  It is never unloaded.
 *
 * The smallest plugin: fill a GrammeBackendApi, then say GRAMME_PLUGIN_DEFINE (api,
 * "id=...\nname=...\n") once.
 *
 * Two versions, never one: GRAMME_ABI_MINOR is what a plugin was built against,
 * GRAMME_MIN_HOST_MINOR the oldest host that it works with.  A host of minor H loads it if and only
 * if the latter is at most H.  Within a major nothing is removed, moved or renumbered: records grow
 * at the end.  What is optional and may change is an extension, asked for by name (gramme-ext.h).
 *
 * MAJOR 0 IS NO PROMISE BEYOND ITSELF: it becomes 1 when back ends from outside have used it, and
 * then plugins are compiled again, once.
 *
 * Rules of all records: `struct_size` is first and is the size that its *maker* knows; read what
 * lies beyond your own minor only under GRAMME_HAS; write no further than the struct_size of what
 * you were given.  Reserved fields and unused bytes are zero.  A flag that you do not know means
 * GRAMME_UNSUPPORTED.  What you are passed is borrowed for the call: keep no pointer to it.
 *
 * Thread tags: [any] any thread, at any time.  [load] the host serialises them per plugin.
 * [compile] concurrent, unless the manifest has the flag compile-serial.  [run] concurrent on
 * different executables; on one and the same only with the flag run-concurrent. Nothing but a
 * return leaves a function of yours: no exception, longjmp, signal or exit.
 */
#ifndef GRAMME_PLUGIN_H
#define GRAMME_PLUGIN_H

#include "gramme-graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GRAMME_ABI_MAJOR 0
#define GRAMME_ABI_MINOR 1

/* The oldest host minor that your plugin works with; define it before you include this to support
 * older hosts. Then use everything that is newer than that minor only under GRAMME_HAS and
 * GRAMME_HAS_FN; `grep "since minor"` in these headers finds it. */
#ifndef GRAMME_MIN_HOST_MINOR
#define GRAMME_MIN_HOST_MINOR GRAMME_ABI_MINOR
#endif

#if defined(__GNUC__)
#define GRAMME_EXPORT __attribute__ ((visibility ("default")))
#else
#define GRAMME_EXPORT
#endif

/* True if the record that p points to reaches as far as its field f; GRAMME_HAS_FN: and if the
 * function is not NULL. */
#define GRAMME_HAS(p, T, f) ((p)->struct_size >= offsetof (T, f) + sizeof (((T *) 0)->f))
#define GRAMME_HAS_FN(p, T, f) (GRAMME_HAS (p, T, f) && (p)->f)

/* -- Status ------------------------------------------------------------------------------------ */

/* The answers of functions; beside each, what the host does with it. */
enum {
  GRAMME_OK = 0,
  GRAMME_UNSUPPORTED = 1,  /* compile: the host's eager kernels run it; the reason is kept */
  GRAMME_INTERNAL = 2,     /* your own bug: as UNSUPPORTED, with a warning */
  GRAMME_INVALID = 3,      /* an option or argument is wrong: raised; the message names it */
  GRAMME_NO_MEMORY = 4,    /* MemoryError */
  GRAMME_TOOLCHAIN = 5,    /* a tool of yours is missing or broken: the message has the remedy */
  GRAMME_CANCELLED = 6,    /* progress () said stop */
  GRAMME_DEVICE = 7,       /* the device failed or went away */
  GRAMME_DATA = 8,         /* stored bytes are damaged */
  GRAMME_INCOMPATIBLE = 9, /* query, open: this host or machine is not for you */
  GRAMME_STATE = 10,       /* a call out of order */
  GRAMME_NOT_FOUND = 11,   /* the end of a list */
  GRAMME_INDEX = 12,       /* run: an index in the data is out of range: IndexError */
  GRAMME_DEADLINE = 13,    /* since minor 1.  compile: it took too long; as UNSUPPORTED */
  GRAMME_CONDITION =
      14 /* since minor 1.  run: what a node requires of the data does not hold: RuntimeError */
};

/* Status of a call, in the caller's memory, which the callee fills; nothing to free. A pointer to
 * it may be NULL. */
typedef struct {
  uint32_t struct_size; /* sizeof (GrammeStatus) of the caller */
  int32_t code, node;   /* node: number of the node in the image, or -1 */
  uint32_t flags;
  char message[480]; /* UTF-8, always terminated */
} GrammeStatus;

/* -- Tensors and options ----------------------------------------------------------------------- */

typedef struct {                        /* DLPack's DLTensor bit for bit */
  void *data;                           /* may be NULL when there are no elements */
  int32_t device_type, device_id, ndim; /* 1 CPU, 2 CUDA */
  uint8_t dtype_code, dtype_bits;
  uint16_t dtype_lanes;
  int64_t *shape, *strides; /* strides in elements, always given.  Read-only for a plugin */
  uint64_t byte_offset;     /* of element [0, ..., 0] from data */
} GrammeTensor;

typedef struct {
  const char *key, *value;
} GrammeOption;

/* Returns a dtype as one number, from the three fields of GrammeValue and GrammeTensor. */
#define GRAMME_DTYPE(code, bits) ((uint32_t) (code) | (uint32_t) (bits) << 8 | 1u << 16)
#define GRAMME_DTYPE_OF(p)                                                                         \
  ((uint32_t) (p)->dtype_code | (uint32_t) (p)->dtype_bits << 8 | (uint32_t) (p)->dtype_lanes << 16)
#define GRAMME_DTYPE_BYTES(dtype) (((dtype) >> 8 & 0xff) / 8) /* of one element */
#define GRAMME_DTYPE_BOOL GRAMME_DTYPE (6, 8)
#define GRAMME_DTYPE_U8 GRAMME_DTYPE (1, 8)
#define GRAMME_DTYPE_I8 GRAMME_DTYPE (0, 8)
#define GRAMME_DTYPE_I16 GRAMME_DTYPE (0, 16)
#define GRAMME_DTYPE_I32 GRAMME_DTYPE (0, 32)
#define GRAMME_DTYPE_I64 GRAMME_DTYPE (0, 64)
#define GRAMME_DTYPE_F8E4M3 GRAMME_DTYPE (10, 8) /* e4m3fn: no infinities */
#define GRAMME_DTYPE_F8E5M2 GRAMME_DTYPE (12, 8)
#define GRAMME_DTYPE_F16 GRAMME_DTYPE (2, 16)
#define GRAMME_DTYPE_BF16 GRAMME_DTYPE (4, 16)
#define GRAMME_DTYPE_F32 GRAMME_DTYPE (2, 32)
#define GRAMME_DTYPE_F64 GRAMME_DTYPE (2, 64)

/* -- What the host offers ---------------------------------------------------------------------- */

enum { GRAMME_LOG_ERROR = 0, GRAMME_LOG_WARNING = 1, GRAMME_LOG_INFO = 2, GRAMME_LOG_DEBUG = 3 };

/* Services of the host. The table lives until the process ends. No function calls back into the
 * plugin, and none waits for a lock that is held while a plugin runs. All [any]; diag and progress
 * during `compile` only, with the request's job. */
typedef struct {
  uint32_t struct_size, abi_minor; /* abi_minor: the host's */
  void *ctx;
  /* Logs text. INFO and DEBUG are shown if the user asked for the log channel `domain` in
   * GRAMME_LOGS: "output_code" for generated code. */
  void (*log) (void *ctx, int32_t level, const char *domain, const char *text, size_t bytes);
  int32_t (*log_enabled) (void *ctx, int32_t level, const char *domain);
  /* Takes the text that a compiler printed, of any length, for the error message, or for the log
   * where the compile succeeds. */
  void (*diag) (void *job, int32_t severity, int32_t node, const char *text, size_t bytes);
  /* Returns 1 if the compile must stop and answer CANCELLED. Call it at least every 100 ms. */
  int32_t (*progress) (void *job, const char *phase, uint64_t done, uint64_t total);
  /* Returns memory, or NULL when there is none. align: a power of two. Pass bytes and align to free
   * again. */
  void *(*alloc) (void *ctx, size_t bytes, size_t align);
  void (*free) (void *ctx, void *p, size_t bytes, size_t align);
  /* Returns an extension of the host (gramme-ext.h); NULL: this host does not have it. */
  const void *(*get_extension) (void *ctx, const char *id);
} GrammeHost;

/* -- Support ----------------------------------------------------------------------------------- */

enum { GRAMME_NO = 0, GRAMME_YES = 1, GRAMME_PREFER = 2 };
/* Reasons for NO; own reasons from 0x10000, their text in the manifest's group [reasons]. */
enum {
  GRAMME_REASON_NONE = 0,
  GRAMME_REASON_OP = 1,
  GRAMME_REASON_OP_VERSION = 2,
  GRAMME_REASON_DTYPE = 3,
  GRAMME_REASON_RANK = 4,
  GRAMME_REASON_DYNAMIC = 5,
  GRAMME_REASON_LAYOUT = 6,
  GRAMME_REASON_DEVICE = 7,
  GRAMME_REASON_SIZE = 8,
  GRAMME_REASON_CONTROL = 9,
  GRAMME_REASON_OWN = 0x10000
};
/* A plugin's answer for one node. cluster: a number of your choice; nodes that you want compiled
 * together have the same one. The host cuts clusters so that each request is a convex piece of the
 * graph: no path leaves it and comes back. Any convex piece of nodes with YES must compile. cost:
 * 0, unknown; else relative to an addition of the same size, times 16. */
typedef struct {
  uint32_t support, cluster, cost, reason;
} GrammeVerdict;

/* -- Requests ---------------------------------------------------------------------------------- */

/* Names and source lines of an image's nodes and values, for messages and comments in generated
 * code; in no cache key. */
typedef struct {
  uint32_t struct_size, flags, n_values, n_nodes;
  const char *const *value_names; /* entries may be NULL */
  const char *const *node_where;  /* "train.py:12" or NULL */
} GrammeDebug;

#define GRAMME_REQUEST_DETERMINISTIC                                                               \
  1u /* the same bits in every run and for any number of threads */
#define GRAMME_REQUEST_FAST_MATH                                                                   \
  2u /* permitted, not required; without it no contraction and no fast-math */
#define GRAMME_REQUEST_DEBUG 4u

typedef struct {
  uint32_t struct_size, flags;
  /* The graphs to compile. A function's backward comes as `backward` of the same request, or, as is
   * usual, when it is first called: as `forward` of a request of its own, a graph like any other.
   * backward NULL: this request has no backward. */
  const GrammeImage *forward, *backward;
  const GrammeDebug *forward_debug, *backward_debug; /* may be NULL */
  /* Constants, by slot of the images' constants tables: the forward's n_forward_constants first,
   * then the backward's. */
  const GrammeTensor *constants;
  const GrammeOption *options; /* already checked against the manifest; defaults not filled in */
  uint32_t n_constants, n_options;
  int32_t device_type, device_id;
  uint32_t max_threads;
  int32_t work_dir_fd; /* a private folder for temporary files, or -1: ask for none in this minor */
  void *job;           /* for diag and progress */
  uint32_t n_forward_constants, reserved;
  /* Since minor 1. A graph of which you support only a part comes as n_regions requests, each with
   * one region of one role as `forward`; this request is number `region`. (0, 1): the whole graph.
   */
  uint32_t region, n_regions;
} GrammeCompileRequest;

enum { GRAMME_FORWARD = 0, GRAMME_BACKWARD = 1 };

typedef struct {
  uint32_t struct_size, role, flags, stream_kind; /* stream_kind 0: all is finished on return */
  /* Tensors in the order of the image's inputs and outputs; shapes, dtypes and strides are as the
   * image has them. */
  const GrammeTensor *inputs, *outputs;
  uint32_t n_inputs, n_outputs;
  const int64_t *sizes; /* the values of the image's `sizes` rows */
  uint64_t n_sizes;
  /* The workspace is 64-byte aligned, as large as `workspace` asked for, its contents undefined. */
  void *stream, *workspace;
  uint64_t workspace_bytes;
} GrammeRunArgs;

typedef struct {
  uint32_t struct_size, index;
  int32_t device_type, device_id;
  uint64_t memory_bytes;
  char name[104];
} GrammeDeviceInfo;

#define GRAMME_EXEC_ASYNC 1u
typedef struct {
  uint32_t struct_size, flags;
  uint32_t alignment, reserved; /* bytes that inputs should be aligned to; 0: any */
  uint64_t code_bytes, constant_bytes;
} GrammeExecInfo;

/* -- What a back end is ------------------------------------------------------------------------ */

typedef struct GrammeBackend GrammeBackend;       /* yours: one opened instance */
typedef struct GrammeExecutable GrammeExecutable; /* yours: a compiled request */

/* Functions of a plugin. A function may be NULL if a substitute is named. */
typedef struct {
  uint32_t struct_size, flags;
  int32_t (*open) (const GrammeHost *host, const GrammeOption *options, uint32_t n_options,
                   GrammeBackend **out,
                   GrammeStatus *status); /* [load]; may be called again after close.  options:
                                             none, n_options is 0: a function is compiled with
                                             options of its own, which come with each request */
  void (*close) (GrammeBackend *b);       /* [load]; after the last executable is destroyed */
  /* [any] Describes device number `index`; NOT_FOUND ends the list. NULL: one CPU. */
  int32_t (*device_info) (GrammeBackend *b, uint32_t index, GrammeDeviceInfo *out,
                          GrammeStatus *status);
  /* [load] Computes a digest of all that changes generated code: tools, architecture. NULL: results
   * are never stored on disk. */
  int32_t (*fingerprint) (GrammeBackend *b, int32_t device_type, int32_t device_id, uint8_t out[32],
                          GrammeStatus *status);
  /* [any] Fills one verdict per node, verdict i at (char *) verdicts + i * stride. Pure and
   * deterministic. An op, version, attribute or dtype that you do not know is NO with a reason, not
   * an error. */
  int32_t (*get_support) (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts,
                          uint32_t stride, GrammeStatus *status);
  /* [compile] Compiles a request. OK means that every role of the request runs. */
  int32_t (*compile) (GrammeBackend *b, const GrammeCompileRequest *request, GrammeExecutable **out,
                      GrammeStatus *status);
  /* [any] Fills the known fields of a zeroed record. */
  int32_t (*exec_info) (GrammeExecutable *e, GrammeExecInfo *out, GrammeStatus *status);
  /* [run] Computes the number of bytes that run needs as workspace, for these values of the `sizes`
   * rows. NULL: none. */
  int32_t (*workspace) (GrammeExecutable *e, uint32_t role, const int64_t *sizes, uint64_t *bytes,
                        GrammeStatus *status);
  /* [run] Writes every element of every output or fails; writes nothing else but the workspace. */
  int32_t (*run) (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status);
  void (*destroy) (GrammeExecutable *e);                           /* [any] */
  const void *(*get_extension) (GrammeBackend *b, const char *id); /* [any] NULL: no extensions */
} GrammeBackendApi;

typedef struct {
  uint32_t struct_size, abi_minor;
  uint32_t min_host_minor, sanitizers; /* sanitizers: bit 0 ASan, bit 1 TSan */
  const char *manifest;                /* equal to the note's text */
  const GrammeBackendApi *api;
} GrammePlugin;

/* Returns the plugin's table. The only exported function. [any] Pure: constant data, no allocation,
 * no I/O, any number of times. NULL: this host is not for you, and the status says why. */
GRAMME_EXPORT const GrammePlugin *gramme_plugin_query_v0 (const GrammeHost *host,
                                                          GrammeStatus *status);

GRAMME_STATIC_ASSERT (sizeof (GrammeStatus) == 496, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeTensor) == 48, "DLTensor");
GRAMME_STATIC_ASSERT (offsetof (GrammeTensor, ndim) == 16 && offsetof (GrammeTensor, shape) == 24,
                      "DLTensor");
GRAMME_STATIC_ASSERT (sizeof (GrammeVerdict) == 16, "rows are frozen");
GRAMME_STATIC_ASSERT (sizeof (GrammeOption) == 16, "rows are frozen");
GRAMME_STATIC_ASSERT (sizeof (GrammeHost) == 72, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeDebug) == 32, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeCompileRequest) == 104, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeRunArgs) == 80, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeDeviceInfo) == 128, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeExecInfo) == 32, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeBackendApi) == 96, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammePlugin) == 32, "no padding");

/* -- The manifest ------------------------------------------------------------------------------ */

#define GRAMME_NOTE_NAME "gramme"
#define GRAMME_NOTE_TYPE 0x474d0001u
#define GRAMME_MANIFEST_MAX_BYTES 16384u

#define GRAMME_TEXT_(x) #x
#define GRAMME_TEXT(x) GRAMME_TEXT_ (x)
#define GRAMME_MANIFEST_HEAD                                                                       \
  "[gramme-plugin]\nabi=" GRAMME_TEXT (GRAMME_ABI_MAJOR) "." GRAMME_TEXT (                         \
      GRAMME_ABI_MINOR) "\nmin-host-minor=" GRAMME_TEXT (GRAMME_MIN_HOST_MINOR) "\n"

#if defined(__SANITIZE_ADDRESS__)
#define GRAMME_SANITIZERS 1u
#elif defined(__SANITIZE_THREAD__)
#define GRAMME_SANITIZERS 2u
#else
#define GRAMME_SANITIZERS 0u
#endif

/* Makes the note .note.gramme.plugin and the descriptor from one literal, and defines the query.
 * `keys` is a key file, one key a line:
 *   id=org.example.foo  name=foo  version=1.2.0  license=MIT  rank=100  bit-exact=true
 *   devices=cpu;  dtypes=f32;f64;  flags=backward;run-concurrent;  needs=cc;
 *   [option opt-level]  type=int  range=0..3  default=2  help=...
 *                       (type: int, bool, string; or choice with values=a;b;)
 *   [reasons]           0x10001=reduction over more than 8 axes
 *   flags: backward, run-concurrent, compile-serial, serialize
 * The group's head with `abi` and `min-host-minor` is put before it.  `api` is a static
 * GrammeBackendApi.
 *
 * A toolchain that makes no ELF notes defines GRAMME_NO_NOTE and puts the same text, head included,
 * into a file beside the plugin: libgramme-foo.so.manifest. */
#if defined(GRAMME_NO_NOTE)
#define GRAMME_NOTE_SECTION_
#else
#define GRAMME_NOTE_SECTION_ __attribute__ ((section (".note.gramme.plugin"), used, aligned (4)))
#endif
#define GRAMME_PLUGIN_DEFINE(api_table, keys)                                                      \
  static const struct {                                                                            \
    uint32_t name_bytes, text_bytes, type;                                                         \
    char name[8];                                                                                  \
    char text[(sizeof (GRAMME_MANIFEST_HEAD keys) + 3) / 4 * 4];                                   \
  } gramme_plugin_note GRAMME_NOTE_SECTION_ = { sizeof (GRAMME_NOTE_NAME),                         \
                                                sizeof (GRAMME_MANIFEST_HEAD keys),                \
                                                GRAMME_NOTE_TYPE, GRAMME_NOTE_NAME,                \
                                                GRAMME_MANIFEST_HEAD keys };                       \
  GRAMME_STATIC_ASSERT (sizeof (GRAMME_MANIFEST_HEAD keys) <= GRAMME_MANIFEST_MAX_BYTES,           \
                        "the manifest is too long");                                               \
  static const GrammePlugin gramme_plugin_descriptor = {                                           \
    sizeof (GrammePlugin), GRAMME_ABI_MINOR,        GRAMME_MIN_HOST_MINOR,                         \
    GRAMME_SANITIZERS,     gramme_plugin_note.text, &api_table                                     \
  };                                                                                               \
  const GrammePlugin *gramme_plugin_query_v0 (const GrammeHost *host, GrammeStatus *status)        \
  {                                                                                                \
    (void) host;                                                                                   \
    (void) status;                                                                                 \
    return &gramme_plugin_descriptor;                                                              \
  }                                                                                                \
  GRAMME_STATIC_ASSERT (sizeof (api_table) == sizeof (GrammeBackendApi),                           \
                        "api_table is a GrammeBackendApi")

#ifdef __cplusplus
}
#endif
#endif
