# The two most important commands are `make run` (a training with TensorFlow on this machine) and `make test`. `make test-all` is for
# releases and CI. Each command creates the virtual environment. requirements/*.lock contain the hash of every file in the environment.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
# uv needs a fifth of pip's time. Like pip, uv refuses files without a hash. uv does not read pip's variables, such as PIP_INDEX_URL.
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
# Tests start hundreds of Python programs. Without bytecode files, each program would compile all modules that it imports.
unexport PYTHONDONTWRITEBYTECODE
# One process more than there are cores, because tests with other programs often wait.
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder -n $$(($(JOBS) + 1))
# The targets that this call of make has already run, for example in `make test test-all`.
RUN_BEFORE := $(filter test,$(MAKECMDGOALS))

# The tests that use a real API server. With KUBERNETES=1.36 or 1.35 on the command line (hack/gobuild.py reads it), the API server has this version.
REAL := tests/contract tests/cluster tests/e2e

# requirements/overrides.txt contains the reason.
NO_TENSORFLOW := "there is no TensorFlow for this Python yet; with an older one: make run PYTHON=python3.13 VENV=.venv-3.13"

.PHONY: run test test-all full enumerate-quick test-python check lint types types-linux types-macos imports unit contract tools enumerate e2e controlplane generate lock constraints base-image audit sbom release docs bench microbench terminalbench clean help

help:  ## print this list
	@sed -nE 's/^([a-z0-9-]+):.*##  *(.*)/\1@\2/p' $(MAKEFILE_LIST) | column -t -s@

run: $(VENV)/run.stamp  ## train the digits example on this machine, without a cluster
	@$(BIN)/python -c 'import importlib.util, sys; importlib.util.find_spec("tensorflow") or sys.exit($(NO_TENSORFLOW))'
	$(BIN)/tfoperator run examples/digits/tfjob.yaml

test: $(VENV)/dev.stamp  ## static checks, and all tests that work without root, Go and Debian packages; six minutes
	@$(MAKE) --jobs=2 --output-sync check
	$(PYTEST) tests/unit tests/contract tests/e2e -m "not full"

test-all: $(VENV)/dev.stamp  ## all tests, also with real control planes, nodes, the Go operator and faults; needs Debian and root; almost an hour
	@$(MAKE) --jobs=2 $(if $(KUBERNETES),,$(filter-out $(RUN_BEFORE),test) tools) controlplane
	@$(MAKE) --jobs=2 full $(if $(KUBERNETES),,enumerate-quick)

full: $(VENV)/dev.stamp
	$(PYTEST) $(if $(KUBERNETES),$(REAL) -m controlplane,tests -m "full or page")

# With the lowest priority, beside the tests: at their end, the tests on the node use less than one core.
enumerate-quick: $(VENV)/dev.stamp
	nice -n 19 $(BIN)/python -m hack.enumeration --quick --jobs $(JOBS)

test-python:  ## unit tests with another Python, in a separate environment: make test-python PYTHON=python3.14
	@$(MAKE) --no-print-directory unit VENV=build/python-$$($(PYTHON) -c 'import platform; print(platform.python_version())')

check: lint types imports  ## static checks

lint: $(VENV)/dev.stamp  ## check style and format (ruff), and look for sentences that are hard to read (hack/words.py)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m hack.words

types: types-linux types-macos  ## mypy --strict, for Linux and for macOS

types-linux: $(VENV)/dev.stamp
	$(BIN)/mypy -p tfoperator -p hack

types-macos: $(VENV)/dev.stamp
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin

imports: $(VENV)/dev.stamp  ## import-linter: a package imports only packages of lower layers
	$(BIN)/lint-imports

unit: $(VENV)/dev.stamp  ## unit tests only
	$(PYTEST) tests/unit

tools: $(VENV)/dev.stamp  ## tests of the tools in hack/ that work without a real control plane: benchmarks, faults, releases
	$(PYTEST) tests/hack -m "not full"

contract: $(VENV)/dev.stamp controlplane  ## the same tests with the embedded and with the real API server
	$(PYTEST) tests/contract

enumerate: $(VENV)/dev.stamp  ## fault tests, also after an interruption: a fault at every place of every scenario, and 1000 seeds; ENUMERATE="--quick" tries a part
	$(BIN)/python -m hack.enumeration --jobs $(JOBS) $(ENUMERATE)
	$(BIN)/python -m hack.enumeration --seeds $(if $(ENUMERATE),50,1000)

e2e: $(VENV)/dev.stamp controlplane  ## tests with a real API server, a cluster with a node, and real TensorFlow
	$(PYTEST) tests/cluster tests/e2e

controlplane: $(VENV)/dev.stamp  ## build the programs that tests need: kube-apiserver, etcd, ... (once; the cache is outside the checkout)
	@nice $(BIN)/python hack/controlplane.py build >/dev/null

generate: $(VENV)/dev.stamp  ## generate the CRD, the pages of fields, options and conditions, and files of the Helm chart
	$(BIN)/python hack/generate.py

docs: $(VENV)/dev.stamp  ## build the documentation as a web site in build/docs, which works without a network
	$(BIN)/python -m hack.site

bench: $(VENV)/dev.stamp controlplane  ## compare tfoperator with the Go operator, for hours; BENCH="--quick" takes five minutes
	$(BIN)/python -m hack.bench $(BENCH)

terminalbench: $(VENV)/dev.stamp  ## measure `tfoperator run` with very many lines of output: in a pipe, on a terminal, and with Ctrl-C
	$(BIN)/python -m hack.bench.terminal $(BENCH)

microbench: $(VENV)/dev.stamp  ## measure the time per event, per plan and per queue item, and the time of a start
	$(BIN)/python -m pytest hack/bench/micro -o python_files='bench_*.py' --benchmark-columns=min,median,stddev,ops -s

lock: $(VENV)/dev.stamp  ## after a change of dependencies: write versions (from constraints.txt, if they are there) and hashes into the lock files
	$(BIN)/python -m hack.lock

constraints: $(VENV)/dev.stamp  ## select the newest versions of all dependencies that setup.cfg allows
	$(BIN)/python -m hack.lock --upgrade

base-image: $(VENV)/dev.stamp  ## write the current digest of the base image into the Dockerfile; needs the registry
	$(BIN)/python -m hack.base_image

audit: $(VENV)/dev.stamp  ## look for known vulnerabilities of dependencies; needs PyPI; not part of `make test`
	$(BIN)/python -m hack.audit $(AUDIT)

sbom: $(VENV)/dev.stamp  ## write the SBOMs (CycloneDX) of the image and of `make run` into dist/
	$(BIN)/python -m hack.release --sbom

release: $(VENV)/dev.stamp  ## write source, wheel, chart, notes, SBOMs, provenance and checksums of this commit into dist/
	$(BIN)/python -m hack.release

$(VENV)/bin/uv: requirements/installer.lock
	@test -e $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# All downloaded files must have the hash in the lock file. The package itself is installed from this directory without a download.
$(VENV)/run.stamp: setup.cfg requirements/run.lock requirements/operator.lock | $(VENV)/bin/uv
	@echo "installing tfoperator and TensorFlow into $(VENV) (once, half a minute) ..."
	@$(INSTALL) --require-hashes -r requirements/run.lock
	@$(INSTALL) --no-build-isolation --config-setting editable_mode=compat -e .
	@touch $@

# The lock file contains all packages. --no-deps is needed because of the wrong version limits in requirements/overrides.txt.
$(VENV)/dev.stamp: setup.cfg $(wildcard requirements/*.lock) | $(VENV)/bin/uv
	@echo "installing tfoperator, TensorFlow and the test tools into $(VENV) (once, a minute) ..."
	@$(INSTALL) --require-hashes -r requirements/dev.lock
	@$(INSTALL) --no-build-isolation --config-setting editable_mode=compat -e .
	@touch $@ $(VENV)/run.stamp

clean:  ## remove the virtual environment and the files of tools
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
