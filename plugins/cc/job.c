/* SPDX-License-Identifier: Apache-2.0
 * job.c -- see job.h.
 *
 * Files are in a folder of mode 0700 that the job makes and removes.  Jobs that are alive when the
 * process ends are stopped, and their folders removed; a process that forked does not touch its
 * parent's jobs.  Where the process is killed, the kernel stops their compilers (tie_to_host), and
 * the next process removes the folders (cc_folder_reap).
 *
 * Rejected: a pool of threads.  Starting a thread costs a hundredth of the compile that it waits
 * for.
 */
#include "plugins/cc/job.h"
#include "plugins/cc/cc_folder.h"
#include "plugins/cc/elf_object.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_ARGS 128
#define MAX_MESSAGE 4000

extern char **environ;

struct CcJob {
  /* Links of the list of all jobs; protected by the lock, like everything that changes. */
  CcJob *next, **self;
  CcState state;
  bool let_go, ended; /* let_go: the owner has released it; ended: its thread has ended */
  pid_t owner, child; /* child: 0 if none runs */
  int lifeline;       /* the writing end of the child's pipe (tie_to_host); -1 if none runs */
  char *command, *text;
  size_t len;
  CcFolder folder;
  int limit_s;
  void *artefact;
  size_t bytes;
  char message[MAX_MESSAGE];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Signalled when a state or the number of running jobs changes. */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static CcJob *jobs;
static int running;

/* -- The compiler ------------------------------------------------------------------------------ */

static void
say (CcJob *job, const char *what)
{
  snprintf (job->message, sizeof job->message, "%s: %s", what, strerror (errno));
}

/* Returns the environment, with temporary files in the job's folder, messages in English, and
 * nothing preloaded. */
static char **
child_environment (CcJob *job, char *tmpdir, size_t room)
{
  size_t n = 0, kept = 0;
  while (environ && environ[n])
    n++;
  char **env = calloc (n + 3, sizeof (char *));
  if (!env)
    return NULL;
  for (size_t i = 0; i < n; i++)
    if (strncmp (environ[i], "TMPDIR=", 7) != 0 && strncmp (environ[i], "LC_ALL=", 7) != 0
        && strncmp (environ[i], "LD_PRELOAD=", 11) != 0)
      env[kept++] = environ[i];
  snprintf (tmpdir, room, "TMPDIR=%s", job->folder.path);
  env[kept++] = tmpdir;
  env[kept++] = (char *) "LC_ALL=C";
  return env;
}

/* Arguments of the child, which must stay valid until it runs the compiler. */
typedef struct {
  char *const *args;
  char **env;
  const char *log;
  pid_t host;         /* the process that starts it */
  int lifeline;       /* the reading end of a pipe of which the host has the other one */
  volatile int error; /* set by the child, which shares the memory until it runs the compiler */
} Child;

/* Makes the kernel end the child and its children when the host ends, however it ends.  The
 * compiler itself gets the signal of a parent's death.  Its children do not; they are in its group,
 * and inherit the reading end of a pipe that tells its group with SIGKILL when the other end is
 * closed.  False if the host has ended already. */
static bool
tie_to_host (const Child *c)
{
  struct pollfd end = { c->lifeline, 0, 0 };
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  fcntl (c->lifeline, F_SETFD, 0);
  fcntl (c->lifeline, F_SETOWN, -getpid ());
  fcntl (c->lifeline, F_SETSIG, SIGKILL);
  fcntl (c->lifeline, F_SETFL, O_ASYNC);
  poll (&end, 1, 0);
  return !(end.revents & POLLHUP) && getppid () == c->host;
}

/* Runs in the child of vfork, in which only what a signal handler may do is safe.  All signals are
 * blocked, as in every thread that runs a job. */
static _Noreturn void
run_compiler (Child *c)
{
  struct sigaction fresh = { .sa_handler = SIG_DFL };
  sigset_t none;
  setpgid (0, 0); /* a group of its own, so that it can be stopped with its children */
  if (!tie_to_host (c))
    _exit (127);
  int in = open ("/dev/null", O_RDONLY);
  int out = open (c->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (in < 0 || out < 0 || dup2 (in, 0) < 0 || dup2 (out, 1) < 0 || dup2 (out, 2) < 0)
    c->error = errno;
  for (int signal = 1; signal < NSIG; signal++)
    sigaction (signal, &fresh, NULL);
  sigemptyset (&none);
  sigprocmask (SIG_SETMASK, &none, NULL);
  if (!c->error) {
    execvpe (c->args[0], c->args, c->env);
    c->error = errno;
  }
  _exit (127);
}

/* Returns the id of the child, or -1.  This thread waits until the child runs the compiler, in the
 * child's memory, so nothing here may be kept in a register across the call. */
static __attribute__ ((noinline)) pid_t
start_child (Child *c)
{
  pid_t child = vfork ();
  if (child == 0)
    run_compiler (c);
  return child;
}

/* Starts the compiler.  Rejected: posix_spawn, which cannot tie a child to its parent's life. */
static bool
spawn (CcJob *job, char *const *args, int lifeline, pid_t *child)
{
  char log[CC_FOLDER_BYTES + 16], tmpdir[CC_FOLDER_BYTES + 16];
  char **env = child_environment (job, tmpdir, sizeof tmpdir);
  if (!env) {
    say (job, "no memory");
    return false;
  }
  snprintf (log, sizeof log, "%s/log", job->folder.path);
  Child c = { .args = args, .env = env, .log = log, .host = getpid (), .lifeline = lifeline };
  *child = start_child (&c);
  if (*child < 0)
    c.error = errno;
  else if (c.error)
    while (waitpid (*child, NULL, 0) < 0 && errno == EINTR)
      ;
  if (c.error)
    snprintf (job->message, sizeof job->message,
              "the C compiler `%s` cannot be run: %s; install one, or name one in GRAMME_CC",
              args[0], strerror (c.error));
  free (env);
  return c.error == 0;
}

static int64_t
now_ms (void)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C (1000) + t.tv_nsec / 1000000;
}

/* Waits until the child has ended; it stays a zombie.  False: the time limit is over. */
static bool
wait_for_end (pid_t child, int limit_s)
{
  int64_t until = now_ms () + limit_s * INT64_C (1000), left;
  /* -1 before Linux 5.3, where the loop polls in short steps */
  struct pollfd end = { (int) syscall (SYS_pidfd_open, child, 0), POLLIN, 0 };
  siginfo_t info;
  bool ended = false;
  while (!ended && (left = until - now_ms ()) > 0) {
    poll (&end, 1, (int) (end.fd >= 0 || left < 5 ? left : 5));
    info.si_pid = 0;
    ended = waitid (P_PID, (id_t) child, &info, WEXITED | WNOWAIT | WNOHANG) == 0
                ? info.si_pid == child
                : errno != EINTR;
  }
  if (end.fd >= 0)
    close (end.fd);
  return ended;
}

/* Closes the host's end of the pipe: what still runs in the compiler's group ends. */
static void
cut_lifeline (CcJob *job)
{
  pthread_mutex_lock (&lock);
  if (job->lifeline >= 0)
    close (job->lifeline);
  job->lifeline = -1;
  pthread_mutex_unlock (&lock);
}

/* Ends the remaining processes of the compiler's group, and waits for them. Children of the
 * compiler become this process's own if it is a subreaper, as it is while a plugin is tried. */
static void
end_group (CcJob *job, pid_t child, int *status)
{
  siginfo_t info;
  kill (-child, SIGKILL); /* safe also if the compiler has ended: it is a zombie yet */
  while (waitid (P_PID, (id_t) child, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
    ;
  pthread_mutex_lock (&lock);
  job->child = 0; /* from here on the number may belong to another process */
  pthread_mutex_unlock (&lock);
  cut_lifeline (job);
  while (waitpid (child, status, 0) < 0 && errno == EINTR)
    ;
  while (waitpid (-child, NULL, 0) > 0 || errno == EINTR)
    ;
}

/* Opens a pipe whose ends the compiler's own three descriptors do not replace. -1 in both: there is
 * no pipe, and only the compiler is tied to its host, not its children. */
static void
open_lifeline (int life[2])
{
  int low[2];
  life[0] = life[1] = -1;
  if (pipe2 (low, O_CLOEXEC) != 0)
    return;
  for (int i = 0; i < 2; i++) {
    life[i] = fcntl (low[i], F_DUPFD_CLOEXEC, 3);
    close (low[i]);
  }
  if (life[0] >= 0 && life[1] >= 0)
    return;
  for (int i = 0; i < 2; i++) {
    if (life[i] >= 0)
      close (life[i]);
    life[i] = -1;
  }
}

/* Runs the compiler until it ends. False: the job's message says why it failed. */
static bool
compile (CcJob *job)
{
  char *args[MAX_ARGS], *save = NULL, source[CC_FOLDER_BYTES + 16], product[CC_FOLDER_BYTES + 16];
  int n = 0, status = 0, life[2];
  pid_t child;
  snprintf (source, sizeof source, "%s/unit.c", job->folder.path);
  snprintf (product, sizeof product, "%s/unit.so", job->folder.path);
  for (char *word = strtok_r (job->command, " ", &save); word && n < MAX_ARGS - 4;
       word = strtok_r (NULL, " ", &save))
    args[n++] = word;
  args[n++] = (char *) "-o";
  args[n++] = product;
  args[n++] = source;
  args[n] = NULL;
  pthread_mutex_lock (&lock);
  open_lifeline (life);
  job->lifeline = life[1];
  bool ok = !job->let_go && spawn (job, args, life[0], &child);
  if (ok)
    job->child = child;
  if (life[0] >= 0)
    close (life[0]);
  pthread_mutex_unlock (&lock);
  if (!ok) {
    cut_lifeline (job);
    return false;
  }
  bool in_time = wait_for_end (child, job->limit_s);
  end_group (job, child, &status);
  if (!in_time) {
    snprintf (job->message, sizeof job->message,
              "the C compiler `%s` was stopped after %d seconds; the option limit of the back end "
              "cc, or GRAMME_CC_LIMIT, gives it more",
              args[0], job->limit_s);
    return false;
  }
  if (WIFEXITED (status) && WEXITSTATUS (status) == 0)
    return true;
  size_t bytes = 0;
  char *log = cc_folder_read (&job->folder, "log", MAX_MESSAGE - 200, &bytes);
  snprintf (job->message, sizeof job->message, "the C compiler `%s` failed: %.*s", args[0],
            (int) bytes, log ? log : "");
  free (log);
  return false;
}

/* Makes the job fail if the file is damaged. */
static void
check_artefact (CcJob *job)
{
  const char *damage = cc_object_damage (job->artefact, job->bytes);
  if (!damage)
    return;
  snprintf (job->message, sizeof job->message,
            "the C compiler `%s` said that all is well, but the file that it wrote %s; is the disk "
            "of TMPDIR full?",
            job->command, damage);
  free (job->artefact);
  job->artefact = NULL;
  job->bytes = 0;
}

static void
build (CcJob *job)
{
  CcFolder folder;
  if (!cc_folder_make (&folder)) {
    say (job, "no folder for temporary files can be made (is TMPDIR right?)");
    return;
  }
  pthread_mutex_lock (&lock);
  job->folder = folder;
  pthread_mutex_unlock (&lock);
  if (!cc_folder_write (&folder, "unit.c", job->text, job->len))
    say (job, "generated text cannot be written to the folder for temporary files");
  else if (compile (job)) {
    job->artefact = cc_folder_read (&folder, "unit.so", SIZE_MAX, &job->bytes);
    if (!job->artefact)
      say (job, "what the C compiler made cannot be read");
    else
      check_artefact (job);
  }
  pthread_mutex_lock (&lock);
  job->folder = CC_FOLDER_NONE; /* stop_all must not remove it any more */
  pthread_mutex_unlock (&lock);
  cc_folder_remove (&folder);
}

/* -- Life -------------------------------------------------------------------------------------- */

static void
stop (CcJob *job)
{
  if (job->child > 0)
    kill (-job->child, SIGKILL);
}

/* Drops a reference to the job, and frees it after the last. The caller holds the lock. */
static void
drop (CcJob *job)
{
  *job->self = job->next;
  if (job->next)
    job->next->self = job->self;
  free (job->command);
  free (job->text);
  free (job->artefact);
  free (job);
}

static void *
run (void *data)
{
  CcJob *job = data;
  long processors = sysconf (_SC_NPROCESSORS_ONLN);
  pthread_mutex_lock (&lock);
  while (running >= (processors > 0 ? processors : 1) && !job->let_go)
    pthread_cond_wait (&changed, &lock);
  running++;
  job->state = CC_JOB_RUNNING;
  bool wanted = !job->let_go;
  pthread_mutex_unlock (&lock);
  if (wanted)
    build (job);
  pthread_mutex_lock (&lock);
  running--;
  job->state = job->artefact ? CC_JOB_DONE : CC_JOB_FAILED;
  job->ended = true;
  if (job->let_go)
    drop (job);
  pthread_cond_broadcast (&changed);
  pthread_mutex_unlock (&lock);
  return NULL;
}

static void
before_fork (void)
{
  pthread_mutex_lock (&lock);
}

static void
after_fork (void)
{
  pthread_mutex_unlock (&lock);
}

/* Resets the state in the child of a fork: the threads of these jobs, and those that waited for
 * them, are the parent's. */
static void
in_child (void)
{
  running = 0;
  for (CcJob *job = jobs; job; job = job->next) {
    if (job->folder.fd >= 0)
      close (job->folder.fd); /* the parent's descriptor keeps the lock */
    if (job->lifeline >= 0)
      close (job->lifeline); /* the compiler ends when the parent does */
    job->folder.fd = job->lifeline = -1;
  }
  pthread_cond_init (&changed, NULL);
  pthread_mutex_unlock (&lock);
}

static void
at_first (void)
{
  pthread_atfork (before_fork, after_fork, in_child);
}

/* Stops all compilers and removes their folders when the process ends. */
__attribute__ ((destructor)) static void
stop_all (void)
{
  if (pthread_mutex_trylock (&lock) != 0)
    return; /* in a process that forked, a thread that does not exist any more may hold it */
  for (CcJob *job = jobs; job; job = job->next)
    if (!job->ended && job->owner == getpid ()) {
      job->let_go = true;
      stop (job);
      cc_folder_delete (&job->folder);
    }
  pthread_mutex_unlock (&lock);
}

CcJob *
cc_job_start (const char *compiler, const char *flags, char *text, size_t len, int limit_s,
              GrammeStatus *status)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once (&once, at_first);
  CcJob *job = calloc (1, sizeof *job);
  size_t room = strlen (compiler) + strlen (flags) + 2;
  char *command = malloc (room);
  pthread_attr_t attr;
  pthread_t thread;
  sigset_t all, old;
  if (!job || !command) {
    free (job);
    free (command);
    free (text);
    gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to start a compiler");
    return NULL;
  }
  snprintf (command, room, "%s %s", compiler, flags);
  *job = (CcJob){ .owner = getpid (),
                  .command = command,
                  .text = text,
                  .len = len,
                  .folder = CC_FOLDER_NONE,
                  .lifeline = -1,
                  .limit_s = limit_s };
  pthread_mutex_lock (&lock);
  job->next = jobs;
  job->self = &jobs;
  if (jobs)
    jobs->self = &job->next;
  jobs = job;
  pthread_mutex_unlock (&lock);
  sigfillset (&all);
  pthread_attr_init (&attr);
  pthread_attr_setdetachstate (&attr, PTHREAD_CREATE_DETACHED);
  pthread_sigmask (SIG_SETMASK, &all, &old); /* signals are for the program's own threads */
  int failed = pthread_create (&thread, &attr, run, job);
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  pthread_attr_destroy (&attr);
  if (failed) {
    gramme_fail (status, GRAMME_NO_MEMORY, -1, "no thread for a compiler: %s", strerror (failed));
    pthread_mutex_lock (&lock);
    drop (job);
    pthread_mutex_unlock (&lock);
    return NULL;
  }
  return job;
}

static CcState
state_of (CcJob *job)
{
  pthread_mutex_lock (&lock);
  CcState state = job->state;
  pthread_mutex_unlock (&lock);
  return state;
}

bool
cc_job_wait_for (CcJob *job, int timeout_ms)
{
  struct timespec deadline;
  bool in_time = true;
  clock_gettime (CLOCK_REALTIME, &deadline);
  deadline.tv_sec += timeout_ms / 1000;
  deadline.tv_nsec += timeout_ms % 1000 * 1000000;
  deadline.tv_sec += deadline.tv_nsec / 1000000000;
  deadline.tv_nsec %= 1000000000;
  pthread_mutex_lock (&lock);
  while (!job->ended && job->owner == getpid () && in_time)
    in_time = timeout_ms < 0 ? pthread_cond_wait (&changed, &lock) == 0
                             : pthread_cond_timedwait (&changed, &lock, &deadline) == 0;
  if (!job->ended && job->owner != getpid ()) {
    job->state = CC_JOB_FAILED; /* its thread is the parent's */
    snprintf (job->message, sizeof job->message,
              "this process was forked while the C compiler ran; compile again");
    job->ended = true;
  }
  bool ended = job->ended;
  pthread_mutex_unlock (&lock);
  return ended;
}

CcState
cc_job_wait (CcJob *job)
{
  cc_job_wait_for (job, -1);
  return state_of (job);
}

const void *
cc_job_artefact (CcJob *job, size_t *bytes)
{
  *bytes = job->bytes;
  return job->artefact;
}

const char *
cc_job_message (CcJob *job)
{
  return job->message;
}

void
cc_job_free (CcJob *job)
{
  if (!job)
    return;
  pthread_mutex_lock (&lock);
  job->let_go = true;
  if (job->ended)
    drop (job);
  else if (job->owner == getpid ())
    stop (job);
  pthread_cond_broadcast (&changed);
  pthread_mutex_unlock (&lock);
}
