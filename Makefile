# Every target makes its own virtual environment in $(VENV), from the extras in pyproject.toml, and needs nothing but
# Python 3.10 or later and make.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
ROWS ?= 200000
KERNELS = $(shell find src benchmarks tests \( -name '*.c' -o -name '*.cl' -o -name '*.cu' -o -name '*.h' \) 2>/dev/null)

BIN = $(VENV)/bin

# Modules are compiled to bytecode once, whatever the shell says: else every process that a test starts compiles all that
# it imports.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help setup demo test test-large test-companions lint format bench paper docs site kernels signatures wheel clean
.NOTPARALLEL:

help:
	@echo "make demo    train, evaluate, save and load a model ($(ROWS) rows)"
	@echo "make test    run the tests, but not the large ones (make test-large)"
	@echo "make test-companions  the tests that need MLflow, MkDocs or a browser (Chromium)"
	@echo "make lint    ruff, mypy, import-linter, codespell, clang-format (make format mends what it can)"
	@echo "make bench   time a training beside LightGBM, XGBoost and scikit-learn"
	@echo "make paper   the paper's tables and figures on this machine, beside its numbers (ARGS='--rows full')"
	@echo "make docs    write docs/parameters.md and docs/capabilities.md anew"
	@echo "make site    build the documentation site in site/"
	@echo "make kernels compile the CPU kernels ahead, for this checkout (docs/dev/kernels.md)"
	@echo "make wheel   build the wheel for this platform, with compiled kernels, and the one for any, in dist/"
	@echo "make clean   remove what the other targets made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Hornbeam needs Python 3.10 or later; $(PYTHON) is `$(PYTHON) -V 2>&1`. Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@$(PIP) uv >/dev/null 2>&1 || echo "no uv: pip installs, which takes longer"

# uv installs in a tenth of pip's time; pip where there is none, or where pip alone is told where packages are. Modules
# are compiled when they are imported: most never are.
PIP = $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check
comma := ,
install = $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) 2>/dev/null || $(PIP) $(1)

# one stamp for each extra; `core` is the package alone
$(VENV)/.installed-%: pyproject.toml $(BIN)/python
	$(call install,-e '$(if $(filter core,$*),.,.[$*])')
	@touch $@

# what CI needs, at once
setup: pyproject.toml $(BIN)/python
	$(call install,-e '.[dev$(comma)test]')
	@touch $(VENV)/.installed-core $(VENV)/.installed-dev $(VENV)/.installed-test

demo: $(VENV)/.installed-core
	$(BIN)/python examples/demo.py --rows $(ROWS)

# with the kernels compiled once, ahead: tests start processes, and a kernel that the list lacks is an error; the tests of a
# file go to one process: what they share, models and kernels of OpenCL, is made once
test: $(VENV)/.installed-test
	$(BIN)/python kernels/build.py --lowest-level --if-possible
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

test-large: $(VENV)/.installed-test
	PYOPENCL_BUILD_OPTIONS= $(BIN)/python -m pytest -n $(WORKERS) -m large --every-device $(ARGS)
	PYOPENCL_BUILD_OPTIONS= $(BIN)/python -m pytest -n $(WORKERS) -k opencl --every-device $(ARGS)

test-companions: $(VENV)/.installed-test-companions
	$(BIN)/python -m pytest -n $(WORKERS) tests/companions tests/project tests/views/report tests/data/sources $(ARGS)

# mypy takes as long as all the others together, and runs beside them
lint: $(VENV)/.installed-dev
	$(BIN)/mypy & mypy=$$!; \
	$(BIN)/ruff check . && \
	$(BIN)/ruff format --check . && \
	$(BIN)/lint-imports --no-cache && \
	$(BIN)/codespell && \
	$(if $(KERNELS),$(BIN)/clang-format --dry-run --Werror $(KERNELS),echo "no kernel files"); others=$$?; \
	wait $$mypy && exit $$others

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(if $(KERNELS),$(BIN)/clang-format -i $(KERNELS))

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/train.py $(ARGS)

paper: $(VENV)/.installed-paper
	$(BIN)/python benchmarks/paper.py $(ARGS)

docs: $(VENV)/.installed-core
	$(BIN)/python -W ignore -m hornbeam.params > docs/parameters.md.new
	mv docs/parameters.md.new docs/parameters.md
	$(BIN)/python -W ignore -m hornbeam.testing.capabilities > docs/capabilities.md.new
	mv docs/capabilities.md.new docs/capabilities.md

site: $(VENV)/.installed-site
	$(BIN)/python docs/figures/draw.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

kernels: $(VENV)/.installed-core
	$(BIN)/python kernels/build.py $(ARGS)

# the list of what is compiled ahead, completed by what the tests call: `make kernels`, and again after it
signatures: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --add-signatures $(ARGS)

wheel: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --wheel
	HORNBEAM_WHEEL=platform $(BIN)/python -m build --wheel
	@ls -l dist

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis src/hornbeam/backends/cpu/library
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
