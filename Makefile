# Makes .venv from requirements.lock and calls Snakemake or pytest in it; what has to run is the Snakefile's business.
.DEFAULT_GOAL := help
SHELL := /bin/sh

PYTHON ?= python3
MODEL ?= auto
TEXT ?= auto
DEVICE ?= auto
CORES ?= all
OUT ?= _build
TABLE ?=
PROFILE ?=
ARGS ?=
# A label is given on the command line: some systems set NAME to the name of the machine.
ifneq ($(origin NAME),command line)
NAME :=
endif

# A misspelt one would change nothing, and tell so only by what the run then shows.
KNOWN := MODEL TEXT DEVICE CORES OUT NAME TABLE PROFILE ARGS PYTHON INSTALLING PY STAMP SHELL
UNKNOWN := $(filter-out $(KNOWN),$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name))))
ifneq ($(UNKNOWN),)
$(error $(UNKNOWN): no variable of this Makefile; `make` lists them. One for the environment stands before the command: $(firstword $(UNKNOWN))=... make)
endif

PY := .venv/bin/python
STAMP := .venv/.installed

# Handed over in the environment and as they are (`value`: make expands no $ in them): a path may hold any character.
export ATTENTION_LIMITS_MODEL := $(value MODEL)
export ATTENTION_LIMITS_TEXT := $(value TEXT)
export ATTENTION_LIMITS_SWEEP := $(value TABLE)
unexport MODEL TEXT OUT NAME TABLE
export ATTENTION_LIMITS_DEVICE := $(DEVICE)
export ATTENTION_LIMITS_OUT := $(value OUT)
# Threads that wait sleep instead of spinning, which holds up whatever else the machine does, other jobs of a book above all.
export OMP_WAIT_POLICY := passive
# Settings of Jupyter and IPython stay in the build folder instead of the home folder.
export JUPYTER_CONFIG_DIR := $(CURDIR)/_build/home/config
export JUPYTER_DATA_DIR := $(CURDIR)/_build/home/data
export JUPYTER_RUNTIME_DIR := $(CURDIR)/_build/home/runtime
export IPYTHONDIR := $(CURDIR)/_build/home/ipython

# A cluster's profile says how many jobs run at once, this machine's cores otherwise.
WHERE = $(if $(PROFILE),--profile profiles/$(PROFILE),--cores $(CORES))

.PHONY: help book rerun sweep test check coverage mutate audit bench lock clean moved

help: ## say what there is
	@echo "make book    execute the notebooks and build the book"
	@echo "             MODEL=name TEXT=name-or-path DEVICE=cpu|cuda|mps CORES=n OUT=folder ARGS=for-snakemake"
	@echo "make rerun   the same on your own text, under a label, with a page that compares it with the book of \`make book\`"
	@echo "             NAME=label TEXT=path (a file, files with : between them, a folder, or - for standard input)"
	@echo "make sweep   run chapters for each row of a table, with all results in one table: TABLE=table.csv"
	@echo "             PROFILE=slurm|kubernetes runs the jobs of a sweep on a cluster; slurm those of a book too"
	@echo "make test    run the tests (ARGS=for-pytest)"
	@echo "make check   lint, format and type checks alone, of the notebooks' cells too"
	@echo "make coverage  the tests with branch coverage of the library; fails below 95 %"
	@echo "make mutate  small faults put into bounds and kernels, one at a time: which do the tests miss? (hours)"
	@echo "make audit   known faults of the locked packages (asks the package index)"
	@echo "make bench   time the paper's algorithms here (ARGS='--long 8192': memory at a long context too)"
	@echo "make lock    bring requirements.lock up to date with pyproject.toml"
	@echo "make clean   remove all that was made, but keep .venv"
	@echo "PYTHON=python3.12 chooses the Python that .venv is made with (3.11 or newer)"

book: $(STAMP)
	@$(PY) -m snakemake $(WHERE) $(ARGS)
	@page="$$(cd "$$ATTENTION_LIMITS_OUT" && pwd)/html/index.html"; [ ! -e "$$page" ] || echo "The book's first page: $$page"

rerun: export ATTENTION_LIMITS_NAME := $(value NAME)
rerun: $(STAMP)
	@[ -n "$$ATTENTION_LIMITS_NAME" ] || { \
	  echo "Give the run a label of its own: make rerun TEXT=my-text.txt NAME=mine" >&2; exit 1; }
	@[ "$$ATTENTION_LIMITS_TEXT$$ATTENTION_LIMITS_MODEL$(if $(ARGS),given)" != autoauto ] || { \
	  echo "Nothing is other than in \`make book\`. Name a text or a model: make rerun TEXT=my-text.txt NAME=mine" >&2; exit 1; }
	@$(PY) -m snakemake $(WHERE) $(ARGS)
	@html="$$(cd "$$ATTENTION_LIMITS_OUT/$$ATTENTION_LIMITS_NAME" && pwd)/html"; \
	[ ! -e "$$html/index.html" ] || { \
	  echo "The book's first page: $$html/index.html"; echo "The comparison:        $$html/notebooks/comparison.html"; }

sweep: $(STAMP)
	@$(PY) -m snakemake sweep $(WHERE) --keep-going $(ARGS)

test: $(STAMP)
	@$(PY) -m pytest $(ARGS)

check: $(STAMP)
	@$(PY) -m pytest -n 0 --quiet tests/test_quality.py $(ARGS)

coverage: $(STAMP)
	@$(PY) -m pytest --cov --cov-report=term-missing $(ARGS)

# In folders and an environment of their own, so that neither the faults nor the tool come near the project's.
MUTANTS := _build/mutants
mutate: $(STAMP)
	@rm -rf $(MUTANTS) && mkdir -p $(MUTANTS)/project/src && $(PY) -m venv $(MUTANTS)/venv
	@$(MUTANTS)/venv/bin/python -m pip install --disable-pip-version-check --quiet mutmut==3.8.1
	@$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$(echo $(MUTANTS)/venv/lib/python*/site-packages)/own.pth
	@cp -R lib/attention_limits $(MUTANTS)/project/src && cp -R tests pyproject.toml $(MUTANTS)/project
	@sed -i.bak '/^@compiled$$/d' $(MUTANTS)/project/src/attention_limits/kernels/compiled/*.py # Mutmut passes decorated functions by
	@cd $(MUTANTS)/project && export OMP_NUM_THREADS=1; \
	  ../venv/bin/mutmut run $(ARGS); ../venv/bin/mutmut results

# --strict: a package that the index's service does not know is a failure too, not a pass.
audit:
	@$(PYTHON) -m venv _build/audit && _build/audit/bin/python -m pip install --disable-pip-version-check --quiet pip-audit
	@_build/audit/bin/pip-audit --strict --no-deps --disable-pip -r requirements.lock $(ARGS)

bench: $(STAMP)
	@$(PY) -m attention_limits.cost $(ARGS)

# The stamp is written last and holds this folder's path: an interrupted install is done again, and so is one that was
# moved or copied here from another folder, whose paths would lead back there. Of two commands at once one installs, and
# the other, which waits for it, then finds it done.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
$(STAMP): moved
endif
ALONE := import fcntl, subprocess, sys; lock = open("pyproject.toml"); fcntl.flock(lock, fcntl.LOCK_EX); \
  sys.exit(subprocess.call(sys.argv[1:], close_fds=False))
ifndef INSTALLING
$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed, and \"$(PYTHON)\" is not that. Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c '$(ALONE)' $(MAKE) --no-print-directory INSTALLING=yes $(STAMP)
else
$(STAMP): pyproject.toml requirements.lock
	@[ "$$(cat $(STAMP) 2>/dev/null)" = "$(CURDIR)" ] || rm -rf .venv
	@rm -f $(STAMP)
	@echo "Installing the packages of requirements.lock into .venv (once; several minutes)"
	@[ -x $(PY) ] || $(PYTHON) -m venv .venv || { rm -rf .venv; \
	  echo "\"$(PYTHON) -m venv\" failed; on Debian and Ubuntu install the package python3-venv." >&2; exit 1; }
	@$(PY) -m pip install --disable-pip-version-check -r requirements.lock
	@$(PY) -m pip install --disable-pip-version-check --no-build-isolation --no-deps --quiet -e .
	@printf '%s\n' "$(CURDIR)" > $(STAMP)
endif

# pip-compile keeps versions that still fit; for newer ones: make lock ARGS=--upgrade
lock:
	$(PYTHON) -m venv _build/lock && _build/lock/bin/python -m pip install --quiet pip-tools
	_build/lock/bin/pip-compile --quiet --extra test --extra cluster --allow-unsafe --strip-extras --no-annotate --no-header \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host $(ARGS) -o requirements.lock pyproject.toml
	@sed -e '/^#/d' -e '/^$$/d' -e 's/^\([^=]*==[^+ ]*\)+[A-Za-z0-9.]*/\1/' requirements.lock > requirements.lock.partial
	@{ echo "# Exact versions of all that pyproject.toml asks for, made by \`make lock\`."; cat requirements.lock.partial; } \
	  > requirements.lock; rm requirements.lock.partial

clean:
	rm -rf _build .snakemake .pytest_cache .hypothesis .ruff_cache .mypy_cache .coverage
