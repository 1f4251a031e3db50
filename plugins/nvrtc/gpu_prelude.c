/* SPDX-License-Identifier: Apache-2.0
 * gpu_prelude.c -- see gpu_prelude.h.
 *
 * A section of the prelude is included if one of its words occurs in the kernels' text.  A
 * superfluous word costs a little time; with a missing one the text does not compile, which the
 * tests with all types and operators would show.
 */
#include "plugins/nvrtc/gpu_prelude.h"

static const char prelude[] =
#include "plugins/nvrtc/prelude.inc"
    ;

static const struct {
  const char *section, *words[5];
} sections[] = {
  { "f64", { "_f64" } },
  { "b1", { "_b1" } },
  { "u8", { "_u8" } },
  { "i8", { "_i8" } },
  { "i16", { "_i16" } },
  { "i32", { "_i32" } },
  { "i64", { "_i64" } },
  { "f16", { "_f16" } },
  { "bf16", { "_bf16" } },
  { "e4m3", { "_e4m3" } },
  { "e5m2", { "_e5m2" } },
  { "exp", { "EXP (", "TANH (", "exp_", "tanh_", "quick_" } },
  { "half", { "half_" } },
  { "copies", { "copy_", "GM_COPIES" } },
  { "random", { "philox", "uniform_", "normal_" } },
};

void
nv_put_kernels (CgText *t, const char *kernels)
{
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
    bool used = false;
    for (int k = 0; k < 5 && sections[i].words[k]; k++)
      used = used || strstr (kernels, sections[i].words[k]);
    if (used)
      put (t, "#define GM_USES_%s\n", sections[i].section);
  }
  put (t, "%s%s", prelude, kernels);
}
