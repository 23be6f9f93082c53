#!/bin/sh
# Holds a lease around a few commands of a script, without any library: sh hold.sh KEY. Needs `tenure` in the PATH.
: "${1:?usage: hold.sh KEY}"
set -eu
dir=$(mktemp -d)
clean() { rm -rf "$dir"; }
trap clean EXIT
# A signal amid the end cuts the EXIT trap short, so each cleans up by itself.
holder=
stop() { clean; kill $holder 2>/dev/null || true; }
trap 'stop; exit 129' HUP
trap 'stop; exit 130' INT
trap 'stop; exit 143' TERM
mkfifo "$dir/in" "$dir/out"
# To open one end of a pipe waits for the other, for ever where a signal comes between. With both ends open here nobody waits.
exec 3<>"$dir/in" 4<>"$dir/out"
tenure hold "$1" --json <"$dir/in" >"$dir/out" 3>&- 4>&- &
holder=$!
# From here on, the end of what it says is seen.
exec 5<"$dir/out" 4>&-
read -r line <&5 || { echo "$1 was not acquired" >&2; exit 75; }
fence=$(printf '%s\n' "$line" | sed 's/.*"fence":\([0-9]*\).*/\1/')
echo "working with fence $fence"
# The end of its input gives the lease back.
exec 3>&-
while read -r line <&5; do echo "$line"; done
# Not 0 where the lease was lost before: others may have worked meanwhile.
wait $holder
