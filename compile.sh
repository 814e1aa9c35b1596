#!/bin/sh
# Builds dist/agentq, one binary with everything in it.
#
#   ./compile.sh                    for this machine, as dist/agentq
#   ./compile.sh --target NAME      for another one, as dist/agentq-NAME (repeatable)
#   ./compile.sh --all              for every target
#
# Needs Node's npm, nothing else: Bun comes from the npm registry, for other targets too.
set -eu
cd "$(dirname "$0")"

targets="linux-x64 linux-arm64 linux-x64-musl linux-arm64-musl android-arm64 darwin-x64 darwin-arm64 windows-x64"
usage() {
  echo "usage: ./compile.sh [--target NAME]... [--all]   (NAME: $targets)" >&2
  exit 64
}

wanted=
while [ $# -gt 0 ]; do
  case $1 in
    --all) wanted=$targets ;;
    --target)
      [ $# -ge 2 ] || usage
      case " $targets " in *" $2 "*) wanted="$wanted $2" ;; *) usage ;; esac
      shift
      ;;
    *) usage ;;
  esac
  shift
done

if [ ! -x node_modules/.bin/bun ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci --no-audit --no-fund >&2
fi
bun=$PWD/node_modules/.bin/bun
mkdir -p dist

# build OUTFILE [--target=…]
# Bytecode and splitting: a command's modules are neither parsed nor run before it is asked for.
# The second entry is a thread's, found by its name: see src/git/checkout-share.ts.
# The JIT policy: see src/platform/jit.ts. cpu-features, native, is asked for by ssh2, which does without.
# Built beside and renamed, so that a running agentq keeps its binary.
build() {
  out=$1
  shift
  part=dist/.part-$$-${out##*/}
  "$bun" build --compile --minify --bytecode --splitting --format=esm \
    --no-compile-autoload-dotenv --no-compile-autoload-bunfig --compile-jit-policy=128 --external cpu-features "$@" \
    cli/main.ts src/git/checkout-thread.ts --outfile "$part" >&2
  case $out in *.exe) part=${part%.exe}.exe ;; esac
  mv -f "$part" "$out"
  echo "$out"
}

if [ -z "$wanted" ]; then
  build dist/agentq
fi
for target in $wanted; do
  case $target in
    windows-*) build "dist/agentq-$target.exe" "--target=bun-$target" ;;
    *) build "dist/agentq-$target" "--target=bun-$target" ;;
  esac
done
