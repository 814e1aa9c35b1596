#!/bin/sh
# The queue's protocol steps with system git's plumbing, as lean as they can be written: what
# bench/landing.ts compares agentq with. Works in the clone that is the current directory.
#
#   landing-git.sh enqueue    one ticket for HEAD
#   landing-git.sh status     pending, processing, unacked, next from one ls-remote, as JSON; then the
#                             queued tickets, each the message that is its JSON
#   landing-git.sh land       takes the lock, lands every queued ticket, releases the lock
#
# No verify command, no gate, no waiting: only what the refs need. Not a client for real use.
set -eu
branch=main
ns=refs/weave/$branch
tree=4b825dc642cb6eb9a060e54bf8d69288fbee4904
me=bench-$$-git
export GIT_AUTHOR_NAME=agentq GIT_AUTHOR_EMAIL=agentq@localhost
export GIT_COMMITTER_NAME=agentq GIT_COMMITTER_EMAIL=agentq@localhost

# One advertisement: sets tip, queue, done, lock (empty where there is no ref).
refs() {
  tip= queue= done= lock=
  while read -r oid ref; do
    case $ref in
      "refs/heads/$branch") tip=$oid ;;
      "$ns/queue") queue=$oid ;;
      "$ns/done") done=$oid ;;
      "$ns/lock") lock=$oid ;;
    esac
  done <<END
$(git ls-remote origin "refs/heads/$branch" "$ns/*")
END
}

# The ticket number in a chain entry's message on standard input; -1 for a genesis or nothing.
number() {
  n=-1
  while read -r line; do
    case $line in
      *'"ticket":'*) n=${line#*'"ticket":'} n=${n%%[!0-9]*} ;;
    esac
  done
  echo "$n"
}

# Fetches what of the given commits isn't here yet.
need() {
  missing=
  for oid; do git cat-file -e "$oid" 2>/dev/null || missing="$missing $oid"; done
  # shellcheck disable=SC2086 -- object ids
  [ -z "$missing" ] || git fetch -q --no-tags --no-write-fetch-head origin $missing
}

commit() { # MESSAGE PARENT…
  message=$1
  shift
  for parent; do set -- "$@" -p "$parent"; shift; done
  printf '%s\n' "$message" | git commit-tree "$@" "$tree"
}

enqueue() {
  refs
  candidate=$(git rev-parse HEAD)
  n=-1
  head=$queue
  if [ -n "$queue" ]; then
    need "$queue"
    n=$(git cat-file commit "$queue" | number)
  else
    head=$(commit '{"kind":"genesis","chain":"queue"}')
  fi
  n=$((n + 1))
  entry=$(commit "{\"kind\":\"ticket\",\"ticket\":$n,\"candidate\":\"$candidate\",\"submitter\":\"$me\",\"verify_cmd\":null,\"verify_timeout\":1800,\"check\":null,\"checkers\":null}" "$head" "$candidate")
  git push -q --atomic "--force-with-lease=$ns/queue:$queue" origin "$entry:$ns/queue"
  echo "$n"
}

status() {
  refs
  # shellcheck disable=SC2086 -- absent heads vanish
  need $queue $done $lock
  q=-1 d=-1 holder=null
  [ -z "$queue" ] || q=$(git cat-file commit "$queue" | number)
  [ -z "$done" ] || d=$(git cat-file commit "$done" | number)
  [ -z "$lock" ] || case $(git cat-file commit "$lock") in *'"holder":null'*) ;; *) holder=held ;; esac
  unacked=$((q - d)) processing=0
  if [ "$holder" = held ] && [ "$unacked" -gt 0 ]; then processing=1; fi
  echo "{\"pending\":$((unacked - processing)),\"processing\":$processing,\"unacked\":$unacked,\"next\":$((d + 1))}"
  [ "$unacked" -eq 0 ] || git log --first-parent -n "$unacked" --format=%B "$queue"
}

lockentry() { # HOLDER
  # shellcheck disable=SC2086 -- no lock, no parent
  commit "{\"kind\":\"lock\",\"holder\":$1,\"by\":\"$me\",\"at\":0}" $lock
}

land() {
  refs
  # shellcheck disable=SC2086 -- absent heads vanish
  need $queue $done $lock $tip
  entry=$(lockentry "\"$me\"")
  git push -q --atomic "--force-with-lease=$ns/lock:$lock" origin "$entry:$ns/lock"
  lock=$entry
  d=-1
  [ -z "$done" ] || d=$(git cat-file commit "$done" | number)
  git log --first-parent --reverse --format='%H %P' "$queue" | tail -n +$((d + 3)) |
    while read -r _ _ candidate; do
      d=$((d + 1))
      merged=$(git merge-tree --write-tree "$tip" "$candidate")
      landed=$(git commit-tree -p "$tip" -p "$candidate" -m "Land ticket $d" "$merged")
      head=$done
      [ -n "$done" ] || head=$(commit '{"kind":"genesis","chain":"done"}')
      result=$(commit "{\"kind\":\"result\",\"ticket\":$d,\"candidate\":\"$candidate\",\"submitter\":\"$me\",\"lander\":\"$me\",\"tip\":\"$tip\",\"landed\":\"$landed\",\"reason\":\"landed\",\"files\":[],\"regions\":[],\"report\":\"\"}" "$head" "$landed")
      renewal=$(lockentry "\"$me\"")
      git push -q --atomic "--force-with-lease=refs/heads/$branch:$tip" \
        "--force-with-lease=$ns/done:$done" "--force-with-lease=$ns/lock:$lock" \
        origin "$landed:refs/heads/$branch" "$result:$ns/done" "$renewal:$ns/lock"
      tip=$landed done=$result lock=$renewal
      echo "$lock" > .git/bench-lock
    done
  [ ! -e .git/bench-lock ] || read -r lock < .git/bench-lock
  entry=$(lockentry null)
  git push -q --atomic "--force-with-lease=$ns/lock:$lock" origin "$entry:$ns/lock"
}

case ${1-} in
  enqueue | status | land) "$1" ;;
  *) echo "usage: landing-git.sh enqueue|status|land" >&2; exit 64 ;;
esac
