#!/usr/bin/env bash
# Builds the pages as a site in target/site, and fails if a link leads nowhere. Needs python3 with venv, and pip once.
#
# Pages lie in the site as they do in the repository, so the links between them work in both. mkdocs.yml lists them.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=target/pages/environment
pages=target/pages/text
if ! cmp -s scripts/pages.txt "$environment/installed.txt"; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --requirement scripts/pages.txt
  cp scripts/pages.txt "$environment/installed.txt"
fi
rm -rf "$pages"
for page in *.md docs/*.md docs/design/*.md fuzz/README.md examples/data/README.md; do
  mkdir -p "$pages/$(dirname "$page")"
  cp "$page" "$pages/$page"
done
"$environment/bin/mkdocs" build --strict --clean
echo "pages: target/site/index.html"
