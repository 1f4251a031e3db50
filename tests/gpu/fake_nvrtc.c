/* SPDX-License-Identifier: Apache-2.0
 * fake_nvrtc.c -- an NVRTC for the fake driver: GRAMME_NVRTC names the same library.
 *
 * The compiler is the machine's C compiler: the CUDA text, with sim.h before it, becomes a shared
 * object, which is the "CUBIN". GM_FAKE_OLD_COMPILER knows no --minimal.  GM_SIM_CC and
 * GM_SIM_HEADER name another compiler and another header.
 */
#include "tests/gpu/fake_cuda.h"

#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Results, with NVRTC's numbers. */
enum { OK = 0, OUT_OF_MEMORY = 1, INVALID_OPTION = 5, COMPILATION = 6, CANCELLED = 16 };

typedef struct {
  char *source, *image, *log;
  size_t bytes;
  int (*flow) (void *payload, void *reserved);
  void *payload;
} Program;

EXPORT int
nvrtcVersion (int *major, int *minor)
{
  *major = 13;
  *minor = 0;
  return OK;
}

EXPORT int
nvrtcGetNumSupportedArchs (int *n)
{
  *n = 2;
  return OK;
}

EXPORT int
nvrtcGetSupportedArchs (int *archs)
{
  archs[0] = 80;
  archs[1] = 90;
  return OK;
}

EXPORT int
nvrtcCreateProgram (void **program, const char *source, const char *name, int n_headers,
                    const char *const *headers, const char *const *header_names)
{
  Program *p = calloc (1, sizeof *p);
  (void) name, (void) n_headers, (void) headers, (void) header_names;
  if (!p || !(p->source = strdup (source)))
    return OUT_OF_MEMORY;
  *program = p;
  return OK;
}

EXPORT int
nvrtcDestroyProgram (void **program)
{
  Program *p = *program;
  free (p->source);
  free (p->image);
  free (p->log);
  free (p);
  *program = NULL;
  return OK;
}

static char *
read_file (const char *name, size_t *bytes, const char *head)
{
  FILE *f = fopen (name, "rb");
  if (!f)
    return NULL;
  fseek (f, 0, SEEK_END);
  size_t length = (size_t) ftell (f), n = strlen (head);
  rewind (f);
  char *all = malloc (length + n + 64);
  int used = head[0] ? snprintf (all, n + 64, "%s %zu\n", head, length) : 0;
  size_t got = fread (all + used, 1, length, f);
  fclose (f);
  all[(size_t) used + got] = 0;
  *bytes = (size_t) used + got;
  return all;
}

/* Runs a command like system (), but without changing the process's signals, and asks meanwhile if
 * it is to continue, as NVRTC does. */
static int
run (const Program *p, char *command, bool *cancelled)
{
  char *arguments[] = { "sh", "-c", command, NULL };
  pid_t child, done = 0;
  int status;
  posix_spawnattr_t own_group; /* so that the shell's children end with it */
  posix_spawnattr_init (&own_group);
  posix_spawnattr_setflags (&own_group, POSIX_SPAWN_SETPGROUP);
  if (posix_spawn (&child, "/bin/sh", NULL, &own_group, arguments, environ) != 0)
    return -1;
  while ((done = waitpid (child, &status, p->flow ? WNOHANG : 0)) == 0) {
    if (!*cancelled && p->flow (p->payload, NULL)) {
      *cancelled = true;
      kill (-child, SIGKILL);
    }
    usleep (500);
  }
  return done < 0 ? -1 : status;
}

EXPORT int
nvrtcSetFlowCallback (void *program, int (*callback) (void *payload, void *reserved), void *payload)
{
  Program *p = program;
  p->flow = callback;
  p->payload = payload;
  return OK;
}

EXPORT int
nvrtcCompileProgram (void *program, int n_options, const char *const *options)
{
  Program *p = program;
  char folder[] = "/tmp/gramme-sim-XXXXXX", command[2048], name[64];
  const char *cc = getenv ("GM_SIM_CC");
  bool no_contraction = false;
  /* Restores the old handler, but not its flags, as NVRTC does. */
  signal (SIGINT, signal (SIGINT, SIG_IGN));
  for (int i = 0; i < n_options; i++) {
    no_contraction = no_contraction || !strcmp (options[i], "--fmad=false");
    if (getenv ("GM_FAKE_OLD_COMPILER") && !strcmp (options[i], "--minimal"))
      return INVALID_OPTION;
  }
  if (!no_contraction || !mkdtemp (folder))
    return INVALID_OPTION;
  snprintf (name, sizeof name, "%s/k.c", folder);
  FILE *f = fopen (name, "w");
  if (!f)
    return OUT_OF_MEMORY;
  fputs (p->source, f);
  fclose (f);
  snprintf (command, sizeof command,
            "cd %s && %s -x c -O1 -mavx2 -mfma -mf16c -ffp-contract=off -fno-math-errno "
            "-fno-strict-aliasing -fPIC -shared -w "
            "-include '%s' -o k.so k.c -l:libsleef.so.3 -lm >log 2>&1",
            folder, cc && *cc ? cc : SIM_CC,
            getenv ("GM_SIM_HEADER") ? getenv ("GM_SIM_HEADER") : SIM_HEADER);
  bool cancelled = false;
  int status = run (p, command, &cancelled);
  size_t length;
  snprintf (name, sizeof name, "%s/log", folder);
  p->log = read_file (name, &length, "");
  unlink (name);
  snprintf (name, sizeof name, "%s/k.so", folder);
  if (status == 0 && !cancelled)
    p->image = read_file (name, &p->bytes, "GMSIM");
  unlink (name);
  snprintf (name, sizeof name, "%s/k.c", folder);
  unlink (name);
  rmdir (folder);
  return cancelled ? CANCELLED : p->image ? OK : COMPILATION;
}

static int
give (const char *text, size_t bytes, char *out)
{
  memcpy (out, text, bytes);
  return OK;
}

EXPORT int
nvrtcGetPTXSize (void *program, size_t *bytes)
{
  *bytes = strlen (((Program *) program)->source) + 1;
  return OK;
}

EXPORT int
nvrtcGetPTX (void *program, char *out)
{
  Program *p = program;
  return give (p->source, strlen (p->source) + 1, out);
}

EXPORT int
nvrtcGetCUBINSize (void *program, size_t *bytes)
{
  *bytes = ((Program *) program)->bytes;
  return OK;
}

EXPORT int
nvrtcGetCUBIN (void *program, char *out)
{
  Program *p = program;
  return give (p->image, p->bytes, out);
}

EXPORT int
nvrtcGetProgramLogSize (void *program, size_t *bytes)
{
  Program *p = program;
  *bytes = p->log ? strlen (p->log) + 1 : 1;
  return OK;
}

EXPORT int
nvrtcGetProgramLog (void *program, char *out)
{
  Program *p = program;
  return give (p->log ? p->log : "", p->log ? strlen (p->log) + 1 : 1, out);
}
