# Every command of the project. `make help` lists them.
#
# From a fresh clone on Debian 12 with Rust, Python and a C compiler, `make demo` and `make test` each do their own set-up.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

CARGO ?= cargo
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
DESTDIR ?=
TARGET := $(or $(CARGO_TARGET_DIR),target)
PROGRAMS := forebay dwstat dwcli dw_wlm_cli

# The pinned toolchain, or what stands in for it where it is not installed.
TOOLCHAIN := $(shell scripts/toolchain.sh)
ifneq ($(TOOLCHAIN),)
export RUSTUP_TOOLCHAIN := $(TOOLCHAIN)
endif

.DEFAULT_GOAL := help
.PHONY: help setup build check test soak suites cluster cluster-down demo bench install uninstall deb newcomer clean lint

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "make %-12s %s\n", $$1, $$2 }'

setup: ## install (as root) or name what the other targets need
	@scripts/setup.sh

build: ## the programs, optimised, in target/release
	$(CARGO) build --release --locked --package forebay-cli --bins

lint:
	@scripts/check-layers.py
	@scripts/tidy.py
	@$(PYTHON) -m unittest discover --start-directory tests/layers
	@$(PYTHON) -m unittest discover --start-directory tests/bench
	@$(PYTHON) -m unittest discover --start-directory tests/packaging
	@command -v shellcheck >/dev/null || { echo "check: shellcheck is missing: run 'make setup'" >&2; exit 1; }
	@git ls-files -z --cached --others --exclude-standard 'scripts/*.sh' 'examples/*.sh' 'packaging/service/*' .ci/run | xargs -0 shellcheck --severity=warning

check: lint ## quick: format, lints, layering, unit tests
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked --lib --bins

test: ## set-up and every test; needs root
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory lint
	@scripts/run-tests.sh

soak: ## random operations and clusters with seeds of the clock, ROUNDS times (default 10), a directory of NAMES names; needs root
	@scripts/setup.sh test
	for round in $$(seq "$${ROUNDS:-10}"); do \
		export FOREBAY_TEST_SEED="$$(date +%s%N)"; echo "FOREBAY_TEST_SEED=$$FOREBAY_TEST_SEED"; \
		$(CARGO) test --locked --package forebay-client --test oracle; \
		$(CARGO) test --locked --package forebay-testkit --test exerciser; \
		$(CARGO) test --release --locked --package forebay-controller --test cluster_simulation many_storms -- --ignored; \
	done
	FOREBAY_TEST_NAMES="$${NAMES:-1000000}" $(CARGO) test --release --locked --package forebay-client --test scale very_many -- --nocapture

suites: build ## pjdfstest and fsx, by others, on every way a burst buffer is served; needs root and crates.io
	@scripts/setup.sh test
	@scripts/suites.sh

cluster: ## Slurm, MUNGE and Forebay on seven hosts in namespaces of this machine, and a shell there; needs root
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory build
	@$(CARGO) build --release --locked --package forebay-testkit --bin forebay-site
	@scripts/cluster.sh up

cluster-down: ## end of what `make cluster` started
	@scripts/cluster.sh down

demo: ## a job on real input: spectra, SQLite and checkpoints, on the burst buffer and beside it
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory build
	@$(PYTHON) examples/demo/run.py --forebay "$(TARGET)/release/forebay"

bench: ## ratios to the bare file system; prints a table, writes target/bench.json; needs root
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory build
	@$(CARGO) build --release --locked --package forebay-testkit --bin forebay-site
	@$(CARGO) build --release --locked --package forebay-fusedev --example ceiling
	@$(PYTHON) benches/run.py --forebay "$(TARGET)/release/forebay"

install: build ## the programs into PREFIX/bin (default /usr/local)
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/doc/forebay"
	cd "$(TARGET)/release" && install -m 0755 $(PROGRAMS) "$(abspath $(DESTDIR)$(PREFIX))/bin"
	install -m 0644 README.md LICENSE docs/*.md "$(DESTDIR)$(PREFIX)/share/doc/forebay"

uninstall: ## what `make install` put there
	rm -f $(addprefix "$(DESTDIR)$(PREFIX)/bin"/,$(PROGRAMS))
	rm -rf "$(DESTDIR)$(PREFIX)/share/doc/forebay"

deb: build ## Debian packages of the programs, the controller and the agent, in target/deb
	@scripts/deb.sh --programs "$(TARGET)/release" --output "$(TARGET)/deb"

newcomer: deb ## docs/slurm.md typed on bare hosts: needs root, debootstrap and Debian's mirror
	@$(PYTHON) tests/packaging/newcomer.py --debs "$(TARGET)/deb"

clean: ## everything that was built
	$(CARGO) clean
