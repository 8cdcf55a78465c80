# Start here: `make demo` and `make test` install everything they need. `make help` lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

PORT_SHIFT    ?= 0
HEADRACE_HOME ?= .headrace
ENGINE        ?=
BROKERS       ?=
SECURE        ?=
LOG           ?=
KEEP          ?=
RESULTS       ?=
export PORT_SHIFT HEADRACE_HOME KEEP LOG
# What the live and the offline cluster are: headrace (our broker) or kafka. Without it, what the home was made with.
export HEADRACE_ENGINE := $(or $(ENGINE),$(HEADRACE_ENGINE))
# How many brokers the live cluster has: 1, or up to 3 with replicated topics. Without it, what the home was made with.
export HEADRACE_BROKERS := $(or $(BROKERS),$(HEADRACE_BROKERS))
# Everything over TLS, with logins and the least rights of each role. Without it, as the home was made.
export HEADRACE_SECURE := $(or $(SECURE),$(HEADRACE_SECURE))

# Prints what this machine lacks, one line each, before anything is installed or started.
preflight = @$(PYTHON) -I -c 'import fcntl, shutil' 2>/dev/null || \
	{ echo "headrace: there is no $(PYTHON), or it lacks its standard library: sudo apt install python3-venv" >&2; exit 1; }; \
	$(PYTHON) -I platform/local/preflight.py

RUN := $(BIN)/python -m tests.run $(if $(RESULTS),--results "$(RESULTS)")

TARGETS := $(shell sed -n 's/^\([a-z][a-z0-9 -]*\):.*\#\# .*/\1/p' $(MAKEFILE_LIST))
.PHONY: $(TARGETS)
.DEFAULT_GOAL := install

help: ## This list
	@sed -n 's/^\([a-z][a-z0-9 -]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-58s %s\n", $$1, $$2 }'

install: $(STAMP) ## Build .venv (once; every target that needs it runs this), and say whether its hot paths run in C
	@$(if $(is_built_now)$(filter-out install,$(MAKECMDGOALS)),:,$(BIN)/python -I platform/local/environment.py hot-paths)

$(STAMP): requirements.lock pyproject.toml native/pyproject.toml $(wildcard native/*.c native/*.h)
	$(preflight) install
	@$(PYTHON) -I platform/local/environment.py
	$(eval is_built_now := yes)

demo: ## Send real events through the whole pipeline and audit them (LOG=access.log, KEEP=1, ENGINE=kafka, BROKERS=3, SECURE=1, PORT_SHIFT=n, HEADRACE_HOME=dir)
	$(preflight) demo
	@$(MAKE) --silent --no-print-directory install
	@$(BIN)/headrace demo $(if $(LOG),--log "$(LOG)")

up: ## Start the platform and return when everything is ready (BROKERS=3: the live cluster has three brokers; SECURE=1: TLS, logins and rights, also with ENGINE=kafka)
	$(preflight) up
	@$(MAKE) --silent --no-print-directory install
	@$(BIN)/headrace up

down status: install ## Stop the platform; show its processes
	@$(BIN)/headrace $@

test: ## All tests, then a table of passed, failed and skipped ones
	$(preflight) test
	@$(MAKE) --silent --no-print-directory install
	@$(RUN)

test-fast: install ## Formats, types, layers, and the unit tests with few examples: under two minutes
	@$(RUN) --fast

test-root: install ## The tests that need root: power cuts of a real disk, full disks (sudo make test-root)
	@$(RUN) --as-root

lint unit contract search fuzz integration crash power e2e kafka security: install ## One folder of the tests
	@$(RUN) $@

simulate: install ## Search on for a run in which replicas lose or change a record, to a million; resumes where it stopped (SEED=n plays one)
	@$(BIN)/python -m tests.simulate $(if $(SEED),--seed $(SEED))

simulate-whole: install ## Search on for a run in which three whole brokers break a promise; resumes where it stopped (SEED=n plays one and shrinks it, SAFEGUARDS=n switches safeguards off and plays n seeds for each)
	@$(BIN)/python -m tests.simulate.whole $(if $(SEED),--seed $(SEED)) $(if $(SAFEGUARDS),--safeguards $(SAFEGUARDS))

faults: install ## Kill, freeze, cut off and fill up three brokers under load for 50 rounds; compare every record and the bytes of the logs (ROUNDS=n SEED=n FROM=n)
	@$(BIN)/python -m tests.faults --rounds $(or $(ROUNDS),50) $(if $(SEED),--seed $(SEED)) $(if $(FROM),--from-round $(FROM))

audit-search: install ## Search on for a history in which the audit is wrong, to a million; resumes where it stopped (SEED=n plays one)
	@$(BIN)/python -m tests.search.audit $(if $(SEED),--seed $(SEED))

audit-faults: install ## Plant faults in a running platform and check that the audit tells each record (a quarter of an hour)
	$(BIN)/pytest tests/audit_faults

test-clients: install ## Clients of other languages (needs a JDK with Maven, Go, and Node with npm; downloads from their registries)
	$(BIN)/pytest tests/clients

test-security: install ## All of our clients on Apache Kafka with TLS and each SASL mechanism (needs Java, and Maven for its first run; fifteen minutes)
	$(BIN)/pytest -rs tests/security

test-rights: install ## Compare a million decisions about rights with those of Kafka's own authorizer (needs a JDK and Maven; a minute)
	@$(BIN)/python -m tests.rights $(if $(SEED),--seed $(SEED))

test-kafka: install ## The platform and the mirror on Apache Kafka, end to end (needs Java, and Maven or KAFKA_HOME; half an hour)
	$(BIN)/pytest -rs tests/kafka

test-stores: install ## Loads into a folder, an object store and a REST catalog, killed on the way (needs Java, PostgreSQL, Go, Maven; ten minutes)
	$(BIN)/pytest -rs tests/integration/stores

test-runbooks: install ## Runbooks of docs/OPERATIONS.md: restarts, lost disks with everything on them, lost ensembles (needs Java; five minutes)
	$(BIN)/pytest -rs tests/integration/deploy/test_runbooks.py tests/integration/deploy/test_lost_live_disk.py tests/integration/deploy/test_lost_ensemble.py

test-upgrade: ## Upgrade everything from an older version, and back, under load (FROM=commit or tag; needs the git history; four minutes)
	@test "$$(git -C "$(CURDIR)" rev-parse --show-toplevel 2>/dev/null)" -ef "$(CURDIR)" || { echo "headrace: test-upgrade takes the \
	older version from the git history, and $(CURDIR) has none, or there is no git: run it in a clone" >&2; exit 1; }
	@$(MAKE) --silent --no-print-directory install
	HEADRACE_UPGRADE_FROM="$(FROM)" $(BIN)/pytest -rs -rP tests/integration/deploy/test_upgrade.py tests/integration/deploy/test_upgrade_replication.py

test-cluster: install ## Loads on a Spark cluster of this machine, by spark-submit, with workers that die (needs Java, PostgreSQL, Go; ten minutes)
	$(BIN)/pytest -rs tests/integration/cluster

test-whole: install ## All that is marked whole in tests/integration: more of Airflow's scheduler, stores, Spark clusters, kills (an hour)
	$(BIN)/pytest -rs -m whole tests/integration

test-containers: install ## Build the images, and run the compose file's two datacenters from them (root; needs buildah, mmdebstrap; twenty minutes)
	@test -x .venv-containers/bin/python || { $(PYTHON) -m venv .venv-containers \
		&& .venv-containers/bin/pip install --quiet kubernetes-validate==1.37.0 \
		&& .venv-containers/bin/pip install --quiet --no-deps docker-compose==1.29.2; }
	HEADRACE_SCHEMAS=$(CURDIR)/.venv-containers/bin/python $(BIN)/pytest -rs tests/containers

test-openapi: install ## Check the schema registry against its OpenAPI document with schemathesis (own environment, a few minutes)
	@test -x .venv-openapi/bin/schemathesis || { $(PYTHON) -m venv .venv-openapi && .venv-openapi/bin/pip install --quiet schemathesis==4.32.5; }
	HEADRACE_SCHEMATHESIS=$(CURDIR)/.venv-openapi/bin/schemathesis $(BIN)/pytest tests/openapi

packages: install ## Build the wheels (headrace, headrace_native) and the sdist into dist/, and try them in empty environments
	@$(BIN)/python -m tests.packages

chaos-sdk: install ## Kill applications, agent and broker 1,000 times; check every event by its id (ARGUMENTS='--rounds 20 --seed 7')
	@$(BIN)/python -m tests.chaos_sdk $(ARGUMENTS)

chaos-mirror: install ## Kill mirror, source and destination for 100 rounds; compare every record (ARGUMENTS='--rounds 20 --seed 7'; half an hour)
	@$(BIN)/python -m tests.kafka.kills $(ARGUMENTS)

chaos-inout: install ## Kill the agent that receives, and each sink, 20 times; count what was acknowledged and written (ten minutes)
	@HEADRACE_RECEIVE_KILLS=20 HEADRACE_SINK_KILLS=20 $(BIN)/python -m pytest -q -n0 tests/integration/agent/test_receive.py tests/integration/sinks/test_sinks.py

chaos-registry: install ## Kill and freeze leading registries under load, and start everything in an outage, Spark too (ROUNDS=30)
	HEADRACE_REGISTRY_KILLS=$(or $(ROUNDS),30) $(BIN)/pytest -rs tests/integration/schema_registry/test_two_registries.py tests/integration/schema_registry/test_started_in_an_outage.py

pictures: install ## Make README's two pictures in docs/figures from a running platform (make up first; needs chromium; three minutes)
	@$(BIN)/python -m tests.pictures

hostile: install ## Attack registry and audit under a small workload; write docs/SECURITY_TESTS.md (half an hour; ARGUMENTS='--seconds 4')
	@$(BIN)/python -m tests.hostile --write docs/SECURITY_TESTS.md $(ARGUMENTS)

kill-loads: install ## Kill loads of all topics at random, and check every record after each (ARGUMENTS='--rounds 20 --seed 7')
	@$(BIN)/python -m tests.integration.spark.kill_rounds $(ARGUMENTS)

kill-compactions: install ## Kill compactions, retentions and clean-ups at each step, and check every row after each (ARGUMENTS='--rounds 20 --seed 7')
	@$(BIN)/python -m tests.integration.maintenance.rounds $(ARGUMENTS)

kill-streams: install ## Kill Spark streams and their broker 20 times, and check every row after each (half an hour)
	@HEADRACE_STREAM_KILLS=20 $(BIN)/pytest -q -n0 tests/integration/spark/test_streaming.py -k killed

kill-cluster: install ## Kill executors, workers and drivers of loads on a Spark cluster, and lose catalog answers (ARGUMENTS='--rounds 20 --catalog rest')
	@$(BIN)/python -m tests.integration.cluster.kill_rounds $(ARGUMENTS)

kill-commits: install ## Kill loads at their commits behind a catalog that loses answers, without Spark (ARGUMENTS='--rounds 200 --catalog rest')
	@$(BIN)/python -m tests.integration.cluster.commit_rounds $(ARGUMENTS)

kill-readers: install ## Kill and freeze readers that store with positions, and check every row after each round (ARGUMENTS='--rounds 200 --seed 7')
	@$(BIN)/python -m tests.integration.reader.kill_rounds $(ARGUMENTS)

bench: install ## Measure the broker beside others (docs/BENCHMARKS.md)
	@$(BIN)/python -m bench

audit-scale: install ## Measure the audit service on a store of 10,000 topics (half an hour, 6 GB; ARGUMENTS='--topics 100')
	@$(BIN)/python -m bench.audit_scale $(ARGUMENTS)
