# Targets and what they do: make help
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# Two stamps: running needs less than developing, and the first run should be quick.
RUN_READY := $(VENV)/.run-ready
DEV_READY := $(VENV)/.dev-ready
export DESTDIR PREFIX UNITDIR RUNTIME PYTHON
SOURCES := $(wildcard nodeagent plugins apiserver_stub tools tests benchmarks)

.PHONY: help run test vm-test unit check fmt docs changelog bench install uninstall clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN_READY) ## Start an API server, a runtime, the agent and a pod here; ONCE=1 stops again, ENDPOINT=unix:///… names a runtime
	$(BIN)/python -m nodeagent demo $(if $(ONCE),--once) $(if $(ENDPOINT),--endpoint $(ENDPOINT))

test: $(DEV_READY) ## Run every test, as CI does; as root, installs the Debian packages that the tests need
	tools/test-parts
	$(BIN)/python -m pytest $(ARGS)

vm-test: $(DEV_READY) ## Test in a virtual machine: Debian with systemd and cgroup v2, emulated; as root, minutes
	tools/vm-parts
	PYTHON=$(BIN)/python nice tools/vm-image build/vm
	NODEAGENT_VM=build/vm $(BIN)/python -m pytest tests/vm --junit-xml=build/vm/results.xml $(ARGS)

unit: $(DEV_READY) ## Run the unit tests: seconds, no root
	$(BIN)/python -m pytest tests/unit $(ARGS)

check: $(DEV_READY) ## Lint, formatting, types, imports, wording, generated files up to date, commit messages
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_wording.py
	$(BIN)/codespell $$($(BIN)/python tools/check_wording.py --list) docs/*.md
	$(BIN)/python tools/gen_docs.py --check
	$(BIN)/python tools/check_commits.py
	$(BIN)/python tools/protogen.py --check

fmt: $(DEV_READY) ## Format the code and apply automatic fixes
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

docs: $(DEV_READY) ## Make the pages that come from the code, and the site, into build/site
	$(BIN)/python tools/gen_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

changelog: $(DEV_READY) ## Print the changelog section of the fragments in changes/; VERSION=0.2.0 writes it and deletes them
	$(BIN)/python tools/changelog.py $(VERSION)

bench: $(DEV_READY) ## Measure speed and size on this host
	$(BIN)/python -m benchmarks $(ARGS)

install: ## Install commands, units and a first configuration, as root; DESTDIR, PREFIX and RUNTIME: see tools/install
	tools/install

uninstall: ## Remove the installed files; state and changed files stay
	tools/install --remove

clean: ## Remove what was built, the environment too
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(RUN_READY): pyproject.toml tools/bootstrap
	tools/bootstrap $(VENV) --editable '.[all]'
	@touch $@

$(DEV_READY): $(RUN_READY)
	tools/bootstrap $(VENV) --editable '.[dev]'
	@touch $@
