#!/usr/bin/env bash
# Makes pg: eight states of one PostgreSQL data directory, each as one tar file, 1760 MB in all. Between two states
# pgbench runs 8000 transactions.
# usage: pg.sh FOLDER
# Needs PostgreSQL with pgbench (Debian: postgresql and postgresql-contrib; made with 15), tar, and 2.5 GB of disk.
# Started by root, it runs the server as the user postgres.
#
# Every run stores the same balances: a digest of them is compared with pg.digests after each step. The bytes differ
# from run to run: in the system identifier, in times, and in the places of the two clients' rows and log records.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: pg.sh FOLDER}
states=8
scale=8

mkdir -p "$out"
out=$(cd "$out" && pwd)
PATH=$(pg_config --bindir):$PATH
work=$(mktemp -d)
server() { "$@"; }
if [ "$(id -u)" = 0 ]; then
    chown postgres "$work"
    server() { runuser -u postgres -- env PATH="$PATH" "$@"; }
fi
cd "$work"

start() { server pg_ctl --wait --pgdata=data --log=log start >>"$work/pg_ctl"; }
stop() { server pg_ctl --wait --pgdata=data --mode=fast stop >>"$work/pg_ctl"; }
trap 'stop || true; rm -rf "$work"' EXIT
server initdb --pgdata=data --auth=trust --encoding=UTF8 --locale=C >"$work/initdb"
cat >>data/postgresql.conf <<END
listen_addresses = ''
unix_socket_directories = '$work'
max_wal_size = 64MB
min_wal_size = 32MB
full_page_writes = on
shared_buffers = 128MB
fsync = off
END
export PGHOST=$work PGDATABASE=postgres
[ "$(id -u)" != 0 ] || export PGUSER=postgres

start
server pgbench --initialize --quiet --scale=$scale 2>"$work/initialize"
for ((state = 1; state <= states; state++)); do
    name=$(printf 'v%02d.tar' $state)
    digest=$(psql --no-align --tuples-only --command "select md5(string_agg(abalance::text, ',' order by aid))
        from pgbench_accounts")
    echo "$digest  $name" | tee -a "$work/digests"
    stop
    tar --create --file "$out/$name" --sort=name --numeric-owner data
    start
    server pgbench --client=2 --transactions=4000 --no-vacuum --random-seed=$state >"$work/pgbench" 2>&1
done

diff "$here/pg.digests" "$work/digests"
echo "$out: all balances are right"
