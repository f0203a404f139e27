#!/bin/bash
# Runs every micro-benchmark program of a build folder.
#
#   tools/bench.sh BUILD_FOLDER
set -euo pipefail

[[ $# -eq 1 ]] || { echo "usage: $0 BUILD_FOLDER" >&2; exit 2; }
while read -r program; do
  echo "== $(basename "$program")"
  "$program" --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
done <"$1/micro_benchmarks.txt"
