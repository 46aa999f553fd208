# Everything runs from .venv, which is made on demand and again when its requirements change.
PYTHON ?= python3
JOBS ?= auto
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install demo test test-sanitizers test-all fuzz bench-cpu gpu lint format typecheck \
  clean

help:
	@echo "make install          make .venv, or bring it up to date"
	@echo "make demo             install, then run a gelu definition and show its plan and its time"
	@echo "make test             install, then run every test, of many parameters not all combinations"
	@echo "make test-all         run every test with all combinations of its parameters"
	@echo "make test-sanitizers  run the emulated CUDA kernels under address and thread sanitizers"
	@echo "make fuzz             20,000 random fusions on the processor, 3,000 emulated, 1,000 programs"
	@echo "make bench-cpu        compare with eager and torch.compile, into benchmarks/results/"
	@echo "make gpu              everything that needs a GPU: tests, benchmarks, memory checker"
	@echo "make lint typecheck   what continuous integration checks beside the tests"
	@echo "make format           rewrite the sources as ruff formats them"
	@echo "make clean            remove .venv and what was built"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or later is needed; name one: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --covering

test-sanitizers: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) -m sanitizer

test-all: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS)

# FUZZ passes options on: make fuzz FUZZ="--target cpu --count 500 --seed 7000"
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz $(FUZZ)

bench-cpu: $(STAMP)
	$(BIN)/python benchmarks/cpu.py

# Installs nothing: a GPU machine's own torch is used where .venv was not made.
# RESULTS says where results are written: make gpu RESULTS=/tmp/results
gpu:
	PYTHONPATH=. $$(test -x $(BIN)/python && echo $(BIN)/python || echo $(PYTHON)) benchmarks/gpu_all.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(STAMP)
	$(BIN)/basedpyright

clean:
	rm -rf $(VENV) build dist *.egg-info
