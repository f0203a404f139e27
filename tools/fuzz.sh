#!/bin/bash
# Runs every libFuzzer target, some at a time; starts no other after the first finding.
#
#   tools/fuzz.sh BUILD_FOLDER JOBS SECONDS [RUNS]      RUNS inputs each, instead of SECONDS each
#
# BUILD_FOLDER is that of the preset dev. What a target learns goes to BUILD_FOLDER/corpus/TARGET and
# is used again; an input that fails goes to BUILD_FOLDER/findings/.
set -euo pipefail

[[ $# -ge 3 ]] || { echo "usage: $0 BUILD_FOLDER JOBS SECONDS [RUNS]" >&2; exit 2; }
export build=$1
jobs=$2
export limit="-max_total_time=$3"
[[ -n "${4:-}" ]] && limit="-runs=$4"

# PROGRAM CORPUS; 255 tells xargs to start no other.
fuzz_target() {
  # Hostile sizes must be refused before memory is asked for: a target gets 512 MiB and no single
  # allocation above 64 MiB. Inputs of up to 16 KiB reach every part of the formats.
  local bounds=(-max_len=16384 -rss_limit_mb=512 -malloc_limit_mb=64 -timeout=10)
  local name learned log
  name=$(basename "$1")
  learned="$build/corpus/$name"
  log="$build/$name.log"
  mkdir -p "$learned"
  echo "fuzz: $name $limit" >&2
  if ! "$1" "$limit" "${bounds[@]}" -artifact_prefix="$build/findings/$name-" \
      "$learned" "$2" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    echo "fuzz: $name has a finding; its input is in $build/findings" >&2
    return 255
  fi
  echo "fuzz: $name: $(tail -n 1 "$log")"
}
export -f fuzz_target

mkdir -p "$build/findings"
count=$(grep -c . "$build/fuzz_targets.txt") ||
  { echo "fuzz: no targets in $build/fuzz_targets.txt" >&2; exit 1; }
xargs -L 1 -P "$jobs" bash -c 'fuzz_target "$@"' fuzz_target <"$build/fuzz_targets.txt" || exit 1
echo "fuzz: $count targets, no finding"
