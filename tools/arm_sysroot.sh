#!/bin/bash
# Makes build/aarch64-sysroot: Debian's arm64 packages of the libraries that Thaw is built with,
# unpacked. The machine's own packages stay as they are: apt-get works on a state of its own here,
# in which no package is installed, so that it fetches the C library too. Needs no root.
#
#   tools/arm_sysroot.sh
#
# Does nothing where it is there. cmake/aarch64-linux-gnu.cmake reads it.
set -euo pipefail

libraries=(
  libc6-dev libstdc++6
  libcli11-dev libexpected-dev libfmt-dev libpcre2-dev libspdlog-dev liburing-dev
  libxxhash-dev nlohmann-json3-dev
  libgmock-dev libgtest-dev
)

build=$(cd "$(dirname "$0")/.." && pwd)/build
sysroot=$build/aarch64-sysroot
# What was asked for, so that another list makes another tree.
if [[ "$(cat "$sysroot/libraries" 2>/dev/null)" == "${libraries[*]}" ]]; then
  exit 0
fi

mkdir -p "$build"
work=$(mktemp -d "$build/aarch64-packages.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists,archives}/partial "$work/sysroot"
: >"$work/status"

apt_get() {
  apt-get -y -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User= \
    -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" \
    -o Dir::State::extended_states="$work/extended_states" \
    -o Dir::Cache="$work" -o Dir::Cache::archives="$work/archives" "$@" >"$work/log" 2>&1 && return
  cat "$work/log" >&2
  echo "setup: apt-get $1 failed for arm64" >&2
  exit 1
}

echo "setup: fetching for arm64 ${libraries[*]}" >&2
apt_get update
apt_get install --no-install-recommends --download-only "${libraries[@]}"
for package in "$work"/archives/*.deb; do
  dpkg-deb -x "$package" "$work/sysroot"
done
echo "${libraries[*]}" >"$work/sysroot/libraries"
rm -rf "$sysroot"
mv "$work/sysroot" "$sysroot"
