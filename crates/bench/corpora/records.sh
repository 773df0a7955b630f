#!/usr/bin/env bash
# Makes record histories, one JSON object a line, in the order of releases:
# {"key": …, "rev": …, "release": …, "body": …}
#   json.jsonl  browser compatibility data: each interface, element and property, whenever a release changed it
#   text.jsonl  type declarations of Node.js with their documentation: each file, whenever a release changed it
# usage: records.sh FOLDER
# Needs npm (with its Node.js), tar, and 2 GB of disk. Every byte is fixed: see records.sha256.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: records.sh FOLDER}

# Prints every nth release of those that follow.
every() { local n=$1 i; shift; for ((i = 1; i <= $#; i += n)); do echo "${!i}"; done; }
numbers() { seq -f "$1.%g" "$2" "$3"; }

compatibility=$(every 6 $(numbers 4.1 0 20) $(numbers 5.2 25 67) $(numbers 5.3 0 31) $(numbers 5.5 0 51) \
    $(numbers 5.6 0 43) $(numbers 6.0 12 20) $(numbers 7.1 12 24) $(numbers 7.3 0 17) $(numbers 8.0 0 14))
declarations=$(every 3 $(numbers 16.11 0 68) $(numbers 18.16 0 20) $(numbers 18.19 0 50) $(numbers 20.11 0 30) \
    $(numbers 20.17 0 58) $(numbers 22.15 0 35) $(numbers 24.10 0 15))

mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# unpack PACKAGE VERSION...: prints VERSION when its files lie in the folder $work/VERSION.
unpack() {
    local package=$1 version
    shift
    for version; do
        archive=$(npm pack --silent "$package@$version")
        mkdir "$version"
        tar --extract --file "$archive" --directory "$version" --strip-components=1
        rm "$archive"
        echo "$version"
    done
}

unpack @mdn/browser-compat-data $compatibility | node "$here/records.mjs" json >"$out/json.jsonl"
rm -rf "${work:?}"/*
unpack @types/node $declarations | node "$here/records.mjs" text >"$out/text.jsonl"

wc -lc "$out"/*.jsonl
cd "$out" && sha256sum --check --quiet "$here/records.sha256"
echo "$out: all checksums are right"
