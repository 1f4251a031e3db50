/* SPDX-License-Identifier: Apache-2.0
 * elf_object.c -- see elf_object.h.
 *
 * Truncation is visible in the headers: every table, segment and section must end inside of the
 * file. Lost data are blocks of zeros of a disk's block size, and the units that are compiled here
 * have no constants of so many zeros; code and the linker's tables have shorter limits.
 *
 * Rejected: a checksum.  There is no option with which every linker would write a checksum of its
 * whole output.
 */
#include "plugins/cc/elf_object.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 512 /* smallest block that disks and file systems lose */
#define CODE_ZEROS                                                                                 \
  64 /* code never has so many 0 bytes in a row: two of them are an instruction                    \
      */

typedef struct {
  const char *bytes;
  size_t n;
} Object;

static bool
inside (const Object *o, uint64_t offset, uint64_t bytes)
{
  return offset <= o->n && bytes <= o->n - offset;
}

static bool
is_zero (const char *bytes, size_t n)
{
  return n == 0 || (bytes[0] == 0 && memcmp (bytes, bytes + 1, n - 1) == 0);
}

/* True if a block of the file within `bytes` bytes from `first` on is all zeros. */
static bool
has_lost_block (const Object *o, uint64_t first, uint64_t bytes)
{
  for (uint64_t at = (first + BLOCK - 1) / BLOCK * BLOCK; at + BLOCK <= first + bytes; at += BLOCK)
    if (is_zero (o->bytes + at, BLOCK))
      return true;
  return false;
}

static bool
has_lost_code (const Object *o, uint64_t first, uint64_t bytes)
{
  for (uint64_t at = first, zeros = 0; at < first + bytes; at++) {
    zeros = o->bytes[at] ? 0 : zeros + 1;
    if (zeros == CODE_ZEROS)
      return true;
  }
  return false;
}

/* True if a row of a table that the linker fills is empty, from `first_row` on. */
static bool
has_lost_row (const Object *o, const Elf64_Shdr *s, uint64_t first_row, uint64_t row_bytes)
{
  for (uint64_t at = first_row * row_bytes; at + row_bytes <= s->sh_size; at += row_bytes)
    if (is_zero (o->bytes + s->sh_offset + at, row_bytes))
      return true;
  return s->sh_size < row_bytes;
}

static const char *
damage_of_section (const Object *o, const Elf64_Shdr *s)
{
  if (s->sh_type == SHT_NOBITS || s->sh_type == SHT_NULL || s->sh_size == 0)
    return NULL;
  if (!inside (o, s->sh_offset, s->sh_size))
    return "is cut off: a section reaches past its end";
  bool lost = has_lost_block (o, s->sh_offset, s->sh_size);
  if (s->sh_type == SHT_PROGBITS && (s->sh_flags & SHF_EXECINSTR))
    lost = lost || has_lost_code (o, s->sh_offset, s->sh_size);
  else if (s->sh_type == SHT_DYNSYM)
    lost = lost || has_lost_row (o, s, 1, sizeof (Elf64_Sym));
  else if (s->sh_type == SHT_RELA)
    lost = lost || has_lost_row (o, s, 0, sizeof (Elf64_Rela));
  else if (s->sh_type == SHT_DYNAMIC)
    lost = lost || is_zero (o->bytes + s->sh_offset, sizeof (Elf64_Dyn));
  else if (s->sh_type == SHT_STRTAB || s->sh_type == SHT_GNU_HASH || s->sh_type == SHT_HASH)
    lost = lost || (s->sh_size > 1 && is_zero (o->bytes + s->sh_offset, s->sh_size));
  return lost ? "has zeros where code or data should be" : NULL;
}

static const char *
damage_of_tables (const Object *o, const Elf64_Ehdr *h)
{
  unsigned n_dynamic = 0, n_symbols = 0;
  if (h->e_phnum == 0 || h->e_phentsize != sizeof (Elf64_Phdr)
      || !inside (o, h->e_phoff, h->e_phnum * sizeof (Elf64_Phdr)))
    return "has no table of segments";
  for (unsigned i = 0; i < h->e_phnum; i++) {
    Elf64_Phdr p;
    memcpy (&p, o->bytes + h->e_phoff + i * sizeof p, sizeof p);
    if (!inside (o, p.p_offset, p.p_filesz))
      return "is cut off: a segment reaches past its end";
  }
  if (h->e_shnum == 0 || h->e_shentsize != sizeof (Elf64_Shdr)
      || !inside (o, h->e_shoff, h->e_shnum * sizeof (Elf64_Shdr)))
    return "is cut off: its table of sections is not there";
  for (unsigned i = 0; i < h->e_shnum; i++) {
    Elf64_Shdr s;
    memcpy (&s, o->bytes + h->e_shoff + i * sizeof s, sizeof s);
    const char *damage = i > 0 && s.sh_type == SHT_NULL ? "has zeros in its table of sections"
                                                        : damage_of_section (o, &s);
    if (damage)
      return damage;
    n_dynamic += s.sh_type == SHT_DYNAMIC;
    n_symbols += s.sh_type == SHT_DYNSYM;
  }
  return n_dynamic == 1 && n_symbols == 1 ? NULL : "is no shared object: it has no dynamic symbols";
}

const char *
cc_object_damage (const void *bytes, size_t n)
{
  const Object o = { bytes, n };
  Elf64_Ehdr h;
  if (n < sizeof h)
    return n ? "is cut off in its header" : "is empty";
  memcpy (&h, bytes, sizeof h);
  if (memcmp (h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64
      || h.e_type != ET_DYN)
    return "is no shared object for this machine";
  return damage_of_tables (&o, &h);
}
