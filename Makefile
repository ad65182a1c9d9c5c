# Each command makes .venv once and reuses it while pyproject.toml and constraints.txt are unchanged.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PORT ?= 8090
JOBS ?= 2

.PHONY: demo test fuzz lint bench trace mutate proto docs clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Choroid needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)  ## watch a simulated rig live on a page
	$(BIN)/choroid demo --port $(PORT)

test: $(READY)  ## the whole suite, in as many processes as JOBS says
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=20

fuzz: $(READY)  ## every parser on both sides of the wire, a million inputs each, led by coverage
	$(BIN)/python -m tests.fuzz --jobs $(JOBS)

lint: $(READY)  ## style, types, layers of the packages, banned words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.wording

bench: $(READY)  ## measure the figures of docs/performance.md
	$(BIN)/choroid bench

mutate: $(READY)  ## change what safety rests on in small ways: does a test notice? On demand; an hour or more
	$(BIN)/python -m tests.mutate --jobs $(JOBS)

trace: $(READY)  ## behaviour ids -> tests that prove them; fails when one has none
	$(BIN)/python -m tests.trace

proto: $(READY)  ## regenerate the gRPC code from controller/nerves/nerves.proto
	$(BIN)/python -m tests.proto

docs: $(READY)  ## regenerate docs/devices from the drivers, docs/api.md from docstrings
	$(BIN)/choroid devices --write docs/devices
	$(BIN)/python -m tests.api.make_page

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
