#!/usr/bin/env python3
"""Steals everything from a repository whose files are locked, and checks that it comes back as it was.

    thief.py target/debug/ibid [minio|moto]

A repository with `--lock` gets two backups. Then a thief with the keys of the client deletes all objects, stores
garbage in place of some, and deletes every version that the server lets go. With governance, the thief may bypass
nothing, so does not ask for that; with compliance, it does. In the end `restore --as-of` must give back every byte, and
what was not locked must be gone: else the thief has done nothing.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile
import time
import xml.etree.ElementTree

import servers
from killed_nodes import fingerprint

XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"
BUCKET = servers.BUCKETS[2]


def versions(endpoint, prefix, bucket=BUCKET):
    """Yields key, id, and whether it is a version with bytes, of all versions."""
    query = {"versions": "", "prefix": prefix}
    while True:
        body = servers.expect(servers.s3_request("GET", endpoint, f"/{bucket}", query), 200)
        page = xml.etree.ElementTree.fromstring(body)
        for entry in page:
            kind = entry.tag.removeprefix(XML)
            if kind in ("Version", "DeleteMarker"):
                yield entry.find(f"{XML}Key").text, entry.find(f"{XML}VersionId").text, kind == "Version"
        if page.findtext(f"{XML}IsTruncated") != "true":
            return
        query["key-marker"] = page.findtext(f"{XML}NextKeyMarker")
        query["version-id-marker"] = page.findtext(f"{XML}NextVersionIdMarker")


def steal(endpoint, prefix, bypass):
    """Deletes and replaces all that can be. Returns the folders of what is destroyed, and of what is kept."""
    before = [(key, version) for key, version, is_object in versions(endpoint, prefix) if is_object]
    for key, _ in before:
        servers.expect(servers.s3_request("DELETE", endpoint, f"/{BUCKET}/{key}"), 204)
    for key, _ in before[::3]:
        servers.s3_put(endpoint, f"/{BUCKET}/{key}", body=b"garbage")
    destroyed, kept = set(), set()
    headers = {"x-amz-bypass-governance-retention": "true"} if bypass else {}
    for key, version in before:
        query = {"versionId": version}
        status, _ = servers.s3_request("DELETE", endpoint, f"/{BUCKET}/{key}", query, headers=headers)
        left = servers.s3_request("GET", endpoint, f"/{BUCKET}/{key}", query)[0] == 200
        assert left == (status not in (200, 204)), f"{key}: {status}, but it is {'there' if left else 'gone'}"
        name = key.removeprefix(prefix)
        # With these, `init` has tried whether puts overwrite.
        is_probe = name.startswith("keys/probe-")
        (kept if left else destroyed).add("probes" if is_probe else name.split("/")[0])
    return destroyed, kept


def trial(ibid, server, mode):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        folder = f"thief-{mode}"
        address = server.environment()["IBID_SERVER"].replace(servers.BUCKETS[0], f"{BUCKET}/{folder}", 1)
        environment = os.environ | server.environment() | {"IBID_REPO": address, "IBID_PASSWORD": "password"}

        def run(*arguments, code=0):
            command = [ibid, "--cache-dir", work / "cache", *arguments]
            done = subprocess.run(command, env=environment, cwd=work, text=True, capture_output=True, timeout=300)
            assert done.returncode == code, f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}"
            return done.stdout

        run("init", "--lock", "1d", "--lock-mode", mode)
        (work / "tree").mkdir()
        for number in range(20):
            (work / "tree" / f"{number}").write_bytes(os.urandom(100_000))
        run("backup", "tree")
        (work / "tree" / "more").write_bytes(os.urandom(500_000))
        run("backup", "tree")
        was = fingerprint(work / "tree")
        # Versions have times in seconds.
        time.sleep(2)
        before = f"@{int(time.time()) - 1}"
        time.sleep(1)
        destroyed, kept = steal(server.url(), f"{folder}/", mode == "compliance")
        assert {"config", "keys", "packs", "index", "snapshots"} <= kept - destroyed, (kept, destroyed)
        assert destroyed, "what is not locked could be destroyed"
        assert subprocess.run([ibid, "--no-cache", "snapshots"], env=environment, capture_output=True).returncode != 0
        run("check", "--read-data", "--as-of", before)
        run("restore", f"latest:{work / 'tree'}", "back", "--verify", "--as-of", before)
        assert fingerprint(work / "back") == was
        again = address.replace(folder, f"{folder}-again")
        environment |= {"IBID_TO_REPO": again, "IBID_TO_PASSWORD": "password"}
        made = subprocess.run([ibid, "init", "--repo", again, "--lock", "1d"], env=environment, capture_output=True)
        assert made.returncode == 0, made.stderr
        run("copy", "--as-of", before)
        run("--repo", again, "check", "--read-data")
        print(f"{mode}: kept {', '.join(sorted(kept))}; destroyed {', '.join(sorted(destroyed))}; all is back")


def main():
    servers.exit_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ibid", type=pathlib.Path)
    parser.add_argument("server", nargs="?", default="minio", choices=["minio", "moto"])
    arguments = parser.parse_args()
    kind = {"minio": servers.Minio, "moto": servers.Moto}[arguments.server]
    with kind() as server:
        for mode in ("governance", "compliance"):
            trial(arguments.ibid.absolute(), server, mode)


if __name__ == "__main__":
    main()
