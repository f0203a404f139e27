#!/bin/bash
# Runs the project's own Python, which has the packages of tools/requirements.txt.
#
#   tests/in_venv.sh SCRIPT.py ARGUMENT...
#
# Exit status 77, which ctest counts as skipped, where the .venv has not been made. THAW_MODEL is the
# real model that tests use; the default one where nothing else is stated.
root=$(cd "$(dirname "$0")/.." && pwd)
if [[ ! -e "$root/.venv/requirements-installed" ]]; then
  echo "SKIP: $root/.venv is not there; \`make test\` makes it"
  exit 77
fi
export THAW_MODEL="${THAW_MODEL:-$root/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
exec "$root/.venv/bin/python" -B "$@"
