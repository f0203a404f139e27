#!/bin/bash
# clang-format, clang-tidy and the tidy test over every source file; changes nothing.
#
#   tools/lint.sh BUILD_FOLDER JOBS      BUILD_FOLDER was configured with clang++-16
set -euo pipefail

[[ $# -eq 2 ]] || { echo "usage: $0 BUILD_FOLDER JOBS" >&2; exit 2; }
build=$1
jobs=$2
cd "$(dirname "$0")/.."

git ls-files -z -- '*.h' '*.cc' | xargs -0 clang-format-16 --dry-run -Werror
python3 tests/tidy/tidy_test.py
# Debian's clang-tidy 14 fails on libstdc++ 12's <ranges>; 16 does not.
git ls-files -z -- '*.cc' | xargs -0 -n 1 -P "$jobs" clang-tidy-16 -p "$build" --quiet
echo "lint: no finding"
