#!/usr/bin/env python3
"""Measures ibid beside restic and rustic, with one MinIO of four processes.

    beside.py --ibid target/release/ibid --corpus lnx=corpora/lnx-trees --json out.json
    beside.py --table out.json

A corpus is a folder whose files or folders sort from the oldest version to the newest. Each tool stores the first
version, ten more, the last once again, restores it with and without its cache, and drops all but three snapshots. The
restored files are compared with the original. All tools have their default settings.

Each goes through a proxy of its own (count.go), which counts requests, and bytes on the connections, in the same way
for all; with --latency each request waits for so long. CPU is user and system time of the tool alone: proxy and servers
run on the same machine and share its cores.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import servers

RESTIC = ("github.com/restic/restic", "v0.18.1", "./cmd/restic")
RUSTIC = "0.11.4"
VERSIONS = 11
KEEP = 3
PASSWORD = "benchmark"


def rustic_program(cache):
    """Builds rustic; returns its path."""
    program = cache / f"rustic-{RUSTIC}" / "bin" / "rustic"
    if not program.exists():
        install = ["cargo", "install", "rustic-rs", "--locked", "--version", RUSTIC, "--root", program.parent.parent]
        subprocess.run(install, check=True, env=os.environ | {"CARGO_TARGET_DIR": cache / "rustic-target"})
    return program


class Tool:
    """A program with a repository in the bucket, below a prefix of its name."""

    def __init__(self, program, url, work, tree):
        self.program, self.url, self.work, self.tree = program, url, work, tree
        self.environment = os.environ | servers.s3_environment(url) | {"TZ": "UTC", "HOME": str(work)}

    @property
    def cache(self):
        return self.work / f"{self.name}-cache"


class Ibid(Tool):
    name = "ibid"

    def command(self, *arguments):
        self.environment |= {"IBID_REPO": f"s3://tests/ibid?endpoint={self.url}", "IBID_PASSWORD": PASSWORD}
        return [[self.program, "--cache-dir", self.cache, *arguments]]

    def init(self):
        return self.command("init")

    def backup(self):
        return self.command("backup", self.tree)

    def restore(self, out):
        return self.command("restore", f"latest:{self.tree}", out)

    def prune(self):
        return self.command("forget", "--keep-last", KEEP, "--yes", "--prune")

    def version(self):
        return subprocess.check_output([self.program, "--version"], text=True).strip()


class Restic(Tool):
    name = "restic"

    def command(self, *arguments):
        self.environment |= {"RESTIC_REPOSITORY": f"s3:{self.url}/tests/restic", "RESTIC_PASSWORD": PASSWORD}
        return [[self.program, "--cache-dir", self.cache, *arguments]]

    def init(self):
        return self.command("init")

    def backup(self):
        return self.command("backup", self.tree)

    def restore(self, out):
        return self.command("restore", f"latest:{self.tree}", "--target", out)

    def prune(self):
        return self.command("forget", "--keep-last", KEEP, "--prune")

    def version(self):
        return subprocess.check_output([self.program, "version"], text=True).split(" compiled")[0]


class Rustic(Tool):
    name = "rustic"

    def command(self, *arguments):
        profile = self.work / "rustic.toml"
        profile.write_text(f"""
[repository]
repository = "opendal:s3"
password = "{PASSWORD}"
cache-dir = "{self.cache}"
[repository.options]
bucket = "tests"
root = "/rustic"
endpoint = "{self.url}"
region = "us-east-1"
access_key_id = "{servers.KEY}"
secret_access_key = "{servers.SECRET}"
""")
        return [[self.program, "--no-progress", "-P", profile.with_suffix(""), *arguments]]

    def init(self):
        return self.command("init")

    def backup(self):
        return self.command("backup", self.tree)

    def restore(self, out):
        return self.command("restore", f"latest:{self.tree}", out)

    def prune(self):
        # Otherwise packs are marked now, and deleted by a later prune.
        return self.command("forget", "--keep-last", KEEP, "--prune", "--instant-delete")

    def version(self):
        return subprocess.check_output([self.program, "--version"], text=True).strip()


def stored(endpoint, prefix):
    """Returns the bytes and the number of the objects below a prefix."""
    sizes, token = [], {}
    while True:
        query = {"list-type": "2", "prefix": f"{prefix}/"} | token
        answer = servers.expect(servers.s3_request("GET", endpoint, "/tests", query), 200)
        page = xml.etree.ElementTree.fromstring(answer)
        space = page.tag.split("}")[0] + "}"
        sizes += [int(size.text) for size in page.iter(f"{space}Size")]
        more = page.find(f"{space}NextContinuationToken")
        if more is None:
            return sum(sizes), len(sizes)
        token = {"continuation-token": more.text}


def measure(tool, commands, log):
    """Runs commands, one after the other; returns wall and CPU seconds and the largest memory."""
    begun = time.monotonic()
    cpu, memory = 0, 0
    for command in commands:
        command = [str(part) for part in command]
        process = subprocess.Popen(command, env=tool.environment, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{command}: {process.returncode}: {pathlib.Path(log.name).read_text()[-2000:]}")
        cpu += used.ru_utime + used.ru_stime
        memory = max(memory, used.ru_maxrss * 1024)
    return {"wall_s": round(time.monotonic() - begun, 3), "cpu_s": round(cpu, 3), "rss_bytes": memory}


def place_version(version, tree):
    """Makes the tree that version."""
    shutil.rmtree(tree, ignore_errors=True)
    if version.is_dir():
        shutil.copytree(version, tree, symlinks=True)
    else:
        tree.mkdir()
        shutil.copy2(version, tree / f"data{version.suffix}")


def run_tool(tool, versions, proxy, endpoint, log):
    """Returns the steps of one tool."""
    steps = []

    def step(name, commands):
        proxy.take()
        figures = measure(tool, commands, log)
        size, objects = stored(endpoint, tool.name)
        counted = proxy.take()
        steps.append({"step": name, **figures, **counted, "stored_bytes": size, "objects": objects})
        requests = sum(counted["requests"].values())
        print(f"  {tool.name} {name}: {figures['wall_s']:.2f} s, {figures['cpu_s']:.2f} s CPU, {requests} requests, "
              f"{counted['to_server']} up, {counted['to_client']} down, {size} stored", file=sys.stderr, flush=True)

    def restored(name):
        out = tool.work / "out"
        shutil.rmtree(out, ignore_errors=True)
        step(name, tool.restore(out))
        subprocess.run(["diff", "-r", "--no-dereference", tool.tree, out], check=True)
        shutil.rmtree(out)

    step("init", tool.init())
    for number, version in enumerate(versions):
        place_version(version, tool.tree)
        step("first" if number == 0 else f"version {number}", tool.backup())
    step("unchanged", tool.backup())
    restored("restore")
    shutil.rmtree(tool.cache, ignore_errors=True)
    restored("restore without cache")
    step("forget and prune", tool.prune())
    return steps


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": os.cpu_count(), "cpu": cpu, "kernel": platform.release(), "memory_bytes": memory}


def summed(steps):
    """Returns the steps with all further versions as one."""
    rows = {}
    for step in steps:
        name = "more versions" if step["step"].startswith("version ") else step["step"]
        row = rows.setdefault(name, {"wall_s": 0, "cpu_s": 0, "requests": 0, "to_server": 0, "to_client": 0})
        for figure in ("wall_s", "cpu_s", "to_server", "to_client"):
            row[figure] += step[figure]
        row["requests"] += sum(step["requests"].values())
        row["stored_bytes"] = step["stored_bytes"]
    return rows


def table(record):
    """Returns the results as Markdown."""
    lines = []
    for run in record["outcome"]["servers"]:
        lines += [f"{run['corpus']}, {run['latency_ms']} ms a request", ""]
        lines += ["| step | tool | requests | MB up | MB down | wall, s | CPU, s | MB stored |"]
        lines += ["|---|---|--:|--:|--:|--:|--:|--:|"]
        rows = {tool["tool"]: summed(tool["steps"]) for tool in run["tools"]}
        for name in next(iter(rows.values())):
            for tool in rows:
                row = rows[tool][name]
                megabytes = [f"{row[figure] / 1e6:.1f}" for figure in ("to_server", "to_client", "stored_bytes")]
                seconds = [f"{row['wall_s']:.1f}", f"{row['cpu_s']:.1f}"]
                figures = [f"{row['requests']}", *megabytes[:2], *seconds, megabytes[2]]
                lines.append(f"| {name} | {tool} | " + " | ".join(figures) + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ibid", type=lambda text: pathlib.Path(text).absolute(), help="the program")
    parser.add_argument("--corpus", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--latency", action="append", type=int, metavar="MS", help="how long requests wait (0)")
    parser.add_argument("--tools", default="ibid,restic,rustic")
    parser.add_argument("--cache", default=servers.CACHE, type=pathlib.Path, help="folder for programs")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    parser.add_argument("--table", type=pathlib.Path, help="print the results in this file")
    options = parser.parse_args()
    servers.exit_on_signals()
    if options.table:
        return print(table(json.loads(options.table.read_text())))
    programs = {
        "ibid": (Ibid, lambda: options.ibid),
        "restic": (Restic, lambda: servers.go_program(options.cache, "restic", *RESTIC)),
        "rustic": (Rustic, lambda: rustic_program(options.cache)),
    }
    chosen = [(programs[name][0], programs[name][1]()) for name in options.tools.split(",")]
    shown = [f"--corpus {corpus.split('=')[0]}=…" for corpus in options.corpus]
    shown += [f"--latency {latency_ms}" for latency_ms in options.latency or []]
    record = {
        "command": " ".join(["beside.py", "--ibid ibid", f"--tools {options.tools}", *shown]),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "experiment": "servers",
        "load_before": os.getloadavg(),
        "machine": machine(),
        "outcome": {"server": f"{servers.MINIO[0]}@{servers.MINIO[1]}, 4 processes, EC:2", "servers": []},
    }
    for name, _, folder in (corpus.partition("=") for corpus in options.corpus):
        versions = sorted(pathlib.Path(folder).iterdir())[:VERSIONS]
        for latency_ms in options.latency or [0]:
            run = {"corpus": name, "latency_ms": latency_ms, "versions": len(versions), "tools": []}
            print(f"{name}, {latency_ms} ms", file=sys.stderr)
            for kind, program in chosen:
                # A server of its own for each, so that none is slowed by what another has left.
                with (
                    servers.Minio(options.cache) as minio,
                    servers.Proxy(options.cache, minio.url(), "-latency", f"{latency_ms}ms") as proxy,
                    tempfile.TemporaryDirectory() as work,
                    open(pathlib.Path(work) / "log", "wb") as log,
                ):
                    work = pathlib.Path(work)
                    tool = kind(program, proxy.url, work, work / "current")
                    steps = run_tool(tool, versions, proxy, minio.url(), log)
                    run["tools"].append({"tool": tool.name, "version": tool.version(), "steps": steps})
            record["outcome"]["servers"].append(run)
            record["load_after"] = os.getloadavg()
            if options.json:
                options.json.write_text(json.dumps(record, indent=1) + "\n")
    print(table(record))


if __name__ == "__main__":
    main()
