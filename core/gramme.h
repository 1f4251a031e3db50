/* SPDX-License-Identifier: Apache-2.0
 * gramme.h -- gramme for C programs: make a graph, compile it with a back end, run it and its
 * gradient.
 *
 *   GrammeGraph *g = gramme_graph_new ("square");
 *   GrammeValueId x = gramme_graph_add_input (g, "x", "f32", 1, (int64_t[]){ 16 }, TRUE, &error);
 *   GrammeValueId y = gramme_graph_add_op (g, "mul", (GrammeValueId[]){ x, x }, 2, NULL, &error);
 *   gramme_graph_add_output (g, y, &error);
 *   GrammeFunction *f = gramme_compile (g, "tcc", NULL, TRUE, &error);
 *   gramme_function_run (f, (GrammeTensorObject *[]){ tx }, 1, &ty, 1, &error);
 *
 * Needs C11 (or C++11) and GLib; pkg-config: gramme.  No Python takes part.  examples/c/train.c
 * is a whole program.
 *
 * What holds for every function here, unless it says otherwise:
 * Errors:  a GError of the domain GRAMME_ERROR says what was tried, on what, and what to do, with
 *          a code of GrammeError; NULL, FALSE or GRAMME_NO_VALUE is returned, and nothing is left
 *          behind.  `error` may be NULL.
 * Owner:   arguments are borrowed for the call.  What a function returns is the caller's, through
 *          the type's _unref or _free; what is not says "borrowed".
 * NULL:    only where it is allowed in words.  Among tensors of an array it is an error; in place
 *          of an argument it is a mistake of the program, told by GLib's g_return_if_fail.
 * Names:   letters, digits and '_', not beginning with a digit.
 * Threads: different objects may be used by different threads.  One graph, or one tensor that is
 *          written to, belongs to one thread at a time.  Functions and tensors may be referenced
 *          and unreferenced by any thread.
 * Numbers: sizes are elements, at most 8 dimensions.
 * Dtypes:  "f64" "f32" "f16" "bf16" "i64" "i32" "i16" "i8" "u8" "b1", and "f8e4m3" "f8e5m2", which
 *          are stored and cast only.
 */
#ifndef GRAMME_H
#define GRAMME_H

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

G_BEGIN_DECLS

typedef struct GrammeGraph GrammeGraph;               /* a program over tensors; not counted */
typedef struct GrammeFunction GrammeFunction;         /* a compiled graph; counted, immutable */
typedef struct GrammeTensorObject GrammeTensorObject; /* a tensor on the CPU; counted */
typedef uint32_t GrammeValueId; /* a value of one graph: an input, or an op's result */

#define GRAMME_NO_VALUE UINT32_MAX

/* -- Errors ------------------------------------------------------------------------------------ */

#define GRAMME_ERROR (gramme_error_quark ())
GQuark gramme_error_quark (void);

/* The codes of errors.  A code keeps its number; a later gramme may have more. */
typedef enum {
  GRAMME_ERROR_TYPE = 0, /* an argument of the wrong kind, such as an unknown dtype */
  GRAMME_ERROR_VALUE =
      1, /* the right kind, an impossible value: operators, names, options, sizes */
  GRAMME_ERROR_INDEX = 2,   /* an index of the data is out of range */
  GRAMME_ERROR_RUNTIME = 3, /* shapes and dtypes that do not fit, gradients that cannot be had */
  GRAMME_ERROR_MEMORY = 4,  /* no memory */
  GRAMME_ERROR_UNSUPPORTED = 5, /* gramme cannot do this */
  GRAMME_ERROR_BACKEND = 6,     /* the back end failed: while it was opened, compiled or ran */
  GRAMME_ERROR_IO = 7,          /* a file */
  GRAMME_ERROR_NO_BACKEND = 8   /* no back end of this name is installed, or its file is refused */
} GrammeError;

/* -- Back ends --------------------------------------------------------------------------------- */

/* Returns the names of the installed back ends that may be loaded, in order of search; runs none of
 * their code.  NULL-terminated, free with g_strfreev.  Thread: any. */
char **gramme_list_backends (void);

/* -- Graphs ------------------------------------------------------------------------------------ */

/* Makes an empty graph.  name: copied; NULL is returned if it is not a valid name. */
GrammeGraph *gramme_graph_new (const char *name);
void gramme_graph_free (GrammeGraph *g); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GrammeGraph, gramme_graph_free)

/* Adds an input of a fixed, row-major shape, and returns its value.  name: unique in the graph;
 * copied.  requires_grad: its gradient is wanted (ignored for dtypes that are not floating). Inputs
 * are passed to the compiled function in the order of these calls.  Errors: the name is not valid,
 * or taken; no such dtype; sizes out of range. */
GrammeValueId gramme_graph_add_input (GrammeGraph *g, const char *name, const char *dtype, int ndim,
                                      const int64_t *sizes, gboolean requires_grad, GError **error);
/* Adds an operator and returns its result.  op: a name of gramme-ops.def; in: n_in earlier values
 * (NULL if n_in is 0); attributes: the op's attributes as graph text writes them ("dims=[1]
 * keepdim=true"), or NULL if it has none.  Operands need one dtype: there is no promotion here, add
 * a `cast`.  Shapes broadcast.  Errors: no such op or attribute; an attribute is missing; shapes or
 * dtypes do not fit, both named. */
GrammeValueId gramme_graph_add_op (GrammeGraph *g, const char *op, const GrammeValueId *in,
                                   int n_in, const char *attributes, GError **error);
/* Appends v to the outputs.  An output may be an input or a view of an input, and a value may be
 * output twice. */
gboolean gramme_graph_add_output (GrammeGraph *g, GrammeValueId v, GError **error);

/* Declares that the graph is for tensors whose memory lies as that of `inputs` does, one per input
 * of the graph, of its shapes: the same tensor twice, or memory that overlaps.  Without this call,
 * no input shares memory with an input that the graph writes to, and gramme_function_run refuses
 * inputs that do.  Errors: another number of tensors. */
gboolean gramme_graph_describe_inputs (GrammeGraph *g, GrammeTensorObject *const *inputs,
                                       int n_inputs, GError **error);

/* Makes a graph from text, as gramme_graph_print writes it; the text holds exactly one.  Errors
 * name line and column. */
GrammeGraph *gramme_graph_parse (const char *text, GError **error);
/* Returns the graph as text; parsing it makes an equal graph.  Free with g_free. */
char *gramme_graph_print (const GrammeGraph *g);

/* -- Tensors ----------------------------------------------------------------------------------- */

/* Makes a row-major tensor of zeros.  sizes: ndim of them, NULL if ndim is 0.  Errors: unknown
 * dtype; no memory. */
GrammeTensorObject *gramme_tensor_new (const char *dtype, int ndim, const int64_t *sizes,
                                       GError **error);
GrammeTensorObject *gramme_tensor_ref (GrammeTensorObject *t);
void gramme_tensor_unref (GrammeTensorObject *t); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GrammeTensorObject, gramme_tensor_unref)

/* Returns the address of the first element; valid while a reference is held.  The elements may be
 * written to, but not between a run and its backward if the function saved the tensor: unlike
 * writes by compiled code, such writes are not noticed. */
void *gramme_tensor_data (GrammeTensorObject *t);
const char *gramme_tensor_dtype (const GrammeTensorObject *t); /* static */
int gramme_tensor_ndim (const GrammeTensorObject *t);
const int64_t *gramme_tensor_sizes (const GrammeTensorObject *t);   /* borrowed, ndim of them */
const int64_t *gramme_tensor_strides (const GrammeTensorObject *t); /* likewise; in elements */
/* Declares whether gradients with respect to t are wanted.  Errors: not a floating dtype; t is the
 * result of a run. */
gboolean gramme_tensor_set_requires_grad (GrammeTensorObject *t, gboolean on, GError **error);

/* -- Functions --------------------------------------------------------------------------------- */

/* Compiles g, which remains owned by the caller and may be changed or freed afterwards.  backend: a
 * name of gramme_list_backends.  options: "key=value" strings for the back end, NULL at the end; or
 * NULL.  with_backward: with the gradient, if an input requires grad; it is compiled by the first
 * gramme_function_backward that gets there, or now with the option "backward=at-once".  Errors: no
 * such back end (the near and the installed names are listed); it refused; it failed.  Thread:
 * any. */
GrammeFunction *gramme_compile (const GrammeGraph *g, const char *backend,
                                const char *const *options, gboolean with_backward, GError **error);
GrammeFunction *gramme_function_ref (GrammeFunction *f);
void gramme_function_unref (GrammeFunction *f); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GrammeFunction, gramme_function_unref)

int gramme_function_n_inputs (const GrammeFunction *f);
int gramme_function_n_outputs (const GrammeFunction *f);
/* Returns the milliseconds that compiling f took, the back end's work included, without a backward
 * that is not compiled yet. */
double gramme_function_compile_ms (const GrammeFunction *f);

/* Runs f.  inputs: n_inputs tensors of the graph's dtypes, shapes and strides.  outputs: room
 * for n_outputs; each gets a new reference, or NULL on error.  Inputs that the graph writes to
 * are changed.  If f has a backward, outputs remember what gramme_function_backward needs.
 * Thread: any, if the back end allows concurrent runs. */
gboolean gramme_function_run (GrammeFunction *f, GrammeTensorObject *const *inputs, int n_inputs,
                              GrammeTensorObject **outputs, int n_outputs, GError **error);

/* Computes gradients of outputs of a run with respect to tensors that were its inputs and require
 * grad (gramme_tensor_set_requires_grad, before the run).  outputs: n_outputs results, of one run
 * or several that feed each other.  tangents: the gradient of the final number with respect to each
 * output, of its shape; NULL, or an entry NULL: one, for outputs with one element only.  gradients:
 * room for n_inputs; each gets a new reference to a tensor laid out as the input is (it may be the
 * tangent itself), or NULL if no gradient flows there.  A run can be walked backwards once.
 * Errors: a second time; an input that does not require grad; a saved tensor that was written to in
 * between; no memory. */
gboolean gramme_function_backward (GrammeTensorObject *const *outputs,
                                   GrammeTensorObject *const *tangents, int n_outputs,
                                   GrammeTensorObject *const *inputs,
                                   GrammeTensorObject **gradients, int n_inputs, GError **error);

G_END_DECLS

#endif
