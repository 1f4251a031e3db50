/* SPDX-License-Identifier: Apache-2.0
 * insns.c -- the table of instructions, and the text of decoded code.
 */
#include "core/bytecode/code.h"

const GmInsnInfo gm_insns[GM_N_INSNS] = {
#define INSN(NAME, handler, operands, effect, jump_effect, first, last)                            \
  [GM_INSN_##NAME] = { #NAME, GM_OPERAND_##operands, first, last },
#include "core/bytecode/insns.def"
};

static_assert (GM_N_INSNS <= 255, "GmInsn.op is a byte");

int
gm_insn_effect (GmInsnOp op, uint32_t arg, bool jumps)
{
  (void) arg; /* not every row reads it */
  switch (op) {
#define INSN(NAME, handler, operands, effect, jump_effect, first, last)                            \
  case GM_INSN_##NAME:                                                                             \
    return jumps ? (jump_effect) : (effect);
#include "core/bytecode/insns.def"
  default:
    g_assert_not_reached ();
  }
}

char *
gm_code_text (const GmCode *code)
{
  GString *s = g_string_new (NULL);
  g_string_append_printf (s, "code %s (%s:%d), %u slots, stack %u\n",
                          PyUnicode_AsUTF8 (code->code->co_qualname),
                          PyUnicode_AsUTF8 (code->code->co_filename), code->code->co_firstlineno,
                          code->n_slots, code->stack_size);
  for (uint32_t k = 0; k < code->n_insns; k++) {
    const GmInsn *i = &code->insns[k];
    g_string_append_printf (s, "%5u  %5d  %-22s", k, i->line, gm_insns[i->op].name);
    switch (gm_insns[i->op].operand) {
    case GM_OPERAND_SLOT:
      g_string_append_printf (s, "%u (%s)", i->arg, PyUnicode_AsUTF8 (code->slots[i->arg].name));
      break;
    case GM_OPERAND_JUMP:
      g_string_append_printf (s, "to %u", i->target);
      break;
    case GM_OPERAND_COUNT:
      g_string_append_printf (s, "%u", i->arg);
      break;
    case GM_OPERAND_CALL:
      g_string_append_printf (s, "%u", i->arg);
      if (i->obj == NULL)
        break;
      g_string_append_c (s, ' ');
      G_GNUC_FALLTHROUGH; /* the names */
    case GM_OPERAND_CONST:
    case GM_OPERAND_NAME:
      if (i->obj) {
        PyObject *text = PyObject_Repr (i->obj);
        g_string_append (s, text ? PyUnicode_AsUTF8 (text) : "?");
        PyErr_Clear ();
        Py_XDECREF (text);
      }
      break;
    default:
      break;
    }
    g_string_append_c (s, '\n');
  }
  return g_string_free (s, FALSE);
}

bool
gm_code_raises_again (const GmCode *code, uint32_t insn)
{
  for (; insn < code->n_insns; insn++)
    switch (code->insns[insn].op) {
    case GM_INSN_RERAISE:
      return true;
    case GM_INSN_COPY:
    case GM_INSN_SWAP:
    case GM_INSN_POP_TOP:
    case GM_INSN_POP_EXCEPT:
    case GM_INSN_LOAD_CONST:
    case GM_INSN_STORE_FAST:
    case GM_INSN_DELETE_FAST:
    case GM_INSN_STORE_DEREF:
    case GM_INSN_DELETE_DEREF:
      break;
    default:
      return false;
    }
  return false;
}
