# One command for each task. Each installs what it needs into .venv, and again after pyproject.toml or constraints.txt changed:
# `demo` what a rig needs, `grid` what a grid needs, the others the tools of developers, `fuzz` and `mutate` their own ones beside.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.ready-run
GRID := $(VENV)/.ready-grid
DEV := $(VENV)/.ready-dev
FUZZ := $(VENV)/.ready-fuzz
MUTATION := $(VENV)/.ready-mutation
PAGE_TOOLS := dashboards/node_modules/.package-lock.json
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable
PORT ?= 8090
GRID_PORT ?= 7780
# JOBS: tests wait for real processes more than half of their time, so four keep two cores busy.
JOBS ?= 4
# LIMIT: a command before pytest, such as `timeout --foreground --signal=INT 1h`: it ends with the tracebacks so far.
LIMIT ?=
# SEED: which unsafe rigs `make test-long` simulates, each day others.
SEED ?= $(shell date -u +%Y%m%d)
PYTEST = $(LIMIT) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=20

.PHONY: demo grid test test-long fuzz fuzzer lint lint-page types bench trace mutate proto docs clean
.DEFAULT_GOAL := test

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Choroid needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) .
	@touch $@

$(GRID): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) . --editable ./grid
	@touch $@ $(RUN)

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[dev]'
	@touch $@ $(RUN) $(GRID)

$(FUZZ): $(DEV)
	$(INSTALL) '.[fuzz]'
	@touch $@

$(MUTATION): $(DEV)
	$(INSTALL) '.[mutation]'
	@touch $@

demo: $(RUN)  ## watch a simulated rig live on a page
	$(BIN)/choroid demo --port $(PORT)

grid: $(GRID)  ## watch a whole grid on this computer: hub, members, laboratory, agent; with TRAIN=1 members train one model
	$(BIN)/choroid grid demo --port $(GRID_PORT) $(if $(TRAIN),--train)

test: $(DEV)  ## the suite without its longest tests, in as many processes as JOBS says
	$(PYTEST) -m 'not long'

test-long: $(DEV)  ## the longest tests; unsafe mutants of all shipped rigs are checked, and eight of the sound ones simulated
	$(PYTEST) -m long
	$(BIN)/python -m tests.rigs.unsafe --jobs $(JOBS) --sample 8 --seed $(SEED)

fuzz: $(FUZZ)  ## every parser on both sides of the wire, a million inputs each, led by coverage
	$(BIN)/python -m tests.fuzz --jobs $(JOBS)

fuzzer: $(FUZZ)  ## install the fuzzer, with which the suite tests the command of `make fuzz`

lint: $(DEV) lint-page  ## style, types, layers of the packages, banned words; the page
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.wording
	$(BIN)/python -m tests.unused

lint-page:  ## style and types of the page's scripts, style sheets and HTML
	@if command -v npm >/dev/null; then \
	  $(MAKE) --no-print-directory $(PAGE_TOOLS) && cd dashboards && npm run --silent lint; \
	elif [ "$(CI)" = true ]; then \
	  echo "make lint: npm is missing, so the page cannot be checked. Install nodejs and npm." >&2; exit 1; \
	else \
	  echo "make lint: the page is NOT checked, because npm is missing. Install nodejs and npm to check it." >&2; \
	fi

$(PAGE_TOOLS): dashboards/package.json dashboards/package-lock.json
	cd dashboards && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

types: $(DEV)  ## regenerate the pages' types and the client's answers from the models
	$(BIN)/python -m tests.page_types
	$(BIN)/python -m tests.page_cards
	$(BIN)/python -m tests.api.make_answers

bench: $(DEV)  ## measure the figures of docs/performance.md
	$(BIN)/choroid verify bench

mutate: $(MUTATION)  ## change what safety rests on in small ways: does a test notice? On demand; an hour or more
	$(BIN)/python -m tests.mutate --jobs $(JOBS)

trace: $(DEV)  ## behaviour ids -> tests that prove them; fails when one has none
	$(BIN)/python -m tests.trace

proto: $(DEV)  ## regenerate the gRPC code from nerves.proto and grid.proto
	$(BIN)/python -m tests.proto

docs: $(DEV)  ## regenerate the pages of docs that follow from declarations
	$(BIN)/choroid device list --write docs/devices
	$(BIN)/python -m tests.api.make_page
	$(BIN)/python -m tests.controller.make_alarm_page
	$(BIN)/python -m tests.grid.make_boards_page
	$(BIN)/python -m tests.nerves.make_metrics_page
	$(BIN)/python -m tests.protocols.make_verbs
	$(BIN)/python -m tests.rigs.make_pages

clean:
	rm -rf $(VENV) dashboards/node_modules build dist .mypy_cache .ruff_cache .pytest_cache
