#!/usr/bin/env bash
# Installs the libraries that gnnc is compared with, each into its own virtual environment at the
# repository root: .venv-dgl (DGL) and .venv-pyg (PyTorch Geometric). Safe to run again: what is
# there stays, and a package whose build failed is tried again. Ends by printing what is installed.
#
#   benches/peers/setup.sh [dgl] [pyg] [sparse]     all three without arguments
#
# "sparse" builds torch_scatter and torch_sparse from source into .venv-pyg (needs a C++ compiler;
# 10 to 30 minutes at low priority). PyG runs without them, with two variants instead of three.
#
#   PYTHON       the interpreter (default python3; DGL 2.1.0 has wheels for 3.8 to 3.11)
#   TORCH_INDEX  package index for torch alone; with https://download.pytorch.org/whl/cpu no CUDA
#                libraries come along, which PyPI's torch wants merely to be imported (5 GB)
#   MAX_JOBS     compilers at once (default 1)
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
python="${PYTHON:-python3}"
export MAX_JOBS="${MAX_JOBS:-1}" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
export DGLBACKEND=pytorch # or it writes a file into the home directory
torch_index=()
if [ -n "${TORCH_INDEX:-}" ]; then torch_index=(--index-url "$TORCH_INDEX"); fi
parts=("$@")
if [ ${#parts[@]} -eq 0 ]; then parts=(dgl pyg sparse); fi

environment() { # NAME: makes root/NAME with pip
  if [ ! -x "$root/$1/bin/python" ]; then "$python" -m venv "$root/$1"; fi
}

install() { # ENVIRONMENT PIP-ARGUMENTS: quietly and at low priority
  local env="$1"
  shift
  nice -n 19 "$root/$env/bin/python" -m pip install --quiet "$@"
}

works() { # ENVIRONMENT MODULE: whether it can be imported
  (cd / && "$root/$1/bin/python" -c "import $2" >/dev/null 2>&1)
}

for part in "${parts[@]}"; do
  case "$part" in
  dgl)
    environment .venv-dgl
    if ! works .venv-dgl dgl; then
      # DGL 2.1.0 asks for any torch, but its graphbolt library is built for 2.2 and older.
      install .venv-dgl "${torch_index[@]}" "torch==2.2.1"
      install .venv-dgl "dgl==2.1.0" "torchdata==0.7.1" "numpy<2" scipy pandas pydantic pyyaml
    fi
    ;;
  pyg)
    environment .venv-pyg
    if ! works .venv-pyg torch_geometric; then
      install .venv-pyg "${torch_index[@]}" "torch==2.15.0"
      install .venv-pyg "torch_geometric==2.8.1" numpy scipy
    fi
    ;;
  sparse)
    environment .venv-pyg
    if ! works .venv-pyg torch_sparse; then
      works .venv-pyg torch || { echo "sparse: run '$0 pyg' first" >&2; exit 2; }
      install .venv-pyg setuptools wheel ninja
      export FORCE_ONLY_CPU=1
      if ! { install .venv-pyg --no-build-isolation "torch_scatter==2.1.2" &&
        install .venv-pyg --no-build-isolation "torch_sparse==0.6.18" && works .venv-pyg torch_sparse; }; then
        echo "sparse: torch_sparse did not build; PyG runs without its SparseTensor variant" >&2
      fi
    fi
    ;;
  *)
    echo "unknown part '$part'; expected dgl, pyg or sparse" >&2
    exit 2
    ;;
  esac
done

report() { # ENVIRONMENT MODULES
  local env="$1"
  shift
  if [ ! -x "$root/$env/bin/python" ]; then
    echo "$env: not installed"
    return
  fi
  (cd / && "$root/$env/bin/python" -W ignore - "$env" "$@" <<'PY')
import importlib, sys
env, *modules = sys.argv[1:]
found = []
for name in modules:
    try:
        found.append(f"{name} {importlib.import_module(name).__version__}")
    except Exception as error:  # a broken install is reported, not hidden
        found.append(f"{name} missing ({type(error).__name__})")
print(f"{env}: Python {sys.version.split()[0]}, " + ", ".join(found))
PY
}
report .venv-dgl torch dgl torchdata numpy
report .venv-pyg torch torch_geometric torch_scatter torch_sparse numpy
