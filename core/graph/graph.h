/* SPDX-License-Identifier: Apache-2.0
 * graph.h -- the graph: nodes in execution order over values, append-only.
 *
 * A value is an input of the graph or the one result of a node; its id is its place in `values`.  A
 * node is an op with input ids and attributes.  The order of nodes is an execution order and a
 * topological one.  Recording only appends, so that a rollback is a truncation (gm_graph_mark /
 * gm_graph_truncate); rewrites build a new graph and leave the old one alone.  MUTATE nodes may
 * stand in recorded graphs; after stage f there are none.  Their result is their first operand,
 * written to; after set_ the operand's older names must not be used any more, because the tensor
 * has another shape now.  Everything is in the graph's arena.
 * Threads: one at a time.
 */
#ifndef GM_GRAPH_GRAPH_H
#define GM_GRAPH_GRAPH_H

#include "core/base/arena.h"
#include "core/ops/builder.h"

#define GM_NO_ID UINT32_MAX
typedef uint32_t GmValueId;

/* Facts about the memory of a graph's input (alias.c).  GM_NO_ID: there is no such fact. */
typedef struct {
  GmValueId same;     /* the input that is the same tensor, and is itself the same as no other */
  GmValueId shares;   /* the input in whose memory this input lies ... */
  int64_t offset;     /* ... and how many elements after that input's first its own first is */
  GmValueId base;     /* the input that is its base for autograd; then shares == base */
  bool has_base_meta; /* true if its base is no input, but a tensor like base_meta ... */
  GmMeta base_meta;
  int64_t base_offset; /* ... and how many elements after the base's first its own first is */
  bool leaf;           /* true if it requires grad and no operation made it */
  uint32_t made;       /* of views that have a gradient history: rank of that by age among the
                        * inputs' histories, from 1; 0: unknown */
} GmGraphAlias;

/* A read of an input that no node stands for: the recorder tested if the input has a gradient
 * history, when the graph had `at` nodes. */
typedef struct {
  GmValueId input;
  uint32_t at;
} GmGraphLook;

typedef struct {
  GmMeta meta;
  uint32_t node;             /* producer, or GM_NO_ID for an input */
  const char *name;          /* inputs: "x"; others NULL: printed as the node's number */
  const GmGraphAlias *alias; /* inputs: facts about their memory, in the arena; NULL: none */
  struct {
    uint32_t step, nth;
  } look; /* inputs: the program first reads the input's gradient history before that step, as the
           * nth of such reads, from 0; GM_NO_ID: it never does, or that is unknown
           * (core/aot/read_order.h) */
} GmGraphValue;

/* Tag of a node: how its value is treated where the graph is cut in two (core/aot/partition.c).
 * SAVE and RECOMPUTE are wishes of the program.  ITSELF: a view that is the same tensor as its
 * operand, whose shape was changed (core/aot/metadata.c).  IN_PLACE: a write that is the same
 * operation as the node that computes the elements, as in `x.tanh_ ()`, with a single gradient
 * history; it is cut as that node is.  Without IN_PLACE: `x.copy_ (x.tanh ())`, where the copy is
 * another place at which gradients are summed.  Rewrites keep tags, images do not have them. */
typedef enum {
  GM_TAG_NONE,
  GM_TAG_SAVE,
  GM_TAG_RECOMPUTE,
  GM_TAG_ITSELF,
  GM_TAG_IN_PLACE,
  GM_N_TAGS
} GmNodeTag;
extern const char *const gm_node_tag_names[GM_N_TAGS]; /* as written in text: "save" */
/* Names of the marks, by the number of the bit: "reshape". */
extern const char *const gm_node_mark_names[GM_N_NODE_MARKS];

typedef struct {
  GmOp op;
  uint8_t tag;   /* GmNodeTag */
  uint8_t marks; /* GmNodeMark; kept and printed like a tag */
  uint32_t n_in;
  const GmValueId *in;
  GmValueId out;
  uint32_t step; /* number of the recorded node that it stands for, entirely or in part: steps
                  * ascend */
  const GmAttrs *attrs; /* NULL if the op has none */
  const char *where;    /* "train.py:12", or NULL */
} GmNode;

/* Kind of an output, printed as `%1`, `saved %1`, `grad %1`, `mut %1`, `history %1`.  MUTATION:
 * the new contents of an input that was written to.  HISTORY: a value that only receives gradients;
 * the caller does not get its elements.  Histories come after all other outputs of the function. */
typedef enum {
  GM_OUTPUT_USER,
  GM_OUTPUT_SAVED,
  GM_OUTPUT_GRAD,
  GM_OUTPUT_MUTATION,
  GM_OUTPUT_HISTORY
} GmOutputKind;
typedef struct {
  GmValueId value;
  uint8_t kind; /* GmOutputKind */
} GmGraphOutput;

/* Says how often a gradient that the program gave can be differentiated.  TWICE: its nodes are
 * differentiated.  ONCE: asking for its derivative is an error.  UNKNOWN: with gradients on, the
 * function may do something else than what was recorded. */
typedef enum { GM_TWICE, GM_ONCE, GM_TWICE_UNKNOWN } GmTwice;

typedef struct GmHigher GmHigher; /* higher.h */

typedef struct {
  GmArena *arena;       /* owned or borrowed: see gm_graph_new */
  const char *name;     /* "forward", "backward", "graph" */
  GArray *values;       /* GmGraphValue */
  GArray *nodes;        /* GmNode */
  GArray *inputs;       /* GmValueId */
  GArray *outputs;      /* GmGraphOutput */
  GPtrArray *constants; /* GmTensor, owned; `constant` nodes index it by OFFSET */
  GPtrArray *customs;   /* GmGraph: the gradients of `custom` nodes, see gm_graph_add_custom; shared
                         * with rewrites; NULL: none */
  GPtrArray *highers;   /* GmHigher: the bodies of cond, scan and their kin; shared with rewrites;
                         * NULL: none */
  GPtrArray *hooks;     /* GmGraph: as recorded, pack and unpack of tensors that gradients will
                         * read; no node calls them.  NULL: none */
  GmSizes *sizes; /* shared by the graphs of a compilation; NULL while all sizes are numbers */
  GmSym *sym;     /* sizes->sym, or NULL */
  bool owns_arena;
  uint8_t twice;            /* GmTwice */
  const int32_t *result_of; /* of a gradient that the program gave: per input the number of the
                             * function's result that it is, or -1; in the arena; NULL: no input is
                             * one */
  uint32_t step;            /* step of nodes that are added; GM_NO_ID: their own number */
} GmGraph;

GmGraph *gm_graph_new (const char *name, GmArena *arena); /* arena NULL: one of its own */
/* Returns a new graph of the same compilation: it shares the sizes of `like`.  A caller that
 * copies nodes sets their step.  arena: as for gm_graph_new. */
GmGraph *gm_graph_new_like (const GmGraph *like, const char *name, GmArena *arena);
void gm_graph_free (GmGraph *g);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmGraph, gm_graph_free)

#define gm_graph_value(g, id) (&g_array_index ((g)->values, GmGraphValue, (id)))
#define gm_graph_node(g, i) (&g_array_index ((g)->nodes, GmNode, (i)))
#define gm_graph_meta(g, id) (&gm_graph_value (g, id)->meta)

GmValueId gm_graph_add_input (GmGraph *g, const char *name, const GmMeta *meta);
/* Adds a node whose result is inferred, and returns its value; GM_NO_ID with *error if the
 * operands do not fit.  attrs are copied; `where` must live as long as the arena. */
GmValueId gm_graph_add_node (GmGraph *g, GmOp op, const GmValueId *in, int n_in,
                             const GmAttrs *attrs, const char *where, GError **error);
/* Does the same as gm_graph_add_node for a result whose meta is known already, as for copies of
 * nodes.  Nothing is checked. */
GmValueId gm_graph_add_known (GmGraph *g, GmOp op, const GmValueId *in, int n_in,
                              const GmAttrs *attrs, const char *where, const GmMeta *meta);
/* Sets the tag of the node whose result is v; v is not an input. */
void gm_graph_set_tag (GmGraph *g, GmValueId v, GmNodeTag tag);
/* Gives the node whose result is v the marks of node n; v is not an input. */
void gm_graph_mark_like (GmGraph *g, GmValueId v, const GmNode *n);
/* Adds a `constant` node for t, with a new reference, and returns its value. */
GmValueId gm_graph_add_constant (GmGraph *g, GmTensor *t, const char *where);
/* Adds a gradient that the program gives (core/graph/custom_node.c) to the table and returns its
 * row. A function with such a gradient is recorded as a `custom` node for each result that has a
 * gradient. Its operands are the result as computed (by nodes that require no grad), the arguments
 * that get a gradient, and other values that the gradient reads; OFFSET is the row, DIM the number
 * of the result among these results.  The inputs of `backward`: a gradient for each such result,
 * then what it reads; its outputs: a gradient for each argument (GRAD), then values that may fail
 * to be computed and that no gradient depends on.  `backward` is functional. */
uint32_t gm_graph_add_custom (GmGraph *g, GmGraph *backward); /* steals backward; returns its row */
GmGraph *gm_graph_custom_copy (const GmGraph *backward);      /* in an arena of its own */
/* Copies to `to` the two fields of a gradient that copying nodes leaves out: `twice` and, into
 * to's arena, `result_of`.  The nodes and inputs of `to` were copied from `from`. */
void gm_graph_custom_describe (GmGraph *to, const GmGraph *from);
/* Returns the gradient of a `custom` node, borrowed; NULL if the table has no such row. */
const GmGraph *gm_graph_custom (const GmGraph *g, const GmNode *n);
/* Return the number of results of a `custom` node's function, and the number of its arguments
 * that get a gradient. */
uint32_t gm_graph_custom_n_results (const GmGraph *g, const GmNode *n);
uint32_t gm_graph_custom_n_args (const GmGraph *backward);
/* Makes `to` share the tables of `from` whose rows the attributes of nodes name: customs and
 * highers. */
void gm_graph_share_tables (GmGraph *to, const GmGraph *from);
/* Sets the facts about an input's memory.  `alias` is copied; NULL: nothing is known any more. */
void gm_graph_set_alias (GmGraph *g, GmValueId input, const GmGraphAlias *alias);
/* Copies the facts about the memory of `from`'s inputs to the inputs of `to`; map: their ids in
 * `to`, NULL if these are the same. */
void gm_graph_carry_aliases (GmGraph *to, const GmGraph *from, const GmValueId *map);
void gm_graph_add_output (GmGraph *g, GmValueId v, GmOutputKind kind);
/* Returns the number of outputs that are no histories; they come before the histories. */
uint32_t gm_graph_n_elements (const GmGraph *g);

typedef struct {
  uint32_t values, nodes, inputs, outputs, constants, customs, highers;
  GmSizesMark sizes;
} GmGraphMark;
void gm_graph_cut (GmGraph *g, const GmGraphMark *m); /* truncate's slow half */

/* Returns a mark, to which gm_graph_truncate returns.  Inline, because the recorder takes a mark
 * before each instruction, and most instructions record nothing. */
static inline GmGraphMark
gm_graph_mark (const GmGraph *g)
{
  return (GmGraphMark){ .values = g->values->len,
                        .nodes = g->nodes->len,
                        .inputs = g->inputs->len,
                        .outputs = g->outputs->len,
                        .constants = g->constants->len,
                        .customs = g->customs ? g->customs->len : 0,
                        .highers = g->highers ? g->highers->len : 0,
                        .sizes = g->sizes ? gm_sizes_mark (g->sizes) : (GmSizesMark){ 0 } };
}

static inline void
gm_graph_truncate (GmGraph *g, const GmGraphMark *m)
{
  if (g->values->len != m->values || g->nodes->len != m->nodes || g->inputs->len != m->inputs
      || g->outputs->len != m->outputs || g->constants->len != m->constants || g->customs
      || g->highers || g->sizes)
    gm_graph_cut (g, m);
}

/* -- Symbolic sizes ----------------------------------------------------------------------------
 * Sizes and strides in metas, and the attributes SIZES, START and STOP, may be rows of g->sym
 * (gm_size_is_symbolic); so may the integer in VALUE and VALUE2 of CREATE ops: the number itself as
 * an element.  Adding a node to a graph that has sizes asks shape questions of g->sizes: an open
 * question is decided by the hints, and the answer becomes a fact, for which a guard is made in the
 * end.  Without hints gm_graph_add_node fails with GM_ERROR_UNSUPPORTED and the question.  Code
 * that computes with metas outside of it (builders) must enter g->sizes. */
GmSizes *gm_graph_sizes (GmGraph *g);                         /* made at the first call */
GmSym *gm_graph_sym (GmGraph *g);                             /* the expressions of these sizes */
void gm_graph_share_sizes (GmGraph *to, const GmGraph *from); /* before `to` has sizes of its own */
#define gm_graph_meta_is_symbolic gm_meta_is_symbolic
/* Bits of the attributes whose values are sizes. */
#define GM_ATTRS_OF_SIZES (1u << GM_ATTR_SIZES | 1u << GM_ATTR_START | 1u << GM_ATTR_STOP)
#define GM_ATTRS_OF_NUMBERS (1u << GM_ATTR_VALUE | 1u << GM_ATTR_VALUE2)
static inline bool
gm_scalar_is_symbolic (GmScalar s)
{
  return s.kind == GM_CATEGORY_INT && gm_size_is_symbolic (s.i);
}
bool gm_graph_attrs_are_symbolic (const GmAttrs *a); /* NULL: no */
/* True if a size in a meta or attribute of g is not a number; bodies of calls of graphs do not
 * count.  g NULL: false. */
bool gm_graph_is_symbolic (const GmGraph *g);
/* Evaluates the attributes for these values of the symbols into *out.  False with *error. */
bool gm_graph_attrs_now (const GmGraph *g, const GmAttrs *a, const int64_t *symbols, GmAttrs *out,
                         GError **error);
/* True if two metas are the same; sizes that are expressions are compared by the facts. */
bool gm_graph_same_meta (const GmGraph *g, const GmMeta *a, const GmMeta *b);
/* Gives m row-major strides, as gm_meta_set_contiguous does; may add rows to g->sym, but no
 * facts. */
void gm_graph_meta_set_contiguous (GmGraph *g, GmMeta *m);
/* Place in a call's inputs, a size or stride, that determines a symbol (specialise.c); input
 * GM_NO_ID: no input does. */
typedef struct {
  uint32_t input;
  uint8_t dim;
  bool is_stride;
} GmSymbolSource;
/* Stores in *out an array, in `arena`, of the source of each symbol by symbol number; returns
 * their number. */
uint32_t gm_graph_symbol_sources (const GmGraph *g, GmArena *arena, const GmSymbolSource **out);
/* Evaluates m for these values of the symbols into *out.  False with *error. */
bool gm_graph_meta_now (const GmGraph *g, const GmMeta *m, const int64_t *symbols, GmMeta *out,
                        GError **error);
/* Returns a copy of g in which each size is a number if the facts say so, and the same symbol
 * stands for all symbols that are equal.  The copy has sizes of its own, in which symbols keep
 * their numbers. */
GmGraph *gm_graph_settle (const GmGraph *g, GmArena *arena);
/* Returns the graph for these values of its symbols: shapes are inferred again, so *error says
 * what does not fit for them. */
GmGraph *gm_graph_specialise (const GmGraph *g, const int64_t *symbols, GmArena *arena,
                              GError **error);
/* Returns a copy of g, bodies included, in an arena of its own, with `sizes` (stolen), which is
 * a gm_sizes_copy of g's. */
GmGraph *gm_graph_copy_with (const GmGraph *g, GmSizes *sizes);
/* Returns a copy of g in an arena of its own, which shares nothing with g that is written to: it
 * has its own sizes, if g has any. */
GmGraph *gm_graph_copy_apart (const GmGraph *g);
/* Returns the requires_grad that a node's result has if gradients were on where the node was
 * recorded. */
bool gm_graph_expects_grad (const GmGraph *g, GmOp op, const GmValueId *in, int n_in,
                            const GmMeta *result);

/* A builder that appends nodes to g.  item() fails with GM_ERROR_UNSUPPORTED "data-dependent";
 * the recorder replaces item and random of the vtable. */
typedef struct {
  GmBuilder base;
  GmGraph *graph;
  const char *where; /* copied to every node */
  GmNodeTag tag;     /* copied to every node: RECOMPUTE inside of a checkpointed region */
  GmValueId rng;     /* the generator's state, from which rng_taken counts; GM_NO_ID: random ops
                      * are refused */
  bool may_set;      /* the recorder follows tensors that become others (gm_b_set); false: these
                      * are refused */
  int64_t rng_taken; /* number of draws since the state `rng`, a size */
  GPtrArray *metas;  /* by value: the arena's copy that `meta` returned; private */
} GmGraphBuilder;
void gm_graph_builder_init (GmGraphBuilder *b, GmGraph *g);
void gm_graph_builder_clear (GmGraphBuilder *b);
/* Returns the random generator's present state, a value {seed, next draw}; the graph must have
 * an input for the state. */
GmVal gm_graph_builder_state (GmGraphBuilder *b);
#define gm_val_from_id(id) ((GmVal) (uintptr_t) ((id) + 1u))
#define gm_id_from_val(v) ((GmValueId) ((uintptr_t) (v) -1u))

/* -- Text (print.c, parse.c): printing what was parsed gives the same text ---------------------
 *
 *   forward (%x: f32[n, 64], %w: f32[64, 10] requires_grad) -> (%1, saved %0) where n = 7, 2 <= n {
 *     const 0 : f32[2] = [1.0, 2.5]   # first; large ones are left out and cannot be parsed
 *     %0 = matmul %x %w : f32[n, 10]  # train.py:12
 *     %1 = permute %0 dims=[1, 0] : f32[10, n]{1, 10}
 *   }
 *
 * Bodies of cond, scan and their kin come first too: `higher 0 = cond [carried=N] [mapped=N]
 * [reverse] name (...) -> (...) { ... } name (...) -> (...) { ... }`; a node names its row with
 * offset, the result with dim.  A function of the host's has only a name, and cannot be called:
 * `higher 1 = host_call "opaque" [ticket] [flows=N] [many=N] ... -> (f32[2] requires_grad)`,
 * `higher 2 = gradient_hook "double"`.  `where` gives symbols their values in the example, and
 * facts.  Braces give strides that are not row-major.  A type may be left out where shape rules can
 * find it.  `requires_grad` stands after an input, then ` leaf`, then the facts about its memory:
 * ` is %a`, ` aliases %a+4`, ` view %a+4`, ` view f32[8]+4 aliases %a-2`; a result has it from its
 * operands unless ` no_grad` (or `requires_grad`) says otherwise.  `!save` and `!recompute` are
 * tags.  `@cuda`: the device.  The comment after a node is its `where`; a comment on a line of its
 * own is skipped. */
char *gm_graph_text (const GmGraph *g); /* caller frees */
/* Parses a text with one or more graphs.  NULL with *error, which names line and column. */
GPtrArray *gm_graph_parse (const char *text, GError **error); /* of GmGraph, with free function */
/* Parses the attributes of a node, as in "dims=[1] keepdim=true".  False with *error. */
bool gm_graph_parse_attrs (const char *text, GmAttrs *out, GError **error);

/* -- Checks and rewrites ----------------------------------------------------------------------- */
/* Checks order, ids, arities, attributes, and that each meta is what the shape rules infer;
 * `functional`: also that there is no MUTATE node.  False with *error, which names the node. */
bool gm_graph_verify (const GmGraph *g, bool functional, GError **error);
/* Checks the outputs of a graph for a back end: each is the result of a node that owns its
 * memory, and no value is output twice, so that each can be computed where it is wanted. */
bool gm_graph_verify_outputs (const GmGraph *g, GError **error);

/* Rewrites of gm_graph_simplify.  For all of them: inputs and outputs stay, and an output keeps
 * a value of its own, so that no two tensors that the caller sees are merged.  In a graph with
 * MUTATE nodes these stay, and only views are rewritten.  Without CSE the graph may still be
 * differentiated: nodes whose result requires grad are not folded, because that would change the
 * order in which gradients are summed. */
typedef enum { GM_SIMPLIFY_DEAD = 1, GM_SIMPLIFY_FOLD = 2, GM_SIMPLIFY_CSE = 4 } GmSimplify;
/* Returns a rewritten copy of g in `arena`.  what: bits of GmSimplify.  FOLD: exact rewrites
 * only (identity casts, views of views, double transposition ...), never a rewrite that changes a
 * bit.  CSE changes the order in which gradients are summed, so it is for graphs that will not be
 * differentiated any more. */
GmGraph *gm_graph_simplify (const GmGraph *g, uint32_t what, GmArena *arena);
/* Does the same as gm_graph_simplify; map: NULL, or gets by value of g the value that stands for
 * it in the result, or GM_NO_ID.  apart: by value of g, true if no equal value may stand for it
 * whose memory the caller sees, and may write to; NULL: false for all. */
GmGraph *gm_graph_simplify_mapped (const GmGraph *g, uint32_t what, GmArena *arena,
                                   const bool *apart, GmValueId *map);
/* Returns a hash of the graph's structure, which does not depend on names. */
uint64_t gm_graph_hash (const GmGraph *g);

/* -- The reference (interpret.c) --------------------------------------------------------------- */

/* Runs the graph node by node through gm_op_run, without autograd.  inputs: a tensor for each
 * graph input, of its dtype and shape; symbols get their values from these.  outputs: a new
 * reference for each graph output, which may alias inputs.  MUTATE nodes write.  False with
 * *error. */
bool gm_graph_interpret (const GmGraph *g, GmTensor *const *inputs, GmTensor **outputs,
                         GError **error);

/* True if the values a and b have the same elements, because the same operations have computed them
 * from the same operands; reads back `depth` nodes. Right only while nothing was written in place.
 */
bool gm_graph_computes_same (const GmGraph *g, GmValueId a, GmValueId b, int depth);

#endif
