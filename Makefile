# The two commands of the README, `make demo` and `make test`, and the ones developers use.
PYTHON ?= python3
BIN := .venv/bin
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow browser lint types units format docs bench-speed clean

demo: .venv/demo
	$(BIN)/python examples/demo.py

test: lint types units

browser:
	command -v chromium || { $(SUDO) apt-get update --quiet && $(SUDO) apt-get install --yes --quiet chromium; }

test-slow: .venv/test
	$(BIN)/python -m pytest -n 2 -m slow

lint: .venv/test
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: .venv/test
	$(BIN)/mypy

units: .venv/test
	$(BIN)/python -m pytest -n 2 -m "not slow"

format: .venv/test
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: .venv/docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench-speed: .venv/bench
	$(BIN)/python benchmarks/speed/run.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

.venv/test: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[test]'
	touch $@

.venv/docs: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[docs]'
	touch $@

.venv/bench: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[bench]'
	touch $@

clean:
	rm -rf .venv docs/_build .mypy_cache .ruff_cache
