/* SPDX-License-Identifier: Apache-2.0
 * kept_frame.c -- see kept_frame.h.
 *
 * In plain Python a function has one frame.  Code that keeps the frame object (a caught exception
 * in a list, a debugger, a helper that looked its caller up) finds in it the current values of the
 * variables at any time, and the final ones when the function has returned.  A function that is
 * resumed in its middle has several frames, one after the other.  So if the frame object of a part
 * is kept, the rest runs as plain Python in one frame, which adopts the object: object and
 * variables are one again.  Tracebacks refer to an instruction of the frame's code by its number.
 * The tracebacks of the object are found among the collector's objects, the youngest first, and get
 * the number that the same place of the source has in the new code.
 * Invariant: a frame that nothing keeps is never made an object here.
 */
#include "core/objects/cpython.h"
#include <frameobject.h>
#include <glib.h>
#include <internal/pycore_frame.h>

#include "core/objects/kept_frame.h"

#include "core/objects/import.h"

#include <string.h>

PyObject *gm_kept_frame_ask, *gm_kept_frame_adopt;

#if PY_VERSION_HEX >= 0x030d0000
#define FRAME_CODE(f) ((PyCodeObject *) (f)->f_executable)
#else
#define FRAME_CODE(f) ((f)->f_code)
#endif
#if PY_VERSION_HEX < 0x030c0000
#define FRAME_FUNC(f) ((f)->f_func)
#else
#define FRAME_FUNC(f) ((f)->f_funcobj)
#endif

static struct _PyInterpreterFrame *
running (void)
{
  PyThreadState *ts = PyThreadState_Get ();
#if PY_VERSION_HEX >= 0x030d0000
  return ts->current_frame;
#else
  return ts->cframe->current_frame;
#endif
}

/* -- Asking ------------------------------------------------------------------------------------ */

#if PY_VERSION_HEX < 0x030d0000
/* True if the program could tell the frame's dict of variables from a new one: it has a
 * reference to the dict, or has added a key that is not a variable.  Before 3.13 a frame has one
 * such dict, which locals () returns and exec writes to. */
static bool
has_lasting_names (struct _PyInterpreterFrame *f)
{
  PyObject *names = f->f_locals, *key, *value;
  Py_ssize_t at = 0;
  if (names && (Py_REFCNT (names) > 1 || !PyDict_CheckExact (names)))
    return true;
  while (names && PyDict_Next (names, &at, &key, &value)) {
    int is_variable = PySequence_Contains (f->f_code->co_localsplusnames, key);
    if (is_variable <= 0) {
      PyErr_Clear ();
      return true;
    }
  }
  return false;
}
#else
static bool
has_lasting_names (struct _PyInterpreterFrame *f)
{
  return f->frame_obj && f->frame_obj->f_extra_locals;
}
#endif

static PyObject *
ask (PyObject *module, PyObject *unused)
{
  struct _PyInterpreterFrame *f = running ();
  bool names = has_lasting_names (f);
  PyFrameObject *o = names ? PyEval_GetFrame () : f->frame_obj;
  return Py_NewRef (o && (names || Py_REFCNT (o) > 1) ? (PyObject *) o : Py_None);
}

/* -- Tracebacks -------------------------------------------------------------------------------- */

typedef struct {
  int at[4]; /* line, column, end line, end column */
} Place;

static bool
place_of (PyCodeObject *code, int offset, Place *p)
{
  return PyCode_Addr2Location (code, offset, &p->at[0], &p->at[1], &p->at[2], &p->at[3])
         && p->at[0] >= 0;
}

/* Returns the byte offset of the instruction of `to` that has the same place in the source as
 * the instruction of `from` at `offset`, or else the same line; -1: there is none. */
static int
same_place (PyCodeObject *from, int offset, PyCodeObject *to)
{
  Place want, p;
  int in_line = -1;
  if (!place_of (from, offset, &want))
    return -1;
  for (int i = 0; i < (int) Py_SIZE (to); i++) {
    int at = i * (int) sizeof (_Py_CODEUNIT);
    if (!place_of (to, at, &p) || p.at[0] != want.at[0])
      continue;
    if (memcmp (&p, &want, sizeof p) == 0)
      return at;
    in_line = in_line < 0 ? at : in_line;
  }
  return in_line;
}

static void
move_traceback (PyTracebackObject *tb, PyCodeObject *from, PyCodeObject *to)
{
  /* If the line was not computed yet, it has to be computed from the old code. */
  PyObject *line = PyObject_GetAttrString ((PyObject *) tb, "tb_lineno");
  int at = same_place (from, tb->tb_lasti, to);
  if (line)
    tb->tb_lineno = (int) PyLong_AsLong (line);
  Py_XDECREF (line);
  PyErr_Clear ();
  if (at >= 0)
    tb->tb_lasti = at;
}

/* Moves the tracebacks of the frame that the collector has in a generation (-1: in all) from
 * instructions of `from` to the same places in `to`.  Returns their number. */
static Py_ssize_t
move_tracebacks (PyFrameObject *o, int generation, PyCodeObject *from, PyCodeObject *to)
{
  PyObject *gc = gm_import ("gc"), *all = NULL;
  Py_ssize_t n = 0;
  if (gc && generation < 0)
    all = PyObject_CallMethod (gc, "get_referrers", "O", o);
  else if (gc)
    all = PyObject_CallMethod (gc, "get_objects", "i", generation);
  for (Py_ssize_t i = 0; all && PyList_CheckExact (all) && i < PyList_GET_SIZE (all); i++) {
    PyTracebackObject *tb = (PyTracebackObject *) PyList_GET_ITEM (all, i);
    if (!PyTraceBack_Check (tb) || tb->tb_frame != o)
      continue;
    move_traceback (tb, from, to);
    n++;
  }
  Py_XDECREF (all);
  Py_XDECREF (gc);
  PyErr_Clear ();
  return n;
}

/* -- Adopting ---------------------------------------------------------------------------------- */

/* Contents of a frame that has returned, which its frame object owns. */
typedef struct {
  PyObject *func, *code, *names, *back;
  PyObject **locals;
  int n_locals;
} Contents;

static Contents
take_contents (PyFrameObject *o)
{
  struct _PyInterpreterFrame *f = o->f_frame;
  Contents c = { .func = (PyObject *) FRAME_FUNC (f),
                 .code = (PyObject *) FRAME_CODE (f),
                 .names = f->f_locals,
                 .back = (PyObject *) o->f_back,
                 .n_locals = f->stacktop };
  c.locals = g_memdup2 (f->localsplus, (gsize) c.n_locals * sizeof (PyObject *));
  o->f_back = NULL;
  f->f_locals = NULL;
  f->stacktop = 0;
  return c;
}

static void
drop_contents (Contents *c)
{
  for (int i = 0; i < c->n_locals; i++)
    Py_XDECREF (c->locals[i]);
  g_free (c->locals);
  Py_XDECREF (c->func);
  Py_XDECREF (c->back);
  Py_XDECREF (c->code);
}

/* True if the frame object made for the code `made_for` has room for the variables and the stack
 * of `code`. */
static bool
has_room (const PyCodeObject *made_for, const PyCodeObject *code)
{
  return made_for->co_nlocalsplus + made_for->co_stacksize >= code->co_nlocalsplus;
}

static PyObject *
adopt (PyObject *module, PyObject *old)
{
  bool raised = PyTuple_CheckExact (old);
  PyFrameObject *o = (PyFrameObject *) (raised ? PyTuple_GET_ITEM (old, 0) : old);
  struct _PyInterpreterFrame *f = running ();
  PyCodeObject *from = FRAME_CODE (o->f_frame), *to = FRAME_CODE (f);
  /* A tracer has seen the new frame already, and uses that one. */
  if (f->frame_obj || o->f_frame->owner != FRAME_OWNED_BY_FRAME_OBJECT || !has_room (from, to))
    Py_RETURN_NONE;
  if (raised && move_tracebacks (o, 0, from, to) == 0)
    move_tracebacks (o, -1, from, to);
  /* Untracked, like objects of running frames; tracked again when this frame ends. */
  PyObject_GC_UnTrack (o);
  Contents contents = take_contents (o);
  Py_XSETREF (f->f_locals, contents.names);
  o->f_frame = f;
  f->frame_obj = (PyFrameObject *) Py_NewRef (o);
  drop_contents (&contents);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
  { "ask", ask, METH_NOARGS,
    "ask() -> the frame that calls this, if something keeps it or the dict of its variables, or "
    "None." },
  { "adopt", adopt, METH_O,
    "adopt(old): the object of the frame that calls this is `old`, that of a frame that has "
    "returned." },
};

int
gm_py_init_kept_frame (void)
{
  gm_kept_frame_ask = PyCFunction_New (&methods[0], NULL);
  gm_kept_frame_adopt = PyCFunction_New (&methods[1], NULL);
  return gm_kept_frame_ask && gm_kept_frame_adopt ? 0 : -1;
}
