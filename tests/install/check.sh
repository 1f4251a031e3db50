#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make installcheck: an installation from a user's side.
# Arguments: DESTDIR bindir libdir includedir pythondir exampledir
#
# A prefix is used as its user would: PATH, PKG_CONFIG_PATH, PYTHONPATH and LD_LIBRARY_PATH where it is none of the system's own, and
# not one variable of gramme's, below DESTDIR too; only where others may write to a folder above it, it is trusted by name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dest=$1 bin=$1$2 lib=$1$3 include=$1$4 python_dir=$1$5 examples=$1$6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
ok () {
  passed=$((passed + 1))
  echo "ok: $*"
}

PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_PATH
[ -z "$dest" ] || { PKG_CONFIG_SYSROOT_DIR=$dest; export PKG_CONFIG_SYSROOT_DIR; }
LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONPATH=$python_dir
PATH=$bin:$PATH
export LD_LIBRARY_PATH PYTHONPATH PATH
unset GRAMME_PLUGIN_PATH GRAMME_PLUGIN_TRUST GM_PROGRAM GM_STATE GRAMME_CACHE_DIR top_builddir
HOME=$work/home
mkdir -m 755 "$HOME"
export HOME
if gramme why eager | grep -q 'refused (PARENT)'; then
  GRAMME_PLUGIN_TRUST=$lib/gramme/plugins-1
  export GRAMME_PLUGIN_TRUST
  echo "note: others may write to a folder above $lib, so it is trusted by name"
fi

cp "$examples/c/train.c" "$examples/c/Makefile" "$work/"
make -C "$work" CC="$CC" train >/dev/null
ok "examples/c/train.c builds with pkg-config"

backends=$("$bin/gramme" inspect | awk 'NR > 1 { print $1 }')
for backend in eager $(echo "$backends" | grep -x tcc || true); do
  "$work/train" "$backend" >"$work/$backend.out"
  ok "train $backend: $(tail -n 1 "$work/$backend.out")"
done
if [ -f "$work/tcc.out" ]; then
  weights () { sed -n 's/.*weights //p' "$work/$1.out"; }
  [ -n "$(weights eager)" ] && [ "$(weights eager)" = "$(weights tcc)" ]
  ok "both give the same weights"
fi

echo "$backends" | grep -qx eager
ok "gramme inspect finds the installed plugins"
cd "$work"
"$PYTHON" -c 'import gramme; assert "eager" in gramme.compiler.list_backends(); print(gramme.__file__)'
ok "import gramme"
"$PYTHON" -c 'import gramme, importlib.metadata as m; assert m.version ("gramme-compiler") == gramme.__version__, m.version ("gramme-compiler")'
[ -f "$python_dir/gramme/py.typed" ] && grep -q 'def tanh' "$python_dir/gramme/__init__.pyi"
ok "importlib.metadata knows the version, and editors find stubs"
share=${examples%/gramme/examples}
[ -f "$share/man/man1/gramme.1" ] && bash -n "$share/bash-completion/completions/gramme"
ok "a manual page, and completion for bash"
[ -z "$(find "$lib" -name '*.la')" ]
ok "no .la file"
cat >"$work/script.py" <<'END'
import gramme
f = gramme.compile(lambda x: (x * 2).sum())
assert f(gramme.ones(3)).item() == 6.0
print(f.backend)
END
[ "$("$bin/gramme" run --backend eager "$work/script.py")" = eager ]
ok "gramme run sets the default back end"
"$bin/gramme" inspect eager | grep -q eager
ok "gramme inspect NAME"
[ -f "$include/gramme-1/gramme-plugin.h" ] && pkg-config --cflags gramme-plugin-1 >/dev/null
ok "headers and pkg-config file for plugins"

# A back end of one's own, as docs/plugin-guide.md has it: made, built against the installed headers, checked, used by name, removed.
status=0
(cd "$here" && exec "$PYTHON" -B "$here/../plugin/new_plugin.py") >"$work/guide.out" || status=$?
case $status in
0) ok "docs/plugin-guide.md: $(tail -n 1 "$work/guide.out")" ;;
77) echo "skipped: docs/plugin-guide.md: $(tail -n 1 "$work/guide.out")" ;;
*) cat "$work/guide.out"; exit 1 ;;
esac
echo "$passed passed, 0 failed"
