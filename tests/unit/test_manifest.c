/* SPDX-License-Identifier: Apache-2.0
 * test_manifest.c -- the manifest's key file, users' options held against it, and names near to a
 * misspelt one.
 */
#include <check.h>
#include <string.h>

#include "core/base/error.h"
#include "core/plugin/manifest.h"
#include "core/plugin/spelling.h"
#include "plugin-api/gramme-plugin.h"

#define HEAD "[gramme-plugin]\nabi=0.0\nmin-host-minor=0\n"
#define NAMED HEAD "id=org.example.foo\nname=foo\nversion=1.2.0\n"

static GmManifest *
parse (const char *text)
{
  GmRefused why = { 0 };
  GmManifest *m = gm_manifest_parse (g_strdup (text), NULL, &why);
  ck_assert_msg (m, "%s", why.text);
  return m;
}

static void
refused (const char *text, GmRefusal code, const char *mentions)
{
  GmRefused why = { 0 };
  GmManifest *m = gm_manifest_parse (g_strdup (text), NULL, &why);
  ck_assert_ptr_null (m);
  ck_assert_msg (why.code == code, "%s instead of %s: %s", gm_refusal_names[why.code],
                 gm_refusal_names[code], why.text);
  ck_assert_msg (strstr (why.text, mentions), "\"%s\" does not mention \"%s\"", why.text, mentions);
  gm_refused_clear (&why);
}

START_TEST (all_keys_are_read)
{
  g_autoptr (GmManifest) m =
      parse (NAMED "license=MIT\nrank=100\nbit-exact=true\ndevices=cpu;cuda;\ndtypes=f32;f64;\n"
                   "flags=backward;run-concurrent;\nneeds=cc;\nfuture-key=ignored\n"
                   "[option opt-level]\ntype=int\nrange=0..3\ndefault=2\nhelp=how hard to try\n"
                   "[reasons]\n0x10001=reduction over more than 8 axes\n3=cannot redefine\n[future "
                   "group]\na=b\n");
  ck_assert_str_eq (m->id, "org.example.foo");
  ck_assert_str_eq (m->name, "foo");
  ck_assert_str_eq (m->version, "1.2.0");
  ck_assert_str_eq (m->license, "MIT");
  ck_assert_int_eq (m->rank, 100);
  ck_assert (m->bit_exact);
  ck_assert_uint_eq (g_strv_length (m->devices), 2);
  ck_assert_str_eq (m->dtypes[1], "f64");
  ck_assert (gm_manifest_has_flag (m, "run-concurrent"));
  ck_assert (!gm_manifest_has_flag (m, "run"));
  const GmPluginOption *o = gm_manifest_option (m, "opt-level");
  ck_assert_ptr_nonnull (o);
  ck_assert_int_eq (o->min, 0);
  ck_assert_int_eq (o->max, 3);
  ck_assert_str_eq (o->fallback, "2");
  ck_assert_str_eq (gm_manifest_reason (m, 0x10001), "reduction over more than 8 axes");
  ck_assert_str_eq (gm_manifest_reason (m, GRAMME_REASON_DTYPE), "it does not handle this dtype");
  ck_assert_ptr_nonnull (gm_manifest_reason (m, 0xffffffff));
}
END_TEST

START_TEST (versions_that_do_not_fit)
{
  refused ("[gramme-plugin]\nabi=1.0\nid=a\nname=b\nversion=1\n", GM_REFUSAL_ABI, "1.0");
  refused ("[gramme-plugin]\nabi=0.1\nmin-host-minor=2\nid=a\nname=b\nversion=1\n",
           GM_REFUSAL_MANIFEST, "between 0 and");
  refused ("[gramme-plugin]\nabi=0.1\nmin-host-minor=-1\nid=a\nname=b\nversion=1\n",
           GM_REFUSAL_MANIFEST, "between 0 and");
  refused ("[gramme-plugin]\nabi=0.7\nmin-host-minor=7\nid=a\nname=b\nversion=1\n",
           GM_REFUSAL_HOST_MINOR, "minor 7");
  refused ("[gramme-plugin]\nabi=new\nid=a\nname=b\nversion=1\n", GM_REFUSAL_MANIFEST, "\"new\"");
  refused ("[gramme-plugin]\nid=a\nname=b\nversion=1\n", GM_REFUSAL_MANIFEST, "abi");
}
END_TEST

START_TEST (devices_that_no_tensor_lies_on)
{
  refused (NAMED "devices=npu;\n", GM_REFUSAL_DEVICE, "it names npu; there are cpu and cuda");
  refused (NAMED "devices=npu;tpu;\n", GM_REFUSAL_DEVICE, "npu, tpu");
  static const char *const fine[] = { "", "devices=cpu;\n", "devices=npu;cuda;\n" };
  for (unsigned i = 0; i < G_N_ELEMENTS (fine); i++) {
    GmRefused why = { 0 };
    g_autoptr (GmManifest) m = gm_manifest_parse (g_strconcat (NAMED, fine[i], NULL), NULL, &why);
    ck_assert_msg (m != NULL, "%s: %s", fine[i], why.text);
  }
}
END_TEST

START_TEST (a_plugin_of_another_version_is_still_named)
{
  GmRefused why = { 0 };
  GmManifest *partial = NULL;
  ck_assert_ptr_null (gm_manifest_parse (
      g_strdup ("[gramme-plugin]\nabi=9.0\nid=a.b\nname=later\nversion=3\n"), &partial, &why));
  ck_assert_int_eq (why.code, GM_REFUSAL_ABI);
  ck_assert_str_eq (partial->name, "later");
  gm_manifest_free (partial);
  gm_refused_clear (&why);
}
END_TEST

START_TEST (texts_that_are_no_manifest)
{
  refused ("", GM_REFUSAL_MANIFEST, "gramme-plugin");
  refused ("no group here", GM_REFUSAL_MANIFEST, "");
  refused ("[other]\na=b\n", GM_REFUSAL_MANIFEST, "[gramme-plugin]");
  refused (HEAD "name=foo\nversion=1\n", GM_REFUSAL_MANIFEST, "id");
  refused (HEAD "id=a\nversion=1\n", GM_REFUSAL_MANIFEST, "name");
  refused (HEAD "id=a\nname=b\n", GM_REFUSAL_MANIFEST, "version");
  refused (HEAD "id=a\nname=\033[31mred\nversion=1\n", GM_REFUSAL_MANIFEST, "name");
  refused (HEAD "id=a\nname=../b\nversion=1\n", GM_REFUSAL_MANIFEST, "name");
  refused (NAMED "[option x]\ntype=float\n", GM_REFUSAL_MANIFEST, "float");
  refused (NAMED "[option x]\ntype=int\nrange=3\n", GM_REFUSAL_MANIFEST, "range");
  refused (NAMED "[option x]\ntype=int\nrange=3..1\n", GM_REFUSAL_MANIFEST, "range");
  refused (NAMED "[option x]\ntype=choice\n", GM_REFUSAL_MANIFEST, "values");
  refused (NAMED "[option ]\ntype=int\n", GM_REFUSAL_MANIFEST, "");
}
END_TEST

static void
option (const GmManifest *m, const char *key, const char *value, const char *mentions)
{
  g_autoptr (GError) error = NULL;
  bool good = gm_manifest_check_option (m, key, value, &error);
  ck_assert_int_eq (good, mentions == NULL);
  if (mentions) {
    ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_VALUE));
    ck_assert_msg (strstr (error->message, mentions), "\"%s\" does not mention \"%s\"",
                   error->message, mentions);
  }
}

START_TEST (options_are_checked_by_type)
{
  g_autoptr (GmManifest) m = parse (
      NAMED
      "[option level]\ntype=int\nrange=0..3\n[option any]\ntype=int\n[option fast]\ntype=bool\n"
      "[option tool]\ntype=string\n[option tier]\ntype=choice\nvalues=quick;best;\n");
  option (m, "level", "0", NULL);
  option (m, "level", "3", NULL);
  option (m, "level", "4", "from 0 to 3");
  option (m, "level", "-1", "from 0 to 3");
  option (m, "level", "2x", "level=2x");
  option (m, "level", "", "whole number");
  option (m, "any", "-123456789012", NULL);
  option (m, "fast", "true", NULL);
  option (m, "fast", "0", NULL);
  option (m, "fast", "yes", "true or false");
  option (m, "tool", "/usr/bin/anything at all", NULL);
  option (m, "tier", "best", NULL);
  option (m, "tier", "worst", "quick, best");
  option (m, "levle", "1", "did you mean \"level\"");
  option (m, "nonsense", "1", "level, any, fast, tool, tier");
}
END_TEST

START_TEST (distances_are_those_of_the_definition)
{
  ck_assert_uint_eq (gm_spelling_distance ("", ""), 0);
  ck_assert_uint_eq (gm_spelling_distance ("tcc", ""), 3);
  ck_assert_uint_eq (gm_spelling_distance ("tcc", "tcc"), 0);
  ck_assert_uint_eq (gm_spelling_distance ("tcc", "cc"), 1);
  ck_assert_uint_eq (gm_spelling_distance ("eagre", "eager"), 1); /* a swap */
  ck_assert_uint_eq (gm_spelling_distance ("kitten", "sitting"), 3);
  ck_assert_uint_eq (gm_spelling_distance ("EAGER", "eager"), 0);
}
END_TEST

START_TEST (near_names_are_offered_nearest_first)
{
  static const char *const names[] = { "cc", "eager", "null", "nvrtc", "tcc", NULL };
  static const char *const greek[] = { "gamma-ray", "delta", "gamma", NULL };
  g_autofree char *a = gm_spelling_text ("gamm", greek), *b = gm_spelling_text ("zzzzzzzz", names),
                  *c = gm_spelling_text ("eagr", names);
  ck_assert_str_eq (a, " (did you mean \"gamma\" or \"gamma-ray\"?)");
  ck_assert_str_eq (b, "");
  ck_assert_str_eq (c, " (did you mean \"eager\"?)");
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("manifest");
  TCase *t = tcase_create ("manifest");
  tcase_add_test (t, all_keys_are_read);
  tcase_add_test (t, versions_that_do_not_fit);
  tcase_add_test (t, devices_that_no_tensor_lies_on);
  tcase_add_test (t, a_plugin_of_another_version_is_still_named);
  tcase_add_test (t, texts_that_are_no_manifest);
  tcase_add_test (t, options_are_checked_by_type);
  tcase_add_test (t, distances_are_those_of_the_definition);
  tcase_add_test (t, near_names_are_offered_nearest_first);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failures = srunner_ntests_failed (r);
  srunner_free (r);
  return failures ? 1 : 0;
}
