# Each target sets up .venv by itself. Nothing here needs root.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.set-up
UP ?=
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$(( n > 4 ? 4 : n )))
PYTEST := $(BIN)/python -m tests.support.run
# Lint and type checks read the settings and need neither a database nor a data folder.
STILL := SECRET_KEY=lint DATABASE_URL=postgresql:///lint

.PHONY: up test proof chaos bench lint clean

up: $(STAMP)
	@exec $(BIN)/python manage.py up $(UP)

test: $(STAMP)
	$(PYTEST) -n $(JOBS) --dist loadgroup

# Long races, chaos and all real inputs; then store, races and faults once more on the machine's own PostgreSQL.
proof: $(STAMP)
	$(PYTEST) -m "proof or slow" -n $(JOBS) --dist loadgroup
	QUARTERDECK_TEST_PG=system $(PYTEST) tests/store tests/races tests/faults -m "not proof and not bench" -n $(JOBS) --dist loadgroup
	@$(BIN)/python -m tests.chaos

# Kills everything at random under load and counts what is left; CHAOS_SECONDS and CHAOS_SEED steer it.
chaos: $(STAMP)
	@$(BIN)/python -m tests.chaos

# Interleaved rounds against the peers of ../shared/bench_peers, then our own figures; tests/bench/__main__.py lists what steers it.
bench: $(STAMP)
	@$(BIN)/python -m tests.bench

lint: $(STAMP)
	$(BIN)/ruff check .
	$(STILL) $(BIN)/mypy
	$(BIN)/lint-imports
	$(STILL) $(BIN)/python manage.py check
	$(STILL) $(BIN)/python -W ignore manage.py makemigrations --check --dry-run
	$(STILL) $(BIN)/python manage.py lintmigrations
	@if [ -d templates ]; then $(BIN)/djlint templates --lint --quiet; fi

# A changed pyproject.toml sets up anew. pip fetches uv, uv fetches the rest.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Quarterdeck needs Python 3.11 or newer; name one with PYTHON=…" >&2; exit 1; }
	@[ -x $(BIN)/python ] || echo "making .venv with $$($(PYTHON) --version) …" >&2
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv || \
	  { echo "python3 -m venv failed: on Debian install python3-venv." >&2; rm -rf .venv; exit 1; }
	@echo "fetching the Python packages into .venv; the first time takes a minute or more …" >&2
	@[ -x $(BIN)/uv ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@UV_SYSTEM_CERTS=true VIRTUAL_ENV="$$PWD/.venv" $(BIN)/uv pip install --quiet --group dev -r pyproject.toml
	@touch $(STAMP)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
