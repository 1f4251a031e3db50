/* SPDX-License-Identifier: Apache-2.0
 * elf.h -- reads the ELF headers of a plugin file through a descriptor, with every offset checked.
 *
 * The file is hostile until proved otherwise: nothing is mapped (a truncated mapping raises
 * SIGBUS), every position is compared with the file's size before it is used, and sizes have
 * limits.
 */
#ifndef GM_PLUGIN_ELF_H
#define GM_PLUGIN_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#define GM_PLUGIN_QUERY_SYMBOL "gramme_plugin_query_v0"

/* The place of a refusal's cause, which decides when a refused file is tried again: INSIDE: when
 * the file changes; OUTSIDE: when something is installed; MOMENT: after a minute. */
typedef enum { GM_CAUSE_INSIDE, GM_CAUSE_OUTSIDE, GM_CAUSE_MOMENT } GmCause;

typedef enum {
  GM_REFUSAL_NONE = 0,
#define REFUSAL(NAME, text, remedy, cause) GM_REFUSAL_##NAME,
#include "core/plugin/refusals.def"
  GM_N_REFUSALS,
} GmRefusal;

extern const char *const gm_refusal_texts[GM_N_REFUSALS]; /* NONE: "" */
extern const char *const gm_refusal_remedies[GM_N_REFUSALS];
/* The names of the rows of refusals.def, such as "NOT_ELF", for --json and tests. */
extern const char *const gm_refusal_names[GM_N_REFUSALS];
extern const GmCause gm_refusal_causes[GM_N_REFUSALS];

/* The reason why a file is refused: the row of refusals.def, and a whole sentence without the
 * file's name.  Zeroed: not refused. */
typedef struct {
  GmRefusal code;
  char *text; /* owned */
} GmRefused;

/* Sets *r, unless it is set already, to the row `code`, with the text of the row, ": " and the
 * detail.  Always returns false. */
bool gm_refuse (GmRefused *r, GmRefusal code, const char *detail, ...) G_GNUC_PRINTF (3, 4);
void gm_refused_clear (GmRefused *r);

/* True if the plugin open at fd may be loaded as far as its headers tell: checks headers, segments,
 * stack, relocations, run paths and the names of needed libraries.  Else false and *why. */
bool gm_elf_check (int fd, GmRefused *why);

/* The entries of a file's dynamic section that make the loader load other files. */
typedef struct {
  GPtrArray *libraries; /* char: names or paths, unchanged from the file */
  /* char: folders of all run paths; absolute, or beginning with $ORIGIN or ${ORIGIN} */
  GPtrArray *folders;
} GmElfNeeds;
/* Reads the entries as the loader does, through the addresses at which the file is mapped.  False
 * and *why if the loader would not accept the file, or if an entry names a relative path.  The
 * caller clears *out in both cases. */
bool gm_elf_read_needs (int fd, GmElfNeeds *out, GmRefused *why);
void gm_elf_needs_clear (GmElfNeeds *needs);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GmElfNeeds, gm_elf_needs_clear)
/* Returns the number of characters of "$ORIGIN" or "${ORIGIN}" at the beginning of a path, or 0. */
size_t gm_elf_origin_length (const char *path);
/* Returns the manifest in the note .note.gramme.plugin: NUL-terminated text that the caller frees,
 * or NULL and *why.  Needs no earlier check. */
char *gm_elf_read_manifest (int fd, GmRefused *why);

#endif
