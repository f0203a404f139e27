# The front door. `make demo` and `make test` set up what they need; CONTRIBUTING.md tells the rest.
#
#   setup      installs the Debian packages that building and testing need (asks sudo where needed)
#   setup-dev  the same, and clang with its tools
#   build      build/release/thaw and the unit tests
#   demo       setup, build/release/thaw alone, the default model, and one question to it
#   test       setup, build, the default model, and every test
#   lint       clang-format, clang-tidy and the tidy test                      (needs setup-dev)
#   fuzz       every fuzz target, FUZZ_SECONDS each, or FUZZ_RUNS inputs each  (needs setup-dev)
#   bench      the modules' micro-benchmarks                                   (needs setup-dev)
#   install    the program below PREFIX
#   clean      removes build/ and .venv/, keeps models/
#
# MODEL=path takes another GGUF file everywhere.

.DEFAULT_GOAL := build
.PHONY: setup setup-dev build program demo test lint fuzz bench install clean model

DEFAULT_MODEL := models/SmolLM2-135M-Instruct.Q4_1.gguf
MODEL ?= $(DEFAULT_MODEL)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 600
FUZZ_RUNS ?=

# One job per core, as far as there is 1 GiB of memory for each: the largest sources need about that.
JOBS ?= $(shell awk -v cores="$$(nproc)" '/^MemAvailable/ { fit = int($$2 / 1048576) } \
  END { print fit < 1 ? 1 : fit < cores ? fit : cores }' /proc/meminfo)

export THAW_MODEL := $(abspath $(MODEL))

setup:
	tools/setup.sh build

setup-dev:
	tools/setup.sh build dev

build:
	cmake --preset release
	cmake --build --preset release --parallel $(JOBS)

program:
	cmake --preset release
	cmake --build --preset release --parallel $(JOBS) --target thaw

# Prerequisites run in this order, one at a time: .NOTPARALLEL below.
demo: setup program model
	build/release/thaw run "$(MODEL)" -p "What is the capital of Japan?" --temp 0

test: setup build model .venv/requirements-installed
	ctest --preset release --parallel $(JOBS)

lint:
	cmake --preset bench -B build/lint -DCMAKE_CXX_COMPILER=clang++-16
	tools/lint.sh build/lint $(JOBS)

fuzz:
	cmake --preset dev
	cmake --build --preset dev --parallel $(JOBS) --target fuzz_targets
	tools/fuzz.sh build/dev $(JOBS) "$(FUZZ_SECONDS)" "$(FUZZ_RUNS)"

bench:
	cmake --preset bench
	cmake --build --preset bench --parallel $(JOBS) --target micro_benchmarks
	tools/bench.sh build/bench

install: build
	cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build .venv

ifeq ($(MODEL),$(DEFAULT_MODEL))
model: .venv/created
	tools/get_model.sh $(MODEL)
else
model:
	@test -f "$(MODEL)" || { echo "make: MODEL=$(MODEL) is not a file" >&2; exit 1; }
endif

# Stamps rather than .venv itself: an interrupted installation is done again.
.venv/created:
	python3 -m venv --clear .venv
	touch $@

.venv/requirements-installed: tools/requirements.txt .venv/created
	.venv/bin/pip install --quiet --disable-pip-version-check -r tools/requirements.txt
	touch $@

.NOTPARALLEL:
