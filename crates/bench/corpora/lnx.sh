#!/usr/bin/env bash
# Makes lnx: twelve source trees of Kubernetes, each as one tar file, 1020 MB in all.
# usage: lnx.sh FOLDER
# Needs Go (for the module proxy), GNU tar, 2 GB of disk and 400 MB of downloads. Every byte is fixed: see lnx.sha256.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: lnx.sh FOLDER}
versions=(1.30.4 1.30.14 1.31.0 1.31.14 1.32.2 1.32.13 1.33.6 1.33.13 1.34.0 1.34.2 1.34.3 1.34.4)

mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
# A module cache is read-only: -modcacherw makes one that `rm` can remove.
export GOMODCACHE=$work/modules GOFLAGS=-modcacherw GOWORK=off GO111MODULE=on
trap 'rm -rf "$work"' EXIT
cd "$work"

number=0
for version in "${versions[@]}"; do
    number=$((number + 1))
    name=$(printf 'v%02d.tar' $number)
    module=k8s.io/kubernetes@v$version
    go mod download "$module"
    # As `git archive` would: one time for a release, no owners, names in order, the version in every path.
    tar --create --file "$out/$name" --directory "$GOMODCACHE/k8s.io" --format=ustar --sort=name \
        --owner=0 --group=0 --numeric-owner --mode=a+rX,u+w --mtime="@$((1700000000 + number * 4000000))" \
        --transform "s,^kubernetes@v,kubernetes-,S" "kubernetes@v$version"
    rm -rf "$GOMODCACHE/$module" "$GOMODCACHE/cache/download/k8s.io"
    echo "$name: Kubernetes $version"
done

cd "$out" && sha256sum --check --quiet "$here/lnx.sha256"
echo "$out: all checksums are right"
