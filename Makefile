# Everything a developer or a build server does with this tree. `make` alone lists it.

CARGO ?= cargo
# Seconds per fuzz target.
FUZZ_SECONDS ?= 60
# Where cargo puts what it builds.
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))
# Steps of the strangers, and what chance begins with; the twins begin with each number up to SEEDS.
STEPS ?= 1000000
SEED ?= 1
SEEDS ?= 10
# How long a soak runs each test of chance, behind those that try every order.
MINUTES ?= 10
# Answers that clients beside those that copy are to have.
COPY_ANSWERS ?= 1000000
# Arguments for the benchmark, as ARGS="--only lines --quick".
ARGS ?=

.PHONY: help run run-influxdb test strangers copies twins soak check fmt bench fuzz docs ship deb image clean

help:
	@echo "make run      Weir with its own store on this machine; Ctrl-C stops it"
	@echo "make run-influxdb  Weir in front of two InfluxDB servers; Ctrl-C stops all three"
	@echo "make test     every test: unit, property, integration with real servers, real clients"
	@echo "make strangers  STEPS ($(STEPS)) steps of clients, each beside one without Weir; SEED=2 for others"
	@echo "make copies   COPY_ANSWERS ($(COPY_ANSWERS)) answers beside clients that say anything amid a COPY; SEED=2 for others"
	@echo "make twins    clients of Redis, each beside its twin without Weir: for each of SEEDS ($(SEEDS)) 100000 STEPS"
	@echo "make soak     each test of chance for MINUTES ($(MINUTES)), one after the other; SEED=2 for others"
	@echo "make check    format, clippy with warnings denied, tidy, licences and advisories"
	@echo "make bench    side by side with peers, in one run; ARGS=--help lists the rows"
	@echo "make fuzz     each fuzz target for FUZZ_SECONDS ($(FUZZ_SECONDS)) seconds"
	@echo "make docs     write the generated parts of docs/ anew"
	@echo "make fmt      format the code"
	@echo "make ship     the program that packages install, in target/ship: at most 45 MB"
	@echo "make deb      a Debian package (needs cargo-deb)"
	@echo "make image    a container image (needs docker or podman)"

run:
	@$(CARGO) build --release --package weir
	@scripts/run

run-influxdb:
	@$(CARGO) build --release --package weir
	@scripts/run-influxdb

test:
	@scripts/setup
	$(CARGO) test --workspace --no-fail-fast

strangers:
	@scripts/setup
	$(CARGO) build --release --package weir
	WEIR_BIN=$(TARGET)/release/weir WEIR_TEST_STEPS=$(STEPS) WEIR_TEST_SEED=$(SEED) \
	$(CARGO) test --release --package weir-tests --test integration strangers -- \
	--nocapture --test-threads=1

copies:
	@scripts/setup
	$(CARGO) build --release --package weir
	WEIR_BIN=$(TARGET)/release/weir WEIR_TEST_ANSWERS=$(COPY_ANSWERS) WEIR_TEST_SEED=$(SEED) \
	$(CARGO) test --release --package weir-tests --test integration copy_syncs -- \
	--nocapture --test-threads=1

twins: STEPS = 100000
twins:
	@scripts/setup
	$(CARGO) build --release --package weir
	for seed in $$(seq $(SEEDS)); do \
	WEIR_BIN=$(TARGET)/release/weir WEIR_TEST_STEPS=$(STEPS) WEIR_TEST_SEED=$$seed \
	$(CARGO) test --release --package weir-tests --test integration redis::twins -- \
	--nocapture || exit 1; done

soak:
	@scripts/setup
	WEIR_TEST_ROUNDS=4 $(CARGO) test --release --package weir-postgres --lib lease::tests::orders
	$(CARGO) build --release --package weir
	WEIR_BIN=$(TARGET)/release/weir WEIR_TEST_SECONDS=$$(($(MINUTES) * 60)) WEIR_TEST_SEED=$(SEED) \
	$(CARGO) test --release --package weir-tests --test integration -- --nocapture --test-threads=1 \
	strangers:: isolation::every_client redis::isolation redis::twins aof::chaos what_chance \
	answer_as_one_server \
	failover::a_server_is_killed

check:
	@CARGO=$(CARGO) scripts/check

fmt:
	$(CARGO) fmt --all

bench:
	@scripts/setup
	$(CARGO) build --release --package weir
	WEIR_BIN=$(TARGET)/release/weir $(CARGO) run --release --package weir-bench -- $(ARGS)

fuzz:
	@scripts/fuzz $(FUZZ_SECONDS)

docs:
	UPDATE=1 $(CARGO) test --workspace --bin weir --test suite reference
	$(CARGO) run --package weir-bench -- --figures

# What packages install: the release build without its debug sections, which lie beside it.
ship:
	$(CARGO) build --release --locked --package weir
	packaging/ship $(TARGET)/release/weir target/ship/weir

# cargo-deb would strip the names of functions, too.
deb: ship
	$(CARGO) deb --no-build --no-strip --package weir

image:
	@if command -v docker >/dev/null; then docker build -f packaging/Dockerfile -t weir .; \
	else podman build -f packaging/Dockerfile -t weir .; fi

clean:
	$(CARGO) clean
	rm -rf weir-data
