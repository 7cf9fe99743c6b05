#!/usr/bin/env bash
# Builds the wheel of the Python package into target/wheels, for any CPython from 3.9. Needs python3 with venv, and pip once.
#
#   scripts/wheel.sh          for this machine's C library and newer ones
#   scripts/wheel.sh --zig    for glibc 2.17 and newer (manylinux2014), with the compiler of Zig in place of cc
set -euo pipefail
cd "$(dirname "$0")/.."
environment=target/python/build
requirements=(maturin==1.16.0)
options=()
case "${1:-}" in
"") ;;
--zig)
  requirements+=(ziglang==0.15.1)
  options+=(--zig --compatibility manylinux2014)
  ;;
*)
  echo "found the option '$1', expected --zig or none" >&2
  exit 2
  ;;
esac
if [ ! -x "$environment/bin/python" ]; then
  python3 -m venv "$environment"
fi
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check "${requirements[@]}"
rm -rf target/wheels
# Zig is found beside maturin.
PATH="$PWD/$environment/bin:$PATH" maturin build --release --strip --manifest-path python/Cargo.toml --out target/wheels "${options[@]}"
