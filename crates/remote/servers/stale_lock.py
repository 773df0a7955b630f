#!/usr/bin/env python3
"""Shows for how long MinIO keeps the name of a put whose process was killed.

    stale_lock.py

A put begins at one of four processes, with the condition that there is no such object, and the process ends by SIGKILL
before all bytes have come. It is started again. Then other names are stored, and the same name, once with the condition
and once, in a second round, without.
"""

import argparse
import http.client
import os
import threading
import time
import urllib.parse

import servers

SIZE = 32 << 20
PIECE = 256 << 10
CONDITION = {"If-None-Match": "*"}


class Trial:
    def __init__(self, minio):
        self.minio, self.bytes, self.killed_at = minio, os.urandom(SIZE), time.monotonic()

    def send(self, method, url, body=b"", headers=(), pause=0.0):
        """Sends a request in pieces, and waits for the answer however long it takes."""
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=600)
        connection.putrequest(method, parts.path)
        for name, value in dict(headers).items():
            if name != "host":
                connection.putheader(name, value)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders()
        for at in range(0, len(body), PIECE):
            connection.send(body[at : at + PIECE])
            time.sleep(pause)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def put(self, name, headers, pause=0.0):
        """Returns the status of a put, or what went wrong."""
        servers.request = lambda *arguments: self.send(*arguments, pause=pause)
        try:
            return servers.s3_request("PUT", self.minio.url(), f"/tests/{name}", body=self.bytes, headers=headers)[0]
        except OSError as error:
            return type(error).__name__

    def put_until_stored(self, name, headers):
        while self.put(name, headers) != 200:
            time.sleep(0.2)
        with_or_without = "with the condition" if headers else "without it"
        print(f"  {time.monotonic() - self.killed_at:6.1f} s: {name} is stored, {with_or_without}", flush=True)

    def kill_during_put(self, name, headers):
        put = threading.Thread(target=self.put, args=(name, headers, 0.1))
        put.start()
        time.sleep(3)
        self.minio.kill(0)
        self.killed_at = time.monotonic()
        put.join()
        time.sleep(4)
        self.minio.start(0)
        print(f"the process was killed during a put of {name}, and started again after 4 s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", default=servers.CACHE, help="folder for programs")
    options = parser.parse_args()
    servers.exit_on_signals()
    with servers.Minio(options.cache) as minio:
        trial = Trial(minio)
        for name, headers in (("conditional", CONDITION), ("plain", {})):
            trial.kill_during_put(name, headers)
            trial.put_until_stored(f"beside-{name}", CONDITION)
            trial.put_until_stored(name, headers)


if __name__ == "__main__":
    main()
