#!/usr/bin/env bash
# Builds a Debian package of the program with its manual, completions and an example of a systemd timer.
# usage: packaging/deb.sh        prints the path of the package
# Needs cargo-deb: cargo install --locked cargo-deb
set -euo pipefail
cd "$(dirname "$0")/.."
out=target/packaging
ibid=target/dist/ibid

cargo build --profile dist --locked --package ibid >&2
rm -rf "$out"
mkdir -p "$out/man"

"$ibid" man --all "$out/man"
gzip -9n "$out"/man/*.1
for shell in bash zsh fish; do "$ibid" completions $shell >"$out/ibid.$shell"; done

cargo deb --package ibid --profile dist --no-build --locked
