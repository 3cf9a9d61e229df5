# Every target sets up what it needs: a virtual environment in .venv, once, anew when pyproject.toml changes.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers

.PHONY: help setup demo pipeline-postgres-to-iceberg pipeline-kafka-to-dashboard pipeline-s3-to-kafka test quick test-numpy sanitize spark-matrix lint types imports check conformance fuzz fuzz-server faults server-kills spark-faults soak bench bench-peers bench-server bench-spark wheel installed clean

help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

$(READY): pyproject.toml setup.py $(wildcard runtime/kernels/native/*.[ch])
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed: set PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@# Also where the environment forbids Python to write bytecode: a start would compile all that it loads.
	$(BIN)/python -m compileall -q sqlengine planner runtime connectors
	@touch $@

setup: $(READY)  ## virtual environment with everything

demo: $(READY)   ## the flights example: results as they change, then the final tables
	$(BIN)/sqlengine run sql_examples/flights/delays.sql

pipeline-postgres-to-iceberg: $(READY) ## changes of PostgreSQL into Iceberg, with the servers that it needs, until Ctrl-C
	$(BIN)/python -m tests.pipelines postgres_to_iceberg

pipeline-kafka-to-dashboard: $(READY) ## messages of Kafka in a view that is served, with what it needs, until Ctrl-C
	$(BIN)/python -m tests.pipelines kafka_to_dashboard

pipeline-s3-to-kafka: $(READY) ## files of an object store into Kafka, with what it needs, until Ctrl-C
	$(BIN)/python -m tests.pipelines s3_to_kafka

test: $(READY)   ## all tests
	$(BIN)/python -m pytest -n 2

quick: $(READY)  ## the tests that take seconds
	$(BIN)/python -m pytest -n 2 -m 'not long'

test-numpy: $(READY) ## operators and golden files, as written, without the kernels in C
	SQLENGINE_NATIVE=off $(BIN)/python -m pytest -n 2 tests/unit/operators -m 'not long'
	SQLENGINE_NATIVE=off $(BIN)/python -m pytest -n 2 tests/golden -k 'written'

SANITIZED := .sanitized
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all -g
sanitize: $(READY) ## the kernels in C, and what calls them most, under the sanitizers of addresses and of undefined behaviour; needs GCC
	CC=gcc CFLAGS="$(SANITIZERS)" $(BIN)/python setup.py -q build_ext --build-lib $(SANITIZED) --build-temp $(SANITIZED)/temp
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	SQLENGINE_KERNELS=$(abspath $(SANITIZED))/runtime/kernels/native/_kernels.so \
	$(BIN)/python -m pytest -m 'not long' tests/unit/kernels tests/unit/state tests/unit/operators/test_time_to_live.py \
	    tests/unit/operators/test_ranking.py tests/unit/operators/test_group_aggregate.py --ignore tests/unit/kernels/test_abi.py

spark-matrix: $(READY) ## every golden file, Nexmark and TPC-H on a real Spark (local[2]); needs Java 17
	SPARK_MATRIX=1 $(BIN)/python -m pytest tests/spark

lint: $(READY)   ## ruff, its format, and files of at most 500 lines
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@find sqlengine planner runtime connectors tests -name '*.py' | xargs wc -l | awk '$$1 > 500 && $$2 != "total" {print $$2 ": " $$1 " lines, 500 is the most"; bad = 1} END {exit bad}'

types: $(READY)  ## pyright over everything but the tests, as pyproject.toml says
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: $(READY) ## the directions of imports
	$(BIN)/lint-imports

check: lint types imports test ## what CI runs, without the wheel

conformance: $(READY) ## compare with the recorded answers of Flink, by category
	$(BIN)/python -m tests.conformance

N ?= 10000
SEED := $(shell date +%s)
fuzz: $(READY)   ## N generated cases against DuckDB and models (N=10000), others each time (SEED=...: those again)
	@echo "seed $(SEED)"
	FUZZ_CASES=$(N) FUZZ_SEED=$(SEED) $(BIN)/python -m pytest -n 2 --timeout 0 tests/oracle/test_fuzz.py tests/oracle/test_fuzz_windows.py tests/oracle/test_edited_statements.py tests/oracle/test_open_epochs.py \
	    tests/unit/operators/test_match_recognize.py tests/unit/operators/test_match_standard.py
	FUZZ_CASES=$(N) $(BIN)/python -m pytest -n 2 --timeout 0 -k "a_model or the_same" tests/unit/table_api/test_process_functions.py tests/unit/table_api/test_process_epochs.py --hypothesis-seed=$(SEED)

MESSAGES ?= 100000
fuzz-server: $(READY) ## MESSAGES broken or hostile messages to each port of a server (MESSAGES=100000), others each time (SEED=...: those again)
	@echo "seed $(SEED)"
	HOSTILE_MESSAGES=$(MESSAGES) HOSTILE_SEED=$(SEED) $(BIN)/python -m pytest -n 0 -s --timeout 0 tests/server/test_hostile_clients.py

KILLS ?= 50
PAIR_KILLS ?= 200
faults: $(READY) ## disk faults by N seeds, each job killed KILLS times, jobs between any two systems PAIR_KILLS times (N=10000 KILLS=50 PAIR_KILLS=200), others each time
	@echo "seed $(SEED)"
	FAULT_SEEDS=$(N) FAULT_KILLS=$(KILLS) PAIR_KILLS=$(PAIR_KILLS) FAULT_FIRST_SEED=$(SEED) OPERATIONS_STEP=1 $(BIN)/python -m pytest -n 2 -s --timeout 0 tests/faults

server-kills: $(READY) ## a server under load killed KILLS times (KILLS=200): what it has acknowledged is there
	SERVER_KILLS=$(if $(filter file,$(origin KILLS)),200,$(KILLS)) FAULT_FIRST_SEED=$(SEED) $(BIN)/python -m pytest -n 0 -s --timeout 0 tests/faults/test_server_kills.py

spark-faults: $(READY) ## processes of a standalone Spark killed at random, each kind KILLS times (KILLS=20 EVENTS=10000000); needs Java 17
	SPARK_FAULTS=$(if $(filter file,$(origin KILLS)),20,$(KILLS)) SPARK_EVENTS=$(or $(EVENTS),10000000) $(BIN)/python -m pytest -n 0 -s --timeout 0 tests/spark/test_killed_at_random.py tests/spark/test_kafka_killed.py

SECONDS ?= 1800
soak: $(READY)   ## a database at work for SECONDS (1800): memory, handles, threads and files must not grow
	$(BIN)/python -m tests.faults.soak --seconds $(SECONDS)

SIZES ?= 1000000 10000000
REPEAT ?= 5
bench: $(READY)  ## Nexmark and TPC-H, us against DuckDB and what bench-peers installed; goes on where it was stopped
	$(BIN)/python -m tests.benchmarks.compare nexmark $(SIZES) --repeat $(REPEAT)
	$(BIN)/python -m tests.benchmarks.compare tpch $(SIZES) --repeat $(REPEAT)
	$(BIN)/python -m tests.benchmarks.latency
	$(BIN)/python -m tests.benchmarks.idle
	$(BIN)/python -m tests.benchmarks.growth
	$(BIN)/python -m tests.benchmarks.startup
	$(BIN)/python -m tests.benchmarks.batch
	$(BIN)/python -m tests.benchmarks.batch --from memory
	$(BIN)/python -m tests.benchmarks.process_functions
	$(BIN)/python -m tests.benchmarks.user_functions
	$(BIN)/python -m tests.benchmarks.report

bench-server: $(READY) ## the bars of the server, with psycopg and asyncpg
	$(BIN)/python -m tests.benchmarks.server

bench-spark: $(READY) ## the bars of the Spark runtime on this machine and on a standalone cluster, and how costs grow; needs Java 17
	$(BIN)/python -m tests.benchmarks.spark_bars local
	$(BIN)/python -m tests.benchmarks.spark_bars standalone
	$(BIN)/python -m tests.benchmarks.spark_operators local
	$(BIN)/python -m tests.benchmarks.spark_operators standalone
	$(BIN)/python -m tests.benchmarks.spark_scale

bench-peers: $(READY) $(PEERS)/.ready ## Flink 2.3 beside us: patterns, process functions, five joins, and for `make bench`; needs Java 17 and Maven
	$(BIN)/python -m tests.benchmarks.patterns
	$(BIN)/python -m tests.benchmarks.process_functions
	$(BIN)/python -m tests.benchmarks.five_way

$(PEERS)/.ready: tests/benchmarks/flink_jars.xml
	@command -v mvn >/dev/null || { echo "Maven is needed (and Java 17)"; exit 1; }
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check 'apache-flink==2.3.0'
	mvn --quiet --file tests/benchmarks/flink_jars.xml dependency:copy-dependencies -DoutputDirectory=$(abspath $(PEERS))/jars
	@touch $@

wheel: $(READY)  ## build the wheel into dist/
	rm -rf dist build
	$(BIN)/python -m build --wheel --outdir dist .

INSTALLED := .venv-installed
installed: wheel ## the demo and the quick tests against the wheel (golden files as written), beside a user's own runtime.py, planner.py and connectors/
	rm -rf $(INSTALLED)
	$(PYTHON) -m venv $(INSTALLED)
	$(INSTALLED)/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[dev]"
	mkdir $(INSTALLED)/tests
	$(BIN)/python -m tests.installed $(INSTALLED)/tests
	cd $(INSTALLED)/tests && ../bin/sqlengine run sql_examples/flights/delays.sql > demo.txt && tail -n 5 demo.txt
	cd $(INSTALLED)/tests && ../bin/python -m pytest -n 2 -m 'not long' -k 'not test_golden or written' --ignore tests/docs

clean:           ## remove what these targets made
	rm -rf $(VENV) $(SANITIZED) $(PEERS) $(INSTALLED) .venv-dbt .venv-flink-clients .venv-pgjdbc build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
