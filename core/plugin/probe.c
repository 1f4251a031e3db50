/* SPDX-License-Identifier: Apache-2.0
 * probe.c -- both sides of a probe.
 *
 * The report is TOKEN, the refusal's name (or "good"), and its text, each ended by a NUL.  The
 * token is made for one probe, so that output of the plugin is not mistaken for the report.  A
 * process between the host and the process that tries the plugin ends everything that was started
 * and left behind.  After the report the process exits normally, so that what a plugin does at exit
 * counts, too.  If the program cannot be started, the plugin is not tried in this process instead.
 */
#include "core/plugin/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/installed.h"
#include "core/base/log.h"
#include "core/base/yield.h"
#include "core/plugin/loader.h"
#include "core/plugin/trust.h"

#define REPORT_FD 9
#define DEADLINE_MS 10000
#define OUTPUT_BYTES 4096
#define REPORT_BYTES 4096
#define TOKEN_BYTES 32

/* The limit on data only: reserving addresses costs nothing. */
#define MEMORY_BYTES ((rlim_t) 2 << 30)
#define FILE_BYTES ((rlim_t) 16 << 20)
#define MAX_FILES 256
#define MAX_ROUNDS 100
#define GRACE_US 1000000
#define ASK_US 20000   /* between two questions whether to stop */
#define STOP_US 100000 /* for its end, when it is to stop */

extern char **environ;

/* -- The child --------------------------------------------------------------------------------- */

static void
limit (int what, rlim_t to)
{
  struct rlimit l;
  if (getrlimit (what, &l) == 0 && (l.rlim_cur == RLIM_INFINITY || l.rlim_cur > to)) {
    l.rlim_cur = to;
    if (l.rlim_max == RLIM_INFINITY || l.rlim_max > to)
      l.rlim_max = to;
    setrlimit (what, &l);
  }
}

static void
report (const char *token, const GmRefused *why)
{
  GString *text = g_string_new (token);
  g_string_append_c (text, 0);
  g_string_append (text, why->code ? gm_refusal_names[why->code] : "good");
  g_string_append_c (text, 0);
  g_string_append_len (text, why->code ? why->text : "",
                       why->code ? (gssize) MIN (strlen (why->text), (size_t) 2000) : 0);
  g_string_append_c (text, 0);
  for (gsize at = 0; at < text->len;) {
    ssize_t n = write (REPORT_FD, text->str + at, text->len - at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break; /* the host has closed the descriptor */
    at += (gsize) n;
  }
  g_string_free (text, TRUE);
}

/* -- The process between ----------------------------------------------------------------------- */

/* Kills all children of this process.  Their own children then become children of this process, and
 * are killed in the next round. */
static void
end_children (void)
{
  for (int round = 0; round < MAX_ROUNDS; round++) {
    g_autofree char *text = NULL;
    g_autofree char *path = g_strdup_printf ("/proc/self/task/%d/children", (int) getpid ());
    if (!g_file_get_contents (path, &text, NULL, NULL) || !text[0])
      return;
    for (char *at = text, *end; *at; at = end) {
      long pid = strtol (at, &end, 10);
      if (end == at || pid <= 1)
        break;
      kill ((pid_t) pid, SIGKILL);
      while (waitpid ((pid_t) pid, NULL, 0) < 0 && errno == EINTR)
        ;
      end += strspn (end, " \n");
    }
  }
}

/* Forks, and returns in the child only (in this process, if the fork fails).  The parent becomes a
 * subreaper, which kills processes that a plugin starts and that leave their group and parent, and
 * exits with the child's status.  SIGTERM tells it that the time is over. */
static void
stand_between (void)
{
  sigset_t awaited, old;
  sigemptyset (&awaited);
  sigaddset (&awaited, SIGCHLD);
  sigaddset (&awaited, SIGTERM);
  sigprocmask (SIG_BLOCK, &awaited, &old);
  prctl (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  pid_t child = fork (), gone;
  if (child <= 0) { /* the child, or this process if the fork failed */
    sigprocmask (SIG_SETMASK, &old, NULL);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    prctl (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    return;
  }
  close (REPORT_FD);
  prctl (PR_SET_PDEATHSIG, SIGTERM);
  int status = 0;
  do {
    if (sigwaitinfo (&awaited, NULL) == SIGTERM)
      kill (child, SIGKILL);
    while ((gone = waitpid (-1, &status, WNOHANG)) > 0 && gone != child)
      ;
  } while (gone != child && !(gone < 0 && errno == ECHILD));
  end_children ();
  if (WIFSIGNALED (status)) {
    signal (WTERMSIG (status), SIG_DFL);
    sigprocmask (SIG_SETMASK, &old, NULL);
    kill (getpid (), WTERMSIG (status));
  }
  _exit (WIFEXITED (status) ? WEXITSTATUS (status) : 1);
}

void
gm_probe_main (const char *file, const char *token)
{
  GmRefused why = { 0 };
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  fcntl (REPORT_FD, F_SETFD, FD_CLOEXEC);
  limit (RLIMIT_CORE, 0);
  stand_between ();
  limit (RLIMIT_CPU, DEADLINE_MS / 1000);
  limit (RLIMIT_FSIZE, FILE_BYTES);
  limit (RLIMIT_NOFILE, MAX_FILES);
/* A sanitizer's shadow counts as data, too. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  limit (RLIMIT_DATA, MEMORY_BYTES);
#endif
/* The thread sanitizer starts a thread of its own with the program's first. */
#ifdef __SANITIZE_THREAD__
  g_thread_join (g_thread_new ("first", (GThreadFunc) g_get_prgname, NULL));
#endif
  gm_loader_try (file, &why);
  report (token, &why);
  exit (0);
}

/* -- The parent -------------------------------------------------------------------------------- */

typedef struct {
  pid_t pid;
  int report_fd, output_fd;
  char report[REPORT_BYTES], output[OUTPUT_BYTES + 1];
  size_t n_report, n_output;
  bool late, stopped;
  int status; /* of waitpid */
} Probe;

/* Returns the path of the program that runs the trial; the caller frees. */
static char *
program (void)
{
  const char *other = gm_trust_is_secure_mode () ? NULL : secure_getenv ("GM_PROGRAM");
  return other ? g_strdup (other) /* a build tree's */ : gm_installed_path (GM_WAY_TO_PROGRAM);
}

static bool
start (Probe *p, const char *file, const char *token)
{
  int report[2], output[2];
  if (pipe2 (report, O_CLOEXEC) != 0)
    return false;
  if (pipe2 (output, O_CLOEXEC) != 0) {
    close (report[0]);
    close (report[1]);
    return false;
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, defaults;
  sigemptyset (&none);
  sigfillset (&defaults);
  posix_spawn_file_actions_init (&actions);
  posix_spawn_file_actions_addopen (&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2 (&actions, output[1], 1);
  posix_spawn_file_actions_adddup2 (&actions, output[1], 2);
  posix_spawn_file_actions_adddup2 (&actions, report[1], REPORT_FD);
  posix_spawnattr_init (&attributes);
  posix_spawnattr_setflags (&attributes,
                            POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup (&attributes, 0);
  posix_spawnattr_setsigmask (&attributes, &none);
  posix_spawnattr_setsigdefault (&attributes, &defaults);
  char *const argv[] = { (char *) "gramme", (char *) "probe", (char *) file, (char *) token, NULL };
  g_autofree char *started = program ();
  int failed = posix_spawn (&p->pid, started, &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy (&actions);
  posix_spawnattr_destroy (&attributes);
  close (report[1]);
  close (output[1]);
  p->report_fd = report[0];
  p->output_fd = output[0];
  if (!failed)
    return true;
  close (report[0]);
  close (output[0]);
  gm_log (GM_LOG_PLUGINS, "%s cannot be started (%s): %s is not tried", started,
          g_strerror (failed), file);
  return false;
}

/* Appends n bytes to the output of the plugin, of which only the end is kept. */
static void
take_output (Probe *p, const char *bytes, size_t n)
{
  if (p->n_output + n > OUTPUT_BYTES) {
    size_t drop = MIN (p->n_output, p->n_output + n - OUTPUT_BYTES);
    memmove (p->output, p->output + drop, p->n_output - drop);
    p->n_output -= drop;
  }
  memcpy (p->output + p->n_output, bytes, n);
  p->n_output += n;
}

/* Reads what is there from the pipe fd of the probe.  False at its end. */
static bool
read_some (Probe *p, int fd)
{
  char bytes[OUTPUT_BYTES];
  ssize_t n = read (fd, bytes, sizeof bytes);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return true;
  if (n <= 0)
    return false;
  if (fd == p->output_fd)
    take_output (p, bytes, (size_t) n);
  else {
    size_t room = MIN ((size_t) n, sizeof p->report - p->n_report);
    memcpy (p->report + p->n_report, bytes, room);
    p->n_report += room;
  }
  return true;
}

static int
deadline_ms (void)
{
  const char *other = secure_getenv ("GM_PROBE_MS");
  int ms = other ? atoi (other) : 0;
  return ms > 0 ? ms : DEADLINE_MS;
}

/* True, once, if the interrupt function, which is asked every ASK_US, says that the caller has to
 * stop.  Other threads can run Python code between these questions; *left: the result of
 * gm_yield_leave. */
static bool
is_stopped (Probe *p, void **left, gint64 *asked)
{
  gint64 now = g_get_monotonic_time ();
  if (p->stopped || now - *asked < ASK_US)
    return false;
  gm_yield_enter (*left);
  p->stopped = gm_yield_is_interrupted ();
  *left = gm_yield_leave ();
  *asked = now;
  return p->stopped;
}

/* Waits until the process has ended or its time is over.  Does not wait for the end of the pipes,
 * which children of that process may keep open. */
static void
wait_for (Probe *p)
{
  void *left = gm_yield_leave ();
  gint64 asked = g_get_monotonic_time ();
  struct pollfd fds[2] = { { p->report_fd, POLLIN, 0 }, { p->output_fd, POLLIN, 0 } };
  gint64 until = g_get_monotonic_time () + deadline_ms () * INT64_C (1000);
  bool ended = false;
  for (bool more = true; more;) {
    int timeout = ended ? 0 : 1; /* short, since no descriptor signals the end of the process */
    int n = poll (fds, 2, timeout);
    for (int i = 0; i < 2; i++)
      if (fds[i].fd >= 0 && fds[i].revents && !read_some (p, fds[i].fd))
        fds[i].fd = -1;
    if (!ended && is_stopped (p, &left, &asked)) /* it has a moment to end what it has started */
      until = asked - GRACE_US + STOP_US;
    more = !ended || n > 0;
    pid_t gone = ended ? 0 : waitpid (p->pid, &p->status, WNOHANG);
    if (gone == p->pid || (gone < 0 && errno == ECHILD)) /* ECHILD: the program ignores SIGCHLD */
      ended = true;
    if (!ended && !p->late && g_get_monotonic_time () > until) {
      p->late = true;
      kill (p->pid, SIGTERM); /* the process between ends everything that it started */
    } else if (!ended && g_get_monotonic_time () > until + GRACE_US) {
      kill (-p->pid, SIGKILL);
      while (waitpid (p->pid, &p->status, 0) < 0 && errno == EINTR)
        ;
      ended = true;
    }
    if (ended && g_get_monotonic_time () > until + 2 * GRACE_US)
      break; /* a process that is left goes on writing */
  }
  kill (-p->pid, SIGKILL); /* processes left in the group */
  close (p->report_fd);
  close (p->output_fd);
  gm_yield_enter (left);
}

static bool
parse_report (const Probe *p, const char *token, GmRefusal *code, const char **text)
{
  const char *end = p->report + p->n_report, *name, *message;
  size_t n = strlen (token) + 1;
  if (p->n_report < n || memcmp (p->report, token, n) != 0)
    return false;
  name = p->report + n;
  message = memchr (name, 0, (size_t) (end - name));
  if (!message++ || !memchr (message, 0, (size_t) (end - message)))
    return false;
  *text = message;
  if (strcmp (name, "good") == 0) {
    *code = GM_REFUSAL_NONE;
    return true;
  }
  for (int i = GM_REFUSAL_NONE + 1; i < GM_N_REFUSALS; i++)
    if (strcmp (name, gm_refusal_names[i]) == 0) {
      *code = (GmRefusal) i;
      return true;
    }
  return false;
}

static GmTried
judge (const Probe *p, const char *token, GmRefused *why)
{
  GmRefusal code = GM_REFUSAL_NONE;
  const char *text = "";
  bool reported = parse_report (p, token, &code, &text);
  const char *when = reported ? ", when the process ended" : "";
  if (reported && code != GM_REFUSAL_NONE)
    *why = (GmRefused){ code, g_utf8_make_valid (text, -1) };
  else if (p->late)
    gm_refuse (why, GM_REFUSAL_HUNG, "after %d ms%s", deadline_ms (), when);
  else if (WIFSIGNALED (p->status) && WTERMSIG (p->status) == SIGXCPU)
    gm_refuse (why, GM_REFUSAL_HUNG, "it used up its processor time%s", when);
  else if (WIFSIGNALED (p->status))
    gm_refuse (why, GM_REFUSAL_CRASHED, "signal %d (%s)%s", WTERMSIG (p->status),
               strsignal (WTERMSIG (p->status)), when);
  else if (!reported || WEXITSTATUS (p->status) != 0)
    gm_refuse (why, GM_REFUSAL_EXITED, "status %d%s", WEXITSTATUS (p->status), when);
  return why->code == GM_REFUSAL_NONE ? GM_TRIED_GOOD : GM_TRIED_BAD;
}

GmTried
gm_probe (const char *canonical, GmRefused *why)
{
  if (gm_trust_is_secure_mode ())
    return GM_TRIED_NOT;
  g_autofree Probe *p = g_new0 (Probe, 1);
  char token[TOKEN_BYTES + 1];
  for (int i = 0; i < TOKEN_BYTES; i += 8)
    g_snprintf (token + i, 9, "%08x", g_random_int ());
  if (!start (p, canonical, token))
    return GM_TRIED_NOT;
  wait_for (p);
  if (p->stopped) {
    gm_refuse (why, GM_REFUSAL_STOPPED, "%s", canonical);
    return GM_TRIED_NOT;
  }
  gm_quarantine_set_output (p->output);
  GmTried tried = judge (p, token, why);
  gm_log (GM_LOG_PLUGINS, "%s: tried, %s", canonical, why->code ? why->text : "good");
  return tried;
}
