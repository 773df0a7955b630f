#!/usr/bin/env python3
"""Tries the policies of docs/remote.md: what a client with such credentials can do, and what it can't.

    policies.py target/debug/ibid

In MinIO, the policies are those of sessions (AssumeRole), as they are written in the guide, with the address and the id
of the writer put in. A client that may add backups makes some and restores one; then it tries to delete and to replace
each object. A writer does the same, and also tries to read what is not its own.

In a bucket that keeps old versions, the client replaces all that it can, and tries to delete every version; then all
must be there with `--as-of`. And the bucket gets the policy that denies puts without a condition: MinIO does not know
it, and says so. A server that does must let the client replace nothing.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree

import servers
from killed_nodes import fingerprint
from thief import versions

GUIDE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "remote.md"
BUCKET, VERSIONED = servers.BUCKETS[:2]
FOLDER = "laptop"


def policies():
    """Returns the policies of the guide by their names."""
    blocks = re.findall(r"^```json\n(\{.*?\})\n```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    found = [json.loads(block) for block in blocks]
    return {policy["Id"]: policy for policy in found if "Statement" in policy}


def session(endpoint, policy):
    """Returns a key, a secret and a token that may do what a policy says."""
    body = urllib.parse.urlencode({"Action": "AssumeRole", "Version": "2011-06-15", "Policy": json.dumps(policy)})
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = servers.s3_request("POST", endpoint, "/", body=body.encode(), headers=headers, service="sts")
    given = xml.etree.ElementTree.fromstring(servers.expect(answer, 200))
    texts = {entry.tag.split("}")[1]: entry.text for entry in given.iter()}
    return texts["AccessKeyId"], texts["SecretAccessKey"], texts["SessionToken"]


class Trial:
    def __init__(self, ibid, server, work, bucket):
        self.ibid, self.server, self.work, self.bucket = ibid, server, work, bucket
        self.address = f"s3://{bucket}/{FOLDER}?endpoint={server.url()}"

    def run(self, *arguments, keys=None, fails=False, **variables):
        environment = os.environ | self.server.environment() | {"IBID_REPO": self.address} | variables
        if keys:
            names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
            environment |= dict(zip(names, keys))
        cache = self.work / ("cache-of-client" if keys else "cache")
        command = [self.ibid, "--cache-dir", cache, *arguments]
        done = subprocess.run(command, env=environment, cwd=self.work, text=True, capture_output=True, timeout=300)
        assert (done.returncode != 0) == fails, f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stderr if fails else done.stdout

    def request(self, method, name, keys, body=b"", query=()):
        path = f"/{self.bucket}/{FOLDER}/{name}" if name else f"/{self.bucket}"
        return servers.s3_request(method, self.server.url(), path, query, body, keys=keys)

    def names(self):
        """Returns the names of all objects in the repository."""
        query = {"list-type": "2", "prefix": f"{FOLDER}/"}
        body = servers.expect(self.request("GET", "", None, query=query), 200)
        keys = [entry.text for entry in xml.etree.ElementTree.fromstring(body).iter() if entry.tag.endswith("}Key")]
        return [key.removeprefix(f"{FOLDER}/") for key in keys]

    def grow(self):
        (self.work / "tree").mkdir(exist_ok=True)
        number = len(list((self.work / "tree").iterdir()))
        (self.work / "tree" / f"{number}").write_bytes(os.urandom(200_000))
        return fingerprint(self.work / "tree")

    def restores(self, was, *arguments):
        back = self.work / "back"
        self.run("restore", f"latest:{self.work / 'tree'}", back, "--verify", "--overwrite", "always", *arguments,
                 IBID_PASSWORD="password")
        assert fingerprint(back) == was

    def cannot(self, method, names, keys, body=b"", query=()):
        for name in names:
            status, _ = self.request(method, name, keys, body, query)
            assert status == 403, f"{method} {name}: {status}"
        return len(names)

    def replace(self, names, keys):
        """Stores garbage in place of all that can be replaced; returns the names of these."""
        return [name for name in names if self.request("PUT", name, keys, b"garbage")[0] == 200]


def adds(trial, policy):
    """A client with the password, and with credentials that may add."""
    keys = session(trial.server.url(), policy)
    for _ in range(2):
        was = trial.grow()
        trial.run("backup", "tree", keys=keys, IBID_PASSWORD="password")
    trial.run("check", "--read-data", keys=keys, IBID_PASSWORD="password")
    # So that there is something to free.
    trial.run("forget", "latest~1", IBID_PASSWORD="password")
    names = trial.names()
    for command in (["forget", "latest"], ["prune", "--max-unused", "0"], ["tag", "add", "x", "latest"]):
        said = trial.run(*command, keys=keys, fails=True, IBID_PASSWORD="password")
        new = sorted(set(trial.names()) - set(names))
        print(f"  {' '.join(command)}: {said.strip().splitlines()[-1]} Stored before: {', '.join(new) or 'nothing'}")
    assert set(names) <= set(trial.names())
    trial.restores(was)
    trial.run("check", "--read-data", IBID_PASSWORD="password")
    refused = trial.cannot("DELETE", names, keys)
    replaced = trial.replace(names, keys)
    print(f"adds: {refused} objects can't be deleted; {len(replaced)} of {len(names)} can be replaced")


def keeps_versions(trial, policy):
    """The same client, which replaces all that it can, where the bucket keeps old versions."""
    trial.run("init", IBID_PASSWORD="password")
    keys = session(trial.server.url(), policy)
    for _ in range(2):
        was = trial.grow()
        trial.run("backup", "tree", keys=keys, IBID_PASSWORD="password")
    # Versions have times in seconds.
    time.sleep(2)
    before = f"@{int(time.time()) - 1}"
    time.sleep(1)
    names = trial.names()
    replaced = trial.replace(names, keys)
    assert any(name.startswith("packs/") for name in replaced), replaced
    trial.run("--no-cache", "check", "--read-data", fails=True, IBID_PASSWORD="password")
    old = list(versions(trial.server.url(), f"{FOLDER}/", trial.bucket))
    for key, version, _ in old:
        trial.cannot("DELETE", [key.removeprefix(f"{FOLDER}/")], keys, query={"versionId": version})
    trial.run("check", "--read-data", "--as-of", before, IBID_PASSWORD="password")
    trial.restores(was, "--as-of", before)
    print(f"adds, with versions: {len(replaced)} of {len(names)} were replaced, none of {len(old)} versions can be "
          "deleted, and all is back")


def demands(trial, policy, client):
    """The bucket denies puts without a condition, if the server knows how to."""
    place = (trial.server.url(), f"/{trial.bucket}", {"policy": ""})
    status, said = servers.s3_request("PUT", *place, json.dumps(policy).encode())
    if status not in (200, 204):
        said = xml.etree.ElementTree.fromstring(said).findtext("Message")
        return print(f"new: the server does not know this policy: {status}: {said}")
    # MinIO asks policies of buckets only about requests without a signature, so the client's gets the statement, too.
    denied = [{name: value for name, value in entry.items() if name != "Principal"} for entry in policy["Statement"]]
    keys = session(trial.server.url(), client | {"Statement": [*client["Statement"], *denied]})
    trial.grow()
    trial.run("backup", "tree", keys=keys, IBID_PASSWORD="password")
    names = trial.names()
    replaced = trial.replace(names, keys)
    assert not replaced, replaced
    print(f"new: none of {len(names)} objects can be replaced")
    servers.expect(servers.s3_request("DELETE", *place), 204)


def writes(trial, policy, writer):
    """A client with the key of a writer, and with credentials for its files alone."""
    text = json.dumps(policy).replace("/ID/", f"/{writer}/")
    keys = session(trial.server.url(), json.loads(text))
    for _ in range(2):
        was = trial.grow()
        trial.run("backup", "tree", keys=keys, IBID_KEY_FILE="laptop.key")
    trial.restores(was, "--writer", "laptop")
    own = f"written/{writer}/"
    names = trial.names()
    others = [name for name in names if not name.startswith((own, f"revoked/{writer}/")) and name != "config"]
    trial.cannot("GET", others, keys)
    trial.cannot("PUT", [*others, "config", "packs/00/new", "written/other/config"], keys, b"garbage")
    deletes = trial.cannot("DELETE", [name for name in names if not name.startswith(f"{own}sessions/")], keys)
    for prefix in (f"{FOLDER}/", f"{FOLDER}/packs/", f"{FOLDER}/written/", ""):
        status, _ = trial.request("GET", "", keys, query={"list-type": "2", "prefix": prefix})
        assert status == 403, f"list {prefix}: {status}"
    print(f"writes: {len(others)} objects can't be read or replaced, {deletes} not deleted, and others not listed")


def main():
    servers.exit_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ibid", type=pathlib.Path)
    arguments = parser.parse_args()
    found = policies()
    for policy in found.values():
        for statement in policy["Statement"]:
            for part in ("Resource", "Condition"):
                text = json.dumps(statement.get(part)).replace("my-backups", BUCKET)
                statement[part] = json.loads(text)
            if statement["Condition"] is None:
                del statement["Condition"]
    with servers.Minio() as server, tempfile.TemporaryDirectory() as work:
        ibid, work = arguments.ibid.absolute(), pathlib.Path(work)
        trial = Trial(ibid, server, work, BUCKET)
        trial.run("init", IBID_PASSWORD="password")
        added = trial.run("key", "add-writer", "--label", "laptop", "--out", "laptop.key", "--json",
                          IBID_PASSWORD="password")
        writer = json.loads(added)["writer"]
        trial.grow()
        trial.run("backup", "tree", IBID_PASSWORD="password")
        writes(trial, found["writes"], writer)
        demands(trial, found["new"], found["adds"])
        adds(trial, found["adds"])
        keeps_versions(Trial(ibid, server, work, VERSIONED), json.loads(json.dumps(found["adds"]).replace(
            f":::{BUCKET}", f":::{VERSIONED}")))


if __name__ == "__main__":
    main()
