#!/bin/bash
# Runs every libFuzzer target in turn; stops at the first finding.
#
#   tools/fuzz.sh BUILD_FOLDER SECONDS [RUNS]      RUNS inputs each, instead of SECONDS each
#
# BUILD_FOLDER is that of the preset fuzz. What a target learns goes to BUILD_FOLDER/corpus/TARGET and
# is used again; an input that fails goes to BUILD_FOLDER/findings/.
set -euo pipefail

[[ $# -ge 2 ]] || { echo "usage: $0 BUILD_FOLDER SECONDS [RUNS]" >&2; exit 2; }
build=$1
limit="-max_total_time=$2"
[[ -n "${3:-}" ]] && limit="-runs=$3"

# Hostile sizes must be refused before memory is asked for: a target gets 512 MiB and no single
# allocation above 64 MiB. Inputs of up to 16 KiB reach every part of the formats.
bounds=(-max_len=16384 -rss_limit_mb=512 -malloc_limit_mb=64 -timeout=10)

mkdir -p "$build/findings"
count=0
while read -r program corpus; do
  name=$(basename "$program")
  learned="$build/corpus/$name"
  mkdir -p "$learned"
  echo "fuzz: $name $limit" >&2
  log="$build/$name.log"
  if ! "$program" "$limit" "${bounds[@]}" -artifact_prefix="$build/findings/$name-" \
      "$learned" "$corpus" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    echo "fuzz: $name has a finding; its input is in $build/findings" >&2
    exit 1
  fi
  tail -n 1 "$log"
  count=$((count + 1))
done <"$build/fuzz_targets.txt"
[[ $count -gt 0 ]] || { echo "fuzz: no targets in $build/fuzz_targets.txt" >&2; exit 1; }
echo "fuzz: $count targets, no finding"
