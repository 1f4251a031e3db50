/* SPDX-License-Identifier: Apache-2.0
 * level_file.c -- levels 1 and 2: the file, its query, and hosts of other minors.
 */
#include <elf.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/kit/kit.h"

#define LOAD_MS 100

/* -- The file ---------------------------------------------------------------------------------- */

void
kit_file_manifest (Kit *k)
{
  const GmManifest *m = k->manifest;
  static const char *const flags[] = { "backward",       "compile-serial", "dynamic",
                                       "run-concurrent", "serialize",      NULL };
  static const char *const devices[] = { "cpu", "cuda", NULL };
  if (!m->id || !strchr (m->id, '.'))
    kit_fail (k, NULL, "the id \"%s\" is not of a domain, as org.example.%s is", m->id, m->name);
  if (!m->version || !m->version[0])
    kit_fail (k, NULL, "there is no version");
  if (!m->devices[0])
    kit_fail (k, NULL, "there are no devices; say devices=cpu;");
  for (char **d = m->devices; *d; d++)
    if (!g_strv_contains (devices, *d))
      kit_fail (k, NULL, "there is no device \"%s\"", *d);
  for (char **d = m->dtypes; *d; d++) {
    GmDtype found;
    if (!gm_dtype_parse (*d, strlen (*d), &found))
      kit_fail (k, NULL, "there is no dtype \"%s\"", *d);
  }
  for (char **f = m->flags; *f; f++)
    if (!g_strv_contains (flags, *f) && !strchr (*f, '.'))
      kit_note (k, "this host does not know the flag \"%s\"", *f);
  for (guint i = 0; i < m->options->len; i++) {
    const GmPluginOption *o = m->options->pdata[i];
    g_autoptr (GError) error = NULL;
    if (o->fallback && !gm_manifest_check_option (m, o->key, o->fallback, &error))
      kit_fail (k, NULL, "the default of an option is no good value: %s", error->message);
  }
}

/* The contents of the plugin's file. The loader's trust checks have compared everything that is
 * read here with the file's size, but not sections. */
typedef struct {
  const char *bytes;
  size_t n;
  const Elf64_Ehdr *header;
} File;

static File
map_file (Kit *k)
{
  struct stat st;
  int fd = open (k->file, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat (fd, &st) != 0)
    kit_fail (k, NULL, "it cannot be read");
  File f = { .n = (size_t) st.st_size };
  f.bytes = mmap (NULL, f.n, PROT_READ, MAP_PRIVATE, fd, 0);
  close (fd);
  if (f.bytes == MAP_FAILED)
    kit_fail (k, NULL, "it cannot be mapped");
  f.header = (const Elf64_Ehdr *) (const void *) f.bytes;
  return f;
}

static const void *
at (const File *f, uint64_t offset, uint64_t bytes)
{
  return offset <= f->n && bytes <= f->n - offset ? f->bytes + offset : NULL;
}

static const Elf64_Shdr *
section (const File *f, uint32_t i)
{
  return i < f->header->e_shnum
             ? at (f, f->header->e_shoff + (uint64_t) i * sizeof (Elf64_Shdr), sizeof (Elf64_Shdr))
             : NULL;
}

static const char *
string (const File *f, const Elf64_Shdr *strings, uint64_t offset)
{
  if (!strings || !at (f, strings->sh_offset, strings->sh_size) || offset >= strings->sh_size)
    return "";
  const char *s = f->bytes + strings->sh_offset + offset;
  return memchr (s, 0, strings->sh_size - offset) ? s : "";
}

void
kit_file_exports (Kit *k)
{
  File f = map_file (k);
  bool found = false, query = false;
  for (uint32_t i = 0; i < f.header->e_shnum; i++) {
    const Elf64_Shdr *s = section (&f, i);
    if (!s || s->sh_type != SHT_DYNSYM || !at (&f, s->sh_offset, s->sh_size))
      continue;
    const Elf64_Shdr *strings = section (&f, s->sh_link);
    const Elf64_Sym *symbols = at (&f, s->sh_offset, s->sh_size);
    found = true;
    for (uint64_t n = 0; n < s->sh_size / sizeof *symbols; n++) {
      const Elf64_Sym *y = &symbols[n];
      const char *name = string (&f, strings, y->st_name);
      if (y->st_shndx == SHN_UNDEF || ELF64_ST_BIND (y->st_info) == STB_LOCAL || !name[0])
        continue;
      if (strcmp (name, GM_PLUGIN_QUERY_SYMBOL) == 0)
        query = true;
      else if (name[0] != '_') /* _init, _end, _edata and the like are the linker's */
        kit_fail (k, NULL, "exports `%s`; compile it with -fvisibility=hidden", name);
    }
  }
  if (!found)
    kit_skip (k, "it has no section headers");
  if (!query)
    kit_fail (k, NULL, "does not export %s", GM_PLUGIN_QUERY_SYMBOL);
}

/* Calls fn for each entry of the dynamic section. */
static void
walk_dynamic (Kit *k, const File *f,
              void (*fn) (Kit *k, const File *f, const Elf64_Shdr *strings, const Elf64_Dyn *d,
                          void *data),
              void *data)
{
  for (uint32_t i = 0; i < f->header->e_shnum; i++) {
    const Elf64_Shdr *s = section (f, i);
    if (!s || s->sh_type != SHT_DYNAMIC || !at (f, s->sh_offset, s->sh_size))
      continue;
    const Elf64_Dyn *d = at (f, s->sh_offset, s->sh_size);
    for (uint64_t n = 0; n < s->sh_size / sizeof *d && d[n].d_tag != DT_NULL; n++)
      fn (k, f, section (f, s->sh_link), &d[n], data);
    return;
  }
  kit_skip (k, "it has no section headers");
}

static void
see_needed (Kit *k, const File *f, const Elf64_Shdr *strings, const Elf64_Dyn *d, void *data)
{
  static const char *const hosts[] = { "libgramme", "libglib-", "libpython", "libgobject-" };
  const char *name = d->d_tag == DT_NEEDED ? string (f, strings, d->d_un.d_val) : "";
  for (size_t i = 0; i < G_N_ELEMENTS (hosts); i++)
    if (g_str_has_prefix (name, hosts[i]))
      kit_fail (
          k, NULL,
          "links with %s, which is the host's; what it needs of the host comes through the table",
          name);
}

void
kit_file_needed (Kit *k)
{
  File f = map_file (k);
  walk_dynamic (k, &f, see_needed, NULL);
}

static void
see_flags (Kit *k, const File *f, const Elf64_Shdr *strings, const Elf64_Dyn *d, void *data)
{
  uint64_t *flags = data;
  if (d->d_tag == DT_FLAGS_1)
    *flags |= d->d_un.d_val;
  if (d->d_tag == DT_BIND_NOW || (d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_BIND_NOW)))
    *flags |= DF_1_NOW;
}

void
kit_file_nodelete (Kit *k)
{
  File f = map_file (k);
  uint64_t flags = 0;
  walk_dynamic (k, &f, see_flags, &flags);
  if (!(flags & DF_1_NODELETE))
    kit_fail (k, NULL, "may be unloaded; link it with -Wl,-z,nodelete");
  if (!(flags & DF_1_NOW))
    kit_note (k, "link it with -Wl,-z,now, so that what is missing is noticed when it is loaded");
}

/* Loads the plugin in a process of its own; false if that takes too long, so that it can be
 * repeated if the machine was busy. */
static bool
loads_in_time (Kit *k)
{
  int status = 0;
  pid_t child = fork ();
  if (child == 0) {
    uint64_t start = kit_now_ns ();
    kit_load (k);
    _exit (kit_now_ns () - start > LOAD_MS * (uint64_t) 1000000 ? 3 : 0);
  }
  return child < 0
         || (waitpid (child, &status, 0) == child && WIFEXITED (status)
             && WEXITSTATUS (status) != 3);
}

void
kit_file_loads (Kit *k)
{
  kit_host_init (k, k->host_minor);
  bool in_time = false;
  for (int i = 0; i < 5 && !in_time; i++)
    in_time = loads_in_time (k);
  if (!in_time)
    kit_fail (k, NULL,
              "takes more than %d ms to load; a constructor does nothing, and the work is open's",
              LOAD_MS);
  kit_load (k);
  if (k->descriptor->struct_size % 8 || k->descriptor->api->struct_size % 8)
    kit_fail (k, NULL, "its records have sizes that are no multiples of 8");
  kit_note (k, "built against minor %u, needs at least %u", k->descriptor->abi_minor,
            k->descriptor->min_host_minor);
}

/* -- The query --------------------------------------------------------------------------------- */

static void
query_often (void *data, unsigned i)
{
  Kit *k = data;
  for (int n = 0; n < 1000; n++)
    if (k->query (k->host.table, NULL) != k->descriptor)
      kit_fail (k, NULL, "the query gives another pointer in thread %u", i);
}

#ifndef __SANITIZE_THREAD__
/* Calls the query in a process that is killed for any system call but read, write and exit; true if
 * it survives. */
static bool
query_is_silent (Kit *k)
{
  int status = 0;
  kit_doing (k, "calling the query where no system call is allowed");
  pid_t child = fork ();
  if (child == 0) {
    signal (SIGSYS, SIG_DFL);
    if (prctl (PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0)
      k->query (k->host.table, NULL);
    syscall (SYS_exit, 0);
  }
  return child < 0 || (waitpid (child, &status, 0) == child && status == 0);
}
#endif

void
kit_query_pure (Kit *k)
{
  kit_load (k);
  struct mallinfo2 before = mallinfo2 ();
  for (int i = 0; i < 1000; i++)
    k->query (k->host.table, NULL);
  struct mallinfo2 after = mallinfo2 ();
  if (after.uordblks != before.uordblks)
    kit_fail (k, NULL, "1000 queries take %zd bytes of memory",
              (ssize_t) (after.uordblks - before.uordblks));
  if (k->host.n_allocs + k->host.n_log)
    kit_fail (k, NULL, "the query calls the host");
  kit_on_threads (8, query_often, k);
/* Left out under the thread sanitizer, which has a thread of its own that makes system calls. */
#ifndef __SANITIZE_THREAD__
  if (!query_is_silent (k))
    kit_fail (k, NULL, "the query makes system calls");
#endif
}

/* -- Load to close, for hosts of other minors -------------------------------------------------- */

static void
live (Kit *k)
{
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 3, 5);
  GmTensor **in = kit_inputs (g, 1, GM_RANDOM_TAME);
  kit_check_graph (k, g, in);
  GrammeExecutable *e = kit_compile (k, g, NULL);
  const GrammeExecInfo empty = { 0 };
  KitMem info = kit_record (k, "GrammeExecInfo", &empty, sizeof empty);
  kit_doing (k, "asking for exec_info");
  int32_t code = k->plugin.api.exec_info (e, (GrammeExecInfo *) (void *) info.data, kit_status (k));
  if (code != GRAMME_OK)
    kit_fail (k, NULL, "exec_info answers %d", code);
  if (k->plugin.api.device_info) {
    const GrammeDeviceInfo none = { 0 };
    KitMem device = kit_record (k, "GrammeDeviceInfo", &none, sizeof none);
    kit_doing (k, "asking for device_info");
    k->plugin.api.device_info (k->backend, 0, (GrammeDeviceInfo *) (void *) device.data,
                               kit_status (k));
    code = k->plugin.api.device_info (k->backend, 1000000,
                                      (GrammeDeviceInfo *) (void *) device.data, kit_status (k));
    if (code != GRAMME_NOT_FOUND)
      kit_fail (k, "GPP-2",
                "device_info of a device that there cannot be answers %d, not NOT_FOUND", code);
  }
  kit_destroy (k, e);
  kit_free_tensors (in, g->inputs->len);
  kit_close (k);
}

void
kit_query_status (Kit *k)
{
  k->null_status = true;
  live (k);
  k->null_status = false;
  /* A status that ends before its message, and a request that must fail. */
  kit_open (k);
  g_autoptr (GmGraph) g = kit_small_graph (k, 2, 2);
  GrammeExecutable *e;
  k->null_status = true;
  k->flags = 0x80000000u;
  if (kit_try_compile (k, g, NULL, &e) == GRAMME_OK)
    kit_destroy (k, e);
  kit_close (k);
}

/* Forgets k->query and everything that was learned, which belong to another host. */
static void
forget (Kit *k, uint32_t minor)
{
  k->query = NULL;
  kit_host_init (k, minor);
}

void
kit_query_old_hosts (Kit *k)
{
  uint32_t needs = (uint32_t) k->manifest->min_host_minor;
  /* A plugin that works with a host does not read beyond that host's records. */
  k->record_rule = "GPP-3";
  for (uint32_t minor = needs; minor <= GRAMME_ABI_MINOR; minor++) {
    kit_doing (k, "living in a host of minor %u", minor);
    forget (k, minor);
    live (k);
  }
  kit_note (k, "works with hosts from version 0.%u on", needs);
}

void
kit_query_future_host (Kit *k)
{
  forget (k, GRAMME_ABI_MINOR + 1);
  live (k);
}

void
kit_query_extensions (Kit *k)
{
  static const char *const ids[] = { "",
                                     "gramme.serialize",
                                     "gramme.serialize/",
                                     "gramme.serialize/2",
                                     "gramme.serialize/10",
                                     "GRAMME.serialize/1",
                                     "gramme.serialize/1 ",
                                     "gramme.memory/99",
                                     "gramme.stream/99",
                                     "gramme.kernels/0",
                                     "org.nobody.anything/1",
                                     "/",
                                     "%s%n" };
  kit_open (k);
  g_autofree char *long_one = g_strnfill (100000, 'x');
  for (unsigned i = 0; k->plugin.api.get_extension && i <= G_N_ELEMENTS (ids); i++) {
    const char *id = i < G_N_ELEMENTS (ids) ? ids[i] : long_one;
    kit_doing (k, "asking for the extension \"%.40s\"", id);
    if (k->plugin.api.get_extension (k->backend, id))
      kit_fail (k, NULL, "has an extension \"%.40s\"; ids are compared as a whole", id);
  }
  kit_close (k);
}
