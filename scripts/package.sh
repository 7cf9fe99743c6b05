#!/usr/bin/env bash
# Builds what users install into target/packages: the wheel of the Python package, an archive of the command line, and
# their checksums. Needs what scripts/wheel.sh needs.
#
#     scripts/package.sh                  # for this machine's C library and newer ones
#     scripts/package.sh --glibc 2.17     # for that one and newer, linked by Zig, which comes from PyPI
#
# The archive is the same for the same binary: files are sorted, belong to nobody, and have the time of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
GNNC_COMMIT="${GNNC_COMMIT-$(scripts/commit.sh)}"
export GNNC_COMMIT
scripts/wheel.sh "$@"
version="$(cargo pkgid -p gnnc)"
version="${version##*[@#]}"
machine="$(rustc --print host-tuple)"
if [ "${1:-}" = --glibc ]; then
  target/python/build/bin/python -m pip install --quiet --disable-pip-version-check cargo-zigbuild==0.24.1
  (
    PATH="$PWD/target/python/build/bin:$PATH"
    cargo zigbuild --release --locked --bin gnnc --target "$machine.$2"
  )
  binary="target/$machine/release/gnnc"
else
  cargo build --release --locked --bin gnnc
  binary=target/release/gnnc
fi
name="gnnc-$version-$machine"
folder="target/packages/$name"
rm -rf target/packages
mkdir -p "$folder/completions" "$folder/man"
cp "$binary" "$folder/gnnc"
strip "$folder/gnnc"
cp README.md CHANGELOG.md LICENSE-* "$folder"
cp -r docs examples "$folder"
rm -f "$folder"/examples/*.rs
for shell in bash zsh fish; do
  "$folder/gnnc" completions "$shell" >"$folder/completions/gnnc.$shell"
done
"$folder/gnnc" man >"$folder/man/gnnc.1"
for command in $("$folder/gnnc" help | sed -n "/^Commands:/,/^Options:/s/^  \([a-z-]\+\) .*/\1/p" | grep -v "^help$"); do
  "$folder/gnnc" man "$command" >"$folder/man/gnnc-$command.1"
done
time="$(git log -1 --format=%cI 2>/dev/null || echo 1980-01-01)"
tar --create --directory target/packages --sort=name --mtime="$time" --owner=0 --group=0 --numeric-owner \
  --mode=go+rX,go-w "$name" | gzip --no-name -9 >"target/packages/$name.tar.gz"
rm -rf "$folder"
cp target/wheels/gnnc-*.whl target/packages
cd target/packages
sha256sum ./*.tar.gz ./*.whl >SHA256SUMS
ls -l
