# Every target sets up what it needs: a machine with Python and make is enough.
PYTHON ?= python3
VENV   ?= .venv
EXTRAS ?= plot,data,stats,reproduce,distributed,federated,privacy,test
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PEERS  := $(VENV)/.peers
SPHINX := $(VENV)/.sphinx
FLOWER := $(VENV)/.flower
# Restricts `make claims` to the claims named here, e.g. `make claims ONLY=gait`.
ONLY   ?=
# More options of Sphinx, e.g. `-D plot_gallery=0` to leave the examples out.
SPHINXOPTS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test federation kills corpus fuzz torture determinism soak mutants coverage \
  audit lock oldest newest lint format docs linkcheck bench claims results clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The stamp comes last, so that an interrupted install starts again from scratch.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "percdl needs Python 3.11 or newer, but '$(PYTHON)' is" \
	       "$$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]' --group dev
	touch $@

# The packages of the extra `bench` one by one: one that cannot be built here (fdasrsf without
# wheel needs a C++ compiler and BLAS, e.g. libblas-dev) leaves its claims skipped.
$(PEERS): $(STAMP)
	@$(BIN)/python -c 'import tomllib; \
	  project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*project["optional-dependencies"]["bench"], sep="\n")' \
	| while read -r peer; do \
	  $(BIN)/python -m pip install --quiet "$$peer" </dev/null \
	  || echo "$$peer could not be installed; its claims are skipped." >&2; \
	done
	touch $@

$(SPHINX): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

$(FLOWER): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[federated]'
	touch $@

demo: $(STAMP)  ## learn a small cohort and write percdl-demo/
	$(BIN)/percdl demo

test: $(STAMP)  ## run the tests and the doctests, slow ones left out
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow"

federation: $(FLOWER)  ## run federations of real processes: superlink, sites, proxy, over TLS
	$(BIN)/python -m pytest -m slow tests/test_deployment.py tests/test_proxy.py

lint: $(STAMP)  ## check format, lint rules, types and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/codespell

format: $(STAMP)  ## rewrite the sources in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# A warning fails the build: a link that leads nowhere, a docstring that cannot be read.
docs: $(SPHINX)  ## build the documentation and run the examples, into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html $(SPHINXOPTS) docs docs/_build/html

linkcheck: $(SPHINX)  ## ask for every address in the documentation (needs the network)
	$(BIN)/python -m sphinx -q -b linkcheck -D plot_gallery=0 docs docs/_build/linkcheck

bench: $(STAMP)  ## time the library
	$(BIN)/python benchmarks/bench.py

# The long suites. Each is a claim too, and each has a short version among the tests.
kills: $(STAMP)  ## kill fits at random moments, and resume them
	$(BIN)/python -m benchmarks.claims kills

corpus: $(STAMP)  ## load thousands of damaged and forged model files and checkpoints
	$(BIN)/python -m benchmarks.claims corpus

fuzz: $(STAMP)  ## a million cases of bad input to readers, settings and federated messages
	$(BIN)/python -m benchmarks.claims fuzz

torture: $(STAMP)  ## extreme amplitudes, lengths, numbers of subjects and penalties
	$(BIN)/python -m benchmarks.claims torture

determinism: $(STAMP)  ## the same result whatever the order, chunks, workers and hash seeds
	$(BIN)/python -m benchmarks.claims determinism

soak: $(STAMP)  ## fit and personalize for hours' worth in one process, and watch what grows
	$(BIN)/python -m benchmarks.claims soak

mutants: $(STAMP)  ## change the mathematics at random; the fast tests must notice
	$(BIN)/python -m benchmarks.claims mutants

coverage: $(STAMP)  ## count the lines that the tests run: at least 95 of 100, and the worst files
	$(BIN)/python -m benchmarks.claims coverage

claims: $(PEERS)  ## check the claims of the documentation (ONLY=... for some of them)
	$(BIN)/python -m benchmarks.claims $(ONLY)

results: $(STAMP)  ## reproduce every figure and table of the paper at its own size (hours)
	$(BIN)/percdl reproduce all --scale paper --out docs/results --fresh

clean:  ## remove the environment, the caches and the build outputs
	rm -rf $(VENV) build dist percdl-demo percdl-results .pytest_cache .ruff_cache .hypothesis \
	  docs/_build docs/auto_examples docs/api/generated docs/sg_execution_times.rst
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
