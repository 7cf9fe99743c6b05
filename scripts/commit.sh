#!/usr/bin/env bash
# Prints the commit of this copy of the repository, with `-dirty` if files differ from it; nothing where there is no git.
#
#     GNNC_COMMIT=$(scripts/commit.sh) cargo build --release     # then `gnnc --version` says it
set -euo pipefail
cd "$(dirname "$0")/.."
git describe --always --dirty --abbrev=10 --exclude '*' 2>/dev/null || true
