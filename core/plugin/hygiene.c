/* SPDX-License-Identifier: Apache-2.0
 * hygiene.c -- see hygiene.h.  A snapshot costs some 100 us, most of it the 64 signals and /proc.
 */
#include "core/base/threads.h"
#include "core/plugin/hygiene.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/plugin/host.h"

#define N_SIGNALS 65
#define MAX_DESCRIPTORS 4096
#define SETTLE_MS 200 /* a thread that was joined is seen a little longer */

extern char **environ;

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
  struct itimerval timer;
  int folder_fd; /* to go back to; -1: none */
  unsigned umask;
  /* alone: */
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
    memset (&d, 0, sizeof d); /* compared as bytes */
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

/* A page of it that is made executable is a mapping of its own, and the name stays with the one where the stack began: what lies
 * beside that without a gap is the stack, too, but for the kernel's own pages. */
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

/* Running or dead, waited for or not. */
static bool
has_children (void)
{
  siginfo_t info;
  return waitid (P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
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
  getitimer (ITIMER_REAL, &s->timer);
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

/* glibc adds this one (SA_RESTORER) to all that it sets, also to what is put back as it was. */
#define NOT_OURS 0x04000000

static void
check_signals (const GmSnapshot *a, const char *when, GmRefused *why)
{
  for (int i = 1; i < N_SIGNALS; i++) {
    struct sigaction now;
    if (sigaction (i, NULL, &now) != 0 ||
        (now.sa_handler == a->actions[i].sa_handler && !((now.sa_flags ^ a->actions[i].sa_flags) & ~NOT_OURS) &&
         !masks_differ (&now.sa_mask, &a->actions[i].sa_mask)))
      continue;
    sigaction (i, &a->actions[i], NULL);
    gm_refuse (why, GM_REFUSAL_CHANGED_SIGNALS, "the handler of signal %d (%s), %s", i,
               strsignal (i), when);
  }
  struct itimerval timer;
  if (getitimer (ITIMER_REAL, &timer) == 0 &&
      timerisset (&timer.it_value) != timerisset (&a->timer.it_value)) {
    setitimer (ITIMER_REAL, &a->timer, NULL);
    gm_refuse (why, GM_REFUSAL_CHANGED_SIGNALS, "an alarm is set or gone, %s", when);
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
    return; /* there was none before */
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
    if (getrlimit (i, &now) != 0 ||
        (now.rlim_cur == a->limits[i].rlim_cur && now.rlim_max == a->limits[i].rlim_max))
      continue;
    setrlimit (i, &a->limits[i]);
    gm_refuse (why, GM_REFUSAL_CHANGED_LIMITS, "resource limit %d, %s", i, when);
  }
}

/* -- What only a process without other threads can say ----------------------------------------- */

static void
check_environment (const GmSnapshot *a, const char *when, GmRefused *why)
{
  g_autoptr (GPtrArray) now = read_environment ();
  guint i = 0;
  while (i < now->len && i < a->environment->len &&
         strcmp (now->pdata[i], a->environment->pdata[i]) == 0)
    i++;
  if (i == now->len && i == a->environment->len)
    return;
  bool gone = i == now->len || (i < a->environment->len &&
                                strcmp (a->environment->pdata[i], now->pdata[i]) < 0);
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
  while (i < now->len && i < a->descriptors->len &&
         memcmp (&g_array_index (now, Descriptor, i), &g_array_index (a->descriptors, Descriptor, i),
                 sizeof (Descriptor)) == 0)
    i++;
  if (i == now->len && i == a->descriptors->len)
    return;
  bool is_new = i == a->descriptors->len ||
                (i < now->len && g_array_index (now, Descriptor, i).fd <
                                     g_array_index (a->descriptors, Descriptor, i).fd);
  int fd = g_array_index (is_new ? now : a->descriptors, Descriptor, i).fd;
  gm_refuse (why, GM_REFUSAL_CHANGED_DESCRIPTORS, "descriptor %d was %s, %s", fd,
             is_new ? "opened" : "closed or replaced", when);
}

/* Fewer than before is in order: the system counts a thread that has been joined for a moment longer. */
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
  check_locale (before, when, why);
  check_folder (before, when, why);
  check_limits (before, when, why);
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
