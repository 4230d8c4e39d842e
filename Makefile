# One-line verbs. `make help` lists them.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(shell command -v $(p) 2>/dev/null)))
BIN := .venv/bin
CODE := runner operator cli devcluster tools tests bench
PARALLEL := --numprocesses auto --maxprocesses 8
# Each process has a cluster of its own. Gangs wait for most of their time: two fill two cores, more would make them late.
# Fixtures of a file are set up once, and long files do not come last. (loadgroup groups nothing beside pytest 9.2: xdist #1386.)
TWO := --numprocesses 2 --dist loadfile --no-loadscope-reorder
# A test that hangs ends its process with the stacks: it fails by name, and the others continue.
LIMIT := -o faulthandler_exit_on_timeout=true -o faulthandler_timeout
CACHE := $(or $(DISTTEST_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/disttest)
# Byte code of torch halves what every gang's start costs.
unexport PYTHONDONTWRITEBYTECODE
export PATH := $(PATH):/usr/sbin:/sbin:$(CACHE)/prometheus/usr/bin:$(CACHE)/prometheus-alertmanager/usr/bin

.DEFAULT_GOAL := help
.PHONY: help venv setup demo demo-monitoring test unit images e2e e2e-clean gpu soak check format audit rehearse release bench bench-first bench-runner bench-faults bench-operator clean

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: ## set up the virtual environment only: the command line, torch, all that needs no cluster
	@$(PYTHON) -m tools.bootstrap venv

setup: ## set up everything (the other verbs do it by themselves)
	@$(PYTHON) -m tools.bootstrap all

# CLUSTER is taken from the command line only: an exported variable of this name means something else.
CURRENT := $(if $(filter command,$(firstword $(origin CLUSTER))),$(CLUSTER))
demo: ## a cluster, the operator and one DistTest of 2 pods x 2 ranks, from apply to verdict; SUITES=all, CLUSTER=current
	@$(PYTHON) -m tools.bootstrap $(if $(CURRENT),venv,demo)
	@$(BIN)/python -m tools.demo.demo --suites "$(SUITES)" $(if $(CURRENT),--cluster "$(CURRENT)") \
	  $(if $(OPERATOR_IMAGE),--operator-image "$(OPERATOR_IMAGE)") $(if $(RUNNER_IMAGE),--runner-image "$(RUNNER_IMAGE)")

demo-monitoring: ## the operator, a Prometheus and an Alertmanager on 60 nights of history, until Ctrl-C
	@$(PYTHON) -m tools.bootstrap demo
	@$(PYTHON) -m tools.bootstrap monitoring
	@$(BIN)/python -m tools.demo.monitoring

test: setup ## all unit and integration tests
	@$(BIN)/python -m pytest $(PARALLEL) $(LIMIT)=300 -m "not soak" tests/unit
	@DISTTEST_AUDIT_LOGS=$$(mktemp -d) && export DISTTEST_AUDIT_LOGS && trap 'rm -rf "$$DISTTEST_AUDIT_LOGS"' EXIT && \
	  $(BIN)/python -m pytest $(TWO) $(LIMIT)=900 -m "not soak" tests/integration && $(BIN)/python -m pytest tests/audit

unit: ## the tests that need neither cluster nor torch
	@$(PYTHON) -m tools.bootstrap unit
	@$(BIN)/python -m pytest $(PARALLEL) $(LIMIT)=300 -m "not soak" tests/unit

images: setup ## build the images with buildah, without Docker (root on Debian or Ubuntu; 14 GB the first time)
	@$(BIN)/python -m devcluster images $(if $(PYTHON_IMAGE),--python-image $(PYTHON_IMAGE)) \
	  $(if $(RUNNER_BASE),--runner-base $(RUNNER_BASE)) $(if $(UPSTREAM),--upstream $(UPSTREAM))

e2e: setup ## the images on two real nodes: containerd, runc, kubelet (root on Debian or Ubuntu; skipped elsewhere)
	@$(BIN)/python -m pytest tests/e2e

e2e-clean: ## remove what an interrupted `make e2e` left
	@$(PYTHON) -m tools.bootstrap venv
	@$(BIN)/python -m devcluster clean

gpu: setup ## the suites over NCCL on this machine's GPUs; without one they are skipped
	@$(BIN)/python -m pytest tests/gpu

soak: setup ## what takes minutes: compiled suites whole, oldest and newest torch, 200 deletions, a real Kueue (an hour; 2.5 GB more the first time)
	@$(BIN)/python -m pytest -m soak tests/soak tests/unit tests/integration

check: ## format, lint, types, import rules, manifests render, documents are those of the code
	@$(PYTHON) -m tools.bootstrap all
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/mypy $(CODE)
	@$(BIN)/lint-imports
	@for f in $$(grep -rlx 'kind: Kustomization' manifests --include=kustomization.yaml); do $(BIN)/python -m devcluster kubectl kustomize $${f%/*} > /dev/null || exit 1; done
	@echo "manifests render"
	@$(BIN)/python -m tools.docs --check

format: ## format the code and apply safe fixes
	@$(BIN)/ruff check --fix -q $(CODE); $(BIN)/ruff format $(CODE)

audit: setup ## ask databases about known vulnerabilities of what is pinned (exit code 3: not all was checked)
	@$(BIN)/python -m tools.release audit $(if $(OSV_URL),--osv-url $(OSV_URL))

rehearse: setup ## build a release of this commit twice, compare, and try the wheel where nothing else is
	@$(BIN)/python -m tools.release rehearse

release: setup ## the files of a release into dist/VERSION; REGISTRY=… OPERATOR_DIGEST=sha256:… RUNNER_DIGEST=sha256:…
	@$(BIN)/python -m tools.release build $(if $(REGISTRY),--registry $(REGISTRY)) \
	  $(if $(OPERATOR_DIGEST),--operator-digest $(OPERATOR_DIGEST)) $(if $(RUNNER_DIGEST),--runner-digest $(RUNNER_DIGEST))

bench: setup bench-faults ## the figures of docs/figures.txt
	@$(BIN)/python -m bench

bench-first: setup ## what a new user waits for: the command line, the demo's verdict, cases, gangs, Jobs, compiled suites (about 20 minutes)
	@$(BIN)/python -m bench cli-start demo empty-cases stub-ranks apply-to-job compiled

bench-runner: setup ## what the runner costs and how it scales (about 12 minutes)
	@$(BIN)/python -m bench empty-cases stub-ranks runner

bench-faults: setup ## show every fault that the runner survives, then a storm of 1,000 cases (about 10 minutes)
	@$(BIN)/python -m pytest -s -k "documented or measured" --update-faults tests/integration/runner/faults

bench-operator: setup ## a thousand runs, five thousand finished ones, 300 under faults, by a minimal client (about 40 minutes)
	@$(BIN)/python -m bench operator-runs operator-faults operator-scale operator-scrape

clean: ## remove what was made inside the clone
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
