#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each header of plugin-api/ compiles alone, as C11 and as C++17, without a warning; so do all of them together with gramme.h, as a
# host that brings a back end of its own has them; and so does a whole plugin against these headers alone.
# Environment: top_srcdir, CC, CXX.
set -u
src=${top_srcdir:-$(dirname "$0")/../..}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

try () { # label, command...
  label=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL: $label"
    cat "$work/log"
  fi
}

warnings="-Wall -Wextra -Wpadded -pedantic -Werror -fsyntax-only"
for header in "$src"/plugin-api/*.h; do
  name=$(basename "$header")
  printf '#include <%s>\n' "$name" >"$work/alone.c"
  cp "$work/alone.c" "$work/alone.cc"
  # Twice in one file: the include guard.
  printf '#include <%s>\n#include <%s>\nint unused;\n' "$name" "$name" >"$work/twice.c"
  try "$name as C11" ${CC:-gcc} -std=c11 $warnings -I"$src/plugin-api" "$work/alone.c"
  try "$name twice" ${CC:-gcc} -std=c11 $warnings -I"$src/plugin-api" "$work/twice.c"
  if command -v ${CXX:-g++} >/dev/null; then
    try "$name as C++17" ${CXX:-g++} -std=c++17 $warnings -I"$src/plugin-api" "$work/alone.cc"
  else
    echo "SKIP: $name as C++17: no C++ compiler"
  fi
done

# All of them and gramme.h in one file, in both orders.
for header in "$src"/core/gramme.h "$src"/plugin-api/*.h; do
  printf '#include <%s>\n' "$(basename "$header")" >>"$work/forth.c"
done
tac "$work/forth.c" >"$work/back.c"
glib=$(pkg-config --cflags glib-2.0)
for order in forth back; do
  cp "$work/$order.c" "$work/$order.cc"
  try "gramme.h and all headers of plugins as C11, $order" ${CC:-gcc} -std=c11 -Wall -Wextra -Werror -fsyntax-only -I"$src/plugin-api" \
    -I"$src/core" $glib "$work/$order.c"
  command -v ${CXX:-g++} >/dev/null &&
    try "gramme.h and all headers of plugins as C++17, $order" ${CXX:-g++} -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I"$src/plugin-api" \
      -I"$src/core" $glib "$work/$order.cc"
done

# A plugin in each language: what GRAMME_PLUGIN_DEFINE makes is clean, exports one symbol, and carries its note.
cat >"$work/plugin.c" <<'EOF'
#include <gramme-ext.h>
#include <gramme-plugin-util.h>
struct GrammeBackend { int x; };
static int32_t get_support (GrammeBackend *b, const GrammeImage *i, GrammeVerdict *v, uint32_t stride, GrammeStatus *s)
{
  (void) b; (void) i; (void) v; (void) stride;
  return gramme_fail (s, GRAMME_UNSUPPORTED, -1, "%s", gramme_op_facts (1).name);
}
static const GrammeBackendApi api = { sizeof (GrammeBackendApi), 0, NULL, NULL, NULL, NULL, get_support, NULL, NULL, NULL, NULL, NULL, NULL };
GRAMME_PLUGIN_DEFINE (api, "id=org.example.x\nname=x\nversion=1\n");
EOF
cp "$work/plugin.c" "$work/plugin.cc"
strict="-Wall -Wextra -pedantic -Werror -shared -fPIC -fvisibility=hidden -I$src/plugin-api"
try "a plugin in C11" ${CC:-gcc} -std=c11 $strict -o "$work/c.so" "$work/plugin.c"
command -v ${CXX:-g++} >/dev/null && try "a plugin in C++17" ${CXX:-g++} -std=c++17 $strict -o "$work/cc.so" "$work/plugin.cc"
for so in "$work"/*.so; do
  try "$(basename "$so") exports the query alone" sh -c "[ \"\$(nm -D --defined-only '$so' | awk '{ print \$3 }')\" = gramme_plugin_query_v0 ]"
  cp "$so" "$work/stripped" && strip "$work/stripped"
  try "$(basename "$so") keeps its note when stripped" sh -c "readelf -nW '$work/stripped' | grep -q 'gramme.*0x474d0001\\|gramme  *0x'"
done

echo "headers: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
