# Everything a fresh machine needs is made by these targets: python3 (3.11 or later), make;
# `make test` and `make bench` also need JDK 17 and Maven.
PYTHON ?= python3
VENV := .venv
NEWER_PYTHONS := 3.12 3.13 3.14
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The tests start many processes, which would each compile every module again.
unexport PYTHONDONTWRITEBYTECODE

# The main job on the recorded data inside the package: the groups, who owns what, the records.
DEMO := 'list --sample --sort=-lag' \
  'describe --sample billing' \
  'assign --sample billing --remove-member billing-2' \
  'describe --sample --all --offsets --columns group_id,topic,partition,lag,member_id' \
  'coordinator --sample order-service' \
  'decode-offsets --sample --group order-service --type GroupMetadata' \
  'decode-offsets --sample --group ledger -o jsonl' \
  'decode-offsets --sample --stats'

# What writes the pages, schemas and pictures that are generated from the code.
GENERATORS := cli.command_pages cli.man_pages cli.json_schemas cli.console_examples cli.pictures \
  cli.interface simulation.simulate_page history.dictionary operation.recorded_rounds

BROKER := broker and not oracle_clients

# Real servers on a busy machine are late at times, so tests that fail run once more, alone.
define broker_tests
$(BIN)/python -m pytest $(2) $(1) || { test $$? = 1 && echo 'The tests that failed, once more:' && \
  $(BIN)/python -m pytest $(2) --numprocesses 0 --maxfail 1 --last-failed --last-failed-no-failures none; }
endef
SERVERS = -o cache_dir=$(VENV)/$@ -m "$(BROKER)" --dist loadfile --no-loadscope-reorder

.PHONY: help venv demo test broker plans shells databases check lint unit kernels format generated docs versions release pyz oracle oracle-clients fuzz mutants bench lock clean

help: ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

venv: $(STAMP) ## make the environment, with the versions that were tested

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kgroup needs Python 3.11 or later, found " + sys.version.split()[0])'
	@echo "Installing kgroup and its development tools into $(VENV): 1.8 GB, some minutes the first time."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable . --group dev
	touch $@

demo: venv ## run the main job on the recorded data inside the package; no server
	@set -e; PATH="$(CURDIR)/$(BIN):$$PATH"; for command in $(DEMO); do \
	  printf '\n$$ kgroup %s\n' "$$command"; kgroup $$command; done

test: timed-venv shells databases ## every test, with more random examples, and with real brokers
	$(MAKE) -j2 timed-lint timed-unit timed-docs KGROUP_TEST_EXAMPLES=4
	$(MAKE) timed-broker
	$(MAKE) timed-plans

timed-%:
	@start=$$(date +%s); status=0; $(MAKE) $* || status=$$?; \
	echo "stage $*: $$(($$(date +%s) - start)) s"; exit $$status

broker: venv ## the tests with real servers, without those of plans
	$(call broker_tests,-n 3 --durations 60,$(SERVERS) --ignore-glob '*/test_plan_*' tests/broker)

plans: venv ## the tests that carry out plans: how long partitions stop counts, so nothing else runs
	$(call broker_tests,-n 3,$(SERVERS) tests/broker/test_plan_*.py)

shells: ## install what is missing of bash, zsh, fish, man, jq and chromium, in which completions, scripts and pages are tested
	@missing=; for shell in bash zsh fish jq chromium tmux; do command -v $$shell > /dev/null || missing="$$missing $$shell"; done; \
	command -v man > /dev/null || missing="$$missing man-db"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "The tests of completions, scripts and pages need$$missing: installing with apt-get."; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	else \
	  echo "The tests of completions, scripts and pages need$$missing. Install with the system's package manager, on Debian: sudo apt-get install$$missing" >&2; exit 1; \
	fi

databases: ## install what is missing of PostgreSQL and MariaDB, whose servers the tests run; none is started
	@missing=; packages=; \
	if [ -z "$$(ls -d /usr/lib/postgresql/*/bin/postgres 2> /dev/null)$$(command -v postgres)" ]; then missing=postgresql; fi; \
	for program in mariadbd mariadb-install-db my_print_defaults; do \
	  PATH="$$PATH:/usr/sbin" command -v $$program > /dev/null || packages="mariadb-server-core mariadb-client-core"; done; \
	missing="$$missing $$packages"; if [ "$$missing" = " " ]; then exit 0; fi; \
	if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "The tests of SQL databases need$$missing: installing with apt-get."; \
	  apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	else \
	  echo "The tests of SQL databases need$$missing. Install with the system's package manager, on Debian: sudo apt-get install$$missing" >&2; exit 1; \
	fi

check: venv ## format, lint, types, import rule, unit tests; no JVM
	$(MAKE) -j2 lint unit TESTS='not slow' WORKERS=2

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: kernels
	$(BIN)/python -m pytest -n $(or $(WORKERS),3) --dist worksteal --ignore tests/broker -m "$(TESTS)" # slow ones wait

kernels: venv # or each worker of the tests would compile them
	$(BIN)/python -c 'from kgroup.kernel.compiled import load; load()'

format: venv ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generated: venv ## rewrite what is generated from the code: completions, man, tables and examples in docs
	for shell in bash:kgroup.bash zsh:_kgroup fish:kgroup.fish; do \
	  $(BIN)/python -m kgroup completion $${shell%:*} > completions/$${shell#*:} || exit 1; done
	for generator in $(GENERATORS); do $(BIN)/python -m tests.$$generator || exit 1; done

docs: ## build the documentation as a site (site/index.html), with every link checked
	test -x $(VENV)-docs/bin/python || $(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --upgrade -c constraints.txt pip
	$(VENV)-docs/bin/python -m pip install --quiet -c constraints.txt --group docs
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict

RELEASE := $(VENV)-release/bin
# Both archives are the same bytes for the same commit.
export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2> /dev/null || echo 1577836800)

$(RELEASE)/.installed: pyproject.toml constraints.txt
	test -x $(RELEASE)/python || $(PYTHON) -m venv $(VENV)-release
	$(RELEASE)/python -m pip install --quiet --upgrade -c constraints.txt pip
	$(RELEASE)/python -m pip install --quiet -c constraints.txt --group release
	touch $@

versions: venv $(RELEASE)/.installed ## check syntax and types for newer versions of Python, and that dependencies have wheels for them
	$(RELEASE)/vermin --quiet --eval-annotations --no-parse-comments -t=3.11- kgroup
	for version in $(NEWER_PYTHONS); do \
	  $(BIN)/ruff check --quiet --select E9,F --target-version py$$(echo $$version | tr -d .) kgroup && \
	  $(BIN)/mypy --python-version $$version kgroup && \
	  $(RELEASE)/python -m pip install --quiet --dry-run --only-binary :all: --python-version $$version \
	    --target $(VENV)-release/none -c constraints.txt '.[fast,history,sql,top]' 'pandas>=2.2,<3' || exit 1; done

release: $(RELEASE)/.installed versions ## build dist/ (VERSION=1.2.3), check it, and run the demo as installed from the wheel and from the source
	test -z "$(VERSION)" || grep -q '"$(VERSION)"' kgroup/__init__.py # the version that the tag names
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m hatchling build -d dist/again
	for file in dist/again/*; do cmp $$file dist/$${file##*/} || exit 1; done; rm -r dist/again
	$(RELEASE)/twine check --strict dist/*
	for package in dist/*; do rm -rf $(VENV)-packed && $(PYTHON) -m venv $(VENV)-packed && \
	  $(VENV)-packed/bin/pip install --quiet -c constraints.txt $$package && \
	  for command in $(DEMO); do $(VENV)-packed/bin/kgroup $$command > /dev/null || exit 1; done || exit 1; done
	rm -rf $(VENV)-packed

pyz: $(RELEASE)/.installed ## build kgroup.pyz: one file with kgroup and its dependencies, for this version of Python and this platform
	PIP_CONSTRAINT=constraints.txt $(RELEASE)/shiv --quiet --reproducible -c kgroup -o kgroup.pyz .

oracle: venv ## run the tests that go deeper here than in make test: more versions, more random cases
	KGROUP_ORACLE_CASES=20000 $(BIN)/python -m pytest -s -m "$(BROKER)" $$(grep -l in_depth tests/broker/test_*.py)

oracle-clients: venv ## groups of Go's and Node's client libraries against what dry runs say of them
	$(BIN)/python -m pytest -s -m oracle_clients tests/broker

fuzz: venv ## damage inputs of all kinds at random for a while (SECONDS=60) and print the figures
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60)

mutants: venv ## change a random sample of the code, a place at a time, and see what no test notices (SEED=1, MUTANTS=80 a part)
	$(BIN)/python -m tests.mutation --seed $(or $(SEED),1) --mutants $(or $(MUTANTS),80)

bench: venv ## compare with Kafka's own tools, side by side
	$(BIN)/python -m bench

lock: ## write constraints.txt anew from the newest allowed versions
	rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-lock/bin/python -m pip install --quiet --editable . --group dev --group docs --group release
	{ sed -n '/^#/p' constraints.txt; $(VENV)-lock/bin/python -m pip freeze --all --exclude-editable; } > constraints.new
	mv constraints.new constraints.txt && rm -rf $(VENV)-lock

clean: ## remove the environments, and the site
	rm -rf $(VENV) $(VENV)-docs $(VENV)-release site dist kgroup.pyz
