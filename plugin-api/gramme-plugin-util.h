/* SPDX-License-Identifier: Apache-2.0
 * gramme-plugin-util.h -- small helpers for authors of plugins.  All inline: no part of the ABI.
 *
 * Reporting (gramme_fail), options, families of ops, geometry of values.  Use what fits, copy what
 * almost fits.
 */
#ifndef GRAMME_PLUGIN_UTIL_H
#define GRAMME_PLUGIN_UTIL_H

#include "gramme-plugin.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GRAMME_PRINTF(text, first) __attribute__ ((__format__ (__printf__, text, first)))
#else
#define GRAMME_PRINTF(text, first)
#endif

/* -- Errors ------------------------------------------------------------------------------------ */

/* Fills the status, which may be NULL, and returns code: `return gramme_fail (s, GRAMME_INVALID,
 * -1, "option %s: ...", key)`. */
static inline int32_t GRAMME_PRINTF (4, 5)
    gramme_fail (GrammeStatus *s, int32_t code, int32_t node, const char *format, ...)
{
  if (s && GRAMME_HAS (s, GrammeStatus, message)) {
    va_list args;
    va_start (args, format);
    vsnprintf (s->message, sizeof s->message, format, args);
    va_end (args);
    s->code = code;
    s->node = node;
  }
  return code;
}

/* Initializes head and message of a status, as the caller of a function must do before the call. */
static inline void
gramme_status_init (GrammeStatus *s)
{
  s->struct_size = sizeof *s;
  s->code = GRAMME_OK;
  s->node = -1;
  s->flags = 0;
  s->message[0] = 0;
}

/* -- Options ----------------------------------------------------------------------------------- */

/* Returns the value of an option (borrowed): the last one given, or `absent`. */
static inline const char *
gramme_option (const GrammeOption *options, uint32_t n, const char *key, const char *absent)
{
  const char *found = absent;
  for (uint32_t i = 0; i < n; i++)
    if (strcmp (options[i].key, key) == 0)
      found = options[i].value;
  return found;
}

/* Returns the value of an option as a number; `absent` if it is not given, or not a number. */
static inline int64_t
gramme_option_int (const GrammeOption *options, uint32_t n, const char *key, int64_t absent)
{
  const char *text = gramme_option (options, n, key, NULL);
  long long value;
  return text && sscanf (text, "%lld", &value) == 1 ? (int64_t) value : absent;
}

/* Returns the value of an option as a bool: 1 for "true" and "1", 0 for other text, `absent` if it
 * is not given. */
static inline int32_t
gramme_option_bool (const GrammeOption *options, uint32_t n, const char *key, int32_t absent)
{
  const char *text = gramme_option (options, n, key, NULL);
  return text ? strcmp (text, "true") == 0 || strcmp (text, "1") == 0 : absent;
}

/* -- Ops --------------------------------------------------------------------------------------- */

enum {
  GRAMME_FAMILY_NONE = 0,
  GRAMME_FAMILY_POINTWISE,
  GRAMME_FAMILY_CAST,
  GRAMME_FAMILY_REDUCE,
  GRAMME_FAMILY_ARGREDUCE,
  GRAMME_FAMILY_MOVEMENT,
  GRAMME_FAMILY_CONTRACT,
  GRAMME_FAMILY_INDEX,
  GRAMME_FAMILY_SCAN,
  GRAMME_FAMILY_RANDOM,
  GRAMME_FAMILY_CREATE,
  GRAMME_FAMILY_CONVOLVE
};

/* The facts about an op in the table.  family NONE, version 0, name "?": this header does not know
 * it. */
typedef struct {
  const char *name;
  uint32_t family, version;
} GrammeOpFacts;

/* Returns the facts of the row of gramme-ops.def with this code. */
static inline GrammeOpFacts
gramme_op_facts (uint32_t op)
{
  GrammeOpFacts f = { "?", GRAMME_FAMILY_NONE, 0 };
  switch (op) {
#define GRAMME_FACTS(name_, family_, version_)                                                     \
  f.name = name_;                                                                                  \
  f.family = family_;                                                                              \
  f.version = version_;                                                                            \
  break;
#define POINTWISE(code, version, name, ...)                                                        \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_POINTWISE, version)
#define CAST(code, version, name)                                                                  \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_CAST, version)
#define REDUCE(code, version, name, ...)                                                           \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_REDUCE, version)
#define ARGREDUCE(code, version, name, ...)                                                        \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_ARGREDUCE, version)
#define MOVEMENT(code, version, name, ...)                                                         \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_MOVEMENT, version)
#define CONTRACT(code, version, name, ...)                                                         \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_CONTRACT, version)
#define CONVOLVE(code, version, name, ...)                                                         \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_CONVOLVE, version)
#define INDEX(code, version, name, ...)                                                            \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_INDEX, version)
#define SCAN(code, version, name, ...)                                                             \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_SCAN, version)
#define RANDOM(code, version, name)                                                                \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_RANDOM, version)
#define CREATE(code, version, name)                                                                \
  case code:                                                                                       \
    GRAMME_FACTS (#name, GRAMME_FAMILY_CREATE, version)
#include "gramme-ops.def"
#undef GRAMME_FACTS
  default:
    break;
  }
  return f;
}

/* Returns 1 if the node has a flag or an attribute that this header does not know, and that may
 * have any meaning: the answer must be NO. */
static inline int32_t
gramme_node_is_newer (const GrammeImage *image, const GrammeNode *n)
{
  if (n->flags != 0)
    return 1;
  for (uint32_t i = 0; i < n->n_attrs; i++)
    switch (gramme_image_attr (image, n->first_attr + i)->key) {
#define ATTR(code, NAME, type, field) case code:
#include "gramme-ops.def"
      break;
    default:
      return 1;
    }
  return 0;
}

/* Returns a request's flags that this header does not know: if there are any, the answer must be
 * UNSUPPORTED. */
static inline uint32_t
gramme_request_newer_flags (const GrammeCompileRequest *request)
{
  return request->flags
         & ~(GRAMME_REQUEST_DETERMINISTIC | GRAMME_REQUEST_FAST_MATH | GRAMME_REQUEST_DEBUG);
}

/* -- Geometry of values ------------------------------------------------------------------------ */

/* Returns the number of elements of a value whose sizes are all numbers; -1 if a size is symbolic.
 */
static inline int64_t
gramme_value_numel (const GrammeImage *image, const GrammeValue *v)
{
  int64_t n = 1;
  for (uint32_t i = 0; i < v->ndim; i++) {
    int64_t size = gramme_value_size (image, v, i);
    if (size < 0)
      return -1;
    n *= size;
  }
  return n;
}

/* Returns the number of elements from the first to one past the last that a value reaches, for
 * strides >= 0; 0 if it is empty. */
static inline int64_t
gramme_value_extent (const GrammeImage *image, const GrammeValue *v)
{
  int64_t last = 0;
  for (uint32_t i = 0; i < v->ndim; i++) {
    int64_t size = gramme_value_size (image, v, i);
    if (size <= 0)
      return 0;
    last += (size - 1) * gramme_value_stride (image, v, i);
  }
  return last + 1;
}

/* Returns the address of a tensor's first element. */
static inline void *
gramme_tensor_address (const GrammeTensor *t)
{
  return (char *) t->data + t->byte_offset;
}

/* -- Support ----------------------------------------------------------------------------------- */

/* Returns the reason why the host's kernels (gramme-ext.h) do not run a value; GRAMME_REASON_NONE:
 * they do. For get_support of back ends that run nodes with these kernels. */
static inline uint32_t
gramme_kernels_value_reason (const GrammeImage *image, uint32_t value)
{
  const GrammeValue *v = gramme_image_value (image, value);
  switch (GRAMME_DTYPE_OF (v)) {
  case GRAMME_DTYPE_BOOL:
  case GRAMME_DTYPE_U8:
  case GRAMME_DTYPE_I8:
  case GRAMME_DTYPE_I16:
  case GRAMME_DTYPE_I32:
  case GRAMME_DTYPE_I64:
  case GRAMME_DTYPE_F8E4M3:
  case GRAMME_DTYPE_F8E5M2:
  case GRAMME_DTYPE_F16:
  case GRAMME_DTYPE_BF16:
  case GRAMME_DTYPE_F32:
  case GRAMME_DTYPE_F64:
    break;
  default:
    return GRAMME_REASON_DTYPE;
  }
  if (v->device_type != 1)
    return GRAMME_REASON_DEVICE;
  if (v->flags & ~GRAMME_VALUE_FLAGS)
    return GRAMME_REASON_LAYOUT; /* it means something that is newer than this header */
  for (uint32_t i = 0; i < v->ndim; i++)
    if (gramme_value_size (image, v, i) < 0 || gramme_value_stride (image, v, i) < 0)
      return GRAMME_REASON_DYNAMIC;
  return GRAMME_REASON_NONE;
}

/* Returns the reason why the host's kernels do not run a node: its op, version and attributes, and
 * all its values; GRAMME_REASON_NONE: they do. */
static inline uint32_t
gramme_kernels_reason (const GrammeImage *image, const GrammeNode *n)
{
  GrammeOpFacts op = gramme_op_facts (n->op);
  uint32_t reason;
  if (op.family == GRAMME_FAMILY_NONE)
    return GRAMME_REASON_OP;
  if (n->op_version > op.version || gramme_node_is_newer (image, n))
    return GRAMME_REASON_OP_VERSION;
  reason = gramme_kernels_value_reason (image, n->out);
  for (uint32_t i = 0; i < n->n_in && reason == GRAMME_REASON_NONE; i++)
    reason = gramme_kernels_value_reason (image, gramme_node_in (image, n, i));
  for (uint32_t i = 0; i < n->n_attrs && reason == GRAMME_REASON_NONE; i++)
    if (gramme_attr_is_symbolic (image, gramme_image_attr (image, n->first_attr + i)))
      reason = GRAMME_REASON_DYNAMIC;
  return reason;
}

/* Returns the reason of a node as gramme_kernels_reason does, but for back ends that run kernels
 * with sizes that only the run knows (`run_sized`). */
static inline uint32_t
gramme_kernels_reason_sized (const GrammeImage *image, const GrammeNode *n)
{
  GrammeOpFacts op = gramme_op_facts (n->op);
  if (op.family == GRAMME_FAMILY_NONE)
    return GRAMME_REASON_OP;
  if (n->op_version > op.version || gramme_node_is_newer (image, n))
    return GRAMME_REASON_OP_VERSION;
  for (uint32_t i = 0; i <= n->n_in; i++) {
    uint32_t value = i < n->n_in ? gramme_node_in (image, n, i) : n->out;
    uint32_t reason = gramme_kernels_value_reason (image, value);
    if (reason != GRAMME_REASON_NONE && reason != GRAMME_REASON_DYNAMIC)
      return reason;
  }
  return GRAMME_REASON_NONE;
}

/* Fills a verdict: YES in cluster 0 if the reason is NONE, else NO with the reason. */
static inline void
gramme_kernels_verdict (GrammeVerdict *v, uint32_t reason)
{
  v->reason = reason;
  v->support = reason == GRAMME_REASON_NONE ? GRAMME_YES : GRAMME_NO;
  v->cluster = 0;
  v->cost = 1;
}

/* Implements get_support for back ends that run nodes with the host's kernels: YES, or NO with the
 * reason. NO for symbolic sizes: the host then compiles for each set of numbers that occurs. */
static inline void
gramme_kernels_support (const GrammeImage *image, GrammeVerdict *verdicts, uint32_t stride)
{
  for (uint32_t i = 0; i < image->nodes.count; i++) {
    GrammeVerdict *v = (GrammeVerdict *) (void *) ((char *) verdicts + (size_t) i * stride);
    gramme_kernels_verdict (v, gramme_kernels_reason (image, gramme_image_node (image, i)));
  }
}

/* Implements get_support as gramme_kernels_support does, but for back ends that run symbolic sizes
 * (`run_sized`): YES for them, too. */
static inline void
gramme_kernels_support_sized (const GrammeImage *image, GrammeVerdict *verdicts, uint32_t stride)
{
  for (uint32_t i = 0; i < image->nodes.count; i++) {
    GrammeVerdict *v = (GrammeVerdict *) (void *) ((char *) verdicts + (size_t) i * stride);
    gramme_kernels_verdict (v, gramme_kernels_reason_sized (image, gramme_image_node (image, i)));
  }
}

#ifdef __cplusplus
}
#endif
#endif
