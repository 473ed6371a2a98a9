# Two commands do everything on a machine with Python 3.11+, git and make: `make estimate` (the main job) and `make test` (all that CI runs).
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
ARGS ?= meta-llama/llama-3.1-8b --device h100-80gb --engine ideal --context 32768 --batch 16

.PHONY: estimate shell test test-fast test-lowest explore fuzz lint bench accuracy validate docs clean

estimate: .venv/installed
	$(BIN)/kvplan estimate $(ARGS)

# A shell in which `kvplan` is the command; how its last command ended (1: does not fit) is no error of make's.
shell: .venv/installed
	@PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV="$(CURDIR)/.venv" $${SHELL:-/bin/sh} || true

# Workers, and the processes that tests start, share the bytecode of the package and of tests whose asserts pytest rewrote: without it each
# of them compiles all of that.
test test-fast: export PYTHONDONTWRITEBYTECODE =

test: lint
	$(BIN)/pytest -n auto --dist worksteal

test-fast: .venv/dev
	$(BIN)/pytest -n auto --dist worksteal -m "not slow"

# The properties on random draws, EXAMPLES times as many as in `make test`, which draws the same everywhere.
EXAMPLES ?= 10
explore: .venv/dev
	HYPOTHESIS_PROFILE=explore EXAMPLES=$(EXAMPLES) $(BIN)/pytest -m hypothesis

# Changed seeds into every parser of files from elsewhere (says inputs, slowest, peak memory; keeps what crashes in fuzz/crashes), random
# questions, and kills. fuzz/guided.py is the first of them with atheris, where that installs.
SECONDS ?= 60
QUESTIONS ?= 10000
fuzz: .venv/dev
	$(BIN)/python fuzz/run.py --seconds $(SECONDS)
	$(BIN)/python fuzz/questions.py --questions $(QUESTIONS)
	$(BIN)/python fuzz/kills.py

# The fast tests on the lowest versions that pyproject.toml allows of what kvplan itself needs (torch, which measures, is not there).
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	$(PYTHON) tools/lowest_versions.py hub simulate sweep > .venv-lowest/constraints.txt
	.venv-lowest/bin/pip install -q --disable-pip-version-check -c .venv-lowest/constraints.txt -e '.[hub,simulate,sweep]' pytest pytest-xdist hypothesis jsonschema
	.venv-lowest/bin/pytest -n auto --dist worksteal -m "not slow"

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Benchmarks, and docs/performance.md; beside peers and vLLM's own manager where they are (PEERS=/path/to/venv VLLM=/path/to/python).
bench: .venv/dev
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python tools/performance_page.py run write $(if $(PEERS),--peers $(PEERS)) $(if $(VLLM),--vllm $(VLLM))

# Predicted against published start-up logs, leave-one-group-out, and the table in docs/budget.md; needs the log set beside the checkout.
# Then docs/accuracy.md, the tables in docs/limits.md and docs/weights.md, and beside peers where an environment has them (PEERS=/path/to/venv).
PEERS ?=
accuracy: .venv/dev
	$(BIN)/python tools/accuracy.py --document docs/budget.md
	$(if $(PEERS),$(BIN)/python tools/peers.py $(PEERS) --keep benchmarks/kept/peers.json)
	$(BIN)/python tools/reliability.py write
	$(BIN)/python tools/accuracy_page.py count write
	$(BIN)/python tools/blind_sets.py write
	$(BIN)/python tools/logged_weights.py docs/weights.md
	$(BIN)/python tools/accuracy_lines.py docs/budget.md README.md

# Allocates the caches of every layer kind for real, on the GPU where there is one (ON=cpu or ON=cuda chooses), and keeps the receipts.
ON ?= $(shell $(BIN)/python -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")' 2>/dev/null || echo cpu)
validate: .venv/dev
	$(BIN)/kvplan validate --all-kinds --on $(ON) --record validation/$(ON)-kinds.json
	$(BIN)/kvplan validate meta-llama/llama-3.1-8b --context 8k --on $(ON) --record validation/$(ON)-llama.json
	$(BIN)/kvplan validate --speed --on $(ON) --record validation/$(ON)-speed.json
	$(BIN)/python tools/validation_page.py validation docs

# The pages as a site in build/site, every link and anchor checked; what the tests check of them needs no site. What tools make first.
docs: .venv/docs
	$(BIN)/python tools/reference.py docs/reference.md
	$(BIN)/python tools/first_picture.py docs/first-answer.svg
	$(BIN)/python tools/notebook.py docs/python.md examples/capacity.ipynb
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

clean:
	rm -rf .venv .venv-lowest dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "kvplan needs Python 3.11 or newer; name one with make PYTHON=/path/to/python3.12"; exit 2; }
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -e '.[hub]'
	@touch $@

.venv/docs: .venv/bin/python pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -e '.[docs]'
	@touch $@ .venv/installed

# Of torch's and transformers' 13,000 files the tests import a part: those are compiled when they are.
.venv/dev: .venv/bin/python pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $@ .venv/installed
