# Two commands matter: `make demo` and `make test`. Each makes its own .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SIDE_BY_SIDE := -n auto --maxprocesses 4 --dist loadfile  # what starts no cluster and no browser
ALONE = $$(grep -rlE 'mark\.(cluster|browser)' tests --include='test_*.py' | sort)  # what does

.PHONY: demo test test-all test-gpu lint bench picture clean

$(VENV)/.runtime: pyproject.toml .ci/constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("vizdist needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e .
	touch $@

$(VENV)/.test: $(VENV)/.runtime
	$(BIN)/pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e '.[test]'
	touch $@

demo: $(VENV)/.runtime  ## capture real runs, then show them in the browser
	$(BIN)/vizdist demo

lint: $(VENV)/.test  ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint  ## everything that fits in twelve minutes
	.ci/chromium $(BIN)/python
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "not slow and not gpu and not cluster and not browser"
	$(BIN)/pytest $(ALONE) -m "(cluster or browser) and not slow and not gpu"

test-all: lint  ## the full matrix, faults and every page: up to an hour
	.ci/chromium $(BIN)/python
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "not gpu and not cluster and not browser"
	$(BIN)/pytest $(ALONE) -m "(cluster or browser) and not gpu"

test-gpu: $(VENV)/.test  ## what needs a GPU: its tests, then runs and what their traces say
	tests/gpu/run.sh

bench: $(VENV)/.test .venv-tensorflow/.ready  ## ours and its peers, interleaved; prints JSON
	for bench in tests/bench/bench_*.py; do PYTHONPATH=. $(BIN)/python $$bench || exit 1; done

.venv-tensorflow/.ready:  # TensorFlow needs packages of its own: an environment of its own
	$(PYTHON) -m venv .venv-tensorflow
	.venv-tensorflow/bin/pip install --quiet --disable-pip-version-check tensorflow-cpu psutil
	touch $@

picture: $(VENV)/.test  ## the README's picture, from a real run
	$(BIN)/python -m tests.browser.picture .github/dashboard.png

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
