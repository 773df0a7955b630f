#!/usr/bin/env python3
"""Keeps data in an archive of moto, and has it thawed.

    thaw.py target/debug/ibid

A repository gets two backups with `--storage-class DEEP_ARCHIVE`. All packs with data must be there, and a restore
must refuse, and write nothing. Then the server is told to take three looks for each thawing: `restore --thaw` is killed
while it waits, and begins again, and must give back every byte. A prune beside that must delete what nothing needs. The
server is asked itself what the packs' class is, and whether they are thawed.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.request
import xml.etree.ElementTree

import servers
from killed_nodes import fingerprint

XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"
BUCKET = servers.BUCKETS[0]


def archived(endpoint, prefix):
    """Returns the keys of an archive class."""
    query = {"list-type": "2", "prefix": prefix}
    body = servers.expect(servers.s3_request("GET", endpoint, f"/{BUCKET}", query), 200)
    entries = xml.etree.ElementTree.fromstring(body).iter(f"{XML}Contents")
    keys = {entry.findtext(f"{XML}Key"): entry.findtext(f"{XML}StorageClass") for entry in entries}
    return sorted(key for key, name in keys.items() if name == "DEEP_ARCHIVE")


def takes(endpoint, looks):
    """Tells the server how many looks a thawing takes."""
    transition = {"model_name": "s3::keyrestore", "transition": {"progression": "manual", "times": looks}}
    request = urllib.request.Request(
        f"{endpoint}/moto-api/state-manager/set-transition",
        data=json.dumps(transition).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status in (200, 201), answer.status


def trial(ibid, server):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        folder = "archive"
        address = server.environment()["IBID_SERVER"].replace(servers.BUCKETS[0], f"{BUCKET}/{folder}", 1)
        environment = os.environ | server.environment() | {"IBID_REPO": address, "IBID_PASSWORD": "password"}
        # As on a machine that has lost everything.
        base = [ibid, "--no-cache"]

        def run(*arguments, code=0):
            done = subprocess.run(
                [*base, *arguments], env=environment, cwd=work, text=True, capture_output=True, timeout=300
            )
            assert done.returncode == code, f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}"
            return done.stdout + done.stderr

        run("init")
        (work / "tree").mkdir()
        for number in range(20):
            (work / "tree" / f"{number}").write_bytes(os.urandom(300_000))
        run("backup", "tree", "--storage-class", "DEEP_ARCHIVE")
        (work / "tree" / "more").write_bytes(os.urandom(500_000))
        run("backup", "tree", "--storage-class", "DEEP_ARCHIVE")
        was = fingerprint(work / "tree")
        packs = archived(server.url(), f"{folder}/")
        assert len(packs) == 2, packs
        restore = ("restore", f"latest:{work / 'tree'}", "back", "--verify")
        refused = run(*restore, code=1)
        assert "2 packs that are needed" in refused and not (work / "back").exists(), refused
        assert "2 packs (" in run("check"), "a check says what is archived"
        takes(server.url(), 6)
        waiting = subprocess.Popen(
            [*base, *restore, "--thaw", "--thaw-poll", "1"],
            env=environment,
            cwd=work,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(2)
        assert waiting.poll() is None, "it waits"
        waiting.send_signal(signal.SIGKILL)
        waiting.wait()
        assert not (work / "back").exists(), "nothing is written before all is there"
        run("forget", "latest~1", "--yes")
        run("prune")
        print(run(*restore, "--thaw", "--thaw-poll", "1").strip())
        assert fingerprint(work / "back") == was
        assert "no faults" in run("check", "--read-data")
        # A pack of which nothing is needed goes, though it can't be read.
        (work / "tree" / "other").mkdir()
        for number in range(20):
            (work / "tree" / f"{number}").unlink()
        (work / "tree" / "more").unlink()
        run("backup", "tree")
        run("forget", "latest~1", "--yes")
        run("prune")
        assert archived(server.url(), f"{folder}/") == []
        print("thawed, restored, and pruned")


def main():
    servers.exit_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ibid", type=pathlib.Path)
    arguments = parser.parse_args()
    with servers.Moto() as server:
        trial(arguments.ibid.absolute(), server)


if __name__ == "__main__":
    main()
