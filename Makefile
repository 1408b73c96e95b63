# Everything a newcomer needs: `make demo`, `make test`. A fresh clone needs only Python 3.11 and make.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Without CUDA, which takes three quarters of the disk; `make wheelhouse TORCH=torch` for a machine with a GPU.
TORCH  ?= --index-url https://download.pytorch.org/whl/cpu torch
EXTRAS ?= database,formats
# What is compiled is kept, also where the environment says otherwise: tests start a hundred processes, each of which would compile anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo test test-all fuzz fuzz-short browser-test page-screenshots lint docs bench bench-evaluate bench-gpu audit killed-fits recipes any-size wheelhouse clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --quiet --constraint constraints.txt --editable '.[demo,dev]'
	@touch $(STAMP)

demo: install
	$(BIN)/synthdp demo out=outputs/demo force=true

test: install  ## what guards every law in small; minutes
	$(BIN)/python -m pytest -m "not heavy and not fuzz" -n 2 --dist worksteal

test-all: install  ## the rest: broad sweeps, audits and long proofs; longer
	$(BIN)/python -m pytest -m "heavy and not fuzz" -n 2 --dist worksteal

fuzz-short: install  ## 6 seconds of each target, from the same seed on every machine
	SYNTHDP_FUZZ_SECONDS=6 SYNTHDP_FUZZ_SEED=1 $(BIN)/python -m pytest -m fuzz -n 2 tests/fuzz

fuzz: install  ## 15 minutes of each target; hours
	SYNTHDP_FUZZ_SECONDS=900 $(BIN)/python -m pytest -m fuzz -n 2 -rA tests/fuzz

browser-test: install  ## needs chromium
	$(BIN)/python -m pytest -m browser

page-screenshots: install  ## needs chromium, and outputs/demo (make demo)
	$(BIN)/python recipes/page_screenshots.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: install  ## into docs/_build/html; a warning is an error
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: install
	OMP_NUM_THREADS=1 $(BIN)/python recipes/bench_step.py
	OMP_NUM_THREADS=1 $(BIN)/python recipes/bench_noise.py
	OMP_NUM_THREADS=1 $(BIN)/python recipes/growth.py
	OMP_NUM_THREADS=1 $(BIN)/python recipes/known_dynamics.py

bench-evaluate: install  ## needs SYNTHDP_DATA; about 7 minutes on two cores
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[xgboost]'
	$(BIN)/python recipes/bench_evaluate.py

bench-gpu: install  ## needs a CUDA device
	$(BIN)/python recipes/bench_gpu.py

audit: install  ## no data needed; about 35 minutes on two cores; stopped, it goes on where it was
	OMP_NUM_THREADS=1 $(BIN)/python recipes/audit.py

killed-fits: install  ## fits killed at random moments; no data needed, about 10 minutes
	OMP_NUM_THREADS=1 $(BIN)/python recipes/killed_fits.py

recipes: install  ## needs SYNTHDP_DATA; hours, most of them pategan_paper
	$(BIN)/python recipes/adult_dpgan.py
	OMP_NUM_THREADS=1 $(BIN)/python recipes/kernel_teachers_adult.py
	OMP_NUM_THREADS=1 $(BIN)/python recipes/pategan.py
	OMP_NUM_THREADS=1 $(BIN)/python recipes/pategan_paper.py
	$(BIN)/python recipes/pate_adult.py
	$(BIN)/python recipes/pate_diabetes.py
	$(BIN)/python recipes/pate_mnist.py
	$(BIN)/python recipes/pate_curves.py
	OMP_NUM_THREADS=1 $(BIN)/python recipes/trainer_mnist.py --choose
	OMP_NUM_THREADS=1 $(BIN)/python recipes/plain_dpgan.py
	OMP_NUM_THREADS=1 $(BIN)/python recipes/images.py --data mnist --picture classgauss dpgan
	OMP_NUM_THREADS=1 $(BIN)/python recipes/images.py --data pneumoniamnist --picture classgauss dpgan
	for data in adult meps diabetes130; do OMP_NUM_THREADS=1 $(BIN)/python recipes/compare_generators.py --data $$data || exit 1; done
	OMP_NUM_THREADS=1 $(BIN)/python recipes/tabular.py
	$(BIN)/python recipes/papers.py
	$(BIN)/python recipes/readme.py

any-size: install  ## 10^8 rows; an hour, 15 GiB of disk under outputs/
	mkdir -p outputs
	$(BIN)/python recipes/any_size.py --rows 100000000 --folder outputs

wheelhouse:  ## every wheel that a machine without internet needs, of the same system and Python as this one
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir wheelhouse --constraint constraints.txt $(TORCH)
	$(PYTHON) -m pip wheel --quiet --wheel-dir wheelhouse --find-links wheelhouse --constraint constraints.txt '.[$(EXTRAS)]'

clean:
	rm -rf $(VENV) outputs build dist .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
