#!/bin/bash
# Installs the Debian packages that Thaw is built and tested with; says what it installs.
#
#   tools/setup.sh build [dev] [arm]
#
# `arm`: what the preset aarch64 needs, a cross compiler, an emulator, and the libraries that
# tools/arm_sysroot.sh puts into build/.
#
# Does nothing where all are there. Where apt-get is not to be had, lists what is missing and stops.
# Why each package: docs/decisions/0001-dependencies.md. The names are those of Debian 12; Ubuntu
# 24.04 has the same.
set -euo pipefail

build_packages=(
  g++ cmake ninja-build pkg-config python3 python3-venv
  libcli11-dev libexpected-dev libfmt-dev libpcre2-dev libspdlog-dev liburing-dev
  libxxhash-dev nlohmann-json3-dev
  libgmock-dev libgtest-dev
)
dev_packages=(
  clang-16 clang-format-16 clang-tidy-16 libclang-rt-16-dev libbenchmark-dev
)
arm_packages=(g++-aarch64-linux-gnu qemu-user-static)

wanted=()
for group in "$@"; do
  case "$group" in
    build) wanted+=("${build_packages[@]}") ;;
    dev) wanted+=("${dev_packages[@]}") ;;
    arm) wanted+=("${arm_packages[@]}") ;;
    *) echo "usage: $0 build [dev] [arm]" >&2; exit 2 ;;
  esac
done

is_installed() {
  [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done

give_up() {
  echo "setup: $1. These packages (Debian's names) are needed:" >&2
  printf '  %s\n' "${missing[@]}" >&2
  exit 1
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt_get() {
  # DEBIAN_FRONTEND stands behind sudo, which would drop it from the environment.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y "$@" >"$log" 2>&1 && return
  cat "$log" >&2
  give_up "apt-get $1 failed"
}

install_missing() {
  command -v apt-get >/dev/null || give_up "there is no apt-get here"
  as_root=()
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || give_up "not root, and there is no sudo"
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}" >&2
  apt_get update
  apt_get install --no-install-recommends "${missing[@]}"
}

if [[ ${#missing[@]} -gt 0 ]]; then
  install_missing
fi
if [[ " $* " == *" arm "* ]]; then
  "$(dirname "$0")/arm_sysroot.sh"
fi
