/* SPDX-License-Identifier: Apache-2.0
 * kit.c -- `gramme check-plugin`: runs each case in a process of its own, and prints the results as
 * TAP and JSON.
 *
 * A case writes its result to memory that it shares with this process.  A case without a result has
 * died, and the way it died is the verdict.  Nothing of the plugin runs here: its manifest is read
 * as the loader does, and the file must be trusted in the same way.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/plugin/sidecar.h"
#include "core/plugin/trust.h"
#include "tools/kit/kit.h"
#include "tools/tools.h"

#define DEFAULT_SECONDS 120
#define DEFAULT_GRAPHS 30
#define OUTPUT_BYTES 600 /* bytes of a case's output that are kept, from its end */

static const struct {
  uint32_t level;
  const char *group, *what, *name, *rule;
  KitCaseFn fn;
} cases[] = {
#define CASE(level, group, name, rule, what)                                                       \
  { level, #group, what, #name, rule, kit_##group##_##name },
#include "tools/kit/kit_cases.def"
};
#define N_CASES G_N_ELEMENTS (cases)

typedef struct {
  const char *file, *json;
  GRegex *filter;
  uint64_t seed;
  uint32_t level, graphs, minor, seconds;
  bool has_minor, in_process, list;
} Options;

typedef struct {
  char *name, *rule, *text, *note, *doing, *printed, *again;
  KitVerdict verdict;
  unsigned number;
  double ms;
} Result;

/* -- Results ----------------------------------------------------------------------------------- */

static void
say (char *to, size_t room, const char *format, va_list args)
{
  vsnprintf (to, room, format, args);
  for (char *c = to; *c; c++)
    if ((unsigned char) *c < ' ')
      *c = ' ';
}

/* Sets the case's result, unless another thread has set it, and ends this process, whatever its
 * other threads do. */
static G_GNUC_NORETURN void
end (Kit *k, KitVerdict verdict, const char *rule, const char *format, va_list args)
{
  static int said;
  if (__atomic_exchange_n (&said, 1, __ATOMIC_ACQ_REL))
    for (;;)
      pause ();
  say (k->outcome->text, sizeof k->outcome->text, format, args);
  g_strlcpy (k->outcome->rule, rule ? rule : k->rule, sizeof k->outcome->rule);
  __atomic_store_n (&k->outcome->verdict, verdict, __ATOMIC_RELEASE);
  _exit (0);
}

void
kit_fail (Kit *k, const char *rule, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  end (k, KIT_FAILED, rule, format, args);
}

void
kit_skip (Kit *k, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  end (k, KIT_SKIPPED, NULL, format, args);
}

void
kit_doing (Kit *k, const char *format, ...)
{
  va_list args;
  static GMutex lock; /* protects the text; with several threads the last one wins */
  va_start (args, format);
  g_mutex_lock (&lock);
  say (k->outcome->doing, sizeof k->outcome->doing, format, args);
  g_mutex_unlock (&lock);
  va_end (args);
}

void
kit_note (Kit *k, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  say (k->outcome->note, sizeof k->outcome->note, format, args);
  va_end (args);
}

void
kit_seed (Kit *k, uint64_t seed)
{
  k->outcome->seed = seed;
  k->outcome->has_seed = 1;
}

uint64_t
kit_now_ns (void)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* -- A process --------------------------------------------------------------------------------- */

static void
run_here (const Options *o, const GmManifest *m, unsigned i, KitOutcome *outcome)
{
  Kit k = { .file = o->file,
            .manifest = m,
            .rule = cases[i].rule,
            .first_seed = o->seed,
            .n_graphs = o->graphs,
            .host_minor = o->minor,
            .outcome = outcome };
  kit_mem_catch_faults (&k);
  cases[i].fn (&k);
  kit_doing (&k, "ending the process");
  __atomic_store_n (&outcome->verdict, KIT_PASSED, __ATOMIC_RELEASE);
}

static G_GNUC_NORETURN void
be_a_case (const Options *o, const GmManifest *m, unsigned i, KitOutcome *outcome, int output)
{
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  setpgid (0, 0);
  FILE *none = freopen ("/dev/null", "r", stdin);
  if (!none || dup2 (output, 1) < 0 || dup2 (output, 2) < 0)
    _exit (99);
  run_here (o, m, i, outcome);
#if defined(__SANITIZE_ADDRESS__)
  _exit (0); /* allocated memory is not a leak then */
#else
  exit (0); /* with the plugin's destructors */
#endif
}

/* Waits for the child for this time; false: the time is over. Processes that the child left running
 * are killed while its process id is still its own. */
static bool
wait_for (pid_t child, uint32_t seconds, int *status)
{
  uint64_t end_ns = kit_now_ns () + seconds * (uint64_t) 1000000000;
  siginfo_t info = { 0 };
  for (unsigned us = 200; info.si_pid != child && kit_now_ns () < end_ns; us = MIN (us * 2, 10000u))
    if (waitid (P_PID, (id_t) child, &info, WEXITED | WNOHANG | WNOWAIT) == 0
        && info.si_pid != child)
      g_usleep (us);
  kill (-child, SIGKILL);
  kill (child, SIGKILL);
  waitpid (child, status, 0);
  return info.si_pid == child;
}

static char *
read_end (int fd)
{
  char text[OUTPUT_BYTES + 1];
  off_t n = lseek (fd, 0, SEEK_END), from = MAX (n - OUTPUT_BYTES, (off_t) 0);
  ssize_t got = pread (fd, text, OUTPUT_BYTES, from);
  return got > 0 ? g_utf8_make_valid (text, got) : g_strdup ("");
}

static char *
command_again (const Options *o, const Result *r, const KitOutcome *outcome)
{
  GString *s = g_string_new ("gramme check-plugin");
  g_string_append_printf (s, " --filter '^%s$'", r->name);
  if (o->has_minor)
    g_string_append_printf (s, " --host-version %u", o->minor);
  if (outcome->has_seed)
    g_string_append_printf (s, " --seed %" G_GUINT64_FORMAT " --graphs 1", outcome->seed);
  g_autofree char *file = g_shell_quote (o->file);
  g_string_append_printf (
      s, " %s",
      g_str_has_prefix (file, "'") && !strpbrk (o->file, " '\"$\\`&|;<>()*?[]#~") ? o->file : file);
  return g_string_free (s, FALSE);
}

/* Returns a description of how a case's process died; the caller frees. */
static char *
describe_death (const Options *o, bool in_time, int status, const KitOutcome *outcome)
{
  const char *doing = outcome->doing[0] ? outcome->doing : "being started";
  if (!in_time)
    return g_strdup_printf ("did not come back within %u s, while %s", o->seconds, doing);
  if (WIFSIGNALED (status))
    return g_strdup_printf ("died of signal %d (%s), while %s", WTERMSIG (status),
                            strsignal (WTERMSIG (status)), doing);
  return g_strdup_printf ("ended the process with status %d, while %s", WEXITSTATUS (status),
                          doing);
}

static void
run_one (const Options *o, const GmManifest *m, unsigned i, Result *r)
{
  KitOutcome *outcome =
      mmap (NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int output = memfd_create ("output", MFD_CLOEXEC), status = 0;
  bool in_time = true;
  g_assert (outcome != MAP_FAILED && output >= 0);
  uint64_t start = kit_now_ns ();
  fflush (NULL);
  pid_t child = o->in_process ? 0 : fork ();
  if (o->in_process)
    run_here (o, m, i, outcome);
  else if (child == 0)
    be_a_case (o, m, i, outcome, output);
  else if (child > 0)
    in_time = wait_for (child, o->seconds, &status);
  r->ms = (double) (kit_now_ns () - start) / 1e6;
  r->verdict = (KitVerdict) outcome->verdict;
  bool died = child < 0 || !in_time || status != 0;
  if (died || r->verdict == KIT_BROKEN) {
    r->verdict = KIT_FAILED;
    r->rule = g_strdup (cases[i].rule);
    r->text = child < 0 ? g_strdup_printf ("no process could be started: %s", g_strerror (errno))
                        : describe_death (o, in_time, status, outcome);
  } else {
    r->rule = g_strdup (outcome->rule);
    r->text = g_strdup (outcome->text);
  }
  r->note = g_strdup (outcome->note);
  r->doing = g_strdup (outcome->doing);
  r->printed = read_end (output);
  if (r->verdict == KIT_FAILED)
    r->again = command_again (o, r, outcome);
  close (output);
  munmap (outcome, sizeof *outcome);
}

static void
result_clear (Result *r)
{
  g_free (r->name);
  g_free (r->rule);
  g_free (r->text);
  g_free (r->note);
  g_free (r->doing);
  g_free (r->printed);
  g_free (r->again);
}

/* -- TAP and JSON ------------------------------------------------------------------------------ */

static void
print_lines (const char *prefix, const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (char **l = lines; *l; l++)
    if (**l)
      printf ("%s%s\n", prefix, *l);
}

static void
print_result (const Result *r)
{
  switch (r->verdict) {
  case KIT_PASSED:
    printf ("ok %u - %s\n", r->number, r->name);
    break;
  case KIT_SKIPPED:
    printf ("ok %u - %s # SKIP %s\n", r->number, r->name, r->text);
    break;
  default:
    printf ("not ok %u - %s\n#   %s: %s\n", r->number, r->name, r->rule, r->text);
    if (!strstr (r->text, r->doing))
      printf ("#   while %s\n", r->doing);
    print_lines ("#   | ", r->printed);
  }
  if (r->note[0])
    printf ("# %s: %s\n", r->name, r->note);
  fflush (stdout);
}

static void
count (const GArray *results, unsigned n[4])
{
  memset (n, 0, 4 * sizeof *n);
  for (guint i = 0; i < results->len; i++)
    n[g_array_index (results, Result, i).verdict]++;
}

static const struct {
  const char *number, *text;
} rules[] = {
#define RULE(number, text) { number, text },
#include "tools/kit/kit_rules.def"
};

static void
print_summary (const Options *o, const GArray *results)
{
  unsigned n[4];
  count (results, n);
  if (n[KIT_FAILED])
    printf ("#\n# What failed in %s:\n", o->file);
  for (guint i = 0; i < results->len; i++) {
    const Result *r = &g_array_index (results, Result, i);
    if (r->verdict == KIT_FAILED)
      printf ("# %s breaks %s: %s\n#     %s\n", r->name, r->rule, r->text, r->again);
  }
  for (unsigned i = 0; i < G_N_ELEMENTS (rules); i++)
    for (guint k = 0; k < results->len; k++) {
      const Result *r = &g_array_index (results, Result, k);
      if (r->verdict == KIT_FAILED && strcmp (r->rule, rules[i].number) == 0) {
        printf ("# %s: %s\n", rules[i].number, rules[i].text);
        break;
      }
    }
  printf ("# %u passed, %u failed, %u skipped\n", n[KIT_PASSED], n[KIT_FAILED], n[KIT_SKIPPED]);
}

static void
put_string (FILE *f, const char *key, const char *value, const char *after)
{
  fprintf (f, "\"%s\": \"", key);
  for (const char *c = value ? value : ""; *c; c++)
    if (*c == '"' || *c == '\\')
      fprintf (f, "\\%c", *c);
    else if ((unsigned char) *c < ' ')
      fprintf (f, "\\u%04x", *c);
    else
      fputc (*c, f);
  fprintf (f, "\"%s", after);
}

static bool
write_json (const Options *o, const GmManifest *m, const GArray *results)
{
  static const char *const words[] = { "broken", "pass", "fail", "skip" };
  FILE *f = strcmp (o->json, "-") == 0 ? stdout : fopen (o->json, "we");
  unsigned n[4];
  if (!f) {
    fprintf (stderr, "gramme check-plugin: %s cannot be written: %s\n", o->json,
             g_strerror (errno));
    return false;
  }
  count (results, n);
  fputs ("{", f);
  put_string (f, "file", o->file, ", ");
  put_string (f, "id", m->id, ", ");
  fprintf (f,
           "\"host_version\": \"%d.%u\", \"seed\": %" G_GUINT64_FORMAT
           ", \"passed\": %u, \"failed\": %u, \"skipped\": %u,\n \"cases\": [",
           GRAMME_ABI_MAJOR, o->minor, o->seed, n[KIT_PASSED], n[KIT_FAILED], n[KIT_SKIPPED]);
  for (guint i = 0; i < results->len; i++) {
    const Result *r = &g_array_index (results, Result, i);
    fprintf (f, "%s\n  {", i ? "," : "");
    put_string (f, "name", r->name, ", ");
    put_string (f, "result", words[r->verdict], ", ");
    if (r->verdict == KIT_FAILED)
      put_string (f, "rule", r->rule, ", ");
    if (r->text[0])
      put_string (f, "text", r->text, ", ");
    if (r->note[0])
      put_string (f, "note", r->note, ", ");
    if (r->again)
      put_string (f, "again", r->again, ", ");
    fprintf (f, "\"ms\": %.1f}", r->ms);
  }
  fputs ("]}\n", f);
  bool good = !ferror (f);
  return (f == stdout || fclose (f) == 0) && good;
}

/* -- The program ------------------------------------------------------------------------------- */

static bool
read_number (const char *text, uint64_t max, uint64_t *out)
{
  return text && g_ascii_string_to_unsigned (text, 10, 0, max, out, NULL);
}

/* Returns the value of the option at argv[*i], as "--key value" or "--key=value"; NULL: another
 * option. */
static const char *
take_value (char **argv, int argc, int *i, const char *key)
{
  size_t n = strlen (key);
  if (strncmp (argv[*i], key, n) != 0)
    return NULL;
  if (argv[*i][n] == '=')
    return argv[*i] + n + 1;
  return argv[*i][n] == 0 && *i + 1 < argc ? argv[++*i] : NULL;
}

static int
read_options (Options *o, int argc, char **argv)
{
  *o = (Options){ .level = 10,
                  .graphs = DEFAULT_GRAPHS,
                  .seed = 1,
                  .minor = GRAMME_ABI_MINOR,
                  .seconds = DEFAULT_SECONDS };
  for (int i = 1; i < argc; i++) {
    const char *text, *arg = argv[i];
    uint64_t n = 0;
    if ((text = take_value (argv, argc, &i, "--level"))) {
      if (!read_number (text, 10, &n) || n == 0)
        return gm_tool_misused (argv[0], "levels are 1 to 10");
      o->level = (uint32_t) n;
    } else if ((text = take_value (argv, argc, &i, "--filter"))) {
      g_autoptr (GError) error = NULL;
      o->filter = g_regex_new (text, 0, 0, &error);
      if (!o->filter)
        return gm_tool_misused (argv[0], "%s", error->message);
    } else if ((text = take_value (argv, argc, &i, "--seed"))) {
      if (!read_number (text, G_MAXUINT64, &o->seed))
        return gm_tool_misused (argv[0], "a seed is a number, not \"%s\"", text);
    } else if ((text = take_value (argv, argc, &i, "--graphs"))) {
      if (!read_number (text, 1000000, &n) || n == 0)
        return gm_tool_misused (argv[0], "--graphs wants a number of random graphs");
      o->graphs = (uint32_t) n;
    } else if ((text = take_value (argv, argc, &i, "--timeout"))) {
      if (!read_number (text, 86400, &n) || n == 0)
        return gm_tool_misused (argv[0], "--timeout wants seconds for each case");
      o->seconds = (uint32_t) n;
    } else if ((text = take_value (argv, argc, &i, "--host-version"))) {
      text = g_str_has_prefix (text, "0.") ? text + 2 : text;
      if (!read_number (text, GRAMME_ABI_MINOR + 1, &n))
        return gm_tool_misused (argv[0], "host versions are 0.0 to 0.%d, which is yet to come",
                                GRAMME_ABI_MINOR + 1);
      o->minor = (uint32_t) n;
      o->has_minor = true;
    } else if ((text = take_value (argv, argc, &i, "--json")))
      o->json = text;
    else if (strcmp (arg, "--list") == 0)
      o->list = true;
    else if (strcmp (arg, "--in-process") == 0)
      o->in_process = true;
    else if (arg[0] == '-')
      return gm_tool_misused (argv[0], "there is no option %s, or it wants a value", arg);
    else if (o->file)
      return gm_tool_misused (argv[0], "one file at a time: %s or %s", o->file, arg);
    else
      o->file = arg;
  }
  if (!o->file && !o->list)
    return gm_tool_misused (argv[0], "which file?");
  return 0;
}

static char *
case_name (unsigned i)
{
  char *name = g_strdup_printf ("%s/%s", cases[i].group, cases[i].name);
  return g_strdelimit (name, "_", '-');
}

static void
list_cases (void)
{
  for (unsigned i = 0; i < N_CASES; i++) {
    g_autofree char *name = case_name (i);
    printf ("%2u  %-22s %-7s %s\n", cases[i].level, name, cases[i].rule, cases[i].what);
  }
}

/* Checks the file and reads its manifest as the loader does; NULL: *why is the reason. */
static GmManifest *
examine (const char *file, char **canonical, GmRefused *why)
{
  g_autofree char *path = g_canonicalize_filename (file, NULL);
  int fd = gm_trust_open (path, canonical, NULL, why);
  if (fd < 0)
    return NULL;
  char *text = gm_manifest_read (fd, *canonical, why);
  close (fd);
  return text ? gm_manifest_parse (text, NULL, why) : NULL;
}

static int
run_all (const Options *o, const GmManifest *m)
{
  g_autoptr (GArray) results = g_array_new (FALSE, TRUE, sizeof (Result));
  for (unsigned i = 0; i < N_CASES; i++) {
    g_autofree char *name = case_name (i);
    if (cases[i].level > o->level || (o->filter && !g_regex_match (o->filter, name, 0, NULL)))
      continue;
    Result r = { .name = g_steal_pointer (&name), .number = results->len + 1 };
    run_one (o, m, i, &r);
    print_result (&r);
    g_array_append_val (results, r);
  }
  printf ("1..%u\n", results->len);
  print_summary (o, results);
  bool good = results->len > 0;
  for (guint i = 0; i < results->len; i++)
    good = good && g_array_index (results, Result, i).verdict != KIT_FAILED;
  if (results->len == 0)
    fprintf (stderr, "gramme check-plugin: no case has that name; --list shows them\n");
  if (o->json && !write_json (o, m, results))
    good = false;
  for (guint i = 0; i < results->len; i++)
    result_clear (&g_array_index (results, Result, i));
  return good ? 0 : 1;
}

int
gm_tool_check_plugin (int argc, char **argv)
{
  Options o;
  int wrong = read_options (&o, argc, argv);
  if (wrong)
    return wrong;
  if (o.list) {
    list_cases ();
    return 0;
  }
  g_autofree char *canonical = NULL;
  GmRefused why = { 0 };
  g_autoptr (GmManifest) m = examine (o.file, &canonical, &why);
  if (!m) {
    printf ("Bail out! %s is not loaded: it %s\n# what to do: %s\n", o.file, why.text,
            gm_refusal_remedies[why.code]);
    gm_refused_clear (&why);
    return 1;
  }
  if ((uint32_t) m->min_host_minor > o.minor) {
    printf ("Bail out! %s needs a host of version 0.%d: one of 0.%u does not load it\n", o.file,
            m->min_host_minor, o.minor);
    return 1;
  }
  o.file = canonical;
  printf ("TAP version 13\n# %s %s, in a host of version %d.%u, seed %" G_GUINT64_FORMAT "\n",
          m->id, m->version ? m->version : "", GRAMME_ABI_MAJOR, o.minor, o.seed);
  int status = run_all (&o, m);
  if (o.filter)
    g_regex_unref (o.filter);
  return status;
}
