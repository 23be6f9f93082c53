#!/usr/bin/env bash
# Counts the words of real files with two `tenure work` processes that share one SQLite file. One of them is killed with
# kill -9 half-way. The other takes over what it had begun, and at the end every file is counted.
#
# usage: examples/word-counts.sh     (Debian, Rust and a C compiler; nothing else)
set -euo pipefail
cd "$(dirname "$0")/.."

[ -n "${TENURE_PROGRAM:-}" ] || cargo build --package tenure-cli
tenure=${TENURE_PROGRAM:-${CARGO_TARGET_DIR:-target}/debug/tenure}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export TENURE_STORE=sqlite:$dir/leases.db COUNTS=$dir/counts
touch "$COUNTS"

# The files: every package of Debian has a copyright file. A few hundred will do.
find /usr/share/doc -type f -name copyright | sort | sed -n 1,400p >"$dir/files"
files=$(wc -l <"$dir/files")
echo "$files files to count"

# The pause lets you watch. Each count is one appended line, with the fence that it was made under.
worker() {
  exec "$tenure" work --name words --ttl 2s --parallel 4 --from "$dir/files" -- \
    sh -c 'sleep 0.1; echo "$1 $(wc -w <"$1") $TENURE_FENCE" >>"$COUNTS"' sh {}
}
worker & first=$!
worker & second=$!

until [ "$(wc -l <"$COUNTS")" -ge $((files / 2)) ]; do sleep 0.02; done
kill -9 "$first"
echo "killed the first worker (kill -9 $first) at $(wc -l <"$COUNTS") of $files files"
wait "$first" || true
wait "$second"

# A file that was being counted at the kill may be there twice, under two fences; the later one is what its record names.
counted=$(cut -d ' ' -f 1,2 "$COUNTS" | sort -u)
again=$(($(wc -l <"$COUNTS") - $(wc -l <<<"$counted")))
echo "the five longest of $(wc -l <<<"$counted") files; $again counted again because of the kill:"
sort -k 2,2nr <<<"$counted" | sed -n 1,5p

# Now by hand, to compare.
ours=$(awk '{ sum += $2 } END { print sum }' <<<"$counted")
theirs=$(xargs -d '\n' cat <"$dir/files" | wc -w)
echo "words: $ours counted by tenure, $theirs by one plain wc"
[ "$ours" -eq "$theirs" ] && [ "$(wc -l <<<"$counted")" -eq "$files" ]
echo "complete: every file is counted, nothing is missing"
