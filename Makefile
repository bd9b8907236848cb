# Four commands, the same for people and for CI: lab, test, check, bench.
# Options: PYTHON=/path/to/python3   TORCH_BACKEND=cpu|auto|cu130|...   BROWSER=no   PORT=8888   ARGS="pytest options"

PYTHON ?= python3
TORCH_BACKEND ?= $(UV_TORCH_BACKEND)
SETUP = $(PYTHON) scripts/setup
BACKEND = $(if $(TORCH_BACKEND),--torch-backend $(TORCH_BACKEND))
BIN = .venv/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup lab test test-container quick check format bench docs index constraints clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-15s %s\n", $$1, $$2}' Makefile

setup:  ## prepare .venv (all the others do it by themselves)
	@$(SETUP) lab $(BACKEND)

lab: setup  ## open JupyterLab at the labs, on 127.0.0.1 and behind a token
	@BROWSER=$(BROWSER) PORT=$(PORT) SOLUTIONS=$(SOLUTIONS) LABS=$(LABS) exec sh scripts/lab

test:  ## everything CI runs: linters, types, and every test that needs no GPU
	@PYTHON=$(PYTHON) TORCH_BACKEND=$(TORCH_BACKEND) sh scripts/test $(ARGS)

quick: setup  ## the pure tests only: seconds, no ranks
	@$(BIN)/python -m pytest --hypothesis-profile quick -n logical $(ARGS)

test-container: setup  ## build the container image and run it for real: as root, with buildah and podman
	@$(BIN)/python -m pytest -m container tests/container $(ARGS)

check: setup  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: setup  ## let ruff mend what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench:  ## the measures a change must not worsen, as a table; brings MPI, to lay it beside
	@$(SETUP) bench $(BACKEND)
	@$(BIN)/python -m benchmarks $(ARGS)

docs:  ## build the documentation into build/docs; warnings are errors
	@$(SETUP) docs $(BACKEND)
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs build/docs
	@echo "docs: build/docs/index.html"

index: setup  ## write the index of the labs anew, from their manifests
	@$(BIN)/python -c "from labkit import labs; labs.write_index(labs.labs_folder())"

constraints:  ## pin anew what pyproject.toml allows
	@$(PYTHON) scripts/pin

clean:  ## remove .venv and everything that was built
	rm -rf .venv .tools build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
