/* SPDX-License-Identifier: Apache-2.0
 * builds_py.c -- background compilations and hits of the cache on disk, for Python: counts, and
 * waiting.
 *
 * Waiting goes on in short steps without the interpreter's lock, so that other threads run and
 * signals are handled.
 */
#include "core/objects/cpython.h"

#include "core/run/artefacts.h"
#include "core/run/background_builds.h"
#include "core/objects/builds_py.h"

#define STEP_US 50000

static PyObject *
build_counts (PyObject *module, PyObject *unused)
{
  GmBuildCounts n = gm_builds_count ();
  return Py_BuildValue ("{sIsIsKsKsK}", "waiting", n.waiting, "running", n.running, "made",
                        (unsigned long long) n.made, "failed", (unsigned long long) n.failed,
                        "dropped", (unsigned long long) n.dropped);
}

static PyObject *
wait_builds (PyObject *module, PyObject *arg)
{
  double seconds = arg == Py_None ? -1 : PyFloat_AsDouble (arg);
  if (seconds == -1 && PyErr_Occurred ())
    return NULL;
  if (seconds != seconds || (arg != Py_None && seconds < 0))
    return PyErr_Format (PyExc_ValueError,
                         "wait: a timeout is None or a number of seconds, at least 0");
  int64_t now = g_get_monotonic_time (),
          end = seconds < 0 || seconds > 1e9 ? INT64_MAX : now + (int64_t) (seconds * 1e6);
  for (bool idle = false;; now = g_get_monotonic_time ()) {
    int64_t step = CLAMP (end - now, 0, STEP_US);
    Py_BEGIN_ALLOW_THREADS idle = gm_builds_wait (step);
    Py_END_ALLOW_THREADS if (PyErr_CheckSignals () < 0) return NULL;
    if (idle || g_get_monotonic_time () >= end)
      return PyBool_FromLong (idle);
  }
}

static PyObject *
cache_counts (PyObject *module, PyObject *unused)
{
  GmArtefactCounts n = gm_artefacts_count ();
  return Py_BuildValue ("{sKsKsKsKsK}", "hits", (unsigned long long) n.hits, "misses",
                        (unsigned long long) n.misses, "stored", (unsigned long long) n.stored,
                        "refused", (unsigned long long) n.refused, "bypassed",
                        (unsigned long long) n.bypassed);
}

static PyMethodDef functions[] = {
  { "cache_counts", cache_counts, METH_NOARGS,
    "cache_counts() -> dict: what came of looking for compiled code on disk since the process "
    "began." },
  { "build_counts", build_counts, METH_NOARGS,
    "build_counts() -> dict: what compiles in the background, and what became of it since the "
    "process began." },
  { "wait_builds", wait_builds, METH_O,
    "wait_builds(seconds or None) -> bool: waits until nothing compiles in the background; False "
    "if that took too long." },
  { NULL },
};

int
gm_py_init_builds (PyObject *module)
{
  return PyModule_AddFunctions (module, functions);
}
