# `make help` lists the targets.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(shell command -v $(p) 2>/dev/null)))
BIN := .venv/bin
CODE := runner operator cli devcluster tools tests bench
PARALLEL := --numprocesses auto --maxprocesses 8
# Each process has its own cluster. Gangs mostly wait: two processes fill two cores, more would delay the gangs.
# Fixtures of a file are set up once, and long files do not run last. (loadgroup does not work with pytest 9.2: xdist #1386.)
TWO := --numprocesses 2 --dist loadfile --no-loadscope-reorder
# A test that hangs ends its process with the stacks: it fails by name, and the others continue.
LIMIT := -o faulthandler_exit_on_timeout=true -o faulthandler_timeout
CACHE := $(or $(DISTTEST_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/disttest)
# Byte code of torch halves the start time of a gang.
unexport PYTHONDONTWRITEBYTECODE
export PATH := $(PATH):/usr/sbin:/sbin:$(CACHE)/prometheus/usr/bin:$(CACHE)/prometheus-alertmanager/usr/bin

.DEFAULT_GOAL := help
.PHONY: help venv setup demo demo-monitoring test unit images e2e e2e-clean gpu soak check format audit rehearse release bench bench-first bench-runner bench-faults bench-operator clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: ## create the virtual environment only, with torch and the command line
	@$(PYTHON) -m tools.bootstrap venv

setup: ## set up everything (other targets do it automatically)
	@$(PYTHON) -m tools.bootstrap all

# CLUSTER is read from the command line only: an exported variable of this name can have another meaning.
CURRENT := $(if $(filter command,$(firstword $(origin CLUSTER))),$(CLUSTER))
demo: ## start a cluster and the operator, and run a DistTest with 2 pods x 2 ranks; SUITES=all, CLUSTER=current
	@$(PYTHON) -m tools.bootstrap $(if $(CURRENT),venv,demo)
	@$(BIN)/python -m tools.demo.demo --suites "$(SUITES)" $(if $(CURRENT),--cluster "$(CURRENT)") \
	  $(if $(OPERATOR_IMAGE),--operator-image "$(OPERATOR_IMAGE)") $(if $(RUNNER_IMAGE),--runner-image "$(RUNNER_IMAGE)")

demo-monitoring: ## run the operator, Prometheus and Alertmanager with 60 simulated nights, until Ctrl-C
	@$(PYTHON) -m tools.bootstrap demo
	@$(PYTHON) -m tools.bootstrap monitoring
	@$(BIN)/python -m tools.demo.monitoring

test: setup ## run all unit and integration tests
	@$(BIN)/python -m pytest $(PARALLEL) $(LIMIT)=300 -m "not soak" tests/unit
	@DISTTEST_AUDIT_LOGS=$$(mktemp -d) && export DISTTEST_AUDIT_LOGS && trap 'rm -rf "$$DISTTEST_AUDIT_LOGS"' EXIT && \
	  $(BIN)/python -m pytest $(TWO) $(LIMIT)=900 -m "not soak" tests/integration && $(BIN)/python -m pytest tests/audit

unit: ## run the unit tests, without a cluster or torch
	@$(PYTHON) -m tools.bootstrap unit
	@$(BIN)/python -m pytest $(PARALLEL) $(LIMIT)=300 -m "not soak" tests/unit

images: setup ## build the images with buildah, without Docker (root on Debian or Ubuntu; 14 GB the first time)
	@$(BIN)/python -m devcluster images $(if $(PYTHON_IMAGE),--python-image $(PYTHON_IMAGE)) \
	  $(if $(RUNNER_BASE),--runner-base $(RUNNER_BASE)) $(if $(UPSTREAM),--upstream $(UPSTREAM))

e2e: setup ## test the images on two real nodes: containerd, runc, kubelet (root on Debian or Ubuntu; skipped elsewhere)
	@$(BIN)/python -m pytest tests/e2e

e2e-clean: ## clean up after an interrupted `make e2e`
	@$(PYTHON) -m tools.bootstrap venv
	@$(BIN)/python -m devcluster clean

gpu: ## test DistTest on the GPUs of this machine for 10 minutes and print a table (exit code 3: not all was proved)
	@$(PYTHON) -m tools.bootstrap venv
	@$(BIN)/python -m pytest tests/gpu

soak: setup ## run long tests: compiled suites, oldest and newest torch, 200 deletions, a real Kueue (1 hour; downloads 2.5 GB once)
	@$(BIN)/python -m pytest -m soak tests/soak tests/unit tests/integration

check: ## check format, lint, types, import rules, manifests, generated pages, words and spelling
	@$(PYTHON) -m tools.bootstrap all
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/mypy $(CODE)
	@$(BIN)/lint-imports
	@for f in $$(grep -rlx 'kind: Kustomization' manifests --include=kustomization.yaml); do $(BIN)/python -m devcluster kubectl kustomize $${f%/*} > /dev/null || exit 1; done
	@echo "manifests render"
	@$(BIN)/python -m tools.docs --check
	@$(BIN)/python -m tools.wording

format: ## format the code and apply safe fixes
	@$(BIN)/ruff check --fix -q $(CODE); $(BIN)/ruff format $(CODE)

audit: setup ## check pinned packages for known vulnerabilities (exit code 3: not everything was checked)
	@$(BIN)/python -m tools.release audit $(if $(OSV_URL),--osv-url $(OSV_URL))

rehearse: setup ## build a release twice, compare, and test the wheel in an empty environment
	@$(BIN)/python -m tools.release rehearse

release: setup ## build the release files in dist/VERSION; REGISTRY=… OPERATOR_DIGEST=sha256:… RUNNER_DIGEST=sha256:…
	@$(BIN)/python -m tools.release build $(if $(REGISTRY),--registry $(REGISTRY)) \
	  $(if $(OPERATOR_DIGEST),--operator-digest $(OPERATOR_DIGEST)) $(if $(RUNNER_DIGEST),--runner-digest $(RUNNER_DIGEST))

bench: setup bench-faults ## run all benchmarks and update docs/development/figures.txt
	@$(BIN)/python -m bench

bench-first: setup ## measure what new users wait for: command line, demo, cases, gangs, Jobs, compiled suites (20 minutes)
	@$(BIN)/python -m bench cli-start demo empty-cases stub-ranks apply-to-job compiled

bench-runner: setup ## measure cost and scaling of the runner (12 minutes)
	@$(BIN)/python -m bench empty-cases stub-ranks runner

bench-faults: setup ## test all documented faults of the runner, and 1,000 cases with random faults (10 minutes)
	@$(BIN)/python -m pytest -s -k "documented or measured" --update-faults tests/integration/runner/faults

bench-operator: setup ## measure the operator with 1,000 runs, 5,000 finished runs and 300 runs under faults (40 minutes)
	@$(BIN)/python -m bench operator-runs operator-faults operator-scale operator-scrape

clean: ## remove generated files of the clone
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
