#!/bin/sh
# Holds a lease around a few commands of a script, without any library: sh hold.sh KEY. Needs `tenure` in the PATH.
: "${1:?usage: hold.sh KEY}"
set -eu
dir=$(mktemp -d)
clean() { rm -rf "$dir"; }
trap clean EXIT
# A signal amid the end cuts the EXIT trap short, so each cleans up by itself. Who has not opened both pipes yet would wait for ever.
holder=
stop() { clean; kill $holder 2>/dev/null || true; }
trap 'stop; exit 129' HUP
trap 'stop; exit 130' INT
trap 'stop; exit 143' TERM
mkfifo "$dir/in" "$dir/out"
tenure hold "$1" --json <"$dir/in" >"$dir/out" &
holder=$!
exec 3>"$dir/in" 4<"$dir/out"
read -r line <&4 || { echo "$1 was not acquired" >&2; exit 75; }
fence=$(printf '%s\n' "$line" | sed 's/.*"fence":\([0-9]*\).*/\1/')
echo "working with fence $fence"
# The end of its input gives the lease back.
exec 3>&-
while read -r line <&4; do echo "$line"; done
# Not 0 where the lease was lost before: others may have worked meanwhile.
wait $holder
