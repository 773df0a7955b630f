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

# Prints the subcommands of a command, as its help lists them.
subcommands() {
    "$ibid" "$@" --help |
        awk '/^Commands:/ { inside = 1; next } /^$/ { inside = 0 } inside && $1 != "help" && /^  [a-z]/ { print $1 }'
}

# Writes the manual page of a command, and those of its subcommands.
manual() {
    local name
    name=$(IFS=-; echo "ibid${*:+-$*}")
    "$ibid" man "$@" | gzip -9n >"$out/man/$name.1.gz"
    local subcommand
    for subcommand in $(subcommands "$@"); do manual "$@" "$subcommand"; done
}
manual
for shell in bash zsh fish; do "$ibid" completions $shell >"$out/ibid.$shell"; done

cargo deb --package ibid --profile dist --no-build --locked
