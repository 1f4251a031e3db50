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
#define MAX_RUNPATH 4096

#if defined(__x86_64__)
#define THIS_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define THIS_MACHINE EM_AARCH64
#else
#error "name this machine's ELF code"
#endif

const char *const gm_refusal_texts[GM_N_REFUSALS] = {
  [GM_REFUSAL_NONE] = "",
#define REFUSAL(NAME, text, remedy) [GM_REFUSAL_##NAME] = text,
#include "core/plugin/refusals.def"
};

const char *const gm_refusal_remedies[GM_N_REFUSALS] = {
  [GM_REFUSAL_NONE] = "",
#define REFUSAL(NAME, text, remedy) [GM_REFUSAL_##NAME] = remedy,
#include "core/plugin/refusals.def"
};

const char *const gm_refusal_names[GM_N_REFUSALS] = {
  [GM_REFUSAL_NONE] = "none",
#define REFUSAL(NAME, text, remedy) [GM_REFUSAL_##NAME] = #NAME,
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
  if (r->code != GM_REFUSAL_NONE) /* the first reason is the true one */
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
  if (h->e_phnum == 0 || h->e_phnum > MAX_SEGMENTS || h->e_phentsize != sizeof (Elf64_Phdr) ||
      !read_at (e, h->e_phoff, e->segments, h->e_phnum * sizeof (Elf64_Phdr)))
    return gm_refuse (why, GM_REFUSAL_TRUNCATED,
                      "its table of segments does not lie in the file; build or copy it again");
  for (unsigned i = 0; i < h->e_phnum; i++)
    if (!inside (e, e->segments[i].p_offset, e->segments[i].p_filesz))
      return gm_refuse (why, GM_REFUSAL_TRUNCATED,
                        "segment %u reaches past the end of the file; build or copy it again", i);
  /* Section headers come last in the file, so they tell of a cut that the segments survive. */
  if (h->e_shoff != 0 && (h->e_shnum > MAX_SECTIONS || h->e_shentsize != sizeof (Elf64_Shdr) ||
                          !inside (e, h->e_shoff, (uint64_t) h->e_shnum * sizeof (Elf64_Shdr))))
    return gm_refuse (why, GM_REFUSAL_TRUNCATED,
                      "its table of sections does not lie in the file; build or copy it again");
  return true;
}

/* -- The dynamic section ----------------------------------------------------------------------- */

static bool
file_offset (const Elf *e, uint64_t address, uint64_t *offset)
{
  for (unsigned i = 0; i < e->header.e_phnum; i++) {
    const Elf64_Phdr *p = &e->segments[i];
    if (p->p_type == PT_LOAD && address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz) {
      *offset = p->p_offset + (address - p->p_vaddr);
      return true;
    }
  }
  return false;
}

/* Each folder of a run path is absolute or starts at the plugin's own place ($ORIGIN). */
static bool
check_runpath (const Elf *e, uint64_t strings, uint64_t at, GmRefused *why)
{
  char text[MAX_RUNPATH];
  uint64_t offset;
  if (strings == 0 || at > UINT32_MAX || !file_offset (e, strings + at, &offset))
    return gm_refuse (why, GM_REFUSAL_TRUNCATED,
                      "its run path does not lie in the file; build or copy it again");
  size_t room = (size_t) MIN (e->size - offset, (uint64_t) sizeof text);
  if (!read_at (e, offset, text, room) || !memchr (text, 0, room))
    return gm_refuse (why, GM_REFUSAL_RUNPATH, "the path has no end");
  g_auto (GStrv) folders = g_strsplit (text, ":", -1);
  if (!folders[0])
    return gm_refuse (why, GM_REFUSAL_RUNPATH, "the path is empty; link it without -rpath");
  for (char **f = folders; *f; f++)
    if ((*f)[0] != '/' && !g_str_has_prefix (*f, "$ORIGIN") && !g_str_has_prefix (*f, "${ORIGIN}"))
      return gm_refuse (why, GM_REFUSAL_RUNPATH, "\"%s\"; use an absolute folder or $ORIGIN", *f);
  return true;
}

static bool
check_dynamic (const Elf *e, const Elf64_Phdr *p, GmRefused *why)
{
  uint64_t n = p->p_filesz / sizeof (Elf64_Dyn), strings = 0, paths[2];
  unsigned n_paths = 0;
  if (n > MAX_DYNAMIC)
    return gm_refuse (why, GM_REFUSAL_TRUNCATED,
                      "its dynamic section has %" G_GUINT64_FORMAT " entries", n);
  for (uint64_t i = 0; i < n; i++) {
    Elf64_Dyn d;
    if (!read_at (e, p->p_offset + i * sizeof d, &d, sizeof d))
      return gm_refuse (why, GM_REFUSAL_TRUNCATED, "its dynamic section cannot be read");
    if (d.d_tag == DT_NULL)
      break;
    if (d.d_tag == DT_TEXTREL || (d.d_tag == DT_FLAGS && (d.d_un.d_val & DF_TEXTREL)))
      return gm_refuse (why, GM_REFUSAL_TEXTREL, "compile it with -fPIC");
    if (d.d_tag == DT_STRTAB)
      strings = d.d_un.d_ptr;
    if ((d.d_tag == DT_RUNPATH || d.d_tag == DT_RPATH) && n_paths < G_N_ELEMENTS (paths))
      paths[n_paths++] = d.d_un.d_val;
  }
  for (unsigned i = 0; i < n_paths; i++)
    if (!check_runpath (e, strings, paths[i], why))
      return false;
  return true;
}

bool
gm_elf_check (int fd, GmRefused *why)
{
  Elf e;
  if (!open_elf (&e, fd, why))
    return false;
  const Elf64_Phdr *stack = NULL;
  for (unsigned i = 0; i < e.header.e_phnum; i++)
    if (e.segments[i].p_type == PT_GNU_STACK)
      stack = &e.segments[i];
  if (!stack || (stack->p_flags & PF_X))
    return gm_refuse (why, GM_REFUSAL_STACK, "%s; link it with -Wl,-z,noexecstack",
                      stack ? "PT_GNU_STACK is executable" : "it has no PT_GNU_STACK");
  for (unsigned i = 0; i < e.header.e_phnum; i++)
    if (e.segments[i].p_type == PT_DYNAMIC && !check_dynamic (&e, &e.segments[i], why))
      return false;
  return true;
}

/* -- The note ---------------------------------------------------------------------------------- */

/* A note is three words (bytes of name, bytes of text, type), the name, the text, each part filled
 * up to 4 bytes. */
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
    bool ours = n.n_type == GRAMME_NOTE_TYPE && n.n_namesz == sizeof name &&
                name_at + sizeof name <= end && read_at (e, name_at, name, sizeof name) &&
                memcmp (name, GRAMME_NOTE_NAME, sizeof name) == 0;
    if (ours) {
      if (text_at > end || n.n_descsz > end - text_at || n.n_descsz > GRAMME_MANIFEST_MAX_BYTES ||
          n.n_descsz < 2) {
        gm_refuse (why, GM_REFUSAL_MANIFEST,
                   "the note claims %u bytes of text; at most %u that lie in the file are read",
                   n.n_descsz, GRAMME_MANIFEST_MAX_BYTES);
        return NULL;
      }
      g_autofree char *text = g_malloc0 (n.n_descsz + 1); /* at most 16 KiB */
      if (!read_at (e, text_at, text, n.n_descsz) || strlen (text) + 1 < n.n_descsz ||
          !g_utf8_validate (text, -1, NULL)) {
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

/* Is there a section for the manifest that no segment covers?  Old patchelf does that. */
static bool
has_note_section (const Elf *e)
{
  Elf64_Shdr names, s;
  const Elf64_Ehdr *h = &e->header;
  if (h->e_shoff == 0 || h->e_shstrndx >= h->e_shnum ||
      !read_at (e, h->e_shoff + h->e_shstrndx * sizeof s, &names, sizeof names))
    return false;
  for (unsigned i = 0; i < h->e_shnum; i++) {
    char name[sizeof ".note.gramme.plugin"];
    if (read_at (e, h->e_shoff + i * sizeof s, &s, sizeof s) &&
        inside (e, names.sh_offset, names.sh_size) &&
        read_at (e, names.sh_offset + s.sh_name, name, sizeof name) &&
        memcmp (name, ".note.gramme.plugin", sizeof name) == 0)
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
