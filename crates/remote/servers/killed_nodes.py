#!/usr/bin/env python3
"""Kills processes of MinIO during a backup, a prune and a restore, and checks that nothing is lost.

    killed_nodes.py target/release/ibid

In each round one of four processes ends by SIGKILL while a command runs, and comes back: once the one that is asked,
once another. Then two end, so that nothing can be stored: once they come back in time, once the command has to give up
(after three minutes) and is run again. After each command `check --read-data` must find nothing, and the last snapshot
must restore byte by byte.
"""

import argparse
import contextlib
import hashlib
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

import servers

# Bytes per second of transfers, so that commands run for long enough.
SLOW = ["--limit-upload", "6MiB", "--limit-download", "6MiB"]
FILES = 60
FILE_BYTES = 2 << 20


def fingerprint(folder):
    """Returns a digest of the names and bytes in a folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


class Trial:
    """A repository in MinIO, and a tree that changes."""

    def __init__(self, ibid, minio, work):
        self.ibid, self.minio, self.work = ibid, minio, work
        self.tree = work / "tree"
        self.random = random.Random(1)
        address = minio.environment()["IBID_SERVER"].replace("?", "/killed?")
        self.environment = os.environ | minio.environment() | {"IBID_REPO": address, "IBID_PASSWORD": "password"}

    def begin(self, *arguments):
        command = [self.ibid, "--cache-dir", self.work / "cache", *arguments]
        return subprocess.Popen(
            command, env=self.environment, cwd=self.work, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, *arguments):
        process = self.begin(*arguments)
        said, _ = process.communicate(timeout=900)
        assert process.returncode == 0, f"{arguments}: {process.returncode}: {said}"
        return said

    def change(self, share=0.5):
        """Writes a share of the files anew, others each time, so that packs are needed in part."""
        for number in range(FILES):
            if self.random.random() >= share:
                continue
            place = self.tree / f"{number % 7}" / f"{number}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.random.randbytes(FILE_BYTES))

    def during(self, arguments, numbers, after=3.0, gone=4.0):
        """Runs a command while processes of the server end, and come back. Returns its code and what it said."""
        begun = time.monotonic()
        process = self.begin(*arguments)
        time.sleep(after)
        assert process.poll() is None, f"{arguments} ended too soon: {process.communicate()[0]}"
        for number in numbers:
            self.minio.kill(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(gone)
        in_time = process.poll() is None
        for number in numbers:
            self.minio.start(number)
        said, _ = process.communicate(timeout=900)
        took = time.monotonic() - begun
        self.minio.wait()
        nodes = " and ".join(str(number + 1) for number in numbers)
        note = "" if in_time else "; it ended before they were back"
        print(f"{arguments[0]}, {nodes} killed after {after:.0f} s, gone for {gone:.0f} s{note}: "
              f"exit {process.returncode} after {took:.1f} s\n    {said.strip().splitlines()[-1]}", flush=True)
        return process.returncode, said

    def is_whole(self):
        """Checks everything, and restores the last snapshot with an empty cache."""
        self.run("check", "--read-data")
        shutil.rmtree(self.work / "cache", ignore_errors=True)
        out = self.work / "out"
        shutil.rmtree(out, ignore_errors=True)
        self.run("restore", f"latest:{self.tree}", out)
        assert fingerprint(out) == fingerprint(self.tree), "the restored tree differs"

    def restore_during(self, numbers):
        out = self.work / "out"
        shutil.rmtree(out, ignore_errors=True)
        code, said = self.during(["restore", f"latest:{self.tree}", out, *SLOW], numbers)
        assert code == 0, said
        assert fingerprint(out) == fingerprint(self.tree), "the restored tree differs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ibid", type=lambda text: pathlib.Path(text).absolute())
    parser.add_argument("--cache", default=servers.CACHE, help="folder for programs")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    servers.exit_on_signals()
    with servers.Minio(options.cache) as minio, tempfile.TemporaryDirectory() as work:
        trial = Trial(options.ibid, minio, pathlib.Path(work))
        trial.random.seed(options.seed)
        trial.run("init")
        trial.change(share=1)
        trial.run("backup", trial.tree)
        for numbers in ([1], [0]):
            trial.change()
            code, said = trial.during(["backup", trial.tree, *SLOW], numbers)
            assert code == 0, said
            trial.is_whole()
            trial.restore_during(numbers)
            trial.run("forget", "--keep-last", "1", "--yes")
            code, said = trial.during(["prune", "--max-unused", "0", *SLOW], numbers)
            assert code == 0, said
            trial.is_whole()

        print("two of four", flush=True)
        trial.change()
        code, said = trial.during(["backup", trial.tree, *SLOW], [2, 3], gone=20)
        # With half of its drives MinIO also lists what was deleted while one of the others was away: it is named as
        # missing (exit code 3), and stored again.
        assert code in (0, 3), said
        trial.is_whole()

        trial.change()
        before = trial.run("snapshots", "--quiet")
        code, said = trial.during(["backup", trial.tree, *SLOW], [2, 3], gone=300)
        assert code == 1, said
        assert trial.run("snapshots", "--quiet") == before
        trial.run("backup", trial.tree)
        trial.is_whole()
    print("nothing was lost")


if __name__ == "__main__":
    main()
