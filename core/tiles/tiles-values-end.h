/* SPDX-License-Identifier: Apache-2.0
 * tiles-values-end.h -- undefines the names that tiles-values.h defines.
 */
/* clang-format off */
#undef N_PARTIALS
#undef VALUE_SAME
#undef VALUE_MASK
#undef VALUE_SELECT
#undef IF_1
#undef IF_0
#undef IF_ARITH
#undef IF_FLOAT
#undef IF_COMPARE
#undef IF_LOGICAL
#undef IF_BITWISE
#undef IF_SELECT
#undef FORM_ARITH
#undef FORM_FLOAT
#undef FORM_LOGICAL
#undef FORM_BITWISE
#undef FORM_COMPARE
#undef FORM_SELECT
#undef ELEM
#undef ACCUM
#undef VALS
#undef CMPS
#undef MASKS
#undef LANES
#undef CLOSE
