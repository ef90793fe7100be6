# Everything sets itself up in .venv, from constraints.txt, with nothing but Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
export DAGSTER_HOME := $(CURDIR)/.dagster
export DAGSTER_DISABLE_TELEMETRY := yes

.PHONY: setup demo ui test lint types check bench clean

setup: .venv/ready .dagster/dagster.yaml

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Gavel needs Python 3.11 or later; found $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 1; }
	@echo "setting up .venv (once, about a minute)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

.dagster/dagster.yaml: dagster.yaml
	@mkdir -p .dagster && cp dagster.yaml $@

demo: setup  ## evaluate the bundled sample
	@$(BIN)/gavel-evaluate

ui: setup  ## the Dagster UI over the same instance
	$(BIN)/dagster dev -w workspace.yaml

test: setup  ## the whole suite that needs no GPU and no account
	$(BIN)/pytest -n auto --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

bench: setup  ## every benchmark; results in benchmarks/results/
	@for name in ingest judging memory rerun faults ticks dialogue agreement bertscore fashion; do \
		echo; echo "== $$name"; $(BIN)/python benchmarks/$$name.py || failed=1; done; exit $${failed:-0}

clean:  ## forget every result of the demo and every run
	rm -rf data .dagster
