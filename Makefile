# `make demo` and `make test` need nothing but Python 3.11+ and make: both set up .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_OUT ?= build/demo
# Name of a bundle that comes with the package, or the folder of one.
BUNDLE ?= firearms

CHROMIUM := /usr/bin/chromium

.PHONY: install install-dev browser demo serve docs wheel test test-avx2 lint format bench bench-moderate paper clean

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "poolsieve needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	@touch $@

$(VENV)/.installed-serve: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[serve]'
	@touch $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev,train]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-docs

demo: install
	@echo '1. The bundle, a folder with trained networks, is as it was made:'
	@$(BIN)/poolsieve bundles verify $(BUNDLE)
	@echo
	@echo '2. Images: crops of photographs from Python packages, and eight drawn firearms'
	$(BIN)/python examples/demo.py make $(DEMO_OUT)/images
	@echo
	@echo '3. The default: the cheapest plan that promises to lose at most one point of sensitivity'
	$(BIN)/poolsieve moderate $(DEMO_OUT)/images --bundle $(BUNDLE) --seed 0 --out $(DEMO_OUT)/verdicts.csv \
		--force --contact-sheet $(DEMO_OUT)/flagged.png --report $(DEMO_OUT)/report.html
	@echo
	@echo '4. The same images, judged in four ways:'
	@$(BIN)/python examples/demo.py ways $(DEMO_OUT)/images $(DEMO_OUT)/ways --bundle $(BUNDLE)
	@echo
	@echo '5. A hundred images that do not look alike, by the 50 pools of the paper:'
	$(BIN)/python examples/demo.py pools $(DEMO_OUT)/images $(DEMO_OUT)/pools.html --bundle $(BUNDLE)
	@echo
	@echo 'Where to look:'
	@echo '  $(DEMO_OUT)/report.html     flagged images, their grounds and the cost; open it in a browser'
	@echo '  $(DEMO_OUT)/pools.html      the pools of a hundred images: choose one and see its pools light up'
	@echo '  $(DEMO_OUT)/flagged.png     contact sheet'
	@echo '  $(DEMO_OUT)/verdicts.csv    one row for each image'
	@echo '  $(DEMO_OUT)/images/         crops of photographs from Python packages, and drawn firearms'
	@echo 'To decide on the flagged images in a browser (needs the extra `serve`: $(BIN)/pip install -e ".[serve]"):'
	@echo '  $(BIN)/poolsieve review $(DEMO_OUT)/verdicts.csv $(DEMO_OUT)/images'

# The service with a bundle that comes with the package, at http://127.0.0.1:8000
serve: $(VENV)/.installed-serve
	$(BIN)/poolsieve serve --bundle $(BUNDLE)

# The site, with the API reference, in build/docs; fails if a link leads nowhere.
docs: $(VENV)/.installed-docs
	$(BIN)/python docs/build_site.py
	@echo 'Open build/docs/index.html, or with search: $(BIN)/python -m http.server -b 127.0.0.1 -d build/docs'

# The wheel, in dist. Of a copy: setuptools would put files of an earlier build into it, too.
wheel: $(VENV)/bin/python
	rm -rf build/wheel dist
	mkdir -p build/wheel
	cp -r pyproject.toml README.md LICENSE src build/wheel/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist build/wheel

# A worker that dies ends the run with a failure; after so many seconds the run ends whatever hangs.
TEST_SECONDS ?= 2400
PYTEST = $(BIN)/python tests/time_limit.py $(TEST_SECONDS) \
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --max-worker-restart=0

test: install-dev lint
	$(PYTEST)

# What computes in vectors, once more as on a processor without AVX-512.
test-avx2: TEST_SECONDS = 1200
test-avx2: install-dev
	$(BIN)/python tests/avx2_environment.py $(PYTEST) tests/engines tests/networks/test_pooled_networks.py \
		tests/moderation/test_engines_agree.py

# The review page is tested in Debian's chromium. Where it cannot be installed, those tests are skipped and say so.
browser:
	@test -x $(CHROMIUM) || { command -v apt-get > /dev/null && apt-get install --yes --quiet --no-install-recommends chromium; } || \
		{ apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends chromium; } || \
		echo 'NO BROWSER: install chromium as $(CHROMIUM) (as root: apt-get install chromium) to test the review page in it'

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install-dev
	OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python benchmarks/decoders.py

# Schemes and engines from JPEG files to verdicts; TASK has the columns file, label and split.
bench-moderate: install-dev
	@test -n "$(BUNDLE)" -a -n "$(TASK)" || { echo "make bench-moderate BUNDLE=folder TASK=table.csv"; exit 2; }
	$(BIN)/python benchmarks/moderate.py $(BUNDLE) $(TASK)

# The paper's experiments with the bundles that come with poolsieve, into experiments/paper-experiments.md. TASKS is the
# folder of their tables; a run that was interrupted goes on.
TASKS ?= ../shared/data/tasks
PAPER_IMAGES ?= 20000
paper: install-dev
	$(BIN)/python benchmarks/paper.py firearms=$(TASKS)/firearms.csv cars=$(TASKS)/cars_offtopic.csv \
		--images $(PAPER_IMAGES)

clean:
	rm -rf $(VENV) build dist src/*.egg-info
