# `make demo` and `make test` need nothing but Python 3.11+ and make: both set up .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_OUT ?= demo-output

.PHONY: install install-dev demo test lint format bench clean

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "poolsieve needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[plot,parquet]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev,train]'
	@touch $@ $(VENV)/.installed

demo: install
	$(BIN)/poolsieve simulate --chunks 400 --figure $(DEMO_OUT)/simulation.png --out $(DEMO_OUT)/simulation.csv
	$(BIN)/poolsieve design --images 100 --pool-size 8 --pools-per-image 4 --figure $(DEMO_OUT)/design.png

test: install-dev lint
	$(BIN)/python -m pytest

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install-dev
	OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python benchmarks/decoders.py

clean:
	rm -rf $(VENV) $(DEMO_OUT) build dist src/*.egg-info
