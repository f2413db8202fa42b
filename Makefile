# The five verbs. Each makes what it needs: a Python >= 3.10 with its venv module and make are enough to begin.
#
#   make demo    a real model, a daemon, hits, a refused twin, a wrong hit on purpose and its proof
#   make test    every test, with real daemons, real models and a vLLM on the CPU (ARGS= goes to pytest; JOBS=4 processes,
#                0: in one, for a debugger; VLLM_VENV= leaves the vLLM and the SGLang out)
#   make test-gpu   what needs an NVIDIA GPU; skipped where there is none (PYTHON_GPU= a Python that has torch with CUDA)
#   make test-sglang   a whole SGLang engine on two ranks of the CPU and a drill, besides its own loading that `make test` has
#   make test-kill  every process killed by every signal in every phase (ROUNDS=216, SEED=); its last line says what was lost
#   make lint    formatting, types, import directions, generated documents
#   make bench   measured comparisons of this machine; fails where a ratio is twice as bad as the recorded one (ARGS=attach: one program)
#   make docs    write docs/reference/ from the code
#   make soak    ten minutes of everything with processes killed at random (SECONDS=600 SEED=...)
#   make fuzz    a million inputs each for the header parser and the wire (RUNS=1000000)

VENV ?= .venv
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.10 python3.14 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo "$$python" && break; done)

BIN := $(VENV)/bin

# Byte code is kept, as that of an installed package is: the tests start thousands of processes, and each would compile wcache anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo environments test test-gpu test-sglang test-kill lint format bench docs soak fuzz clean

help:
	@sed -n 's/^#   //p' Makefile

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python >= 3.10 on PATH; say PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp a dependency group. `--group` (PEP 735) needs pip 25.1.
$(VENV)/.pip: | $(BIN)/python
	$(BIN)/python -m pip install --quiet 'pip>=25.1'
	@touch $@

$(VENV)/.%: pyproject.toml constraints-dev.txt $(VENV)/.pip
	@echo "installing the $* dependencies into $(VENV) (once)"
	$(BIN)/python -m pip install --quiet --constraint constraints-dev.txt --editable . --group $*
	@touch $@

# A vLLM for the CPU; its tests are skipped where there is none.
VLLM_VENV ?= .venv-vllm

$(VLLM_VENV)/.built: constraints-vllm.txt tests/support/vllm_environment.py | $(VENV)/.dev
	@echo "installing a vLLM for the CPU into $(VLLM_VENV) (once)"
	$(BIN)/python tests/support/vllm_environment.py $(VLLM_VENV)
	@touch $@

$(VLLM_VENV)/.wcache: pyproject.toml $(VLLM_VENV)/.built
	$(VLLM_VENV)/bin/python -m pip install --quiet --no-deps --editable .
	@touch $@

# SGLang's own code without its CUDA libraries, beside the vLLM, whose libraries it shares.
SGLANG_VENV ?= $(if $(VLLM_VENV),.venv-sglang)

$(SGLANG_VENV)/.wcache: pyproject.toml constraints-sglang.txt tests/support/sglang_environment.py $(VLLM_VENV)/.built
	@echo "installing an SGLang into $(SGLANG_VENV) (once)"
	$(BIN)/python tests/support/sglang_environment.py $(SGLANG_VENV) $(VLLM_VENV)
	test ! -x $(SGLANG_VENV)/bin/python || $(SGLANG_VENV)/bin/python -m pip install --quiet --no-deps --editable .
	@mkdir -p $(SGLANG_VENV) && touch $@

demo: $(VENV)/.demo
	@$(BIN)/python demo/run.py

# What `make test` needs, so that it can be had while something else is done.
environments: $(VENV)/.dev $(if $(VLLM_VENV),$(VLLM_VENV)/.wcache) $(if $(SGLANG_VENV),$(SGLANG_VENV)/.wcache)

# Many tests wait, for two seconds until a fresh file is old enough for example: more processes than cores.
JOBS ?= 4

test: environments
	WCACHE_TEST_VLLM=$(VLLM_VENV) WCACHE_TEST_SGLANG=$(SGLANG_VENV) $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

# A torch with CUDA is several GB and its build depends on the driver: the machine's own Python may have one.
test-gpu: $(if $(PYTHON_GPU),,$(VENV)/.dev)
	$(if $(PYTHON_GPU),PYTHONPATH=$(CURDIR)/typings$(if $(PYTHONPATH),:$(PYTHONPATH)) $(PYTHON_GPU),$(BIN)/python) -m pytest -m gpu tests/gpu $(ARGS)

# A whole SGLang engine on two ranks, and a drill of `sglang serve`: ten minutes on two cores. `make test` has SGLang's own loading, in one process.
test-sglang: $(VENV)/.dev $(SGLANG_VENV)/.wcache
	WCACHE_TEST_SGLANG=$(SGLANG_VENV) WCACHE_TEST_SGLANG_ENGINE=1 $(BIN)/python -m pytest tests/e2e/test_sglang.py $(ARGS)

test-kill: $(VENV)/.dev
	$(BIN)/python tests/daemon/kill_matrix.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED))

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/generate.py --check

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev $(VENV)/.bench
	@$(BIN)/python bench/run.py $(ARGS)

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

SECONDS ?= 600

soak: $(VENV)/.dev
	@$(BIN)/python tests/daemon/soak.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

RUNS ?= 1000000

fuzz: $(VENV)/.dev $(VENV)/.fuzz
	$(BIN)/python fuzz/fuzz_header.py -runs=$(RUNS)
	$(BIN)/python fuzz/fuzz_wire.py -runs=$(RUNS)

clean:
	rm -rf $(VENV) $(VLLM_VENV) $(SGLANG_VENV) demo-run build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
