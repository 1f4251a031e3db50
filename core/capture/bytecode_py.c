/* SPDX-License-Identifier: Apache-2.0
 * bytecode_py.c -- decode and assemble as Python functions, for tests and for studying the internal
 * form.
 *
 * decode (code) shows the recorder's instructions; reassemble (code) converts a straight function
 * to them and back.
 */
#include "core/objects/cpython.h"

#include "core/bytecode/assemble.h"
#include "core/capture/bytecode_py.h"
#include "core/capture/code_cache.h"
#include "core/objects/errors.h"

#define CPYTHON (PY_MAJOR_VERSION * 100 + PY_MINOR_VERSION)

static const GmCode *
decoded (PyObject *o)
{
  GError *error = NULL;
  if (!PyCode_Check (o)) {
    PyErr_Format (PyExc_TypeError, "a code object is needed, not %s", Py_TYPE (o)->tp_name);
    return NULL;
  }
  const GmCode *code = gm_code_cache_decode ((PyCodeObject *) o, &error);
  if (!code)
    gm_py_raise (error);
  return code;
}

static PyObject *
insn_tuple (const GmInsn *i)
{
  const GmInsnInfo *info = &gm_insns[i->op];
  if (CPYTHON < info->first || CPYTHON > info->last)
    return PyErr_Format (PyExc_SystemError, "insns.def says that CPython %d has no %s", CPYTHON,
                         info->name);
  bool jumps = info->operand == GM_OPERAND_JUMP;
  PyObject *target = jumps ? PyLong_FromUnsignedLong (i->target) : Py_NewRef (Py_None);
  return Py_BuildValue ("sIOiNiI", info->name, i->arg, i->obj ? i->obj : Py_None,
                        gm_insn_effect (i->op, i->arg, false), target,
                        jumps ? gm_insn_effect (i->op, i->arg, true) : 0, i->handler);
}

static PyObject *
decode (PyObject *module, PyObject *o)
{
  const GmCode *code = decoded (o);
  PyObject *insns = code ? PyList_New (code->n_insns) : NULL;
  PyObject *handlers = code ? PyList_New (code->n_handlers) : NULL;
  for (uint32_t k = 0; insns && handlers && k < code->n_insns; k++) {
    PyObject *row = insn_tuple (&code->insns[k]);
    if (row)
      PyList_SET_ITEM (insns, k, row);
    else
      Py_CLEAR (insns);
  }
  for (uint32_t k = 0; insns && handlers && k < code->n_handlers; k++) {
    const GmHandler *h = &code->handlers[k];
    PyObject *row =
        Py_BuildValue ("IIIIN", h->start, h->end, h->target, h->depth, PyBool_FromLong (h->lasti));
    if (row)
      PyList_SET_ITEM (handlers, k, row);
    else
      Py_CLEAR (handlers);
  }
  if (insns && handlers)
    return Py_BuildValue ("INN", code->stack_size, insns, handlers);
  Py_XDECREF (insns);
  Py_XDECREF (handlers);
  return NULL;
}

static PyObject *
reassemble (PyObject *module, PyObject *o)
{
  const GmCode *code = decoded (o);
  if (!code)
    return NULL;
  uint32_t first = 0; /* the first instruction after the prologue, which the assembler writes */
  while (first < code->n_insns
         && (code->insns[first].op == GM_INSN_COPY_FREE_VARS
             || code->insns[first].op == GM_INSN_MAKE_CELL))
    first++;
  GmResidual res = {
    .n_args = code->n_args,
    .insns = (GmInsn *) code->insns + first,
    .n_insns = code->n_insns - first,
    .slots = (GmSlot *) code->slots,
    .n_slots = code->n_slots,
    .n_free = code->n_free,
    .first_free = code->first_free,
    .stack_size = code->stack_size,
  };
  return (PyObject *) gm_assemble_residual (&res, (PyCodeObject *) o);
}

PyMethodDef gm_py_bytecode_functions[] = {
  { "decode", decode, METH_O,
    "decode(code)\n\nThe internal form of a code object: (stack size, instructions, handlers).\n"
    "An instruction: (name, arg, obj, stack effect, target or None, effect of the jump, handler).\n"
    "A handler: (start, end, target, depth, lasti)." },
  { "reassemble", reassemble, METH_O,
    "reassemble(code)\n\nA code object like `code`, through the internal form: without jumps, and "
    "all\n"
    "arguments positional.  SystemError if something in it cannot be assembled." },
  { 0 },
};
