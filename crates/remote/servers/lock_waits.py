#!/usr/bin/env python3
"""Shows how long MinIO takes for small puts: with four processes, of which each has a drive, and with one.

    lock_waits.py

Each object has a new name. Before its bytes are stored, MinIO looks whether there is such an object, under a lock, and
then takes another lock to store it. Several processes release the first lock on their own time. If it is still held by
two of them when the second is asked for, MinIO asks again after up to 350 ms.
"""

import argparse
import os
import statistics
import time

import servers

COUNT = 100
SIZES = [200, 70_000, 600_000]
LONG_MS = 30


def take_ms(minio, name, size, headers):
    body = os.urandom(size)
    begun = time.monotonic()
    servers.expect(servers.s3_request("PUT", minio.url(), f"/tests/{name}", body=body, headers=headers), 200)
    return (time.monotonic() - begun) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", default=servers.CACHE, help="folder for programs")
    options = parser.parse_args()
    servers.exit_on_signals()
    print(f"| processes | bytes | If-None-Match | median, ms | longest, ms | of {COUNT}, longer than {LONG_MS} ms |")
    print("|--:|--:|---|--:|--:|--:|")
    for count in (4, 1):
        with servers.Minio(options.cache, count=count) as minio:
            for size in SIZES:
                for condition, headers in (("yes", {"If-None-Match": "*"}), ("no", {})):
                    names = (f"{condition}-{size}-{number}" for number in range(COUNT))
                    took = [take_ms(minio, name, size, headers) for name in names]
                    long = sum(ms > LONG_MS for ms in took)
                    median = statistics.median(took)
                    print(f"| {count} | {size} | {condition} | {median:.0f} | {max(took):.0f} | {long} |", flush=True)


if __name__ == "__main__":
    main()
