/* SPDX-License-Identifier: Apache-2.0
 * opt.c -- `gramme opt`: text graphs in, stages of the spine run on them, text graphs out.
 *
 *   gramme opt [--stages s,f,j,p] [--rewrite dead,fold,cse] [--option KEY=VALUE] [--verify]
 *              [--backend NAME] [--emit text|image|cuda|ptx] [FILE|-]
 *
 * A dump (GM_DEBUG=sfjp) can be put into a file, edited, and sent through any span of stages again:
 * tests/graph consists of such files.  Stages may be written as letters, too ("sfjp").  They are a
 * span, because each reads the result of the one before it; without any stage, the text is read,
 * checked and printed in its normal form.  Where stage p runs, graphs of the names
 * saved_tensors_hooks_pack_0 and saved_tensors_hooks_unpack_0 are hooks for the others in the file.
 *
 * With --backend the graph is compiled by that back end, and --emit names the text that is shown:
 * for nvrtc cuda or ptx.  Options are the back end's then (arch=sm_90).
 */
#include "core/compile.h"
#include "core/graph/image.h"
#include "core/run/backend.h"
#include "tools/tools.h"

#include <stdio.h>
#include <string.h>

typedef struct {
  char stages[GM_N_STAGES + 1]; /* a span of the stages that make graphs of graphs */
  uint32_t rewrites;
  bool verify, image;
  const char *file, *backend, *emit; /* emit: kind of text of the back end */
  const char *list[10]; /* options of the compilation: partition=min-cut, memory-budget=0.5 */
  int n_list;
  GmHookGraphs hooks; /* NULL: none */
} Options;

/* -- Command line ------------------------------------------------------------------------------ */

static bool
read_stages (Options *o, const char *list)
{
  char letters[GM_N_STAGES + 1];
  size_t n = 0;
  gm_compile_letters (true, letters);
  for (const char *c = list; *c; c++)
    if (*c != ',') {
      if (n == strlen (letters))
        return false;
      o->stages[n++] = *c;
    }
  return n > 0 && strstr (letters, o->stages) != NULL;
}

static bool
read_rewrites (Options *o, const char *list)
{
  static const struct {
    const char *name;
    uint32_t bit;
  } names[] = {
    { "dead", GM_SIMPLIFY_DEAD },
    { "fold", GM_SIMPLIFY_FOLD },
    { "cse", GM_SIMPLIFY_CSE },
  };
  g_auto (GStrv) words = g_strsplit (list, ",", -1);
  for (char **w = words; *w; w++) {
    uint32_t bit = 0;
    for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
      if (!strcmp (*w, names[i].name))
        bit = names[i].bit;
    if (!bit)
      return false;
    o->rewrites |= bit;
  }
  return true;
}

/* Returns the value of "--name VALUE" or "--name=VALUE" at argv[*i], or NULL if that is another
 * option. */
static const char *
value_of (const char *name, int argc, char **argv, int *i)
{
  size_t n = strlen (name);
  if (strncmp (argv[*i], name, n))
    return NULL;
  if (argv[*i][n] == '=')
    return argv[*i] + n + 1;
  if (argv[*i][n])
    return NULL;
  return *i + 1 < argc ? argv[++*i] : "";
}

/* Reads the command line. Returns 0, or the exit status. */
static int
read_options (Options *o, int argc, char **argv)
{
  const char *value;
  for (int i = 1; i < argc; i++)
    if ((value = value_of ("--stages", argc, argv, &i))
        || (value = value_of ("-s", argc, argv, &i))) {
      if (!read_stages (o, value))
        return gm_tool_misused ("opt", "'%s' is no span of the stages s, f, j, p", value);
    } else if ((value = value_of ("--rewrite", argc, argv, &i))) {
      if (!read_rewrites (o, value))
        return gm_tool_misused ("opt", "'%s': the rewrites are dead, fold and cse", value);
    } else if ((value = value_of ("--emit", argc, argv, &i))) {
      o->image = !strcmp (value, "image");
      o->emit = !o->image && strcmp (value, "text") ? value : NULL;
    } else if ((value = value_of ("--backend", argc, argv, &i))) {
      o->backend = value;
    } else if ((value = value_of ("--option", argc, argv, &i))) {
      if (!strchr (value, '=') || o->n_list + 2 == G_N_ELEMENTS (o->list))
        return gm_tool_misused ("opt", "--option takes KEY=VALUE, eight times at most, not '%s'",
                                value);
      o->list[o->n_list++] = value;
    } else if (!strcmp (argv[i], "--verify"))
      o->verify = true;
    else if (argv[i][0] == '-' && argv[i][1])
      return gm_tool_misused ("opt", "there is no option %s", argv[i]);
    else if (o->file)
      return gm_tool_misused ("opt", "one file at a time, not %s and %s", o->file, argv[i]);
    else
      o->file = argv[i];
  if (o->emit && !o->backend)
    return gm_tool_misused ("opt",
                            "cannot emit '%s': there are text and image; what a back end generates "
                            "needs --backend NAME",
                            o->emit);
  if (o->stages[0] == 'j' && o->stages[1] == 'p')
    return gm_tool_misused ("opt", "stage p needs what f notes about writes: run f, j and p");
  if (o->stages[0] == 'p')
    return gm_tool_misused ("opt", "stage p cuts what j made: run f, j and p");
  return 0;
}

static char *
read_text (const char *file, GError **error)
{
  char *text = NULL;
  if (file && strcmp (file, "-"))
    return g_file_get_contents (file, &text, NULL, error) ? text : NULL;
  GString *all = g_string_new (NULL);
  char some[4096];
  for (size_t n; (n = fread (some, 1, sizeof some, stdin)) > 0;)
    g_string_append_len (all, some, (gssize) n);
  return g_string_free (all, FALSE);
}

/* -- Printing ---------------------------------------------------------------------------------- */

static bool
print_image (const GmGraph *g, GError **error)
{
  g_autoptr (GmImage) img = gm_image_new (g, error);
  if (!img || !gm_image_validate (img->bytes, img->length, error))
    return false;
  const GrammeImage *h = img->bytes;
  g_autofree char *digest =
      g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *) h, img->length);
  printf ("%s: %zu bytes, sha256 %s\n", g->name, img->length, digest);
  const struct {
    const char *name;
    const GrammeTable *t;
  } tables[] = {
    { "values", &h->values },   { "nodes", &h->nodes },         { "refs", &h->refs },
    { "dims", &h->dims },       { "sizes", &h->sizes },         { "attrs", &h->attrs },
    { "payload", &h->payload }, { "constants", &h->constants }, { "inputs", &h->inputs },
    { "outputs", &h->outputs }, { "saved", &h->saved },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (tables); i++) {
    const GrammeTable *t = tables[i].t;
    printf ("  %-9s %5u at %6u:", tables[i].name, t->count, t->offset);
    const uint8_t *bytes = (const uint8_t *) h + t->offset; /* the first row, or its beginning */
    for (uint32_t k = 0; t->count && k < MIN (t->stride, 32); k++)
      printf ("%s%02x", k % 4 ? "" : " ", bytes[k]);
    printf ("\n");
  }
  return true;
}

#define KEEP_TEXT "keep-text=true"

static bool
print_generated (const Options *o, const GmGraph *g, GError **error)
{
  const char *options[G_N_ELEMENTS (o->list)];
  memcpy (options, o->list, sizeof options);
  GmBackend *b = gm_backend_get (o->backend, error);
  /* Some back ends keep the text only with this option. */
  if (b && gm_backend_check_options (b, (const char *const[]){ KEEP_TEXT, NULL }, NULL))
    options[o->n_list] = KEEP_TEXT;
  g_autoptr (GmExec) e = b ? gm_backend_compile (b, g, NULL, options, error) : NULL;
  g_autofree char *text = e ? gm_exec_text (e, o->emit ? o->emit : "cuda", error) : NULL;
  if (text)
    fputs (text, stdout);
  return text != NULL;
}

static bool
print_graph (const Options *o, const GmGraph *g, bool functional, GError **error)
{
  g_autoptr (GmGraph) rewritten = o->rewrites ? gm_graph_simplify (g, o->rewrites, NULL) : NULL;
  const GmGraph *shown = rewritten ? rewritten : g;
  if (o->verify && !gm_graph_verify (shown, functional, error))
    return false;
  if (o->backend)
    return print_generated (o, shown, error);
  if (o->image)
    return print_image (shown, error);
  g_autofree char *text = gm_graph_text (shown);
  fputs (text, stdout);
  return true;
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Makes g the result of the stage before `first`, at which the run begins. */
static void
enter (GmCompile *c, GmGraph *g, char first)
{
  gm_compile_set_graph (c, g);
  if (first == 's')
    return;
  c->record.graph = NULL;
  if (first == 'f')
    c->simplify.graph = g;
  else
    c->functionalize.graph = g;
}

static bool
run_stages (Options *o, GmGraph *g, GError **error)
{
  g_autoptr (GmCompile) c = gm_compile_new ();
  char first = o->stages[0], last = o->stages[strlen (o->stages) - 1];
  c->ask.options = o->list;
  if (o->hooks.pack && o->hooks.unpack) {
    c->ask.trace_hooks = gm_saved_hooks_retrace;
    c->ask.trace_hooks_data = &o->hooks;
  }
  enter (c, g, first);
  if (!gm_compile_run (c, first, last, error))
    return false;
  switch (last) {
  case 's':
    return print_graph (o, c->simplify.graph, false, error);
  case 'f':
    return print_graph (o, c->functionalize.graph, true, error);
  case 'j':
    return print_graph (o, c->join.graph, true, error);
  default:
    return print_graph (o, c->partition.forward, true, error)
           && (!c->partition.backward || print_graph (o, c->partition.backward, true, error));
  }
}

static bool
run_one (Options *o, GPtrArray *graphs, GError **error)
{
  g_autoptr (GmGraph) g = g_ptr_array_steal_index (graphs, 0);
  if (!gm_graph_verify (g, o->stages[0] == 'j', error))
    return false;
  return o->stages[0] ? run_stages (o, g_steal_pointer (&g), error)
                      : print_graph (o, g, false, error);
}

/* Removes the graph of that name from the list, and returns it to the caller; NULL: there is none.
 */
static GmGraph *
take_named (GPtrArray *graphs, const char *name)
{
  for (guint i = 0; i < graphs->len; i++)
    if (!strcmp (((GmGraph *) g_ptr_array_index (graphs, i))->name, name))
      return g_ptr_array_steal_index (graphs, i);
  return NULL;
}

int
gm_tool_opt (int argc, char **argv)
{
  Options o = { 0 };
  g_autoptr (GError) error = NULL;
  int status = read_options (&o, argc, argv);
  if (status)
    return status;
  g_autofree char *text = read_text (o.file, &error);
  g_autoptr (GPtrArray) graphs = text ? gm_graph_parse (text, &error) : NULL;
  bool hooked = graphs && strchr (o.stages, 'p');
  g_autoptr (GmGraph) pack = hooked ? take_named (graphs, "saved_tensors_hooks_pack_0") : NULL;
  g_autoptr (GmGraph) unpack = hooked ? take_named (graphs, "saved_tensors_hooks_unpack_0") : NULL;
  o.hooks = (GmHookGraphs){ pack, unpack };
  while (graphs && graphs->len && !error)
    if (!run_one (&o, graphs, &error))
      break;
  fflush (stdout);
  if (error) {
    fprintf (stderr, "gramme opt: %s: %s\n", o.file ? o.file : "-", error->message);
    return 1;
  }
  return 0;
}
