# mtlrun. `make help` lists the targets. They need Python 3.11 or later, git and make; all else goes into ./.venv.

EXPERIMENT ?= dcrmtl/table2
PROFILE ?= demo
OUTPUT ?= results/runs
DATA ?= enron delicious
WORKERS ?= auto
BENCH ?= $(sort $(basename $(notdir $(wildcard benchmarks/*.py))))
ARGS ?=
SECONDS ?= 600
KERNEL_TESTS := tests/utils tests/problem tests/penalties tests/features tests/properties/test_catalogue_penalties.py tests/solvers/test_lasso.py tests/solvers/test_block_dcd.py tests/solvers/test_pairwise.py

VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed
TEST := $(VENV)/.installed-test
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs
COVERAGE := $(VENV)/.installed-coverage

export PYTHON
# Tests start hundreds of processes that import the package. They keep what they compile, as Python does by default.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help reproduce test test-slow test-all coverage mutation lint typecheck format generated pages verify data bench docs clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Variables: EXPERIMENT PROFILE OUTPUT (reproduce), DATA (data), BENCH (bench), WORKERS (test), ARGS (reproduce, test, bench), PYTHON"

# The environment is brought up to date whenever pyproject.toml has changed since it was installed.
$(RUN): pyproject.toml scripts/venv.sh
	@scripts/venv.sh $(VENV)
	@touch $@

# .installed-EXTRA
$(VENV)/.installed-%: pyproject.toml scripts/venv.sh
	@scripts/venv.sh $(VENV) $*
	@touch $@ $(RUN)

# All that .ci/run needs, resolved once.
$(VENV)/.installed-all: pyproject.toml scripts/venv.sh
	@scripts/venv.sh $(VENV) test,dev,docs
	@touch $@ $(RUN) $(TEST) $(DEV) $(DOCS)

reproduce: $(RUN) ## Reproduce a published table: EXPERIMENT=dcrmtl/table2 PROFILE=demo (demo needs no download)
	$(BIN)/mtlrun reproduce $(EXPERIMENT) --profile $(PROFILE) --output $(OUTPUT) $(ARGS)

# Files of tests share fixtures: the workers begin with neighbouring tests, and one that is done takes over the end of another's.
PYTEST = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal

test: $(TEST) ## Run the tests but the slow ones, one process per core; those on real files need MTLRUN_DATA, else they are skipped
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(TEST) ## Run the slow tests: killed runs, budgets, clusters, whole comparisons and tutorials
	$(PYTEST) -m slow $(ARGS)

test-all: $(TEST) ## Run all tests, the fast and the slow ones
	$(PYTEST) $(ARGS)

# Compiled code is not seen by coverage.py: the tests of the kernels run a second time as plain Python.
coverage: $(COVERAGE) ## Run the tests and show which lines and branches they do not reach; fails below 95%
	rm -f .coverage .coverage.*
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/coverage run -m pytest $(ARGS)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -m "not data" $(KERNEL_TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95

mutation: $(TEST) ## Change the code in 60 places of files that differ from main, and print what no test notices (15 minutes): ARGS=mtlrun/engine/fit.py
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/mutation.py $(ARGS)

lint: $(DEV) ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(DEV) ## Check types
	$(BIN)/mypy

format: $(DEV) ## Format the code
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# Pages whose code is run when the site is built, and whose output is compared.
PAGES_WITH_OUTPUT = docs/guide docs/start docs/index.md \
  $(addprefix docs/tutorials/,repeated-measurements.md production.md extend-table.md diagnostics.md life-expectancy.md)

generated: $(RUN) ## Write all generated files anew: registry, schema, output and pictures of the guide, and what `make pages` writes
	$(BIN)/python scripts/registry.py
	$(BIN)/python scripts/marked_pages.py docs
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/docs_output.py --write $(PAGES_WITH_OUTPUT)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/docs_pictures.py docs/pictures
	$(BIN)/mtlrun init --schema -o docs/config.schema.json --force
	$(MAKE) pages

pages: $(RUN) ## Compact new runs of results/, and write anew what quotes them: README, summary, page per paper, reports
	$(BIN)/python scripts/compact_results.py results
	$(BIN)/python scripts/results_pages.py --write

verify: $(RUN) ## Compute stored results of results/ again for ten minutes, and say how well they agree: SECONDS=600
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/mtlrun verify results --seconds $(SECONDS) --quiet $(ARGS)

data: $(RUN) ## Fetch data sets: DATA="enron delicious"
	$(BIN)/mtlrun data fetch $(DATA)

bench: $(RUN) ## Run the benchmarks, all or BENCH="fetr robust_solvers"; some take long, see their --help
	for name in $(BENCH); do OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py $(ARGS) || exit 1; done

docs: $(DOCS) ## Build the documentation, to be read from site/index.html; warnings, broken links, lost searches and changed output are errors
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/docs_output.py $(PAGES_WITH_OUTPUT)
	$(BIN)/python scripts/docs_source.py build/docs
	$(BIN)/python scripts/docs_pictures.py build/docs/pictures
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/sphinx-build -W --keep-going -q -j 2 -c docs -b html -d build/doctrees build/docs site
	$(BIN)/python scripts/docs_check.py site
	$(BIN)/python scripts/docs_search.py site

clean: ## Remove the environment, caches and builds; results stay
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache .mypy_cache .hypothesis .numba_cache .coverage .coverage.*
	find mtlrun tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
