# List of targets: make help
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# Separate stamps, because the first run must not wait for the development dependencies.
RUN_READY := $(VENV)/.run-ready
DEV_READY := $(VENV)/.dev-ready
export DESTDIR PREFIX UNITDIR RUNTIME KUBELET PYTHON
# Number of tests or checks that run in parallel; integration tests start further processes.
PROCESSES := 2
SOURCES := $(wildcard nodeagent plugins apiserver_stub tools tests benchmarks)

# The longest one starts first.
CHECKS := check-types check-wording check-code check-generated check-commits check-spelling

.PHONY: help run test vm-test unit check fmt docs changelog client-suites mutants fuzz api-fuzz soak dist bench plots install uninstall clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN_READY) ## Run a demo: API server, runtime, agent and a pod; ONCE=1 stops it afterwards, ENDPOINT=unix:///… selects a runtime, DIR=… another directory, PLUGIN_CONFIG=… settings of plugins
	$(BIN)/python -m nodeagent demo $(if $(ONCE),--once) $(if $(ENDPOINT),--endpoint $(ENDPOINT)) $(if $(DIR),--dir $(DIR)) $(if $(PLUGIN_CONFIG),--plugin-config $(PLUGIN_CONFIG))

test: $(DEV_READY) ## Run all tests, as CI does; as root, installs the required Debian packages
	tools/test-parts
	$(BIN)/python -m pytest -n $(PROCESSES) $(ARGS)

vm-test: $(DEV_READY) ## Run the tests in an emulated virtual machine, Debian with systemd and cgroup v2; as root, takes minutes
	tools/vm-parts
	PYTHON=$(BIN)/python nice tools/vm-image build/vm
	$(BIN)/python -m tests.vm.releases build/vm-packages
	for suite in bookworm trixie; do SUITE=$$suite PYTHON=$(BIN)/python nice tools/vm-image --base build/vm-$$suite || exit; done
	NODEAGENT_VM=build/vm $(BIN)/python -m pytest tests/vm --junit-xml=build/vm/results.xml $(ARGS)

unit: $(DEV_READY) ## Run the unit tests, with a quarter of the random examples; without root, in about a minute
	$(BIN)/python -m pytest -n $(PROCESSES) --hypothesis-profile=quick tests/unit $(ARGS)

check: $(DEV_READY) ## Check lint, formatting, types, imports, wording, generated files and commit messages
	@$(MAKE) --no-print-directory --jobs=$(PROCESSES) --output-sync=target --keep-going $(CHECKS)

check-types:
	$(BIN)/mypy

check-wording:
	$(BIN)/python tools/check_wording.py

check-spelling:
	$(BIN)/codespell $$($(BIN)/python tools/check_wording.py --list) docs/*.md

check-code:
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/lint-imports

check-generated:
	$(BIN)/python tools/gen_docs.py --check
	$(BIN)/python tools/protogen.py --check

check-commits:
	$(BIN)/python tools/check_commits.py

fmt: $(DEV_READY) ## Format the code and apply automatic fixes
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

docs: $(DEV_READY) ## Generate pages from the code and build the documentation site in build/site
	$(BIN)/python tools/gen_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

changelog: $(DEV_READY) ## Print the changelog section of the fragments in changes/; VERSION=0.2.0 writes it and deletes them
	$(BIN)/python tools/changelog.py $(VERSION)

client-suites: $(DEV_READY) ## Run the tests of Kubernetes clients against the API server; SERVER=… compares with a kube-apiserver, ARGS="kopf kr8s" selects
	$(BIN)/python -m tests.client_suites $(if $(SERVER),--server $(SERVER)) $(ARGS)

mutants: $(DEV_READY) ## Change conditions of the code and list those whose change no test detects; ARGS="--sample 500 --since main~50"
	$(BIN)/python -m tests.mutants $(ARGS)

fuzz: $(DEV_READY) ## Fuzz the parsers of untrusted input, guided by coverage; SECONDS=600 per target, ARGS="yaml cel" selects
	tools/bootstrap $(VENV) --editable '.[dev,fuzz]'
	$(BIN)/python -m tests.fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

api-fuzz: $(DEV_READY) ## Send REQUESTS=1000000 random requests to an API server with everything enabled, as root, and print statuses, failures and memory; ARGS="--seed 2"
	$(BIN)/python -m tests.api_fuzz --requests $(or $(REQUESTS),1000000) $(ARGS)

soak: $(DEV_READY) ## Run a node under load for HOURS=6, as root, and write a report about the growth of its resources to build/soak.html; ARGS="--seed 1"
	tools/test-parts
	$(BIN)/python -m tests.soak $(if $(HOURS),--hours $(HOURS)) $(ARGS)

bench: $(DEV_READY) ## Run the benchmarks on this host
	$(BIN)/python -m benchmarks $(ARGS)

plots: $(DEV_READY) ## Draw the recorded results of all versions and of the fleet in docs/benchmarks-*.svg
	$(BIN)/python -m benchmarks.plots

dist: $(DEV_READY) ## Build wheel, Debian packages, executable, image, SBOM and checksums in dist/; ARGS="python deb" selects
	@$(BIN)/python -m tools.artifacts $(ARGS)

install: ## Install commands, systemd units and an initial configuration, as root; KUBELET=1 as a kubelet for kubeadm; variables: see tools/install
	tools/install

uninstall: ## Remove the installed files, except for state and modified files
	tools/install --remove

clean: ## Remove build results and the virtual environment
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(RUN_READY): pyproject.toml tools/bootstrap
	tools/bootstrap $(VENV) --editable '.[all]'
	@touch $@

$(DEV_READY): $(RUN_READY)
	tools/bootstrap $(VENV) --editable '.[dev]'
	@touch $@
