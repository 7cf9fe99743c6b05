#!/usr/bin/env bash
# Builds the wheel of the Python package into target/wheels, for any CPython from 3.9. Needs python3 with venv, and pip once.
#
#     scripts/wheel.sh                  # for C libraries as old as its symbols allow, such as manylinux_2_34 on Debian 12
#     scripts/wheel.sh --glibc 2.17     # for that C library and newer, linked by Zig, which comes from PyPI
set -euo pipefail
cd "$(dirname "$0")/.."
environment=target/python/build
for tool in maturin==1.16.0 ziglang==0.17.1; do
  # Only builds for an older C library need Zig, which has 100 MB.
  if [ "${tool%%=*}" = maturin ] || [ "${1:-}" = --glibc ]; then
    [ -x "$environment/bin/python" ] || python3 -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$tool"
  fi
done
GNNC_COMMIT="${GNNC_COMMIT-$(scripts/commit.sh)}"
export GNNC_COMMIT
older=()
if [ "${1:-}" = --glibc ]; then
  # Where maturin looks for Zig.
  export PATH="$PWD/$environment/bin:$PATH"
  older=(--zig --target "$(rustc --print host-tuple)" --compatibility "manylinux_${2/./_}")
fi
rm -rf target/wheels
"$environment/bin/maturin" build --release --locked --strip --manifest-path python/Cargo.toml --out target/wheels "${older[@]}"
