/* SPDX-License-Identifier: Apache-2.0
 * fuzz_image MUTANTS [SEED] -- sends mutated graph images through validator and reader; meant for
 * builds with sanitizers.  An accepted image must verify as a graph, and must give an image that is
 * accepted, too.  Prints the counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/image.h"
#include "tests/fuzz/mutate_image.h"
#include "tests/fuzz/random_graph.h"

static void
die (const char *what, uint64_t seed, uint64_t mutant, const GError *error)
{
  fprintf (stderr, "fuzz_image: graph %lu, mutant %lu: %s%s%s\n", (unsigned long) seed,
           (unsigned long) mutant, what, error ? ": " : "", error ? error->message : "");
  exit (1);
}

static bool
try_one (const GmImage *img, const uint8_t *bytes, size_t n, uint64_t seed, uint64_t mutant)
{
  g_autoptr (GError) error = NULL;
  bool valid = gm_image_validate (bytes, n, &error);
  if (valid != !error)
    die ("an answer without an error, or the other way round", seed, mutant, error);
  if (!valid)
    return false;
  g_autoptr (GmGraph) g =
      gm_image_read (bytes, n, (GmTensor **) img->constants->pdata, img->constants->len, NULL);
  if (!g) /* other constants, or sizes that fold */
    return false;
  if (!gm_graph_verify (g, true, &error))
    die ("read, but it does not verify", seed, mutant, error);
  g_autoptr (GmImage) again = gm_image_new (g, &error);
  if (!again || !gm_image_validate (again->bytes, again->length, &error))
    die ("read, but its image is refused", seed, mutant, error);
  return true;
}

int
main (int argc, char **argv)
{
  uint64_t mutants = argc > 1 ? strtoull (argv[1], NULL, 0) : 1000000,
           seed = argc > 2 ? strtoull (argv[2], NULL, 0) : 1, read = 0;
  for (uint64_t i = 0; i < mutants; seed++) {
    GmRandomGraph o = { .seed = seed, .strided = true };
    g_autoptr (GmGraph) g = gm_random_graph (&o, NULL);
    g_autoptr (GmImage) img = gm_image_new (g, NULL);
    for (uint64_t state = seed * 977 + 1, k = 0; k < 2000 && i < mutants; k++, i++) {
      uint8_t *bytes = aligned_alloc (64, (img->length + 63) & ~(size_t) 63);
      memcpy (bytes, img->bytes, img->length);
      size_t n = gm_mutate_image (&state, bytes, img->length);
      uint8_t *exact = malloc (n ? n : 1); /* of exact size, so that a sanitizer sees the end */
      memcpy (exact, bytes, n);
      read += try_one (img, exact, n, seed, k);
      free (exact);
      free (bytes);
    }
  }
  printf ("%lu mutants, %lu of them graphs\n", (unsigned long) mutants, (unsigned long) read);
  return 0;
}
