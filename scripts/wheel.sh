#!/usr/bin/env bash
# Builds the wheel of the Python package into target/wheels, for any CPython from 3.9. Needs python3 with venv, and pip once.
#
# The wheel's name says which C libraries it runs with: as old as its symbols allow, such as manylinux_2_34 of Debian 12.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=target/python/build
if [ ! -x "$environment/bin/maturin" ]; then
  python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check maturin==1.16.0
fi
rm -rf target/wheels
"$environment/bin/maturin" build --release --strip --manifest-path python/Cargo.toml --out target/wheels
