/* SPDX-License-Identifier: Apache-2.0
 * random_draw.c -- Python's module random: each call is made again when the compiled function runs,
 * and its number is an input of the graph.
 *
 * A method of an exact random.Random, such as the module's functions, is called with its recorded
 * arguments, after the guards and before the graph, in the order of the program; so the generator
 * ends in the same state as in plain Python. Nothing is drawn while recording: the number is
 * unknown. A call that returns a list, or anything but a number, is left to Python, and so is a
 * call that might raise: its handlers would not see the exception.
 * Invariant: a call returns a float, or an integer between its bounds; this is checked when it
 * runs.
 */
#include "core/models/random_draw.h"
#include "core/models/models.h"
#include "core/trace/number.h"
#include "core/trace/instance.h"

#include <math.h>
#include <string.h>

#define MAX_ARGS 3
#define EXACT_BOUND ((int64_t) 1 << 53) /* integers up to the bound are exact floats */

typedef enum { GIVES_NONE, GIVES_FLOAT, GIVES_INT } Gives;

typedef struct {
  PyObject *in[MAX_ARGS + 1]; /* the arguments, constants; NULL: not given */
  Gives gives;
  int64_t lo, hi;
} Draw;

/* -- Properties of each function --------------------------------------------------------------- */

static bool
integer (PyObject *o, int64_t *out)
{
  int overflow = 1;
  if (o && PyLong_CheckExact (o))
    *out = PyLong_AsLongLongAndOverflow (o, &overflow);
  return !overflow;
}

static bool
is_real (PyObject *o)
{
  int64_t i;
  if (o && PyFloat_CheckExact (o))
    return isfinite (PyFloat_AS_DOUBLE (o));
  return integer (o, &i) && i >= -EXACT_BOUND && i <= EXACT_BOUND;
}

static bool
no_argument (Draw *d)
{
  d->gives = GIVES_FLOAT;
  return true;
}

/* True for two numbers as arguments: whatever their order, the call raises nothing. */
static bool
two_numbers (Draw *d)
{
  d->gives = GIVES_FLOAT;
  return is_real (d->in[0]) && is_real (d->in[1]);
}

static bool
mean_and_deviation (Draw *d)
{
  d->gives = GIVES_FLOAT;
  return (!d->in[0] || is_real (d->in[0])) && (!d->in[1] || is_real (d->in[1]));
}

static bool
rate (Draw *d)
{
  d->gives = GIVES_FLOAT;
  return is_real (d->in[0]) && PyObject_IsTrue (d->in[0]) == 1;
}

static bool
both_ends (Draw *d)
{
  d->gives = GIVES_INT;
  return integer (d->in[0], &d->lo) && integer (d->in[1], &d->hi) && d->lo <= d->hi
         && d->hi < INT64_MAX;
}

static bool
of_range (Draw *d)
{
  int64_t start = 0, stop, step = 1;
  d->gives = GIVES_INT;
  if (!integer (d->in[d->in[1] != NULL], &stop) || (d->in[1] && !integer (d->in[0], &start))
      || (d->in[2] && !integer (d->in[2], &step)))
    return false;
  if (step == 0 || step == INT64_MIN || (step > 0 ? start >= stop : start <= stop))
    return false;
  d->lo = step > 0 ? start : stop + 1;
  d->hi = step > 0 ? stop - 1 : start;
  return true;
}

static bool
bits (Draw *d)
{
  int64_t k;
  if (!integer (d->in[0], &k) || k < 0 || k > 63)
    return false;
  d->gives = GIVES_INT;
  d->hi = (int64_t) (((uint64_t) 1 << k) - 1);
  return true;
}

/* True if the argument is a sequence of integers, or of floats: the call returns an item of it. */
static bool
of_numbers (Draw *d)
{
  PyObject *all = d->in[0]
                          && (PyTuple_CheckExact (d->in[0]) || PyList_CheckExact (d->in[0])
                              || PyRange_Check (d->in[0]))
                      ? PySequence_Fast (d->in[0], "")
                      : NULL;
  Py_ssize_t n = all ? PySequence_Fast_GET_SIZE (all) : 0;
  bool good = n > 0 && n < 100000;
  d->gives =
      good && PyFloat_CheckExact (PySequence_Fast_GET_ITEM (all, 0)) ? GIVES_FLOAT : GIVES_INT;
  for (Py_ssize_t i = 0; good && i < n; i++) {
    PyObject *o = PySequence_Fast_GET_ITEM (all, i);
    int64_t k = 0;
    good = d->gives == GIVES_FLOAT ? PyFloat_CheckExact (o) : integer (o, &k);
    d->lo = i == 0 ? k : MIN (d->lo, k);
    d->hi = i == 0 ? k : MAX (d->hi, k);
  }
  Py_XDECREF (all);
  PyErr_Clear ();
  return good;
}

static bool
start_value (Draw *d)
{
  PyObject *a = d->in[0];
  d->gives = GIVES_NONE;
  return !a || a == Py_None || PyLong_CheckExact (a) || PyFloat_CheckExact (a)
         || PyUnicode_CheckExact (a) || PyBytes_CheckExact (a);
}

static const struct {
  const char *name;
  bool (*known) (Draw *d);
  const char *args[MAX_ARGS];
  int n_args, min;
} rows[] = {
  { "random", no_argument, { NULL }, 0, 0 },
  { "uniform", two_numbers, { "a", "b" }, 2, 2 },
  { "gauss", mean_and_deviation, { "mu", "sigma" }, 2, 0 },
  { "normalvariate", mean_and_deviation, { "mu", "sigma" }, 2, 0 },
  { "expovariate", rate, { "lambd" }, 1, 1 },
  { "randint", both_ends, { "a", "b" }, 2, 2 },
  { "randrange", of_range, { "start", "stop", "step" }, 3, 1 },
  { "getrandbits", bits, { "k" }, 1, 1 },
  { "choice", of_numbers, { "seq" }, 1, 1 },
  { "seed", start_value, { "a" }, 1, 0 },
};

/* -- Checks of the methods --------------------------------------------------------------------- */

static bool
is_random_type (PyTypeObject *type)
{
  PyObject *module = strcmp (type->tp_name, "Random") == 0 && type->tp_base
                             && strcmp (type->tp_base->tp_name, "_random.Random") == 0
                         ? PyDict_GetItemString (gm_type_dict (type), "__module__")
                         : NULL;
  return module && PyUnicode_Check (module)
         && PyUnicode_CompareWithASCIIString (module, "random") == 0;
}

/* True if self is an exact random.Random whose methods random, getrandbits and _randbelow, which
 * its other methods call, are the class's own. */
static bool
draws_plainly (GmRecorder *r, const GmTracker *self)
{
  static const char *const names[] = { "random", "getrandbits", "_randbelow" };
  if (self->kind != &gm_kind_object || !self->real || !self->source
      || !is_random_type (Py_TYPE (self->real)) || self->data != Py_TYPE (self->real))
    return false;
  for (int i = 0; i < 3; i++) {
    PyObject *found = gm_class_lookup_text (r, Py_TYPE (self->real), names[i]);
    bool own =
        found && (i < 2 ? Py_IS_TYPE (found, &PyMethodDescr_Type) : PyFunction_Check (found));
    if (!own || gm_instance_get (r, self, gm_record_take (r, PyUnicode_InternFromString (names[i])))
        || r->stop)
      return false;
  }
  return true;
}

bool
gm_is_random_function (const GmTracker *f)
{
  if (f->kind != &gm_kind_function || !f->real)
    return false;
  PyObject *qualname = ((PyCodeObject *) PyFunction_GET_CODE (f->real))->co_qualname;
  if (PyUnicode_GET_LENGTH (qualname) < 8
      || strncmp (PyUnicode_AsUTF8 (qualname), "Random.", 7) != 0)
    return false;
  PyObject *module = PyDict_GetItemString (PyFunction_GET_GLOBALS (f->real), "__name__");
  return module && PyUnicode_Check (module)
         && PyUnicode_CompareWithASCIIString (module, "random") == 0;
}

/* -- Recording a call -------------------------------------------------------------------------- */

static GmDrawPart
part (const GmTracker *t)
{
  bool fixed = t->source == NULL || t->source->kind == GM_SOURCE_CONST;
  return (GmDrawPart){ fixed ? t->real : NULL, fixed ? NULL : t->source };
}

/* Returns the drawn number as a float, or as an int between its bounds; in the graph an input, a
 * tensor without dimensions, for which a zero stands while recording.  *source: the input's source.
 * Poison after a break. */
static const GmTracker *
number (GmRecorder *r, const char *name, const Draw *d, const GmSource **source)
{
  PyTypeObject *type = d->gives == GIVES_FLOAT ? &PyFloat_Type : &PyLong_Type;
  PyObject *real = gm_input_stand_in (r, (PyObject *) type, r->draws->len, gm_host.number_object);
  if (real == NULL)
    return gm_record_break (r, GM_BREAK_LEFT_TO_PYTHON, name);
  *source =
      gm_source_add (r, &(GmSource){ .kind = GM_SOURCE_DRAWN, .obj = real, .index = r->draws->len },
                     "random.%s()[%u]", name, r->draws->len);
  const GmTracker *tensor = gm_wrap (r, real, *source);
  if (r->stop)
    return tensor;
  return d->gives == GIVES_FLOAT ? gm_float_new (r, tensor)
                                 : gm_number_between (r, tensor, d->lo, d->hi);
}

static const GmTracker *
draw (GmRecorder *r, const char *name, GmDrawPart fn, const GmTracker *self, const GmCallArgs *args)
{
  size_t i = 0;
  Draw d = { .gives = GIVES_NONE };
  const GmTracker *in[MAX_ARGS + 1] = { NULL };
  while (i < G_N_ELEMENTS (rows) && strcmp (rows[i].name, name) != 0)
    i++;
  if (i == G_N_ELEMENTS (rows) || args->n > (uint32_t) rows[i].n_args
      || !gm_args_take (r, name, args, rows[i].args, (uint32_t) rows[i].n_args, in))
    return gm_record_break (r, GM_BREAK_LEFT_TO_PYTHON, name);
  int n = rows[i].n_args;
  while (n > 0 && in[n - 1] == NULL)
    n--;
  bool known = n >= rows[i].min;
  for (int k = 0; k < n && known; k++) {
    d.in[k] = in[k] ? gm_constant (r, gm_realize (r, in[k])) : NULL;
    known = d.in[k] != NULL && !r->stop;
  }
  if (!known || !rows[i].known (&d))
    return gm_record_break (r, GM_BREAK_LEFT_TO_PYTHON, name);
  struct GmDrawCall call = {
    .name = rows[i].name, .is_float = d.gives == GIVES_FLOAT, .lo = d.lo, .hi = d.hi
  };
  GmDrawPart *parts = gm_arena_newn (r->arena, GmDrawPart, n + 2);
  parts[call.n++] = fn;
  if (self)
    parts[call.n++] = part (self);
  for (int k = 0; k < n; k++)
    parts[call.n++] = (GmDrawPart){ gm_record_keep (r, d.in[k]), NULL };
  call.parts = parts;
  const GmTracker *v =
      d.gives == GIVES_NONE ? gm_none (r) : number (r, rows[i].name, &d, &call.result);
  if (!r->stop)
    g_array_append_val (r->draws, call);
  return v;
}

const GmTracker *
gm_random_function_call (GmRecorder *r, const GmTracker *f, const GmCallArgs *args)
{
  const char *name = PyUnicode_AsUTF8 (((PyCodeObject *) PyFunction_GET_CODE (f->real))->co_name);
  const GmTracker *self = args->n ? gm_realize (r, args->args[0]) : NULL;
  if (r->stop)
    return &gm_tracker_poison;
  if (!self || !draws_plainly (r, self)
      || PyDict_GetItemString (gm_type_dict (Py_TYPE (self->real)), name) != f->real)
    return gm_record_break (r, GM_BREAK_LEFT_TO_PYTHON, name);
  return draw (r, name, part (f), self, &(GmCallArgs){ args->args + 1, args->n - 1, args->names });
}

const GmTracker *
gm_random_c_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args)
{
  PyObject *self = PyCFunction_Check (fn) ? PyCFunction_GET_SELF (fn) : NULL;
  if (!self || !is_random_type (Py_TYPE (self)))
    return NULL;
  return draw (r, ((PyCFunctionObject *) fn)->m_ml->ml_name,
               (GmDrawPart){ gm_record_keep (r, fn), NULL }, NULL, args);
}

bool
gm_is_random (const GmTracker *t)
{
  return t->kind == &gm_kind_object && t->real && t->source && is_random_type (Py_TYPE (t->real));
}

const GmTracker *
gm_random_method_call (GmRecorder *r, const GmTracker *self, PyObject *name, const GmCallArgs *args)
{
  if (!gm_is_random (self))
    return NULL;
  PyTypeObject *type = Py_TYPE (self->real);
  PyObject *found = _PyType_Lookup (type, name);         /* the caller that found it guards it */
  if (found && !Py_IS_TYPE (found, &PyMethodDescr_Type)) /* a call by super () in the Python method
                                                            of the same name */
    found = _PyType_Lookup (type->tp_base, name);
  return draw (r, PyUnicode_AsUTF8 (name), (GmDrawPart){ gm_record_keep (r, found), NULL }, self,
               args);
}

/* -- The end of a recording -------------------------------------------------------------------- */

static const struct GmDrawCall *
call_at (const GmRecorder *r, uint32_t i)
{
  return &g_array_index (r->draws, struct GmDrawCall, i);
}

void
gm_random_draws_sources (const GmRecorder *r, GPtrArray *sources)
{
  for (uint32_t i = 0; i < r->draws->len; i++)
    for (uint32_t k = 0; k < call_at (r, i)->n; k++)
      if (call_at (r, i)->parts[k].source)
        g_ptr_array_add (sources, (gpointer) call_at (r, i)->parts[k].source);
}

GmRecordDraw *
gm_random_draws_finish (const GmRecorder *r, const uint32_t *slot_of)
{
  GmRecordDraw *all = gm_arena_newn (r->arena, GmRecordDraw, r->draws->len + 1);
  for (uint32_t i = 0; i < r->draws->len; i++) {
    const struct GmDrawCall *c = call_at (r, i);
    GmRecordDrawPart *parts = gm_arena_newn (r->arena, GmRecordDrawPart, c->n);
    for (uint32_t k = 0; k < c->n; k++)
      parts[k] = (GmRecordDrawPart){ c->parts[k].obj,
                                     c->parts[k].source ? slot_of[c->parts[k].source->number] : 0 };
    all[i] = (GmRecordDraw){ .name = c->name,
                             .n = c->n,
                             .parts = parts,
                             .gives = c->result != NULL,
                             .slot = c->result ? slot_of[c->result->number] : 0,
                             .is_float = c->is_float,
                             .lo = c->lo,
                             .hi = c->hi };
  }
  return all;
}
