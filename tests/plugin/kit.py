#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`gramme check-plugin`: our own plugins pass the whole kit, and one that breaks a rule fails the
case that names it.

    ./in-tree python3 tests/plugin/kit.py [NAME...]        names of plugins, or of rows of BROKEN

A row of BROKEN is the plugin that `gramme new-plugin` writes, which passes, with a few words of it
replaced.  It is compiled, the case that must find it is run alone, and it must fail, name the rule,
and give a command that fails again. GM_KIT_GRAPHS is the number of random graphs a case (6).
"""
import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(
    os.environ.get("top_srcdir", pathlib.Path(__file__).resolve().parents[2])
).resolve()
BUILD = pathlib.Path(os.environ.get("top_builddir", ".")).resolve()
GRAPHS = os.environ.get("GM_KIT_GRAPHS", "6")
FLAGS = (
    "-std=c11 -D_GNU_SOURCE -O1 -fPIC -shared -fvisibility=hidden -ffp-contract=off "
    "-Wl,-z,nodelete -Wl,-z,noexecstack -Wl,-z,now"
).split()

Row = collections.namedtuple(
    "Row", "name case rule changes flags drop template", defaults=("", "", "minimal")
)


def row(name, case, rule, *changes, flags="", drop="", template="minimal"):
    return Row(name, case, rule, changes, flags, drop, template)


def full(*arguments):
    return row(*arguments, template="full")


INCLUDES = "#include <stdlib.h>\n"
OPEN = "  b->host = host;\n"
CLOSE = "backend_close (GrammeBackend *b)\n{\n"
SUPPORT = "                     uint32_t stride, GrammeStatus *status)\n{\n"
VERDICT = "    v->cost = 16;\n"
COMPILE = "  *out = e;\n  return GRAMME_OK;\n}\n\nstatic int32_t\nbackend_exec_info"
RUN = "                        args->n_inputs, args->n_outputs);\n"
RAN = "      ((float *) gramme_tensor_address (&args->outputs[k]))[i] = slot[p->out[k]];\n  }\n"
QUERY = "GRAMME_PLUGIN_DEFINE (api,"
LAST = '"flags=backward;run-concurrent;\\n");\n'


def before(text, new):
    return (text, new + text)


def after(text, new):
    return (text, text + new)


def includes(*names):
    return after(INCLUDES, "".join(f"#include <{n}>\n" for n in names))


def query(code):
    """The query does this first."""
    return (
        before(QUERY, "#define gramme_plugin_query_v0 real_query\n"),
        after(
            LAST,
            "#undef gramme_plugin_query_v0\nGRAMME_EXPORT const GrammePlugin "
            "*gramme_plugin_query_v0 (const GrammeHost *host, GrammeStatus *status)\n"
            f"{{\n  {code}\n  return real_query (host, status);\n}}\n",
        ),
    )


ON_CUDA = ("devices=cpu;", "devices=cpu;cuda;")


def driver_makes(*names):
    """Open makes these folders in HOME/.nv."""
    code = "".join(
        f'  snprintf (made, sizeof made, "%s/.nv/{n}", getenv ("HOME"));\n  mkdir (made, 0700);\n'
        for n in ("", *names)
    )
    return includes("stdio.h", "sys/stat.h"), after(OPEN, "  char made[4096];\n" + code)


# One for each case, and so for each rule: name, the case, the rule, what is replaced by what.
BROKEN = [
    # GPP-1
    row("id-without-domain", "file/manifest", "GPP-1", ("id=org.example.", "id=")),
    row("unknown-dtype", "file/manifest", "GPP-1", ("dtypes=f32;", "dtypes=f33;")),
    row(
        "exports-more",
        "file/exports",
        "GPP-1",
        before(
            "static float\nstep_value",
            "GRAMME_EXPORT int frob (void);\nint frob (void) { return 1; }\n\n",
        ),
    ),
    row("links-with-glib", "file/needed", "GPP-1", flags="-Wl,--no-as-needed -lglib-2.0"),
    row("may-be-unloaded", "file/nodelete", "GPP-1", drop="-Wl,-z,nodelete"),
    row(
        "slow-constructor",
        "file/loads",
        "GPP-1",
        includes("unistd.h"),
        before(
            QUERY, "__attribute__ ((constructor)) static void work (void) { usleep (300000); }\n"
        ),
    ),
    row(
        "query-asks-the-system", "query/pure", "GPP-1", includes("unistd.h"), *query("getppid ();")
    ),
    row("query-takes-memory", "query/pure", "GPP-1", *query("if (!malloc (16)) return NULL;")),
    row("query-logs", "query/pure", "GPP-1", *query('host->log (host->ctx, 0, "x", "hello", 5);')),
    # GPP-2
    row(
        "status-is-needed",
        "query/status",
        "GPP-2",
        after("  const Program *p = &e->role[args->role];\n", "  status->node = 0;\n"),
    ),
    row(
        "status-without-end",
        "query/status",
        "GPP-2",
        (
            '    return gramme_fail (status, GRAMME_UNSUPPORTED, -1, "request',
            '    return status->code = 1, gramme_fail (status, GRAMME_UNSUPPORTED, -1, "request',
        ),
    ),
    row(
        "reads-past-the-request",
        "query/future-host",
        "GPP-2",
        after(
            "  const GrammeImage *images[2] = { request->forward, request->backward };\n",
            (
                "  if (*(const uint32_t *) (const void *) ((const char *) request + "
                "request->struct_size)) return 0;\n"
            ),
        ),
    ),
    row(
        "writes-past-exec-info",
        "query/future-host",
        "GPP-2",
        ("  (void) out; /* zeroed", "  ((char *) out)[out->struct_size] = 0; /* zeroed"),
    ),
    row(
        "ignores-strides-of-tables",
        "graph/wide-rows",
        "GPP-2",
        (
            "const GrammeNode *n = gramme_image_node (image, i);\n    GrammeVerdict",
            (
                "const GrammeNode *n = (const GrammeNode *) (const void *) ((const char *) image + "
                "image->nodes.offset) + i;\n    GrammeVerdict"
            ),
        ),
    ),
    row(
        "ignores-strides-of-verdicts",
        "support/rows",
        "GPP-2",
        ("(size_t) i * stride", "(size_t) i * sizeof *v + 0 * stride"),
    ),
    row(
        "a-verdict-too-many",
        "support/rows",
        "GPP-2",
        after(
            SUPPORT,
            (
                "  ((GrammeVerdict *) (void *) ((char *) verdicts + (size_t) image->nodes.count * "
                "stride))->cost = 1;\n"
            ),
        ),
    ),
    row(
        "ignores-strides-of-tensors",
        "numeric/strided",
        "GPP-2",
        (
            (
                "    if (size != 1 && gramme_value_stride (image, v, d) != stride)\n      return "
                "GRAMME_REASON_LAYOUT;"
            ),
            "    if (0)\n      return GRAMME_REASON_LAYOUT;",
        ),
    ),
    # GPP-3
    row(
        "needs-more-than-it-says",
        "query/old-hosts",
        "GPP-3",
        before(INCLUDES, "#define GRAMME_MIN_HOST_MINOR 0\n"),
        (
            "  *out = e;\n  return GRAMME_OK;\n}\n\nstatic int32_t\nbackend_exec",
            (
                "  if (request->n_regions > 1000)\n    return 2;\n  *out = e;\n  return "
                "GRAMME_OK;\n}\n\nstatic int32_t\nbackend_exec"
            ),
        ),
    ),
    # GPP-4
    row(
        "keeps-the-image",
        "graph/image-gone",
        "GPP-4",
        ("  Step *steps;\n", "  Step *steps;\n  const GrammeImage *image;\n"),
        after("  p->n_steps = image->nodes.count;\n", "  p->image = image;\n"),
        after(RUN, "  if (p->image->flags) return 2;\n"),
    ),
    row(
        "writes-into-the-image",
        "graph/image-gone",
        "GPP-4",
        after("  p->n_steps = image->nodes.count;\n", "  ((GrammeImage *) image)->flags = 0;\n"),
    ),
    row(
        "writes-inputs",
        "numeric/read-only",
        "GPP-4",
        after(
            RUN,
            (
                "  for (uint32_t k = 0; k < p->n_in && p->n; k++)\n    *(float *) "
                "gramme_tensor_address (&args->inputs[k]) = 1;\n"
            ),
        ),
    ),
    # GPP-5
    row(
        "takes-any-version",
        "graph/unknown",
        "GPP-5",
        ("n->op_version > gramme_op_facts (n->op).version || ", ""),
    ),
    row("takes-any-attribute", "graph/unknown", "GPP-5", ("n->n_attrs > 0 || ", "")),
    row(
        "takes-any-flag-of-values",
        "graph/unknown",
        "GPP-5",
        ("  if (v->flags & ~GRAMME_VALUE_FLAGS)\n    return GRAMME_REASON_LAYOUT;\n", ""),
    ),
    row(
        "takes-any-device",
        "graph/unknown",
        "GPP-5",
        ("  if (v->device_type != 1)\n    return GRAMME_REASON_DEVICE;\n", ""),
    ),
    row(
        "takes-any-flag",
        "errors/flags",
        "GPP-5",
        ("  if (gramme_request_newer_flags (request))", "  if (0)"),
    ),
    row(
        "takes-any-size",
        "graph/symbolic",
        "GPP-5",
        (
            "    v->support = v->reason",
            (
                "    if (v->reason == GRAMME_REASON_DYNAMIC)\n      v->reason = "
                "GRAMME_REASON_NONE;\n    v->support = 0 && v->reason"
            ),
        ),
    ),
    row(
        "extensions-by-prefix",
        "query/extensions",
        "GPP-5",
        before(
            "static const GrammeBackendApi api",
            (
                "static const void *extension (GrammeBackend *b, const char *id) { (void) b; "
                'return strncmp (id, "gramme.serialize", 16) ? NULL : b; }\n'
            ),
        ),
        after("  .destroy = backend_destroy,\n", "  .get_extension = extension,\n"),
    ),
    # GPP-6
    row("no-reason", "support/reasons", "GPP-6", after(VERDICT, "    v->reason = 0;\n")),
    row(
        "reason-of-its-own",
        "support/reasons",
        "GPP-6",
        after(VERDICT, "    v->reason = v->reason ? 0x10007 : 0;\n"),
    ),
    row(
        "another-answer",
        "support/same-again",
        "GPP-6",
        after(VERDICT, "    static int asked;\n    v->cluster += asked++ / 40 % 2;\n"),
    ),
    row(
        "another-answer-elsewhere",
        "support/same-again",
        "GPP-6",
        after(
            VERDICT,
            (
                "    static GrammeBackend *first;\n    first = first ? first : b;\n    v->cluster "
                "+= first != b;\n"
            ),
        ),
    ),
    row(
        "yes-is-a-lie",
        "support/yes-compiles",
        "GPP-6",
        (
            "    p->n = elements;\n",
            (
                "    p->n = elements;\n    if (n->op == GRAMME_OP_mul)\n      code = gramme_fail "
                '(status, GRAMME_UNSUPPORTED, 0, "not today");\n'
            ),
        ),
    ),
    row(
        "only-whole-clusters",
        "support/convex-parts",
        "GPP-6",
        (
            "  GrammeExecutable *e = calloc (1, sizeof *e);\n",
            (
                "  GrammeExecutable *e = calloc (1, sizeof *e);\n  if "
                "(request->forward->nodes.count == 1)\n    return gramme_fail (status, "
                'GRAMME_UNSUPPORTED, 0, "too small");\n'
            ),
        ),
    ),
    row(
        "no-end",
        "graph/many-nodes",
        "GPP-6",
        (
            "  GrammeExecutable *e = calloc (1, sizeof *e);\n",
            (
                "  GrammeExecutable *e = calloc (1, sizeof *e);\n  if "
                "(request->forward->nodes.count > 5000)\n    return gramme_fail (status, "
                'GRAMME_UNSUPPORTED, 0, "too large");\n'
            ),
        ),
    ),
    # GPP-7
    row(
        "forgets-the-backward",
        "numeric/gradients",
        "GPP-7",
        after(
            RUN,
            (
                "  if (args->role == GRAMME_BACKWARD)\n    return gramme_fail (status, "
                'GRAMME_STATE, -1, "no backward");\n'
            ),
        ),
    ),
    row(
        "wrong-gradient",
        "numeric/gradients",
        "GPP-7",
        after(
            RAN,
            (
                "  if (args->role == GRAMME_BACKWARD && p->n)\n    ((float *) "
                "gramme_tensor_address (&args->outputs[0]))[0] += 1;\n"
            ),
        ),
    ),
    row(
        "wrong-derivative",
        "numeric/differences",
        "GPP-7",
        after(
            RAN,
            (
                "  if (args->role == GRAMME_BACKWARD && p->n)\n    ((float *) "
                "gramme_tensor_address (&args->outputs[0]))[0] += 1;\n"
            ),
        ),
        ("GRAMME_DTYPE_F32", "GRAMME_DTYPE_F64"),
        ("float", "double"),
        ("dtypes=f32;", "dtypes=f64;"),
    ),
    # GPP-8
    row(
        "forgets-an-element",
        "numeric/all-written",
        "GPP-8",
        ("args->workspace, 0, p->n)", "args->workspace, 0, p->n - (p->n == 1))"),
    ),
    row(
        "empty-is-one",
        "graph/shapes",
        "GPP-8",
        ("args->workspace, 0, p->n)", "args->workspace, 0, p->n + (p->n == 0))"),
    ),
    row(
        "writes-past-the-end",
        "numeric/bounds",
        "GPP-8",
        after(
            RAN,
            (
                "  for (uint32_t k = 0; k < p->n_out; k++)\n    ((float *) gramme_tensor_address "
                "(&args->outputs[k]))[p->n] = 1;\n"
            ),
        ),
    ),
    row(
        "reads-before-the-start",
        "numeric/bounds",
        "GPP-8",
        after(
            RUN,
            (
                "  volatile float x = 0;\n  for (uint32_t k = 0; k < p->n_in && p->n; k++)\n    x "
                "+= ((const float *) gramme_tensor_address (&args->inputs[k]))[-1];\n"
            ),
        ),
    ),
    row(
        "small-workspace",
        "numeric/bounds",
        "GPP-8",
        (
            "(uint64_t) e->role[role].n_slots * sizeof (float)",
            "(uint64_t) e->role[role].n_slots * sizeof (float) - 4",
        ),
    ),
    row("grows", "errors/run-grows", "GPP-8", after(RUN, "  if (!malloc (64)) return 4;\n")),
    # GPP-9
    row("one-bit", "numeric/ops", "GPP-9", ("  return value;", "  return (value) * 1.0000001f;")),
    row(
        "flushes-denormals",
        "numeric/odd-numbers",
        "GPP-9",
        includes("math.h"),
        ("  return value;", "  return isnan (value) ? 1.0f : (value);"),
    ),
    row(
        "random-bits",
        "numeric/repeat",
        "GPP-9",
        after(
            RAN,
            (
                "  static int n;\n  if (n++ % 50 == 49 && p->n)\n    ((float *) "
                "gramme_tensor_address (&args->outputs[0]))[0] += 1;\n"
            ),
        ),
    ),
    row(
        "wrong-now-and-then",
        "numeric/random",
        "GPP-9",
        after(
            RAN,
            (
                "  if (p->n_steps > 3 && p->n)\n    ((float *) gramme_tensor_address "
                "(&args->outputs[0]))[0] += 1;\n"
            ),
        ),
    ),
    full(
        "tasks-in-order",
        "threads/tasks",
        "GPP-9",
        (
            "  const Run *r = arg;\n",
            (
                "  const Run *r = arg;\n  static uint32_t next;\n  if (i == 0)\n    next = 0;\n  "
                "if (i != next++)\n    return;\n"
            ),
        ),
    ),
    full(
        "counts-once",
        "numeric/sized",
        "GPP-9",
        (
            "  return p->n.row == GRAMME_NONE ? p->n.number : p->n.number * sizes[p->n.row];",
            (
                "  static int64_t first = -1;\n  if (p->n.row != GRAMME_NONE && first < 0)\n    "
                "first = p->n.number * sizes[p->n.row];\n  return p->n.row == GRAMME_NONE ? "
                "p->n.number : first < p->n.number * sizes[p->n.row] ? first : p->n.number * "
                "sizes[p->n.row];"
            ),
        ),
    ),
    full(
        "keeps-the-sizes",
        "numeric/sized",
        "GPP-4",
        (
            "  return p->n.row == GRAMME_NONE ? p->n.number : p->n.number * sizes[p->n.row];",
            (
                "  static const int64_t *first;\n  first = first ? first : sizes;\n  return "
                "p->n.row == GRAMME_NONE ? p->n.number : p->n.number * first[p->n.row];"
            ),
        ),
    ),
    # GPP-10
    row(
        "no-message",
        "errors/messages",
        "GPP-10",
        (
            (
                '    return gramme_fail (status, GRAMME_UNSUPPORTED, -1, "request flags %#x are '
                'newer than broken",\n                        gramme_request_newer_flags '
                "(request));"
            ),
            "    return GRAMME_UNSUPPORTED;",
        ),
    ),
    row(
        "does-not-name-the-tool",
        "errors/tools",
        "GPP-10",
        (
            "  GrammeExecutable *e = calloc (1, sizeof *e);\n",
            (
                '  GrammeExecutable *e = calloc (1, sizeof *e);\n  if (strcmp (getenv ("PATH"), '
                '"/nonexistent") == 0)\n    return gramme_fail (status, GRAMME_TOOLCHAIN, 0, '
                '"no");\n'
            ),
        ),
        ("devices=cpu;", 'needs=frobcc;\\n"\n"devices=cpu;'),
    ),
    # GPP-11
    row(
        "trusts-malloc",
        "errors/no-memory",
        "GPP-11",
        ("  if (!p->steps || !p->in || !p->out || !is_read)", "  if (0)"),
    ),
    row(
        "aborts",
        "errors/no-memory",
        "GPP-11",
        (
            (
                '  if (!e)\n    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to '
                'compile");'
            ),
            "  if (!e)\n    abort ();",
        ),
    ),
    row(
        "trusts-the-host",
        "errors/allocation",
        "GPP-11",
        before(
            COMPILE,
            (
                "  char *m = b->host->alloc (b->host->ctx, 64, 8);\n  m[0] = 1;\n  b->host->free "
                "(b->host->ctx, m, 64, 8);\n"
            ),
        ),
    ),
    # GPP-12
    row(
        "another-size",
        "life/memory",
        "GPP-12",
        after(
            OPEN,
            "  void *m = host->alloc (host->ctx, 100, 8);\n  host->free (host->ctx, m, 99, 8);\n",
        ),
    ),
    row(
        "past-its-block",
        "life/memory",
        "GPP-12",
        after(
            OPEN,
            (
                "  char *m = host->alloc (host->ctx, 100, 8);\n  m[100] = 1;\n  host->free "
                "(host->ctx, m, 100, 8);\n"
            ),
        ),
    ),
    row(
        "frees-twice",
        "life/memory",
        "GPP-12",
        after(
            OPEN,
            (
                "  void *m = host->alloc (host->ctx, 100, 8);\n  host->free (host->ctx, m, 100, "
                "8);\n  host->free (host->ctx, m, 100, 8);\n"
            ),
        ),
    ),
    row(
        "keeps-a-block", "life/again", "GPP-12", after(OPEN, "  host->alloc (host->ctx, 100, 8);\n")
    ),
    full(
        "device-frees-more",
        "device/memory",
        "GPP-12",
        (
            "b->host->free (b->host->ctx, p, (size_t) bytes, (size_t) align)",
            "b->host->free (b->host->ctx, p, (size_t) bytes + 1, (size_t) align)",
        ),
    ),
    # GPP-13
    row(
        "lock-held",
        "threads/callbacks",
        "GPP-13",
        includes("pthread.h"),
        before(
            "static int32_t\nbackend_get_support",
            "static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n",
        ),
        after(SUPPORT, "  pthread_mutex_lock (&lock);\n  pthread_mutex_unlock (&lock);\n"),
        before(
            COMPILE,
            (
                '  pthread_mutex_lock (&lock);\n  say (b->host, "done");\n  pthread_mutex_unlock '
                "(&lock);\n"
            ),
        ),
    ),
    row(
        "one-scratch",
        "threads/run",
        "GPP-13",
        (
            "run_elements (p, args, args->workspace,",
            "static float scratch[4096];\n  run_elements (p, args, scratch,",
        ),
    ),
    row(
        "static-table",
        "threads/compile",
        "GPP-13",
        includes("unistd.h"),
        before(
            "  *out = e;\n  return GRAMME_OK;\n}\n\nstatic int32_t\nbackend_exec",
            "  usleep (2000);\n",
        ),
        (
            "  p->steps = calloc (p->n_steps + 1u, sizeof *p->steps);\n",
            "  static Step steps[20000];\n  p->steps = steps;\n",
        ),
        ("  free (p->steps);\n", ""),
    ),
    row(
        "destroys-all",
        "life/destroy",
        "GPP-13",
        before("static int32_t\nbackend_compile", "static int destroyed;\n"),
        after(
            RUN, '  if (destroyed) return gramme_fail (status, GRAMME_STATE, -1, "it is gone");\n'
        ),
        (
            "  free_program (&e->role[GRAMME_FORWARD]);\n",
            "  free_program (&e->role[GRAMME_FORWARD]);\n  gone ();\n",
        ),
        before("static void\nbackend_destroy", "static void gone (void);\n"),
        before("static const GrammeBackendApi api", "static void gone (void) { destroyed = 1; }\n"),
    ),
    # GPP-14
    row(
        "cannot-open-twice",
        "life/nested",
        "GPP-14",
        before("static int32_t\nbackend_open", "static int is_open;\n"),
        after(
            OPEN,
            (
                '  if (is_open++)\n    return gramme_fail (status, GRAMME_STATE, -1, "one at a '
                'time");\n'
            ),
        ),
        after(CLOSE, "  is_open--;\n"),
    ),
    row(
        "leaves-a-descriptor",
        "life/again",
        "GPP-14",
        includes("fcntl.h"),
        after(OPEN, '  open ("/dev/null", O_RDONLY | O_CLOEXEC);\n'),
    ),
    row(
        "leaks-executables",
        "life/leaks",
        "GPP-14",
        (
            "  free (e);\n}\n\nstatic int32_t\nbackend_compile",
            "}\n\nstatic int32_t\nbackend_compile",
        ),
        ("  Program role[2];", "  char more[2000];\n  Program role[2];"),
    ),
    # GPP-15
    row(
        "leaves-a-thread",
        "hygiene/process",
        "GPP-15",
        includes("pthread.h", "unistd.h"),
        before(
            "static int32_t\nbackend_open",
            "static void *sleeper (void *x) { for (;;) pause (); return x; }\n",
        ),
        after(OPEN, "  pthread_t t;\n  pthread_create (&t, NULL, sleeper, NULL);\n"),
    ),
    row(
        "handler-of-its-own",
        "hygiene/process",
        "GPP-15",
        includes("signal.h"),
        after(OPEN, "  signal (SIGUSR1, SIG_IGN);\n"),
    ),
    row(
        "rounds-otherwise",
        "hygiene/process",
        "GPP-15",
        includes("fenv.h"),
        after(RUN, "  fesetround (FE_UPWARD);\n"),
        flags="-lm",
    ),
    row("prints", "hygiene/silent", "GPP-15", after(OPEN, '  puts ("hello");\n')),
    row(
        "open-at-exec",
        "hygiene/descriptors",
        "GPP-15",
        includes("fcntl.h", "unistd.h"),
        ("  const GrammeHost *host; /*", "  int fd;\n  const GrammeHost *host; /*"),
        after(OPEN, '  b->fd = open ("/dev/null", O_RDONLY);\n'),
        after(CLOSE, "  close (b->fd);\n"),
    ),
    # GPP-16
    row(
        "waits-for-anybody",
        "hygiene/children",
        "GPP-16",
        includes("sys/wait.h"),
        after(CLOSE, "  while (waitpid (-1, NULL, WNOHANG) > 0);\n"),
    ),
    row(
        "leaves-a-child",
        "hygiene/children",
        "GPP-16",
        includes("unistd.h"),
        after(OPEN, "  if (fork () == 0) for (;;) pause ();\n"),
    ),
    row("leaves-a-cache-on-the-cpu", "hygiene/files", "GPP-16", *driver_makes("ComputeCache")),
    row(
        "leaves-a-file-beside-the-cache",
        "hygiene/files",
        "GPP-16",
        ON_CUDA,
        *driver_makes("ComputeCache", "trace"),
    ),
    row(
        "leaves-a-folder-beside-the-drivers",
        "hygiene/files",
        "GPP-16",
        ON_CUDA,
        *driver_makes("ComputeCache", "../.frob"),
    ),
    row(
        "leaves-a-file",
        "hygiene/files",
        "GPP-16",
        after(OPEN, '  FILE *f = fopen ("trace.txt", "we");\n  if (f) fclose (f);\n'),
    ),
    # GPP-17
    row(
        "does-not-stop",
        "errors/stop",
        "GPP-17",
        before(
            "  *out = e;\n  return GRAMME_OK;\n}\n\nstatic int32_t\nbackend_exec",
            '  b->host->progress (request->job, "steps", 1, 1);\n',
        ),
    ),
    # GPP-18
    full(
        "fingerprint-of-the-process",
        "cache/fingerprint",
        "GPP-18",
        includes("unistd.h"),
        after(
            "  memset (out, 0, 32);\n",
            "  out[20] = (uint8_t) getpid ();\n  out[21] = (uint8_t) (getpid () >> 8);\n",
        ),
    ),
    full(
        "stores-an-address",
        "cache/round-trip",
        "GPP-18",
        after("  uint64_t bytes;    /* of all */\n", "  uint64_t address;\n"),
        (
            "StoredHead head = { .bytes = bytes };",
            "StoredHead head = { .bytes = bytes, .address = (uintptr_t) e };",
        ),
    ),
    # GPP-19
    full(
        "believes-what-is-stored",
        "cache/damage",
        "GPP-19",
        ("head.checksum != checksum (", "0 != 0 * checksum ("),
    ),
    full("reads-too-far", "cache/damage", "GPP-2", ("  if (n >= sizeof head)\n", "")),
    # GPP-20
    full(
        "does-not-synchronize",
        "device/streams",
        "GPP-20",
        ("  drain (b, stream, n_enqueued (b, stream));\n", "  (void) b;\n"),
    ),
    full(
        "keeps-the-rows",
        "device/streams",
        "GPP-4",
        (".inputs = w->tensors,\n", ".inputs = args->inputs,\n"),
    ),
    # GPP-17
    row(
        "does-not-ask",
        "errors/progress",
        "GPP-17",
        includes("unistd.h"),
        before(
            "  *out = e;\n  return GRAMME_OK;\n}\n\nstatic int32_t\nbackend_exec",
            "  usleep (200000);\n",
        ),
    ),
]

passed = failed = 0


def expect(holds, what, output=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAILED: {what}\n{output}")
    return holds


def check(env, *arguments):
    done = subprocess.run(
        ["gramme", "check-plugin", "--timeout", "600", *arguments],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=3600,
    )
    return done.returncode, done.stdout


@functools.lru_cache
def template(kind, folder):
    subprocess.run(
        ["gramme", "new-plugin", "broken", "--template", kind, "--dir", folder / kind],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return (folder / kind / "broken.c").read_text()


def change(text, r):
    for old, new in r.changes:
        if old not in text:
            raise SystemExit(f"{r.name}: the template has no more: {old}")
        text = text.replace(old, new)
    return text


def build(folder, r):
    source, product = folder / f"{r.name}.c", folder / f"libgramme-{r.name}.so"
    source.write_text(change(template(r.template, folder), r))
    flags = [f for f in FLAGS if f not in r.drop.split()]
    done = subprocess.run(
        [
            *shlex.split(os.environ.get("CC", "cc")),
            "-w",
            *flags,
            f"-I{ROOT}/plugin-api",
            "-o",
            product,
            source,
            *r.flags.split(),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{r.name} does not compile:\n{done.stdout}")
    product.chmod(0o755)
    return product


def ours(env, name, path):
    """GPH-20: our own plugins pass, as they are installed."""
    report = pathlib.Path(env["GM_STATE"]) / f"{name}.json"
    report.parent.mkdir(exist_ok=True)
    graphs = "2" if name == "cc" else "1" if name == "nvrtc" else GRAPHS  # a compiler for each
    fake = BUILD / "tests" / "gpu" / ".libs" / "libgramme-fake-cuda.so"
    if name == "nvrtc" and fake.exists():  # a GPU that is simulated, with a compiler for it
        env = {
            "GRAMME_NVRTC": str(fake),
            "GRAMME_CUDA_DRIVER": str(fake),
            "GRAMME_CUBLASLT": str(fake),
            **env,
        }
    status, output = check(env, "--graphs", graphs, "--json", str(report), str(path))
    found = json.loads(report.read_text())
    missing = re.search(r"NVRTC is missing", output)  # a compiler that users install by themselves
    if missing and found["failed"]:
        print(f"{name}: skipped, {missing[0]}")
        return
    bad = [c["name"] for c in found["cases"] if c["result"] == "fail"]
    expect(status == 0 and not bad and found["passed"] >= 5, f"{name} passes the kit {bad}", output)
    print(f"{name}: {found['passed']} passed, {found['failed']} failed, {found['skipped']} skipped")


def broken(env, folder, r):
    product = build(folder, r)
    start = time.monotonic()
    status, output = check(env, "--filter", f"^{r.case}$", "--graphs", "12", str(product))
    if os.environ.get("GM_KIT_TIMES"):
        print(f"{time.monotonic() - start:6.2f} s  {r.name}")
    return r, product, status, output


def judge(env, r, product, status, output):
    said = re.search(
        rf"^not ok 1 - {re.escape(r.case)}\n#   (GPP-\d+): (.*)$", output, re.MULTILINE
    )
    if not expect(status == 1 and said, f"{r.name} fails {r.case}", output):
        return
    expect(said[1] == r.rule, f"{r.name} breaks {r.rule}, not {said[1]}", output)
    again = re.search(r"^#     gramme check-plugin (.*)$", output, re.MULTILINE)
    if expect(again, f"{r.name}: a command that shows it again", output):
        status, output = check(env, *shlex.split(again[1]))
        expect(status == 1, f"{r.name}: it does show it again: {again[1]}", output)


def command_line(env, folder, honest):
    for arguments, wants, word in [
        ([], 2, "which file?"),
        (["a", "b"], 2, "one file at a time"),
        (["--frob", "a"], 2, "there is no option --frob"),
        (["--level", "11", "a"], 2, "levels are 1 to 10"),
        (["--seed", "x", "a"], 2, "a seed is a number"),
        (["--filter", "(", "a"], 2, "gramme check-plugin:"),
        (["--host-version", "0.7", "a"], 2, "host versions are"),
        (["/no/such/file"], 1, "Bail out!"),
        (["--filter", "^nothing$", honest], 1, "no case has that name"),
        (["--list"], 0, "numeric/gradients"),
        (["--level", "1", honest], 0, "1..5"),
        (["--host-version", "0.0", "--filter", "status", honest], 1, "needs a host of version 0.1"),
        (["--host-version", "0.2", "--filter", "shapes", honest], 0, "host of version 0.2"),
        (["--filter", "shapes", "--json", "-", honest], 0, '"result": "pass"'),
    ]:
        status, output = check(env, *map(str, arguments))
        expect(
            status == wants and word in output,
            f"check-plugin {' '.join(map(str, arguments))}: {word}",
            output,
        )
    # GPH-8: nothing of a file that others can write to is run.
    copy = folder / "libgramme-copy.so"
    copy.write_bytes(honest.read_bytes())
    copy.chmod(0o777)
    status, output = check(env, str(copy))
    expect(
        status == 1 and "Bail out!" in output and "written by others" in output,
        "a file that others may write to is not run",
        output,
    )


def main():
    names = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="kit-") as name:
        folder = pathlib.Path(name)
        trust = ":".join(filter(None, [name, os.environ.get("GRAMME_PLUGIN_TRUST")]))
        env = {
            **os.environ,
            "GRAMME_PLUGIN_TRUST": trust,
            "GM_STATE": str(folder / "state"),
            "TMPDIR": name,
        }
        env.pop("GRAMME_LOGS", None)
        for path in sorted((BUILD / "pkg/plugins").glob("libgramme-*.so")):
            if not names or path.stem.removeprefix("libgramme-") in names:
                ours(env, path.stem.removeprefix("libgramme-"), path.resolve())
        for kind in ("full", "minimal"):
            template(kind, folder)
        rows = [r for r in BROKEN if not names or r.name in names]
        if not names:
            for kind in ("full", "minimal"):
                product = build(folder, row(f"honest-{kind}", "", "", template=kind))
                status, output = check(env, "--graphs", "12", str(product))
                expect(status == 0, f"what new-plugin writes passes, {kind}", output)
                print(output.splitlines()[-1], kind)
            command_line(env, folder, product)
            # GPP-16: what NVIDIA's driver keeps in HOME is not the plugin's.
            product = build(
                folder, row("has-a-driver", "", "", ON_CUDA, *driver_makes("ComputeCache"))
            )
            status, output = check(env, "--filter", "^hygiene/files$", str(product))
            expect(
                status == 0 and "the driver's own cache" in output,
                "a driver's cache is a note",
                output,
            )
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in pool.map(lambda r: broken(env, folder, r), rows):
                judge(env, *done)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
