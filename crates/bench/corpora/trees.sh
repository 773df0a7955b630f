#!/usr/bin/env bash
# Makes trees: lnx unpacked, twelve folders of 6500 to 8400 files each.
# usage: trees.sh LNX FOLDER        LNX is the folder that lnx.sh made
# Needs tar and 1.2 GB of disk. Every byte is fixed by lnx.sha256: the same files with the same times.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lnx=${1:?usage: trees.sh LNX FOLDER}
out=${2:?usage: trees.sh LNX FOLDER}

(cd "$lnx" && sha256sum --check --quiet "$here/lnx.sha256")
for archive in "$lnx"/v*.tar; do
    version=$out/$(basename "$archive" .tar)
    mkdir -p "$version"
    tar --extract --file "$archive" --directory "$version" --no-same-owner
    echo "$version: $(find "$version" -type f | wc -l) files"
done
