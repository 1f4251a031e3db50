/* SPDX-License-Identifier: Apache-2.0
 * code_text.c -- see code_text.h.
 */
#include "plugins/codegen/code_text.h"

#include <stdlib.h>

void
put (CgText *t, const char *format, ...)
{
  for (;;) {
    va_list args;
    va_start (args, format);
    size_t left = t->room - t->len;
    int n = vsnprintf (t->text ? t->text + t->len : NULL, t->text ? left : 0, format, args);
    va_end (args);
    if (t->oom)
      return;
    if (t->text && (size_t) n < left) {
      t->len += (size_t) n;
      return;
    }
    size_t room = (t->room + (size_t) n + 1) * 2 + 4096;
    char *text = realloc (t->text, room);
    if (!text) {
      t->oom = true;
      return;
    }
    t->text = text;
    t->room = room;
  }
}

void
add_symbol (CgText *t, const char *name, uint32_t kind, const void *address)
{
  for (uint32_t i = 0; i < t->n_symbols; i++)
    if (strcmp (t->symbols[i].name, name) == 0)
      return;
  if (t->n_symbols == t->symbol_room) {
    uint32_t room = t->symbol_room * 2 + 16;
    CgSymbol *symbols = realloc (t->symbols, room * sizeof (CgSymbol));
    if (!symbols) {
      t->oom = true;
      return;
    }
    t->symbols = symbols;
    t->symbol_room = room;
  }
  CgSymbol *s = &t->symbols[t->n_symbols++];
  snprintf (s->name, sizeof s->name, "%s", name);
  s->kind = kind;
  s->address = address;
}

/* Adds the primitive's symbol, and copies its name to `name`. */
void
add_tile (CgText *t, const CgProgram *p, uint32_t kind, uint32_t op, uint32_t dtype, uint32_t from,
          char name[GRAMME_TILE_NAME_BYTES])
{
  GrammeTileFn fn = p->tiles->find (p->tiles->ctx, kind, op, dtype, from, name);
  add_symbol (t, name, kind, (const void *) (uintptr_t) fn);
}

void
add_cast (CgText *t, const CgProgram *p, uint32_t from, uint32_t to,
          char name[GRAMME_TILE_NAME_BYTES])
{
  GrammeTileFn fn = p->tiles->find (p->tiles->ctx, GRAMME_TILE_CAST, 0, to, from, name);
  add_symbol (t, name, GRAMME_TILE_CAST, (const void *) (uintptr_t) fn);
}

/* Adds a tile filled with one value, as the symbol k<index>; returns the index. */
uint32_t
add_fill (CgText *t, const CgProgram *p, uint64_t bits, uint32_t elem_bytes)
{
  for (uint32_t i = 0; i < t->n_fills; i++)
    if (t->fill_bits[i] == bits && t->fill_elems[i] == elem_bytes)
      return i;
  if (t->n_fills == t->fill_room) {
    uint32_t room = t->fill_room * 2 + 16;
    void **fills = realloc (t->fills, room * sizeof (void *));
    t->fills = fills ? fills : t->fills;
    uint64_t *fill_bits = realloc (t->fill_bits, room * sizeof (uint64_t));
    t->fill_bits = fill_bits ? fill_bits : t->fill_bits;
    uint32_t *elems = realloc (t->fill_elems, room * sizeof (uint32_t));
    t->fill_elems = elems ? elems : t->fill_elems;
    if (!fills || !fill_bits || !elems) {
      t->oom = true;
      return 0;
    }
    t->fill_room = room;
  }
  void *data = aligned_alloc (64, (size_t) p->tiles->tile_elems * 8);
  if (!data) {
    t->oom = true;
    return 0;
  }
  GrammeTileFn gather = p->tiles->find (p->tiles->ctx, GRAMME_TILE_GATHER, 0, 0, 0, NULL);
  ((GrammeTileGather) gather) (data, &bits, 0, p->tiles->tile_elems, elem_bytes);
  char name[GRAMME_TILE_NAME_BYTES];
  snprintf (name, sizeof name, "%sk%u", t->prefix, t->n_fills);
  add_symbol (t, name, 0, data);
  t->fills[t->n_fills] = data;
  t->fill_bits[t->n_fills] = bits;
  t->fill_elems[t->n_fills] = elem_bytes;
  return t->n_fills++;
}

/* Prints the address of a value's first element. */
void
put_address (CgText *t, const CgProgram *p, uint32_t value)
{
  const CgValue *v = &p->values[value], *root = &p->values[v->root];
  switch (root->memory) {
  case CG_MEMORY_INPUT:
    put (t, "in[%u]", root->index);
    break;
  case CG_MEMORY_OUTPUT:
    put (t, "out[%u]", root->index);
    break;
  case CG_MEMORY_CONST: {
    char name[GRAMME_TILE_NAME_BYTES];
    snprintf (name, sizeof name, "%sc%u", t->prefix, root->index);
    add_symbol (t, name, 0, p->consts[root->index].data);
    put (t, "%s", name);
    break;
  }
  default:
    put (t, "%s + %s", root->dynamic ? "dyn" : "ws", SIZE (p, root->offset));
  }
  if (v->view_bytes)
    put (t, " + %s", SIZE (p, v->view_bytes));
}

/* -- Sizes ------------------------------------------------------------------------------------- */

const char *
codegen_size_text (const CgProgram *p, int64_t size, char text[CG_SIZE_TEXT_BYTES])
{
  if (codegen_is_symbolic (size)) {
    uint32_t row = (uint32_t) (size - CG_SIZE_ROW_0);
    if (row < p->sizes->n) /* else there was no memory, which is recorded already */
      p->sizes->rows[row].used |= (uint8_t) (1 << p->sizes->scope);
    snprintf (text, CG_SIZE_TEXT_BYTES, "z%u", row);
  } else
    snprintf (text, CG_SIZE_TEXT_BYTES, "%lld", (long long) size);
  return text;
}

void
codegen_scope_begin (const CgProgram *p, int scope)
{
  p->sizes->scope = (uint8_t) scope;
  for (uint32_t i = 0; i < p->sizes->n && scope != CG_SCOPE_PROGRAM; i++)
    p->sizes->rows[i].used &= (uint8_t) ~(1u << scope);
}

static bool
is_used (const CgProgram *p, uint32_t row)
{
  return p->sizes->rows[row].used >> p->sizes->scope & 1;
}

void
put_sizes (CgText *t, const CgProgram *p)
{
  char a[CG_SIZE_TEXT_BYTES], b[CG_SIZE_TEXT_BYTES];
  for (uint32_t i = p->sizes->n; i-- > 0;) {
    const CgSizeRow *r = &p->sizes->rows[i];
    if (is_used (p, i) && r->kind != CG_SIZE_IMAGE) { /* marks its operands */
      codegen_size_text (p, r->a, a);
      codegen_size_text (p, r->b, b);
    }
  }
  for (uint32_t i = 0; i < p->sizes->n; i++) {
    const CgSizeRow *r = &p->sizes->rows[i];
    if (!is_used (p, i))
      continue;
    put (t, "  const long z%u = ", i);
    if (r->kind == CG_SIZE_IMAGE) {
      put (t, "sz[%lld];\n", (long long) r->a);
      continue;
    }
    codegen_size_text (p, r->a, a);
    codegen_size_text (p, r->b, b);
    if (r->kind == CG_SIZE_MUL)
      put (t, "%s * %s;\n", a, b);
    else if (r->kind == CG_SIZE_ADD)
      put (t, "%s + %s;\n", a, b);
    else if (r->kind == CG_SIZE_MAX)
      put (t, "%s > %s ? %s : %s;\n", a, b, a, b);
    else if (r->kind == CG_SIZE_DIV_UP)
      put (t, "(%s + %s - 1) / %s;\n", a, b, b);
    else if (!codegen_is_symbolic (r->b) && (r->b & (r->b - 1)) == 0)
      /* tcc does not optimise divisions. */
      put (t, "(%s + %lld) & -%s;\n", a, (long long) r->b - 1, b);
    else
      put (t, "(%s + %s - 1) / %s * %s;\n", a, b, b, b);
  }
}

void
put_declarations (CgText *t, const CgText *of)
{
  put (t, "_Static_assert (sizeof (unsigned long) == 8 && sizeof (char *) == 8 && sizeof "
          "(unsigned) == 4, \"LP64\");\n");
  /* Whole prototypes, since an argument's upper half is only defined if the callee's type is
   * known. */
  static const char *const parameters[] = {
    [GRAMME_TILE_POINTWISE] = "void *, const void *, const void *, const void *, unsigned long",
    [GRAMME_TILE_CAST] = "void *, const void *, unsigned long",
    [GRAMME_TILE_FOLD] = "void *, const void *, unsigned long",
    [GRAMME_TILE_FOLD_COLUMNS] = "void *, const void *, long, unsigned long, unsigned long",
    [GRAMME_TILE_GATHER] = "void *, const void *, long, unsigned long, unsigned long",
    [GRAMME_TILE_SCATTER] = "void *, long, const void *, unsigned long, unsigned long",
  };
  for (uint32_t i = 0; i < of->n_symbols; i++) {
    const CgSymbol *s = &of->symbols[i];
    const char *name = s->name, *open = of->source ? "(*" : "", *close = of->source ? ")" : "";
    if (s->kind == 0)
      put (t, of->source ? "char *%s;\n" : "extern char %s[];\n", name);
    else if (s->kind == CG_SYMBOL_RUN_PARTS)
      put (t,
           "void %s%s%s (void *threads, unsigned n, void (*part) (void *, unsigned), void *arg);\n",
           open, name, close);
    else if (s->kind == CG_SYMBOL_RUN)
      put (t, "int %s%s%s (void *kernel, void *data, void *status);\n", open, name, close);
    else if (s->kind == CG_SYMBOL_RUN_SIZED)
      put (t, "int %s%s%s (void *kernel, void *data, const void *sizes, void *status);\n", open,
           name, close);
    else
      put (t, "void %s%s%s (%s);\n", open, name, close, parameters[s->kind]);
  }
}

void
codegen_text_free (CgText *t, const GrammeKernels *kernels)
{
  for (uint32_t i = 0; i < t->n_kernels; i++)
    if (t->kernels[i])
      kernels->release (t->kernels[i]);
  for (uint32_t i = 0; i < t->n_fills; i++)
    free (t->fills[i]);
  free (t->text);
  free (t->functions);
  free (t->symbols);
  free (t->kernels);
  free (t->fills);
  free (t->fill_bits);
  free (t->fill_elems);
  *t = (CgText){ 0 };
}
