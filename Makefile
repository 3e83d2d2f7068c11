# The commands of PoisonAdmin. They need Python 3.11 or newer, make, and a Python and an npm registry to install from;
# what is installed already is not installed again.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Hundreds of processes import the same modules, and pytest rewrites each test: let the first compile for the others.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ASSETS := node_modules/.installed

# The interpreter that makes the virtual environment; `make demo PYTHON=/path/to/python3` chooses one.
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))

.PHONY: help
help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: install assets ## Start everything with the sample: real payloads and consumers that fail
	@exec $(BIN)/python -m poisonadmin.embedded demo

.PHONY: up
up: install assets ## Start everything, empty
	@exec $(BIN)/python -m poisonadmin.embedded up

.PHONY: backup
backup: install ## Write all that the running installation holds to the directory FILE=…, which must not exist
	@set -a && . "$${POISONADMIN_HOME:-.poisonadmin}/environment" && exec $(BIN)/python manage.py backup "$(FILE)" $(ARGS)

.PHONY: restore
restore: install ## Bring the backup FILE=… into a new POISONADMIN_HOME
	@exec $(BIN)/python -m poisonadmin.embedded restore "$(FILE)"

.PHONY: install
install: $(INSTALLED) ## Make the virtual environment and install the locked dependencies

.PHONY: assets
assets: $(ASSETS) ## Install the locked front-end files

.PHONY: programs
programs: install ## Install Chromium, RabbitMQ and promtool, which tests need, where they are missing and we may
	@$(BIN)/python tests/browser/ensure_chromium.py
	@$(BIN)/python -m tests.brokers.ensure_rabbitmq
	@$(BIN)/python -m tests.apt prometheus=promtool

.PHONY: test
test: assets programs ## Run the test suite in four processes; ARGS='-k claim' chooses, ARGS='-n 0' needs one
	$(BIN)/python -m pytest -n 4 --max-worker-restart 0 --ignore tests/brokers -m 'not long' $(ARGS)

.PHONY: test-long
test-long: install assets ## Run the tests that take long by their nature: faults under load, memory, every page
	@$(BIN)/python tests/browser/ensure_chromium.py
	@$(BIN)/python -m tests.archive.ensure_s3
	@$(BIN)/python -m tests.system.ensure_keycloak
	@$(BIN)/python -m tests.apt pgbouncer prometheus
	@# To collect all the others as well takes four times as long.
	$(BIN)/python -m pytest -n 2 -m long $$(grep -rl --include='test_*.py' --exclude-dir=brokers 'mark\.long' tests) $(ARGS)

.PHONY: test-brokers
test-brokers: export BROKER := $(or $(BROKER),rabbitmq artemis kafka)
test-brokers: install ## Test with real brokers: RabbitMQ, Artemis, Kafka; BROKER=kafka chooses
	@$(foreach broker,$(BROKER),$(BIN)/python -m tests.brokers.ensure_$(broker) &&) true
	$(BIN)/python -m pytest -n 2 tests/brokers $(ARGS)

.PHONY: test-containers
test-containers: install ## Build the image and run docker-compose.yml on podman, as root; takes ten minutes at first
	@$(BIN)/python -m tests.containers

.PHONY: check
check: install ## Check style, types, import rules, migrations and the Helm chart
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	DJANGO_SETTINGS_MODULE=tests.typing_settings $(BIN)/python -W ignore manage.py makemigrations --check --dry-run
	$(BIN)/djlint --quiet --lint templates
	$(BIN)/python -m tests.deploy.chart

.PHONY: bench
bench: install assets ## Measure throughput, latency and memory; ARGS chooses
	$(BIN)/python -m benchmarks $(ARGS)

.PHONY: faults
faults: install assets ## Run the long fault campaign; ARGS='--seed 7' repeats a run
	$(BIN)/python -m tests.faults $(ARGS)

.PHONY: lock
lock: install ## Resolve the dependencies anew within their limits, and write both lock files
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra embedded --extra java --generate-hashes --no-emit-index-url --no-emit-find-links \
		--python-version 3.11 --universal --upgrade --output-file requirements.lock --custom-compile-command 'make lock' --quiet
	$(NODE_PATH) $(NPM) install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved

# Certificates come with uv; behind a proxy with a certificate of its own, the system's are needed.
SYNC = $(BIN)/uv pip sync --quiet --require-hashes --python $(BIN)/python requirements.lock

# uv comes from its own lines of the lock file, so that not even the installer is unpinned.
$(INSTALLED): requirements.lock
	@test -n "$(PYTHON)" || { echo 'PoisonAdmin needs Python 3.11 or newer: install it, or name it with PYTHON=...' >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo 'This Python cannot make virtual environments: install its venv package (Debian: python3-venv).' >&2; exit 1; }
	@sed -n '/^uv==/,/^    #/p' requirements.lock > $(VENV)/uv.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	$(SYNC) || $(SYNC) --system-certs
	@touch $@

# Node from the system where it has one, else the one that the locked dependencies brought.
NPM = $(shell command -v node >/dev/null && command -v npm || echo $(CURDIR)/$(BIN)/npm)
NODE_PATH = PATH="$$PATH:$(CURDIR)/$(BIN)"

$(ASSETS): package-lock.json package.json | $(INSTALLED)
	@$(NODE_PATH) $(NPM) ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error
	@touch $@
