# Two commands matter: `make run` (watch TensorFlow train on this machine) and `make test`; `make test-all` is for releases and CI.
# Each makes the virtual environment itself; requirements/*.lock pin every file in it by its hash.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
# uv takes a fifth of pip's time, and refuses what has no hash as pip does. It does not read pip's variables.
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
# Tests start hundreds of Python programs: without bytecode each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# One more than there are cores: a test that talks with other programs waits a part of its time.
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder -n $$(($(JOBS) + 1))
# What this command has run already, as in `make test test-all`.
RUN_BEFORE := $(filter test,$(MAKECMDGOALS))

# What talks to a real API server; with KUBERNETES=1.36 or 1.35 on the command line (hack/gobuild.py reads it), to one of that version.
REAL := tests/contract tests/cluster tests/e2e

# requirements/overrides.txt says why.
NO_TENSORFLOW := "there is no TensorFlow for this Python yet; with an older one: make run PYTHON=python3.13 VENV=.venv-3.13"

.PHONY: run test test-all test-python check lint types types-linux types-macos imports unit contract tools enumerate e2e controlplane generate lock constraints base-image audit sbom release docs bench microbench terminalbench clean help

help:  ## what each target does
	@sed -nE 's/^([a-z0-9-]+):.*##  *(.*)/\1@\2/p' $(MAKEFILE_LIST) | column -t -s@

run: $(VENV)/run.stamp  ## train the digits example on this machine, without a cluster
	@$(BIN)/python -c 'import importlib.util, sys; importlib.util.find_spec("tensorflow") or sys.exit($(NO_TENSORFLOW))'
	$(BIN)/tfoperator run examples/digits/tfjob.yaml

test: $(VENV)/dev.stamp  ## static checks, and each test that needs no root, no Go and no Debian package; six minutes
	@$(MAKE) --jobs=2 --output-sync check
	$(PYTEST) tests/unit tests/contract tests/e2e -m "not full"

test-all: $(VENV)/dev.stamp  ## everything: `make test`, then real control planes, nodes, peers and faults; Debian, as root; half an hour
	@$(MAKE) --jobs=2 $(if $(KUBERNETES),,$(filter-out $(RUN_BEFORE),test) tools) controlplane
	$(PYTEST) $(if $(KUBERNETES),$(REAL) -m controlplane,tests -m "full or page")
	$(if $(KUBERNETES),,$(BIN)/python -m hack.enumeration --quick --jobs $(JOBS))

test-python:  ## unit tests under another Python, in an environment of its own: make test-python PYTHON=python3.14
	@$(MAKE) --no-print-directory unit VENV=build/python-$$($(PYTHON) -c 'import platform; print(platform.python_version())')

check: lint types imports  ## static checks

lint: $(VENV)/dev.stamp  ## ruff: style and format; sentences that are hard to read (hack/words.py)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m hack.words

types: types-linux types-macos  ## mypy --strict, as on Linux and as on macOS

types-linux: $(VENV)/dev.stamp
	$(BIN)/mypy -p tfoperator -p hack

types-macos: $(VENV)/dev.stamp
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin

imports: $(VENV)/dev.stamp  ## import-linter: imports point down only
	$(BIN)/lint-imports

unit: $(VENV)/dev.stamp  ## unit tests only
	$(PYTEST) tests/unit

tools: $(VENV)/dev.stamp  ## tests of what is in hack/ that need no real control plane: benchmarks, faults, releases
	$(PYTEST) tests/hack -m "not full"

contract: $(VENV)/dev.stamp controlplane  ## one suite on the embedded and on the real API server
	$(PYTEST) tests/contract

enumerate: $(VENV)/dev.stamp  ## a fault at every place of every scenario, and 1000 seeds; goes on where it was interrupted; ENUMERATE="--quick" as in test-all
	$(BIN)/python -m hack.enumeration --jobs $(JOBS) $(ENUMERATE)
	$(BIN)/python -m hack.enumeration --seeds $(if $(ENUMERATE),50,1000)

e2e: $(VENV)/dev.stamp controlplane  ## the operator on a real API server and in a cluster with a node; real TensorFlow
	$(PYTEST) tests/cluster tests/e2e

controlplane: $(VENV)/dev.stamp  ## build every program that tests need: kube-apiserver, etcd, ... (once; cached outside the checkout)
	@nice $(BIN)/python hack/controlplane.py build >/dev/null

generate: $(VENV)/dev.stamp  ## write the files that are made from the types
	$(BIN)/python hack/generate.py

docs: $(VENV)/dev.stamp  ## the documentation as a site that needs no network, in build/docs
	$(BIN)/python -m hack.site

bench: $(VENV)/dev.stamp controlplane  ## beside the Go operator, for hours; BENCH="--quick" takes five minutes
	$(BIN)/python -m hack.bench $(BENCH)

terminalbench: $(VENV)/dev.stamp  ## a flood of lines in a pipe, on a terminal, and Ctrl-C amid it
	$(BIN)/python -m hack.bench.terminal $(BENCH)

microbench: $(VENV)/dev.stamp  ## microseconds per event, per plan, per queue item; the cost of a start
	$(BIN)/python -m pytest hack/bench/micro -o python_files='bench_*.py' --benchmark-columns=min,median,stddev,ops -s

lock: $(VENV)/dev.stamp  ## after a change of dependencies: their versions and hashes, constraints.txt's where it has them
	$(BIN)/python -m hack.lock

constraints: $(VENV)/dev.stamp  ## resolve every dependency anew: the newest versions that setup.cfg allows
	$(BIN)/python -m hack.lock --upgrade

base-image: $(VENV)/dev.stamp  ## write the digest that the image's base has now into the Dockerfile; asks its registry
	$(BIN)/python -m hack.base_image

audit: $(VENV)/dev.stamp  ## does a dependency have a known vulnerability? asks PyPI; not part of `make test`
	$(BIN)/python -m hack.audit $(AUDIT)

sbom: $(VENV)/dev.stamp  ## what the image and `make run` consist of, as CycloneDX, into dist/
	$(BIN)/python -m hack.release --sbom

release: $(VENV)/dev.stamp  ## source, wheel, chart, notes, SBOMs, provenance and checksums of this commit, into dist/
	$(BIN)/python -m hack.release

$(VENV)/bin/uv: requirements/installer.lock
	@test -e $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# What is downloaded has the hash that a lock says; our own package is installed from here, and downloads nothing.
$(VENV)/run.stamp: setup.cfg requirements/run.lock requirements/operator.lock | $(VENV)/bin/uv
	@echo "installing tfoperator and TensorFlow into $(VENV) (once, half a minute) ..."
	@$(INSTALL) --require-hashes -r requirements/run.lock
	@$(INSTALL) --no-build-isolation --config-setting editable_mode=compat -e .
	@touch $@

# The lock has everything; --no-deps because an installer would believe what requirements/overrides.txt knows better.
$(VENV)/dev.stamp: setup.cfg $(wildcard requirements/*.lock) | $(VENV)/bin/uv
	@echo "installing tfoperator, TensorFlow and the test tools into $(VENV) (once, a minute) ..."
	@$(INSTALL) --require-hashes -r requirements/dev.lock
	@$(INSTALL) --no-build-isolation --config-setting editable_mode=compat -e .
	@touch $@ $(VENV)/run.stamp

clean:  ## remove the virtual environment and what tools leave behind
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
