#!/bin/sh
# Qualifies the v2 store on a phone: the store's own tests, run in Termux on the file systems given.
#
#   scripts/termux-qualify.sh [DIR…]      (default: $HOME and, where it is set up, ~/storage/shared)
#
# Needs Termux packages nodejs-lts, deno (or bun), strace. Prints the kernel, the Android version and
# each file system's type beside the results: send all of it with a report. Tests that need root, a
# loop device or Debian's bubblewrap are left out here; what they show on Linux is shown on a phone by
# the refusals of its own kernel, which `link` below prints.
set -eu
cd "$(dirname "$0")/.."

runtime=
for candidate in node_modules/.bin/deno deno node_modules/.bin/bun bun; do
  if command -v "$candidate" >/dev/null 2>&1 && "$candidate" --version >/dev/null 2>&1; then
    runtime=$candidate
    break
  fi
done
if [ -z "$runtime" ]; then
  echo "no runtime: pkg install deno, then npm ci --ignore-scripts" >&2
  exit 2
fi
run_tests() {
  case $runtime in
    *deno) "$runtime" test -A --no-check "$@" ;;
    *) "$runtime" test --timeout 600000 "$@" ;;
  esac
}

echo "system:  $(uname -srm)"
echo "android: $(getprop ro.build.version.release 2>/dev/null || echo none)"
echo "runtime: $runtime $("$runtime" --version | head -n 1)"

if [ $# -eq 0 ]; then
  set -- "$HOME"
  [ -d "$HOME/storage/shared" ] && set -- "$@" "$HOME/storage/shared"
fi
status=0
for directory in "$@"; do
  work=$directory/agentq-qualify-$$
  mkdir "$work"
  echo
  echo "== $directory: $(stat -f -c %T "$directory" 2>/dev/null || echo unknown file system)"
  : >"$work/a"
  if ln "$work/a" "$work/b" 2>"$work/why"; then
    echo "link: allowed"
  else
    echo "link: $(cat "$work/why")"
  fi
  chmod 600 "$work/a"
  echo "mode 0600 is kept as $(stat -c %a "$work/a")"
  TMPDIR=$work run_tests tests/platform tests/crash \
    tests/store/store.test.ts tests/store/init.test.ts tests/store/identity.test.ts \
    tests/store/lock.test.ts tests/store/races.test.ts || status=1
  if command -v strace >/dev/null 2>&1; then
    log=$work/strace.log
    case $runtime in
      *deno) set_runtime="run -A --no-check" ;;
      *) set_runtime="" ;;
    esac
    # shellcheck disable=SC2086
    TMPDIR=$work strace -f -e trace=link,linkat -o "$log" \
      "$runtime" $set_runtime tests/store/link-worker.ts v2 "$work/store" open || status=1
    echo "link calls by the store: $(grep -c "$work/store.*link" "$log" || true)"
  fi
  rm -rf "$work"
done
echo
[ $status -eq 0 ] && echo "qualified" || echo "NOT qualified"
exit $status
