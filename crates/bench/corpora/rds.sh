#!/usr/bin/env bash
# Makes rds: ten dumps of one Redis server, 1170 MB in all. Between two dumps about 1 % of the keys change.
# usage: rds.sh FOLDER
# Needs redis-server and redis-cli (Debian: redis-server; made with 7.0), awk, and 1.5 GB of disk.
#
# Every run stores the same keys and values: the output of DEBUG DIGEST at each dump is compared with rds.digests. The
# bytes of the dumps differ from run to run: in the order of the keys, as Redis draws a hash seed when it starts, and
# in the time that a dump carries.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: rds.sh FOLDER}
dumps=10

mkdir -p "$out"
work=$(mktemp -d)
redis() { redis-cli -s "$work/socket" "$@"; }
trap 'redis shutdown nosave >"$work/end" 2>&1 || true; rm -rf "$work"' EXIT
redis-server --port 0 --unixsocket "$work/socket" --dir "$work" --dbfilename dump.rdb --save '' --appendonly no \
    --rdbcompression no --enable-debug-command local --daemonize yes --logfile "$work/log"
until redis ping >"$work/ping" 2>&1; do sleep 0.1; done

# Prints the commands of one step: 0 fills the server, each later one changes about 1 % of it.
commands() {
    awk -v step="$1" '
        # A number below `limit`, of twelve digits.
        function n(limit) { seed = (16807 * seed) % 2147483647; return sprintf("%012d", seed % limit) }
        function set(key, limit) {
            print "SET " key n(limit) " \047{\"id\":" n(limit) \
                ",\"user\":\"user-" n(limit) "\",\"email\":\"u" n(limit) \
                "@example.com\",\"cart\":[" n(limit) "," n(limit) "],\"last_seen\":\"2026-01-01T00:00:00Z\"," \
                "\"status\":\"active\",\"score\":" n(limit) ",\"note\":\"order " n(limit) " shipped to warehouse " \
                n(limit) "\"}\047"
        }
        BEGIN {
            seed = 1 + step
            for (i = 0; i < 10; i++) n(1)
            if (step == 0) {
                for (i = 0; i < 1200000; i++) set("obj:", 400000)
                for (i = 0; i < 200000; i++)
                    print "HSET h:" n(60000), "name n-" n(60000), "qty", n(60000), "sku s-" n(60000)
                for (i = 0; i < 200000; i++) print "ZADD z:" n(4000), n(4000), "member-" n(4000)
                for (i = 0; i < 100000; i++) print "RPUSH l:" n(2000), "event-" n(2000)
            } else {
                for (i = 0; i < 2400; i++) set("obj:", 400000)
                for (i = 0; i < 600; i++) set("obj:", 80000)
                for (i = 0; i < 500; i++) print "HSET h:" n(60000), "qty", n(60000)
                for (i = 0; i < 300; i++) print "ZADD z:" n(4000), n(4000), "member-" n(4000)
                for (i = 0; i < 1200; i++) set("new:", 2000000000)
                for (i = 0; i < 300; i++) print "DEL obj:" n(400000)
            }
        }'
}

for ((step = 0; step < dumps; step++)); do
    name=$(printf 'v%02d.rdb' $((step + 1)))
    commands $step | redis --pipe >"$work/pipe"
    redis save >"$work/save"
    cp "$work/dump.rdb" "$out/$name"
    digest=$(redis debug digest)
    echo "$digest  $name" | tee -a "$work/digests"
done

diff "$here/rds.digests" "$work/digests"
echo "$out: all keys and values are right"
