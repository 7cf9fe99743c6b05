#!/usr/bin/env bash
# Fetches NVRTC, NVIDIA's compiler for CUDA C as a library, from PyPI into `.venv-nvrtc/`, where the
# tests look for it. Needs Python with pip, no GPU and no CUDA. Generated kernels include no headers,
# so none are fetched.
#
#     scripts/nvrtc.sh && cargo test --release --test cuda
#
# Version 13.0 and not newer: drivers of the 580 series refuse the PTX of later ones.
set -euo pipefail
cd "$(dirname "$0")/.."
"${PYTHON:-python3}" -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
  --no-deps --upgrade --target .venv-nvrtc "nvidia-cuda-nvrtc==13.0.*"
ls .venv-nvrtc/nvidia/*/lib
