#!/usr/bin/env bash
# Builds the wheel, installs it into an environment of its own with PyTorch and PyTorch Geometric, and runs the tests of the
# Python package and what the pages show. Needs python3 with venv, a network, and 6 GB: PyTorch brings CUDA's libraries.
#
#   python/check.sh             about five minutes, two of them for PyTorch the first time
#   python/check.sh --slow      also accuracies on Cora, for which five seeds are trained with both
#
# Arguments go to pytest. Tests of DGL are skipped: it has no wheel for this PyTorch (CONTRIBUTING.md says how to run them).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/wheel.sh
environment=target/python/check
if ! cmp -s python/tests/requirements.txt "$environment/installed.txt"; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --requirement python/tests/requirements.txt
  cp python/tests/requirements.txt "$environment/installed.txt"
fi
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/gnnc-*.whl
# From the root, where no folder is called gnnc: what is tested is what was installed.
exec "$environment/bin/python" -m pytest -q -rs -p no:cacheprovider python/tests "$@"
