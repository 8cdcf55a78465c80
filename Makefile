# The front door: `make demo` and `make test` set up everything they need by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

PORT_SHIFT    ?= 0
HEADRACE_HOME ?= .headrace
LOG           ?=
KEEP          ?=
export PORT_SHIFT HEADRACE_HOME KEEP

.PHONY: install demo up down status test lint unit contract fuzz integration crash power e2e test-clients bench
.DEFAULT_GOAL := install

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@echo "setting up $(VENV): pinned, hashed packages (once, one to three minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: install
	@$(BIN)/headrace demo $(if $(LOG),--log "$(LOG)")

up down status: install
	@$(BIN)/headrace $@

test: lint unit contract fuzz integration crash power e2e

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A worker a core, each with its own ZooKeeper and brokers; the end-to-end tests share one platform.
unit contract fuzz integration crash: install
	$(BIN)/pytest tests/$@ -n 2 --dist loadfile

# Power cuts of a real disk: ext4 on a recorded block device. What is mounted goes with the last process of its namespace.
power: install
	@if [ -w /dev/fuse ] && [ -w /dev/loop-control ]; then unshare --mount $(BIN)/pytest tests/power; \
	else echo "power: left out, wants root, /dev/fuse and loop devices: sudo make power"; fi

e2e: install
	$(BIN)/pytest tests/e2e

# Clients of other languages: wants a JDK with Maven, Go, and Node with npm; all bring what they need from their registries.
test-clients: install
	$(BIN)/pytest tests/clients

bench: install
	@$(BIN)/python -m bench
