# Two commands matter: `make run` (watch TensorFlow train on this machine) and `make test` (everything).
# Both make the virtual environment themselves; constraints.txt pins every version in it.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
JOBS   ?= 2

.PHONY: run test check lint types imports unit contract e2e controlplane generate constraints bench microbench clean help

help:  ## what each target does
	@sed -nE 's/^([a-z0-9]+):.*##  *(.*)/\1@\2/p' $(MAKEFILE_LIST) | column -t -s@

run: $(VENV)/run.stamp  ## train the digits example on this machine, without a cluster
	$(BIN)/tfoperator run examples/digits/tfjob.yaml

test: $(VENV)/dev.stamp check controlplane  ## every check and every test, with a real kube-apiserver and TensorFlow
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile tests/unit
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile tests/contract tests/e2e
	$(BIN)/python -m pytest tests/cluster

check: lint types imports  ## static checks

lint: $(VENV)/dev.stamp  ## ruff: style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp  ## mypy --strict
	$(BIN)/mypy
	$(BIN)/mypy -p hack

imports: $(VENV)/dev.stamp  ## import-linter: imports point down only
	$(BIN)/lint-imports

unit: $(VENV)/dev.stamp  ## unit tests only
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile tests/unit

contract: $(VENV)/dev.stamp controlplane  ## one suite on the embedded and on the real API server
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile tests/contract

e2e: $(VENV)/dev.stamp controlplane  ## the operator on a real API server and in a cluster with a node; real TensorFlow
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile tests/e2e
	$(BIN)/python -m pytest tests/cluster

controlplane: $(VENV)/dev.stamp  ## build kube-apiserver, etcd, ... (once; cached outside the checkout)
	@$(BIN)/python hack/controlplane.py build >/dev/null

generate: $(VENV)/dev.stamp  ## write the files that are made from the types
	$(BIN)/python hack/generate.py

bench: $(VENV)/dev.stamp controlplane  ## beside the Go operator, for hours; BENCH="--scale 0.1" is quicker
	$(BIN)/python -m hack.bench $(BENCH)

microbench: $(VENV)/dev.stamp  ## microseconds per event, per plan, per queue item
	$(BIN)/python -m pytest hack/bench/micro -o python_files='bench_*.py' --benchmark-columns=min,median,stddev,ops -s

constraints:  ## resolve every dependency anew and pin the result
	rm -rf $(VENV).new && $(PYTHON) -m venv $(VENV).new
	$(VENV).new/bin/python -m pip install --quiet '.[examples,docker,test,lint,bench]'
	$(VENV).new/bin/python -m pip freeze --exclude tfoperator | grep -v '^tfoperator' > constraints.txt
	rm -rf $(VENV).new

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: setup.cfg constraints.txt | $(VENV)/bin/python
	@echo "installing tfoperator and TensorFlow into $(VENV) (once, about a minute) ..."
	@$(PIP) -e '.[examples]'
	@touch $@

$(VENV)/dev.stamp: setup.cfg constraints.txt | $(VENV)/bin/python
	@echo "installing tfoperator, TensorFlow and the test tools into $(VENV) (once, about a minute) ..."
	@$(PIP) -e '.[examples,docker,test,lint,bench]'
	@touch $@ $(VENV)/run.stamp

clean:  ## remove the virtual environment and what tools leave behind
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
