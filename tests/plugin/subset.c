/* SPDX-License-Identifier: Apache-2.0
 * subset.c -- the plugin eager that takes only some nodes: which nodes, and in which clusters, is a
 * pure function of the image and of the environment variable GM_SUBSET, a number.
 *
 * Its last decimal digit says how many nodes it takes, 0 none to 9 all; the one before in how many
 * clusters, 0 and 1 one; the one before that how often its YES is a lie, of 10 requests, which
 * compile then does not support; the rest is a seed.
 */
#include <gramme-plugin-util.h>

#include <stdlib.h>

#pragma push_macro("GRAMME_PLUGIN_DEFINE")
#undef GRAMME_PLUGIN_DEFINE
#define GRAMME_PLUGIN_DEFINE(api_table, keys) static const GrammeBackendApi *eager_api (void)
#include "plugins/eager/eager.c"
#pragma pop_macro("GRAMME_PLUGIN_DEFINE")

static const GrammeBackendApi *
eager_api (void)
{
  return &api;
}

static uint64_t
number (void)
{
  const char *text = getenv ("GM_SUBSET");
  return text ? strtoull (text, NULL, 10) : 9;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t
mix (uint64_t x)
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static int32_t
subset_get_support (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts,
                    uint32_t stride, GrammeStatus *status)
{
  uint64_t n = number (), state = mix (n / 1000 * 1000003 + image->total_bytes);
  int32_t code = eager_api ()->get_support (b, image, verdicts, stride, status);
  for (uint32_t i = 0; i < image->nodes.count; i++) {
    GrammeVerdict *v = (GrammeVerdict *) (void *) ((char *) verdicts + (size_t) i * stride);
    state = mix (state + i);
    if (state % 9 >= n % 10)
      *v = (GrammeVerdict){ GRAMME_NO, 0, 0, 0x10001 };
    v->cluster = n / 10 % 10 < 2 ? 0 : (uint32_t) (state >> 32) % (uint32_t) (n / 10 % 10);
  }
  return code;
}

static int32_t
subset_compile (GrammeBackend *b, const GrammeCompileRequest *request, GrammeExecutable **out,
                GrammeStatus *status)
{
  uint64_t n = number (), lies = n / 100 % 10;
  if (GRAMME_HAS (request, GrammeCompileRequest, n_regions)
      && mix (n + request->region) % 10 < lies)
    return gramme_fail (status, GRAMME_UNSUPPORTED, 0, "region %u was promised too much",
                        request->region);
  return eager_api ()->compile (b, request, out, status);
}

static const GrammeBackendApi subset = {
  .struct_size = sizeof (GrammeBackendApi),
  .open = eager_open,
  .close = eager_close,
  .get_support = subset_get_support,
  .compile = subset_compile,
  .exec_info = eager_exec_info,
  .workspace = eager_workspace,
  .run = eager_run,
  .destroy = eager_destroy,
};

GRAMME_PLUGIN_DEFINE (subset, "id=org.example.subset\n"
                              "name=subset\n"
                              "version=1\n"
                              "devices=cpu;\n"
                              "flags=backward;run-concurrent;\n"
                              "[reasons]\n"
                              "0x10001=its number says no\n");
