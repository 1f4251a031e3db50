/* SPDX-License-Identifier: Apache-2.0
 * elf.c -- ELF headers through pread: identification, segments, dynamic section, notes.
 *
 * Invariant: `inside` is asked before any position from the file is used, and pread never reads
 * more than a caller's fixed buffer. A file whose section headers or segments reach past its end is
 * TRUNCATED: dlopen of such a file dies of SIGBUS, so it must not get there.
 */
#include "core/plugin/elf.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin-api/gramme-plugin.h"

#define MAX_SEGMENTS 64
#define MAX_SECTIONS 8192
#define MAX_DYNAMIC 4096
#define MAX_NOTES 256
#define MAX_TEXT 4096 /* bytes of a run path or a library's name, at most */

#if defined(__x86_64__)
#define THIS_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define THIS_MACHINE EM_AARCH64
#else
#error "name this machine's ELF code"
#endif

const char *const gm_refusal_texts[GM_N_REFUSALS] = {
  [GM_REFUSAL_NONE] = "",
#define REFUSAL(NAME, text, remedy, cause) [GM_REFUSAL_##NAME] = text,
#include "core/plugin/refusals.def"
};

const char *const gm_refusal_remedies[GM_N_REFUSALS] = {
  [GM_REFUSAL_NONE] = "",
#define REFUSAL(NAME, text, remedy, cause) [GM_REFUSAL_##NAME] = remedy,
#include "core/plugin/refusals.def"
};

const char *const gm_refusal_names[GM_N_REFUSALS] = {
  [GM_REFUSAL_NONE] = "none",
#define REFUSAL(NAME, text, remedy, cause) [GM_REFUSAL_##NAME] = #NAME,
#include "core/plugin/refusals.def"
};

const GmCause gm_refusal_causes[GM_N_REFUSALS] = {
#define REFUSAL(NAME, text, remedy, cause) [GM_REFUSAL_##NAME] = cause,
#include "core/plugin/refusals.def"
};

typedef struct {
  int fd;
  uint64_t size;
  Elf64_Ehdr header;
  Elf64_Phdr segments[MAX_SEGMENTS];
} Elf;

/* -- Refusing ---------------------------------------------------------------------------------- */

bool
gm_refuse (GmRefused *r, GmRefusal code, const char *detail, ...)
{
  if (r->code != GM_REFUSAL_NONE) /* keep the first reason */
    return false;
  va_list args;
  va_start (args, detail);
  g_autofree char *text = g_strdup_vprintf (detail, args);
  va_end (args);
  r->code = code;
  r->text = text[0] ? g_strdup_printf ("%s: %s", gm_refusal_texts[code], text)
                    : g_strdup (gm_refusal_texts[code]);
  return false;
}

void
gm_refused_clear (GmRefused *r)
{
  g_clear_pointer (&r->text, g_free);
  r->code = GM_REFUSAL_NONE;
}

/* -- Reading ----------------------------------------------------------------------------------- */

static bool
inside (const Elf *e, uint64_t offset, uint64_t bytes)
{
  return offset <= e->size && bytes <= e->size - offset;
}

static bool
read_at (const Elf *e, uint64_t offset, void *out, size_t bytes)
{
  if (!inside (e, offset, bytes))
    return false;
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pread (e->fd, (char *) out + done, bytes - done, (off_t) (offset + done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    done += (size_t) n;
  }
  return true;
}

static bool
open_elf (Elf *e, int fd, GmRefused *why)
{
  struct stat st;
  if (fstat (fd, &st) != 0 || st.st_size < 0)
    return gm_refuse (why, GM_REFUSAL_OPEN, "%s", g_strerror (errno));
  e->fd = fd;
  e->size = (uint64_t) st.st_size;

  unsigned char ident[EI_NIDENT];
  if (!read_at (e, 0, ident, sizeof ident))
    return gm_refuse (why, GM_REFUSAL_NOT_ELF, "it has %" G_GUINT64_FORMAT " bytes", e->size);
  if (memcmp (ident, ELFMAG, SELFMAG) != 0)
    return gm_refuse (why, GM_REFUSAL_NOT_ELF, "it begins with other bytes");
  if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB)
    return gm_refuse (why, GM_REFUSAL_CLASS, "class %u, data %u; build it for this machine",
                      ident[EI_CLASS], ident[EI_DATA]);
  Elf64_Ehdr *h = &e->header;
  if (!read_at (e, 0, h, sizeof *h))
    return gm_refuse (why, GM_REFUSAL_TRUNCATED, "its header is cut off; build or copy it again");
  if (h->e_type != ET_DYN)
    return gm_refuse (why, GM_REFUSAL_TYPE, "ELF type %u; link it with -shared", h->e_type);
  if (h->e_machine != THIS_MACHINE)
    return gm_refuse (why, GM_REFUSAL_MACHINE,
                      "ELF machine %u, here it is %u; build it for this machine", h->e_machine,
                      THIS_MACHINE);
  if (h->e_phnum == 0 || h->e_phnum > MAX_SEGMENTS || h->e_phentsize != sizeof (Elf64_Phdr)
      || !read_at (e, h->e_phoff, e->segments, h->e_phnum * sizeof (Elf64_Phdr)))
    return gm_refuse (why, GM_REFUSAL_TRUNCATED,
                      "its table of segments does not lie in the file; build or copy it again");
  for (unsigned i = 0; i < h->e_phnum; i++)
    if (!inside (e, e->segments[i].p_offset, e->segments[i].p_filesz))
      return gm_refuse (why, GM_REFUSAL_TRUNCATED,
                        "segment %u reaches past the end of the file; build or copy it again", i);
  /* Section headers stand last in the file, so they reveal a truncation that leaves the segments
   * whole. */
  if (h->e_shoff != 0
      && (h->e_shnum > MAX_SECTIONS || h->e_shentsize != sizeof (Elf64_Shdr)
          || !inside (e, h->e_shoff, (uint64_t) h->e_shnum * sizeof (Elf64_Shdr))))
    return gm_refuse (why, GM_REFUSAL_TRUNCATED,
                      "its table of sections does not lie in the file; build or copy it again");
  return true;
}

/* -- The dynamic section ----------------------------------------------------------------------- */

/* Refuses a file unless each address maps to one place in the file, so that this code reads the
 * same bytes as the loader.  The loader maps whole pages, a later segment over an earlier one, so
 * segments may not share pages. */
static bool
check_mapping (const Elf *e, GmRefused *why)
{
  uint64_t page = (uint64_t) sysconf (_SC_PAGESIZE), end = 0;
  for (unsigned i = 0; i < e->header.e_phnum; i++) {
    const Elf64_Phdr *p = &e->segments[i];
    if (p->p_type != PT_LOAD)
      continue;
    uint64_t last;
    if (__builtin_add_overflow (p->p_vaddr, p->p_memsz, &last) || last > UINT64_MAX - page
        || p->p_memsz < p->p_filesz || (p->p_vaddr - p->p_offset) % page != 0
        || p->p_vaddr / page * page < end)
      return gm_refuse (why, GM_REFUSAL_TRUNCATED,
                        "segment %u lies over another one, or is not mapped as it is in the file",
                        i);
    end = (last + page - 1) / page * page;
  }
  return true;
}

/* Converts an address into an offset in the file.  False if not all of the bytes at the address lie
 * in one segment of the file. */
static bool
file_offset (const Elf *e, uint64_t address, uint64_t bytes, uint64_t *offset)
{
  for (unsigned i = 0; i < e->header.e_phnum; i++) {
    const Elf64_Phdr *p = &e->segments[i];
    if (p->p_type == PT_LOAD && address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz) {
      *offset = p->p_offset + (address - p->p_vaddr);
      return bytes <= p->p_filesz - (address - p->p_vaddr);
    }
  }
  return false;
}

/* Returns the text at offset `at` of the string table, which the caller frees, or NULL and *why. */
static char *
read_text (const Elf *e, uint64_t strings, uint64_t at, GmRefused *why)
{
  char text[MAX_TEXT];
  uint64_t offset;
  if (strings == 0 || at > UINT32_MAX || !file_offset (e, strings + at, 1, &offset)) {
    gm_refuse (why, GM_REFUSAL_TRUNCATED,
               "a name in its dynamic section does not lie in the file; build or copy it again");
    return NULL;
  }
  size_t room = (size_t) MIN (e->size - offset, (uint64_t) sizeof text);
  if (read_at (e, offset, text, room) && memchr (text, 0, room))
    return g_strdup (text);
  gm_refuse (why, GM_REFUSAL_RUNPATH, "a path in its dynamic section has no end");
  return NULL;
}

/* Returns the length of "$ORIGIN" or "${ORIGIN}" at the beginning of `path`, if the path ends there
 * or a '/' follows; else 0. */
size_t
gm_elf_origin_length (const char *path)
{
  static const char *const spelled[] = { "$ORIGIN", "${ORIGIN}" };
  for (unsigned i = 0; i < G_N_ELEMENTS (spelled); i++) {
    size_t n = strlen (spelled[i]);
    if (strncmp (path, spelled[i], n) == 0 && (path[n] == '/' || path[n] == 0))
      return n;
  }
  return 0;
}

/* True if the path is absolute or begins with the file's own folder ($ORIGIN), and contains no
 * other variable of the loader's. */
static bool
is_fixed_path (const char *path)
{
  size_t n = gm_elf_origin_length (path);
  return (path[0] == '/' || n > 0) && !strchr (path + n, '$');
}

static bool
take_run_path (const char *text, GmElfNeeds *needs, GmRefused *why)
{
  g_auto (GStrv) folders = g_strsplit (text, ":", -1);
  if (!folders[0])
    return gm_refuse (why, GM_REFUSAL_RUNPATH, "the path is empty; link it without -rpath");
  for (char **f = folders; *f; f++) {
    if (!is_fixed_path (*f))
      return gm_refuse (why, GM_REFUSAL_RUNPATH, "\"%s\"; use an absolute folder or $ORIGIN", *f);
    g_ptr_array_add (needs->folders, g_strdup (*f));
  }
  return true;
}

static bool
take_library (const char *name, GmElfNeeds *needs, GmRefused *why)
{
  if (strpbrk (name, "/$") && !is_fixed_path (name))
    return gm_refuse (why, GM_REFUSAL_RUNPATH,
                      "it needs \"%s\", which is another file in each folder; give that library a "
                      "soname (-Wl,-soname), or name it with -l",
                      name);
  g_ptr_array_add (needs->libraries, g_strdup (name));
  return true;
}

/* True if an entry with this tag names a file that the loader loads. */
static bool
names_a_library (int64_t tag)
{
  return tag == DT_NEEDED || tag == DT_FILTER || tag == DT_AUXILIARY;
}

/* Returns the entries of the dynamic section up to its end, which the caller frees, or NULL and
 * *why. */
static Elf64_Dyn *
read_entries (const Elf *e, const Elf64_Phdr *p, GmRefused *why)
{
  uint64_t n = p->p_filesz / sizeof (Elf64_Dyn), offset;
  if (n > MAX_DYNAMIC) {
    gm_refuse (why, GM_REFUSAL_TRUNCATED, "its dynamic section has %" G_GUINT64_FORMAT " entries",
               n);
    return NULL;
  }
  if (!file_offset (e, p->p_vaddr, p->p_filesz, &offset) || offset != p->p_offset) {
    gm_refuse (why, GM_REFUSAL_TRUNCATED,
               "its dynamic section is not mapped from where it is in the file");
    return NULL;
  }
  g_autofree Elf64_Dyn *entries = g_new (Elf64_Dyn, n + 1);
  if (!read_at (e, offset, entries, n * sizeof *entries)) {
    gm_refuse (why, GM_REFUSAL_TRUNCATED, "its dynamic section cannot be read");
    return NULL;
  }
  for (uint64_t i = 0; i < n; i++)
    if (entries[i].d_tag == DT_NULL)
      return g_steal_pointer (&entries);
  gm_refuse (why, GM_REFUSAL_TRUNCATED, "its dynamic section has no end");
  return NULL;
}

static bool
read_needs (const Elf *e, GmElfNeeds *needs, bool *text_relocations, GmRefused *why)
{
  const Elf64_Phdr *p = NULL;
  for (unsigned i = 0; i < e->header.e_phnum; i++)
    if (e->segments[i].p_type == PT_DYNAMIC) {
      if (p)
        return gm_refuse (why, GM_REFUSAL_TRUNCATED, "it has two dynamic sections");
      p = &e->segments[i];
    }
  if (!check_mapping (e, why))
    return false;
  g_autofree Elf64_Dyn *entries = p ? read_entries (e, p, why) : NULL;
  if (!entries)
    return !p;
  uint64_t strings = 0;
  for (const Elf64_Dyn *d = entries; d->d_tag != DT_NULL; d++) {
    if (d->d_tag == DT_STRTAB)
      strings = d->d_un.d_ptr;
    *text_relocations = *text_relocations || d->d_tag == DT_TEXTREL
                        || (d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_TEXTREL));
  }
  for (const Elf64_Dyn *d = entries; d->d_tag != DT_NULL; d++) {
    bool path = d->d_tag == DT_RUNPATH || d->d_tag == DT_RPATH;
    if (!path && !names_a_library (d->d_tag))
      continue;
    g_autofree char *text = read_text (e, strings, d->d_un.d_val, why);
    if (!text || !(path ? take_run_path (text, needs, why) : take_library (text, needs, why)))
      return false;
  }
  return true;
}

static void
needs_init (GmElfNeeds *needs)
{
  needs->libraries = g_ptr_array_new_with_free_func (g_free);
  needs->folders = g_ptr_array_new_with_free_func (g_free);
}

void
gm_elf_needs_clear (GmElfNeeds *needs)
{
  g_clear_pointer (&needs->libraries, g_ptr_array_unref);
  g_clear_pointer (&needs->folders, g_ptr_array_unref);
}

bool
gm_elf_read_needs (int fd, GmElfNeeds *out, GmRefused *why)
{
  Elf e;
  bool ignored = false;
  needs_init (out);
  return open_elf (&e, fd, why) && read_needs (&e, out, &ignored, why);
}

bool
gm_elf_check (int fd, GmRefused *why)
{
  Elf e;
  g_auto (GmElfNeeds) needs = { 0 };
  if (!open_elf (&e, fd, why))
    return false;
  const Elf64_Phdr *stack = NULL;
  for (unsigned i = 0; i < e.header.e_phnum; i++)
    if (e.segments[i].p_type == PT_GNU_STACK)
      stack = &e.segments[i];
  if (!stack || (stack->p_flags & PF_X))
    return gm_refuse (why, GM_REFUSAL_STACK, "%s; link it with -Wl,-z,noexecstack",
                      stack ? "PT_GNU_STACK is executable" : "it has no PT_GNU_STACK");
  bool text_relocations = false;
  needs_init (&needs);
  bool good = read_needs (&e, &needs, &text_relocations, why);
  if (text_relocations)
    return gm_refuse (why, GM_REFUSAL_TEXTREL, "compile it with -fPIC");
  return good;
}

/* -- The note ---------------------------------------------------------------------------------- */

/* Returns the manifest from the notes of the segment p, which the caller frees, or NULL.  A note is
 * three words (bytes of name, bytes of text, type), then the name and the text, each padded to 4
 * bytes. */
static char *
note_in_segment (const Elf *e, const Elf64_Phdr *p, GmRefused *why)
{
  uint64_t at = p->p_offset, end = p->p_offset + p->p_filesz;
  for (unsigned i = 0; i < MAX_NOTES && end - at >= sizeof (Elf64_Nhdr); i++) {
    Elf64_Nhdr n;
    char name[sizeof GRAMME_NOTE_NAME] = { 0 };
    if (!read_at (e, at, &n, sizeof n))
      break;
    uint64_t name_at = at + sizeof n, text_at = name_at + ((uint64_t) n.n_namesz + 3) / 4 * 4;
    uint64_t next = text_at + ((uint64_t) n.n_descsz + 3) / 4 * 4;
    bool ours = n.n_type == GRAMME_NOTE_TYPE && n.n_namesz == sizeof name
                && name_at + sizeof name <= end && read_at (e, name_at, name, sizeof name)
                && memcmp (name, GRAMME_NOTE_NAME, sizeof name) == 0;
    if (ours) {
      if (text_at > end || n.n_descsz > end - text_at || n.n_descsz > GRAMME_MANIFEST_MAX_BYTES
          || n.n_descsz < 2) {
        gm_refuse (why, GM_REFUSAL_MANIFEST,
                   "the note claims %u bytes of text; at most %u that lie in the file are read",
                   n.n_descsz, GRAMME_MANIFEST_MAX_BYTES);
        return NULL;
      }
      g_autofree char *text = g_malloc0 (n.n_descsz + 1); /* at most 16 KiB */
      if (!read_at (e, text_at, text, n.n_descsz) || strlen (text) + 1 < n.n_descsz
          || !g_utf8_validate (text, -1, NULL)) {
        gm_refuse (why, GM_REFUSAL_MANIFEST, "the note's text is not UTF-8 up to its end");
        return NULL;
      }
      return g_steal_pointer (&text);
    }
    if (next <= at || next > end)
      break;
    at = next;
  }
  return NULL;
}

/* True if the file has a section for the manifest that no segment covers, as old versions of
 * patchelf produce. */
static bool
has_note_section (const Elf *e)
{
  Elf64_Shdr names, s;
  const Elf64_Ehdr *h = &e->header;
  if (h->e_shoff == 0 || h->e_shstrndx >= h->e_shnum
      || !read_at (e, h->e_shoff + h->e_shstrndx * sizeof s, &names, sizeof names))
    return false;
  for (unsigned i = 0; i < h->e_shnum; i++) {
    char name[sizeof ".note.gramme.plugin"];
    if (read_at (e, h->e_shoff + i * sizeof s, &s, sizeof s)
        && inside (e, names.sh_offset, names.sh_size)
        && read_at (e, names.sh_offset + s.sh_name, name, sizeof name)
        && memcmp (name, ".note.gramme.plugin", sizeof name) == 0)
      return true;
  }
  return false;
}

char *
gm_elf_read_manifest (int fd, GmRefused *why)
{
  Elf e;
  if (!open_elf (&e, fd, why))
    return NULL;
  for (unsigned i = 0; i < e.header.e_phnum; i++) {
    char *text = e.segments[i].p_type == PT_NOTE ? note_in_segment (&e, &e.segments[i], why) : NULL;
    if (text || why->code != GM_REFUSAL_NONE)
      return text;
  }
  if (has_note_section (&e))
    gm_refuse (
        why, GM_REFUSAL_NO_NOTE,
        "the section .note.gramme.plugin is in no PT_NOTE segment; an old patchelf does that");
  else
    gm_refuse (why, GM_REFUSAL_NO_NOTE,
               "no note .note.gramme.plugin; say GRAMME_PLUGIN_DEFINE once in its source");
  return NULL;
}
