# The front door: `make demo` and `make test` set up everything they need by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
export PORT_SHIFT ?= 0

.PHONY: install demo up down status test lint unit e2e bench clean
.DEFAULT_GOAL := install

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@echo "setting up $(VENV) (once, about two minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
