/* SPDX-License-Identifier: Apache-2.0
 * hygiene.c -- see hygiene.h.  A snapshot costs some 100 us, most of it the 64 signals and /proc.
 */
#include "core/base/threads.h"
#include "core/plugin/hygiene.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_SIGNALS 65
#define MAX_DESCRIPTORS 4096
#define TICK_US 10000
#define SETTLE_MS 200 /* time for a joined thread to disappear from /proc */

#define THREAD_NAME_BYTES 16 /* as in PR_GET_NAME */
#define MAX_ATTRIBUTES 24

extern char **environ;

/* The timers.  clock: the clock that the timer uses, or a clock that is never behind it. */
static const struct {
  int which;
  clockid_t clock;
  const char *what;
} timers[] = {
  { ITIMER_REAL, CLOCK_MONOTONIC, "an alarm" },
  { ITIMER_VIRTUAL, CLOCK_PROCESS_CPUTIME_ID, "a timer of processor time (ITIMER_VIRTUAL)" },
  { ITIMER_PROF, CLOCK_PROCESS_CPUTIME_ID, "a timer of processor time (ITIMER_PROF)" },
};
#define N_TIMERS G_N_ELEMENTS (timers)

typedef struct {
  int fd;
  dev_t device;
  ino_t inode;
} Descriptor;

struct GmSnapshot {
  bool alone;
  GmFpuControl fpu;
  struct sigaction actions[N_SIGNALS];
  sigset_t mask;
  struct rlimit limits[RLIM_NLIMITS];
  char *locale;
  locale_t thread_locale;
  struct stat folder;
  struct itimerval timers[N_TIMERS];
  gint64 read_at[N_TIMERS]; /* when the timers were read, in microseconds of their clocks */
  cpu_set_t processors;
  char name[THREAD_NAME_BYTES];
  long attributes[MAX_ATTRIBUTES];
  int folder_fd; /* the folder to return to; -1: none */
  unsigned umask;
  /* The fields from here on are used only with `alone`. */
  GPtrArray *environment; /* char: sorted */
  GArray *descriptors;    /* Descriptor, by number */
  unsigned threads;
  bool has_children;
  bool stack_executable;
};

/* -- Looking ----------------------------------------------------------------------------------- */

static bool
status_number (const char *key, int base, unsigned *out)
{
  char line[256];
  FILE *f = fopen ("/proc/self/status", "re");
  bool found = false;
  while (f && !found && fgets (line, sizeof line, f))
    if (strncmp (line, key, strlen (key)) == 0) {
      *out = (unsigned) strtoul (line + strlen (key), NULL, base);
      found = true;
    }
  if (f)
    fclose (f);
  return found;
}

static unsigned
count_threads (void)
{
  unsigned n = 0;
  status_number ("Threads:", 10, &n);
  return n - gm_threads_started ();
}

static int
by_text (const void *a, const void *b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

static GPtrArray *
read_environment (void)
{
  GPtrArray *e = g_ptr_array_new_with_free_func (g_free);
  for (char **v = environ; v && *v; v++)
    g_ptr_array_add (e, g_strdup (*v));
  g_ptr_array_sort (e, by_text);
  return e;
}

static int
by_fd (const void *a, const void *b)
{
  return ((const Descriptor *) a)->fd - ((const Descriptor *) b)->fd;
}

static GArray *
read_descriptors (void)
{
  GArray *found = g_array_new (FALSE, FALSE, sizeof (Descriptor));
  DIR *dir = opendir ("/proc/self/fd");
  for (struct dirent *e = dir ? readdir (dir) : NULL; e && found->len < MAX_DESCRIPTORS;
       e = readdir (dir)) {
    Descriptor d;
    struct stat st;
    memset (&d, 0, sizeof d); /* zeroed padding, since rows are compared as bytes */
    d.fd = atoi (e->d_name);
    if (e->d_name[0] == '.' || d.fd == dirfd (dir) || fstat (d.fd, &st) != 0)
      continue;
    d.device = st.st_dev;
    d.inode = st.st_ino;
    g_array_append_val (found, d);
  }
  if (dir)
    closedir (dir);
  g_array_sort (found, by_fd);
  return found;
}

/* True if a page of the stack is executable.  Making a page executable splits its mapping, and only
 * the mapping where the stack began keeps the name [stack].  Mappings beside that one without a gap
 * are therefore part of the stack, too, except for the kernel's own pages. */
static bool
stack_is_executable (void)
{
  char line[512];
  bool executable = false, is_stack = false, runs = false; /* of the mappings since the last gap */
  unsigned long start, end, last = 0;
  FILE *f = fopen ("/proc/self/maps", "re");
  while (f && fgets (line, sizeof line, f)) {
    char rights[8] = "";
    if (sscanf (line, "%lx-%lx %7s", &start, &end, rights) != 3)
      continue;
    if (start != last)
      is_stack = runs = false;
    is_stack = is_stack || strstr (line, "[stack]");
    runs = runs || (rights[2] == 'x' && !strstr (line, "[v"));
    executable = executable || (is_stack && runs);
    last = end;
  }
  if (f)
    fclose (f);
  return executable;
}

/* -- Attributes -------------------------------------------------------------------------------- */

static long
get_niceness (void)
{
  return getpriority (PRIO_PROCESS, 0);
}

static void
put_niceness (long was)
{
  setpriority (PRIO_PROCESS, 0, (int) was);
}

static long
get_policy (void)
{
  return sched_getscheduler (0);
}

static void
put_policy (long was)
{
  sched_setscheduler (0, (int) was, &(struct sched_param){ 0 });
}

static long
get_io_priority (void)
{
  return syscall (SYS_ioprio_get, 1, 0); /* 1: by thread; 0: this thread */
}

static void
put_io_priority (long was)
{
  syscall (SYS_ioprio_set, 1, 0, was);
}

static long
get_slack (void)
{
  return prctl (PR_GET_TIMERSLACK, 0, 0, 0, 0);
}

static void
put_slack (long was)
{
  prctl (PR_SET_TIMERSLACK, was, 0, 0, 0);
}

static long
get_personality (void)
{
  return personality (0xffffffff);
}

static void
put_personality (long was)
{
  personality ((unsigned long) was);
}

static long
get_dumpable (void)
{
  return prctl (PR_GET_DUMPABLE, 0, 0, 0, 0);
}

static void
put_dumpable (long was)
{
  prctl (PR_SET_DUMPABLE, was, 0, 0, 0);
}

static long
get_subreaper (void)
{
  int is = 0;
  prctl (PR_GET_CHILD_SUBREAPER, &is, 0, 0, 0);
  return is;
}

static void
put_subreaper (long was)
{
  prctl (PR_SET_CHILD_SUBREAPER, was, 0, 0, 0);
}

static long
get_death_signal (void)
{
  int is = 0;
  prctl (PR_GET_PDEATHSIG, &is, 0, 0, 0);
  return is;
}

static void
put_death_signal (long was)
{
  prctl (PR_SET_PDEATHSIG, was, 0, 0, 0);
}

static long
get_large_pages (void)
{
  return prctl (PR_GET_THP_DISABLE, 0, 0, 0, 0);
}

static void
put_large_pages (long was)
{
  prctl (PR_SET_THP_DISABLE, was, 0, 0, 0);
}

static long
get_no_new_privileges (void)
{
  return prctl (PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

static long
get_filters (void)
{
  unsigned n = 0;
  status_number ("Seccomp:", 10, &n);
  return n;
}

static long
get_user (void)
{
  return geteuid ();
}

static long
get_group (void)
{
  return getegid ();
}

/* Returns the bytes of the process that are locked in RAM.  Maps a page first, since a mode exists
 * in which all new pages are locked. */
static long
get_locked_memory (void)
{
  unsigned kilobytes = 0;
  size_t bytes = (size_t) sysconf (_SC_PAGESIZE);
  char *page = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return -1;
  *(volatile char *) page = 1;
  status_number ("VmLck:", 10, &kilobytes);
  munmap (page, bytes);
  return kilobytes;
}

/* Returns the number of timers made by timer_create, or 0 where the kernel does not tell. */
static long
get_timers (void)
{
  char line[256];
  long n = 0;
  FILE *f = fopen ("/proc/self/timers", "re");
  while (f && fgets (line, sizeof line, f))
    n += strncmp (line, "ID:", 3) == 0;
  if (f)
    fclose (f);
  return n;
}

/* The numbers that the system keeps for a thread or, with `alone`, for a process.  put: NULL, or a
 * function that restores the number as far as possible. */
static const struct {
  const char *what;
  bool alone;
  long (*get) (void);
  void (*put) (long was);
} attributes[] = {
  { "its niceness", false, get_niceness, put_niceness },
  { "its scheduling policy", false, get_policy, put_policy },
  { "its priority for the disk", false, get_io_priority, put_io_priority },
  { "its timer slack", false, get_slack, put_slack },
  { "its personality", false, get_personality, put_personality },
  { "whether its memory may be dumped", true, get_dumpable, put_dumpable },
  { "whether it gets the children of its children", true, get_subreaper, put_subreaper },
  { "the signal at its parent's end", false, get_death_signal, put_death_signal },
  { "whether it has no large pages", true, get_large_pages, put_large_pages },
  { "whether it may gain privileges", false, get_no_new_privileges, NULL },
  { "its filter of system calls", false, get_filters, NULL },
  { "its user", true, get_user, NULL },
  { "its group", true, get_group, NULL },
  { "its locked memory, in KiB,", true, get_locked_memory, NULL },
  { "the number of its timers", true, get_timers, NULL },
};
G_STATIC_ASSERT (G_N_ELEMENTS (attributes) <= MAX_ATTRIBUTES);

static void
read_attributes (GmSnapshot *s)
{
  for (unsigned i = 0; i < G_N_ELEMENTS (attributes); i++)
    s->attributes[i] = attributes[i].alone && !s->alone ? 0 : attributes[i].get ();
  CPU_ZERO (&s->processors);
  sched_getaffinity (0, sizeof s->processors, &s->processors);
  prctl (PR_GET_NAME, s->name);
}

/* True if the process has children, running or dead, waited for or not.  With
 * PR_SET_CHILD_SUBREAPER, orphaned grandchildren count, too. */
static bool
has_children (void)
{
  siginfo_t info;
  return waitid (P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static gint64
microseconds (clockid_t clock)
{
  struct timespec t = { 0 };
  clock_gettime (clock, &t);
  return t.tv_sec * G_USEC_PER_SEC + t.tv_nsec / 1000;
}

GmSnapshot *
gm_snapshot_new (bool alone)
{
  GmSnapshot *s = g_new0 (GmSnapshot, 1);
  s->alone = alone;
  s->fpu = gm_fpu_get ();
  for (int i = 1; i < N_SIGNALS; i++)
    sigaction (i, NULL, &s->actions[i]);
  pthread_sigmask (SIG_SETMASK, NULL, &s->mask);
  for (unsigned i = 0; i < N_TIMERS; i++) {
    s->read_at[i] = microseconds (timers[i].clock);
    getitimer (timers[i].which, &s->timers[i]);
  }
  read_attributes (s);
  for (int i = 0; i < (int) RLIM_NLIMITS; i++)
    getrlimit (i, &s->limits[i]);
  s->locale = g_strdup (setlocale (LC_ALL, NULL));
  s->thread_locale = uselocale ((locale_t) 0);
  s->folder_fd = open (".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (stat (".", &s->folder) != 0)
    memset (&s->folder, 0, sizeof s->folder);
  status_number ("Umask:", 8, &s->umask);
  if (alone) {
    s->environment = read_environment ();
    s->threads = count_threads ();
    s->has_children = has_children ();
    s->stack_executable = stack_is_executable ();
    s->descriptors = read_descriptors ();
  }
  return s;
}

void
gm_snapshot_free (GmSnapshot *s)
{
  if (!s)
    return;
  if (s->folder_fd >= 0)
    close (s->folder_fd);
  g_clear_pointer (&s->environment, g_ptr_array_unref);
  g_clear_pointer (&s->descriptors, g_array_unref);
  g_free (s->locale);
  g_free (s);
}

/* -- Comparing --------------------------------------------------------------------------------- */

static void
check_fpu (const GmSnapshot *a, const char *when, GmRefused *why)
{
  GmFpuControl now = gm_fpu_get ();
  if (gm_fpu_equal (a->fpu, now))
    return;
  gm_fpu_set (a->fpu);
  gm_refuse (why, GM_REFUSAL_CHANGED_FPU, "MXCSR 0x%04x to 0x%04x, x87 0x%04x to 0x%04x, %s",
             a->fpu.mxcsr, now.mxcsr, a->fpu.x87, now.x87, when);
}

static bool
masks_differ (const sigset_t *a, const sigset_t *b)
{
  for (int i = 1; i < N_SIGNALS; i++)
    if (sigismember (a, i) != sigismember (b, i))
      return true;
  return false;
}

/* The flag SA_RESTORER, which glibc adds to every handler that it sets, also to a handler that is
 * restored. */
#define NOT_OURS 0x04000000

/* True if timer i of a, which does not run any more, may have expired by itself: the program had
 * set it to fire once, and its time is over.  The system counts processor time in ticks. */
static bool
timer_may_have_ended (const GmSnapshot *a, unsigned i)
{
  const struct itimerval *was = &a->timers[i];
  gint64 left = was->it_value.tv_sec * G_USEC_PER_SEC + was->it_value.tv_usec;
  return !timerisset (&was->it_interval)
         && left <= microseconds (timers[i].clock) - a->read_at[i] + TICK_US;
}

static void
check_timers (const GmSnapshot *a, const char *when, GmRefused *why)
{
  for (unsigned i = 0; i < N_TIMERS; i++) {
    struct itimerval timer;
    if (getitimer (timers[i].which, &timer) != 0)
      continue;
    bool runs = timerisset (&timer.it_value), ran = timerisset (&a->timers[i].it_value);
    if (runs == ran || (ran && timer_may_have_ended (a, i)))
      continue;
    setitimer (timers[i].which, &a->timers[i], NULL);
    gm_refuse (why, GM_REFUSAL_CHANGED_SIGNALS, "%s is %s, %s", timers[i].what,
               runs ? "set" : "gone", when);
  }
}

static void
check_signals (const GmSnapshot *a, const char *when, GmRefused *why)
{
  for (int i = 1; i < N_SIGNALS; i++) {
    struct sigaction now;
    if (sigaction (i, NULL, &now) != 0
        || (now.sa_handler == a->actions[i].sa_handler
            && !((now.sa_flags ^ a->actions[i].sa_flags) & ~NOT_OURS)
            && !masks_differ (&now.sa_mask, &a->actions[i].sa_mask)))
      continue;
    sigaction (i, &a->actions[i], NULL);
    gm_refuse (why, GM_REFUSAL_CHANGED_SIGNALS, "the handler of signal %d (%s), %s", i,
               strsignal (i), when);
  }
  sigset_t now;
  pthread_sigmask (SIG_SETMASK, NULL, &now);
  if (!masks_differ (&now, &a->mask))
    return;
  pthread_sigmask (SIG_SETMASK, &a->mask, NULL);
  gm_refuse (why, GM_REFUSAL_CHANGED_SIGNALS, "the signal mask, %s", when);
}

static void
check_locale (const GmSnapshot *a, const char *when, GmRefused *why)
{
  g_autofree char *now = g_strdup (setlocale (LC_ALL, NULL));
  if (g_strcmp0 (now, a->locale) != 0) {
    setlocale (LC_ALL, a->locale);
    gm_refuse (why, GM_REFUSAL_CHANGED_LOCALE, "from \"%s\" to \"%s\", %s", a->locale, now, when);
  }
  if (uselocale ((locale_t) 0) != a->thread_locale) {
    uselocale (a->thread_locale);
    gm_refuse (why, GM_REFUSAL_CHANGED_LOCALE, "the thread's, %s", when);
  }
}

static void
check_folder (const GmSnapshot *a, const char *when, GmRefused *why)
{
  struct stat now;
  if (stat (".", &now) == 0 && now.st_dev == a->folder.st_dev && now.st_ino == a->folder.st_ino)
    return;
  if (a->folder.st_ino == 0)
    return; /* there was no folder before */
  bool back = a->folder_fd >= 0 && fchdir (a->folder_fd) == 0;
  gm_refuse (why, GM_REFUSAL_CHANGED_FOLDER, "%s%s", when, back ? "" : "; there is no way back");
}

static void
check_limits (const GmSnapshot *a, const char *when, GmRefused *why)
{
  unsigned mask = a->umask;
  if (status_number ("Umask:", 8, &mask) && mask != a->umask) {
    umask ((mode_t) a->umask);
    gm_refuse (why, GM_REFUSAL_CHANGED_LIMITS, "the umask from %03o to %03o, %s", a->umask, mask,
               when);
  }
  for (int i = 0; i < (int) RLIM_NLIMITS; i++) {
    struct rlimit now;
    if (getrlimit (i, &now) != 0
        || (now.rlim_cur == a->limits[i].rlim_cur && now.rlim_max == a->limits[i].rlim_max))
      continue;
    setrlimit (i, &a->limits[i]);
    gm_refuse (why, GM_REFUSAL_CHANGED_LIMITS, "resource limit %d, %s", i, when);
  }
}

static void
check_attributes (const GmSnapshot *a, const char *when, GmRefused *why)
{
  for (unsigned i = 0; i < G_N_ELEMENTS (attributes); i++) {
    long now = attributes[i].alone && !a->alone ? a->attributes[i] : attributes[i].get ();
    if (now == a->attributes[i])
      continue;
    if (attributes[i].put)
      attributes[i].put (a->attributes[i]);
    gm_refuse (why, GM_REFUSAL_CHANGED_ATTRIBUTE, "%s from %ld to %ld, %s", attributes[i].what,
               a->attributes[i], now, when);
  }
  cpu_set_t processors;
  CPU_ZERO (&processors);
  sched_getaffinity (0, sizeof processors, &processors);
  if (!CPU_EQUAL (&processors, &a->processors)) {
    sched_setaffinity (0, sizeof a->processors, &a->processors);
    gm_refuse (why, GM_REFUSAL_CHANGED_ATTRIBUTE,
               "on which processors it runs: %d of them, not %d, %s", CPU_COUNT (&processors),
               CPU_COUNT (&a->processors), when);
  }
  char name[THREAD_NAME_BYTES] = "";
  prctl (PR_GET_NAME, name);
  if (memcmp (name, a->name, sizeof name) != 0) {
    prctl (PR_SET_NAME, a->name);
    gm_refuse (why, GM_REFUSAL_CHANGED_ATTRIBUTE, "its name, %s", when);
  }
}

/* -- Comparisons that need a process without other threads ------------------------------------- */

static void
check_environment (const GmSnapshot *a, const char *when, GmRefused *why)
{
  g_autoptr (GPtrArray) now = read_environment ();
  guint i = 0;
  while (i < now->len && i < a->environment->len
         && strcmp (now->pdata[i], a->environment->pdata[i]) == 0)
    i++;
  if (i == now->len && i == a->environment->len)
    return;
  bool gone = i == now->len
              || (i < a->environment->len && strcmp (a->environment->pdata[i], now->pdata[i]) < 0);
  const char *text = gone ? a->environment->pdata[i] : now->pdata[i];
  g_autofree char *name = g_strndup (text, MIN (strcspn (text, "="), (size_t) 100));
  g_autofree char *clean = g_utf8_make_valid (name, -1);
  gm_refuse (why, GM_REFUSAL_CHANGED_ENVIRONMENT, "%s, %s", clean, when);
}

static void
check_descriptors (const GmSnapshot *a, const char *when, GmRefused *why)
{
  g_autoptr (GArray) now = read_descriptors ();
  guint i = 0;
  while (i < now->len && i < a->descriptors->len
         && memcmp (&g_array_index (now, Descriptor, i),
                    &g_array_index (a->descriptors, Descriptor, i), sizeof (Descriptor))
                == 0)
    i++;
  if (i == now->len && i == a->descriptors->len)
    return;
  bool is_new = i == a->descriptors->len
                || (i < now->len
                    && g_array_index (now, Descriptor, i).fd
                           < g_array_index (a->descriptors, Descriptor, i).fd);
  int fd = g_array_index (is_new ? now : a->descriptors, Descriptor, i).fd;
  gm_refuse (why, GM_REFUSAL_CHANGED_DESCRIPTORS, "descriptor %d was %s, %s", fd,
             is_new ? "opened" : "closed or replaced", when);
}

/* Refuses if there are more threads than before.  Fewer are in order: the system counts a thread
 * for a moment after it was joined. */
static void
check_threads (const GmSnapshot *a, const char *when, GmRefused *why)
{
  unsigned now = count_threads ();
  for (int ms = 0; now > a->threads && ms < SETTLE_MS; ms += 5) {
    g_usleep (5000);
    now = count_threads ();
  }
  if (now > a->threads)
    gm_refuse (why, GM_REFUSAL_CHANGED_THREADS, "%u before, %u %s", a->threads, now, when);
}

bool
gm_snapshot_check (const GmSnapshot *before, const char *when, GmRefused *why)
{
  check_fpu (before, when, why);
  check_signals (before, when, why);
  check_timers (before, when, why);
  check_locale (before, when, why);
  check_folder (before, when, why);
  check_limits (before, when, why);
  check_attributes (before, when, why);
  if (before->alone) {
    check_threads (before, when, why);
    if (has_children () && !before->has_children)
      gm_refuse (why, GM_REFUSAL_CHANGED_CHILDREN, "%s", when);
    check_environment (before, when, why);
    check_descriptors (before, when, why);
    if (stack_is_executable () && !before->stack_executable)
      gm_refuse (why, GM_REFUSAL_CHANGED_STACK, "%s", when);
  }
  return why->code == GM_REFUSAL_NONE;
}
