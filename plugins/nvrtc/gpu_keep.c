/* SPDX-License-Identifier: Apache-2.0
 * gpu_keep.c -- see gpu_keep.h.
 */
#include "plugins/nvrtc/gpu_keep.h"

#include <stdlib.h>

static const char magic[8] = "gmnv0001";

typedef struct {
  char magic[8], arch[32];
  uint64_t bytes, is_ptx;
  /* whole: digest of this header, with zeros in its own place, and of the kernels */
  CgDigest text, whole;
} Header;

/* -- The compiler and the devices -------------------------------------------------------------- */

static void
add_devices (CgDigest *d)
{
  const NvCuda *c = nv_cuda (NULL);
  int numbers[2] = { c ? c->version : 0, c ? c->n_devices : 0 };
  codegen_digest_add (d, numbers, sizeof numbers);
  for (int i = 0; i < numbers[1]; i++) {
    int device = 0, capability = 0;
    if (c->cuDeviceGet (&device, i) == 0)
      nv_cuda_capability (c, device, &capability);
    codegen_digest_add (d, &capability, sizeof capability);
  }
  if (nv_cuda_file ())
    codegen_digest_add_file (d, nv_cuda_file ());
}

static void
add_file (void *digest, const char *file)
{
  codegen_digest_add_file (digest, file);
}

void
nv_fingerprint (uint8_t out[32])
{
  CgDigest d;
  codegen_digest_init (&d);
  add_devices (&d);
  nv_compiler_visit (add_file, &d);
  memcpy (out, d.words, 32);
}

/* -- The stored form --------------------------------------------------------------------------- */

static CgDigest
digest_of (Header h, const void *kernels)
{
  CgDigest d;
  memset (&h.whole, 0, sizeof h.whole);
  codegen_digest_init (&d);
  codegen_digest_add (&d, &h, sizeof h);
  codegen_digest_add (&d, kernels, h.bytes);
  return d;
}

uint64_t
nv_kept_bytes (const NvImage *image)
{
  return sizeof (Header) + image->bytes;
}

void
nv_kept_write (void *out, const CgDigest *text, const char *arch, const NvImage *image)
{
  Header h = { .bytes = image->bytes, .is_ptx = image->is_ptx, .text = *text };
  memcpy (h.magic, magic, sizeof magic);
  memcpy (h.arch, arch, strnlen (arch, sizeof h.arch - 1));
  h.whole = digest_of (h, image->image);
  memcpy (out, &h, sizeof h);
  memcpy ((char *) out + sizeof h, image->image, image->bytes);
}

int32_t
nv_kept_read (const void *bytes, uint64_t n, const CgDigest *text, char *arch, NvImage *image,
              GrammeStatus *status)
{
  Header h;
  if (n < sizeof h)
    return gramme_fail (status, GRAMME_DATA, -1, "these %llu bytes are too few",
                        (unsigned long long) n);
  memcpy (&h, bytes, sizeof h);
  if (memcmp (h.magic, magic, sizeof magic) != 0 || h.bytes != n - sizeof h)
    return gramme_fail (status, GRAMME_DATA, -1,
                        "these bytes are not kept kernels of this version");
  CgDigest now = digest_of (h, (const char *) bytes + sizeof h);
  if (memcmp (&h.whole, &now, sizeof now) != 0 || h.arch[sizeof h.arch - 1])
    return gramme_fail (status, GRAMME_DATA, -1, "the kept kernels are damaged");
  if (memcmp (&h.text, text, sizeof *text) != 0)
    return gramme_fail (status, GRAMME_DATA, -1,
                        "the kept kernels were compiled from another text");
  *image = (NvImage){ .image = malloc (h.bytes + 1), .bytes = h.bytes, .is_ptx = h.is_ptx != 0 };
  if (!image->image)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for %llu bytes of kernels",
                        (unsigned long long) h.bytes);
  memcpy (image->image, (const char *) bytes + sizeof h, h.bytes);
  image->image[h.bytes] = 0;
  memcpy (arch, h.arch, sizeof h.arch);
  return GRAMME_OK;
}
