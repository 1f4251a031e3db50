/* SPDX-License-Identifier: Apache-2.0
 * entry.c -- one entry: a header, then the bytes, and the keyed hash of both.
 *
 * The name of the file is the key, and the header repeats it, so that an entry that was moved to
 * another name is detected.  Nothing in a file is believed, its length included, before the hash
 * over all of it is right.
 */
#include "core/cache/private.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = "gmcode01";

typedef struct {
  char magic[8];
  uint32_t header_bytes, reserved;
  uint64_t payload_bytes;
  uint8_t key[GM_CACHE_KEY_BYTES];
  char label[GM_CACHE_LABEL_BYTES];
  uint8_t reserved_too[40];
  uint8_t mac[32]; /* HMAC-SHA-256 of all header bytes before it, then of the payload */
} Header;
G_STATIC_ASSERT (sizeof (Header) == 192 && sizeof (Header) % 64 == 0);

static void
mac_of (const uint8_t secret[GM_CACHE_SECRET_BYTES], const Header *h, const void *payload,
        uint8_t mac[32])
{
  GHmac *m = g_hmac_new (G_CHECKSUM_SHA256, secret, GM_CACHE_SECRET_BYTES);
  const unsigned char *at = payload;
  gsize length = 32;
  g_hmac_update (m, (const unsigned char *) h, offsetof (Header, mac));
  for (uint64_t left = h->payload_bytes; left > 0;) {
    gssize n = (gssize) MIN (left, (uint64_t) 1 << 30);
    g_hmac_update (m, at, n);
    at += n;
    left -= (uint64_t) n;
  }
  g_hmac_get_digest (m, mac, &length);
  g_hmac_unref (m);
}

static void
name_of (const GmCacheKey *key, char name[2 * GM_CACHE_KEY_BYTES + 1])
{
  for (int i = 0; i < GM_CACHE_KEY_BYTES; i++)
    snprintf (name + 2 * i, 3, "%02x", key->bytes[i]);
}

bool
gm_cache_is_entry_name (const char *name)
{
  return strlen (name) == 2 * GM_CACHE_KEY_BYTES
         && strspn (name, "0123456789abcdef") == strlen (name);
}

/* -- Reading ----------------------------------------------------------------------------------- */

static bool
check (const Header *h, size_t bytes, const char *name, const uint8_t *secret, char **why)
{
  uint8_t mac[32], differ = 0;
  char told[2 * GM_CACHE_KEY_BYTES + 1];
  if (bytes < sizeof *h || memcmp (h->magic, magic, sizeof magic) != 0
      || h->header_bytes != sizeof *h)
    return gm_cache_fail (why, "is no entry of this version");
  if (h->payload_bytes != bytes - sizeof *h)
    return gm_cache_fail (why, "is cut off, or longer than it says");
  mac_of (secret, h, h + 1, mac);
  for (int i = 0; i < 32; i++)
    differ |= mac[i] ^ h->mac[i];
  if (differ)
    return gm_cache_fail (why, "is damaged, or was not written by you: its keyed hash is wrong");
  GmCacheKey key;
  memcpy (key.bytes, h->key, sizeof key.bytes);
  name_of (&key, told);
  return strcmp (told, name) == 0
         || gm_cache_fail (why, "is the entry %.16s... under another name", told);
}

GmCacheResult
gm_cache_read_entry (int folder, const char *name, const uint8_t secret[GM_CACHE_SECRET_BYTES],
                     GmCacheEntry *out, char label[GM_CACHE_LABEL_BYTES], char **why)
{
  struct stat st;
  char *said = NULL;
  int fd = gm_cache_open_file (folder, name, &st, &said);
  Header *h = NULL;
  bool absent = fd < 0 && !said, good = false;
  size_t bytes = fd >= 0 ? (size_t) st.st_size : 0;
  *out = (GmCacheEntry){ 0 };
  if (fd >= 0 && bytes > GM_CACHE_MAX_BYTES)
    gm_cache_fail (&said, "is too large");
  else if (fd >= 0 && st.st_nlink != 1)
    gm_cache_fail (&said, "has more than one name");
  else if (fd >= 0 && (h = gm_cache_read_file (fd, bytes, &said)) != NULL)
    good = check (h, bytes, name, secret, &said);
  if (good) {
    *out = (GmCacheEntry){ .block = h, .data = h + 1, .bytes = bytes - sizeof *h };
    if (label) {
      memcpy (label, h->label, GM_CACHE_LABEL_BYTES);
      label[GM_CACHE_LABEL_BYTES - 1] = 0;
    }
    futimens (fd, NULL); /* sets the time of use, by which make_room evicts */
  } else
    free (h);
  if (fd >= 0)
    close (fd);
  if (said)
    gm_cache_fail (why, "entry %.16s... %s", name, said);
  g_free (said);
  return good ? GM_CACHE_FOUND : absent ? GM_CACHE_ABSENT : GM_CACHE_REFUSED;
}

GmCacheResult
gm_cache_find (const GmCacheKey *key, GmCacheEntry *out, char **why)
{
  uint8_t secret[GM_CACHE_SECRET_BYTES];
  char name[2 * GM_CACHE_KEY_BYTES + 1];
  *out = (GmCacheEntry){ 0 };
  int folder = gm_cache_open (true, secret, why);
  if (folder < 0)
    return GM_CACHE_OFF;
  name_of (key, name);
  GmCacheResult result = gm_cache_read_entry (folder, name, secret, out, NULL, why);
  if (result == GM_CACHE_REFUSED)
    unlinkat (folder, name, 0); /* so that it is not read again */
  close (folder);
  return result;
}

void
gm_cache_entry_clear (GmCacheEntry *e)
{
  free (e->block);
  *e = (GmCacheEntry){ 0 };
}

/* -- Writing ----------------------------------------------------------------------------------- */

static bool
store (const GmCacheKey *key, const char *label, const void *data, size_t bytes, bool is_hint,
       char **why)
{
  uint8_t secret[GM_CACHE_SECRET_BYTES];
  char name[2 * GM_CACHE_KEY_BYTES + 1];
  if (bytes > GM_CACHE_MAX_BYTES - sizeof (Header))
    return gm_cache_fail (why, "%zu bytes are too many for one entry", bytes);
  int folder = gm_cache_open (true, secret, why);
  if (folder < 0)
    return false;
  Header h = { .header_bytes = sizeof h, .payload_bytes = bytes };
  memcpy (h.magic, magic, sizeof magic);
  memcpy (h.key, key->bytes, sizeof h.key);
  g_strlcpy (h.label, label, sizeof h.label);
  mac_of (secret, &h, data, h.mac);
  name_of (key, name);
  if (!is_hint)
    gm_cache_make_room (folder, sizeof h + bytes);
  const GmCachePiece pieces[] = { { &h, sizeof h }, { data, bytes } };
  bool good = gm_cache_write_file (folder, name, pieces, 2, true, !is_hint, why);
  close (folder);
  return good;
}

bool
gm_cache_store (const GmCacheKey *key, const char *label, const void *data, size_t bytes,
                char **why)
{
  return store (key, label, data, bytes, false, why);
}

bool
gm_cache_store_hint (const GmCacheKey *key, const char *label, const void *data, size_t bytes,
                     char **why)
{
  return store (key, label, data, bytes, true, why);
}

bool
gm_cache_is_on (char **why)
{
  uint8_t secret[GM_CACHE_SECRET_BYTES];
  int folder = gm_cache_open (true, secret, why);
  if (folder >= 0)
    close (folder);
  return folder >= 0;
}
