# Every target sets up what it needs: a machine with Python and make is enough.
PYTHON ?= python3
VENV   ?= .venv
EXTRAS ?= plot,data,stats,reproduce,distributed,federated,test
# What is installed, file by file, with its hash; `make LOCK=` takes what pip resolves today. So
# does a machine for which the lock has no files; a file that is not the locked one is an error.
LOCK   ?= requirements/dev.lock
BENCHLOCK := $(LOCK:dev.lock=bench.lock)
DEMOLOCK := $(LOCK:dev.lock=demo.lock)
comma  := ,
BIN    := $(VENV)/bin
DEMO   := $(VENV)/.demo
STAMP  := $(VENV)/.installed
PEERS  := $(VENV)/.peers
SPHINX := $(VENV)/.sphinx
SUPPLY_VENV := $(VENV)-supply
SUPPLY := $(SUPPLY_VENV)/.installed
UV     := $(SUPPLY_VENV)/bin/uv
# For every Python and platform at once; no word of where the files came from.
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
  --no-emit-index-url --no-emit-find-links --no-annotate --no-header
# An old release beside newer ones of what it needs is told so; that is not ours to mend.
QUIET  := -W ignore::DeprecationWarning -W ignore::FutureWarning
TESTED := $(patsubst %,--extra %,$(subst $(comma), ,$(EXTRAS)))
# Restricts `make claims` and `make bench`, e.g. `make claims ONLY=recovery`, `make bench ONLY=gait`.
ONLY   ?=
# `make bench ACCEPT=1` records figures that are worse than before.
ACCEPT ?=
# Restricts `make test`, `make oldest` and `make newest`, e.g. `make oldest TESTS=tests/steps`.
TESTS  ?=
# More options of Sphinx, e.g. `-D plot_gallery=0` to leave the examples out.
SPHINXOPTS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test pages federation kills corpus fuzz torture determinism soak mutants coverage \
  audit lock oldest newest dist lint format docs linkcheck bench claims results clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# $(call install,LOCK,REQUIREMENTS): install a lock and percdl; without a lock, the requirements.
# Compiling all modules takes as long as the rest: the demo compiles those that it imports.
ifeq ($(LOCK),)
define install
$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
$(BIN)/python -m pip install --quiet --no-compile --editable $(2) --group build
endef
else
define install
@$(BIN)/python -m pip install --quiet --no-compile --require-hashes --requirement $(1) \
  2>$(VENV)/.log \
  && $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . \
|| { cat $(VENV)/.log >&2; \
  if grep -q 'DO NOT MATCH THE HASHES' $(VENV)/.log; then exit 1; fi; \
  echo "$(1) cannot be installed here: taking what pip resolves today, unlocked." >&2; \
  $(MAKE) --no-print-directory LOCK= $@; }
endef
endif

# The stamps come last, so that an interrupted install starts again from scratch.
$(DEMO): pyproject.toml $(LOCK) $(DEMOLOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "percdl needs Python 3.11 or newer, but '$(PYTHON)' is" \
	       "$$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV) with the packages of the demo: about a minute, 700 MB."
	$(PYTHON) -m venv --clear $(VENV)
	$(call install,$(DEMOLOCK),'.[plot]')
# Symbols that only a debugger reads are 136 MB of jaxlib. Without strip they stay.
	@strip --strip-unneeded $(VENV)/lib/python*/site-packages/jaxlib/libjax_common.so \
	  2>$(VENV)/.log || true
	touch $@

$(STAMP): $(DEMO)
	@echo "Adding every extra and the developer tools to $(VENV): some minutes, about 2 GB."
	@rm $(DEMO)
	$(call install,$(LOCK),'.[$(EXTRAS)]' --group dev)
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib/python*/site-packages || true
	touch $(DEMO) $@

# The packages of the extra `bench` one by one: one that cannot be built here (fdasrsf without
# wheel needs a C++ compiler and BLAS, e.g. libblas-dev) leaves its claims skipped. pip refuses
# constraints with hashes for what a peer needs, so the versions are locked here, not the files.
$(PEERS): $(STAMP)
	@sed -n 's/ *\\$$//; /==/p' $(or $(BENCHLOCK),/dev/null) > $(VENV)/.peer-versions
	@$(BIN)/python -c 'import tomllib; \
	  project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*project["optional-dependencies"]["bench"], sep="\n")' \
	| while read -r peer; do \
	  $(BIN)/python -m pip install --quiet --constraint $(VENV)/.peer-versions "$$peer" </dev/null \
	  || echo "$$peer could not be installed; its claims are skipped." >&2; \
	done
	touch $@

# Nothing to do in a locked environment, which has them.
$(SPHINX): $(STAMP)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[docs]'
	touch $@

# Tools of the supply chain, apart from what is developed with.
$(SUPPLY): pyproject.toml
	$(PYTHON) -m venv --clear $(SUPPLY_VENV)
	$(SUPPLY_VENV)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(SUPPLY_VENV)/bin/python -m pip install --quiet --group supply
	touch $@

# $(call test_with,RESOLUTION,NAME,OPTIONS): the fast tests in an environment of its own.
define test_with
$(UV) venv --quiet --clear --python $(PYTHON) $(VENV)-$(2)
$(UV) pip install --quiet --python $(VENV)-$(2)/bin/python --resolution $(1) \
  --editable '.[$(EXTRAS)]'
$(UV) pip list --quiet --python $(VENV)-$(2)/bin/python
$(VENV)-$(2)/bin/python -m pytest -n auto --dist loadfile -m "not slow" $(3) $(TESTS)
endef

demo: $(DEMO)  ## learn a small cohort and write percdl-demo/
	$(BIN)/percdl demo

test: $(STAMP)  ## run the tests and the doctests, those of `pages` and slow ones left out
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow and not pages" $(TESTS)

pages: $(STAMP)  ## run the code of the documentation and the scripts of the gallery
	$(BIN)/python -m pytest -n auto --dist loadfile -m "pages and not slow" tests/test_docs.py \
	  tests/test_examples.py

federation: $(STAMP)  ## run federations of real processes: relay and sites, over TLS
	$(BIN)/python -m pytest -m slow tests/test_deployment.py

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

bench: $(STAMP)  ## time the library, and compare with earlier runs (ONLY=... for some figures)
	$(BIN)/python benchmarks/bench.py $(if $(ACCEPT),--accept) $(ONLY)

# The long suites. Each is a claim too, and each but `coverage` has a short version among the tests.
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

lock: $(SUPPLY)  ## resolve afresh what is developed with, into requirements/
	$(COMPILE) $(TESTED) --extra docs --group dev --group build pyproject.toml \
	  --output-file requirements/dev.lock >/dev/null
	$(COMPILE) --group demo --group build --constraint requirements/dev.lock pyproject.toml \
	  --output-file requirements/demo.lock >/dev/null
	$(COMPILE) --extra bench --constraint requirements/dev.lock pyproject.toml \
	  --output-file requirements/bench.lock >/dev/null

oldest: $(SUPPLY)  ## run the tests with the oldest versions that pyproject.toml allows
	$(call test_with,lowest-direct,$@,$(QUIET))

newest: $(SUPPLY)  ## run the tests with the newest versions there are today
	$(call test_with,highest,$@)

audit: $(SUPPLY)  ## look every locked version up among the known vulnerabilities
	$(SUPPLY_VENV)/bin/python -m benchmarks.audit $(SUPPLY_VENV)/bin/pip-audit requirements/dev.lock

# The wheel is installed where there is no clone, and the README's five minutes are run with it.
dist: $(SUPPLY)  ## build and check sdist and wheel, try the wheel, write its bill of materials
	rm -rf dist
	$(UV) build --quiet --out-dir dist
	$(SUPPLY_VENV)/bin/twine check --strict dist/*.whl dist/*.tar.gz
	$(SUPPLY_VENV)/bin/check-wheel-contents dist/*.whl
	$(SUPPLY_VENV)/bin/python -m benchmarks.release dist/*.whl $(SUPPLY_VENV)/bin/cyclonedx-py

claims: $(PEERS)  ## check the claims of the documentation (ONLY=... for some of them)
	$(BIN)/python -m benchmarks.claims $(ONLY); status=$$?; \
	$(BIN)/python docs/make_claims.py; exit $$status

results: $(STAMP)  ## reproduce every figure and table of the paper at its own size (hours)
	$(BIN)/percdl reproduce all --scale paper --out docs/results --fresh

clean:  ## remove the environment, the caches and the build outputs
	rm -rf $(VENV) $(VENV)-* build dist percdl-demo percdl-results .pytest_cache .ruff_cache .hypothesis \
	  docs/_build docs/auto_examples docs/api/generated docs/sg_execution_times.rst
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
