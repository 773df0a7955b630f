#!/usr/bin/env python3
"""Measures ibid beside restic and rustic, with one MinIO of four processes, or of one, or through SSH.

    beside.py --ibid target/release/ibid --corpus lnx=corpora/lnx-trees --json out.json
    beside.py --ibid target/release/ibid --corpus lnx=corpora/lnx-trees --json out.json --over ssh
    beside.py --table out.json

A corpus is a folder whose files or folders sort from the oldest version to the newest. Each tool stores the first
version, ten more, the last once again, restores it with and without its cache, and drops all but three snapshots. The
restored files are compared with the original. All tools have their default settings.

Each goes through a proxy of its own (count.go), which counts requests, and bytes on the connections, in the same way
for all; with --latency each request waits for so long. CPU is user and system time of the tool alone: proxy and servers
run on the same machine and share its cores.

Four processes of MinIO wait for one another's locks (lock_waits.py); with --processes 1 it does not.

With --restore-in /dev/shm, restores write into memory: file systems may take long to make files where others were
removed just before, and that time is no tool's.

Through SSH (ssh.py), a proxy counts connections and their bytes, and the CPU of the other side is measured, too: that
of `sshd`, of its SFTP server, which restic and rustic use, and of `ibid serve`. --latency is for MinIO alone.
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
import ssh

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


class Bucket:
    """A bucket in MinIO, behind a proxy that counts."""

    def __init__(self, options, latency_ms, work):
        self.minio = servers.Minio(options.cache, count=options.processes)
        self.start = lambda: servers.Proxy(options.cache, self.minio.url(), "-latency", f"{latency_ms}ms")

    def __enter__(self):
        self.minio.__enter__()
        try:
            self.proxy = self.start().__enter__()
        except BaseException:
            self.minio.__exit__()
            raise
        self.environment = servers.s3_environment(self.proxy.url)
        self.repositories = {
            "ibid": f"s3://tests/ibid?endpoint={self.proxy.url}",
            "restic": f"s3:{self.proxy.url}/tests/restic",
            "rustic": "opendal:s3",
        }
        self.rustic_options = {
            "bucket": "tests",
            "root": "/rustic",
            "endpoint": self.proxy.url,
            "region": "us-east-1",
            "access_key_id": servers.KEY,
            "secret_access_key": servers.SECRET,
        }
        return self

    def __exit__(self, *_):
        self.proxy.__exit__()
        self.minio.__exit__()

    def stored(self, prefix):
        """Returns the bytes and the number of the objects below a prefix."""
        sizes, token = [], {}
        while True:
            query = {"list-type": "2", "prefix": f"{prefix}/"} | token
            answer = servers.expect(servers.s3_request("GET", self.minio.url(), "/tests", query), 200)
            page = xml.etree.ElementTree.fromstring(answer)
            space = page.tag.split("}")[0] + "}"
            sizes += [int(size.text) for size in page.iter(f"{space}Size")]
            more = page.find(f"{space}NextContinuationToken")
            if more is None:
                return sum(sizes), len(sizes)
            token = {"continuation-token": more.text}

    def far_cpu_s(self):
        return None


class Machine:
    """A folder of another machine that SSH reaches: this one."""

    def __init__(self, options, latency_ms, work):
        self.folder = work / "there"
        (work / "ssh").mkdir()
        self.server = ssh.Sshd(options.cache, work / "ssh")

    def __enter__(self):
        self.folder.mkdir()
        self.server.__enter__()
        self.proxy, self.environment = self.server.proxy, self.server.environment()
        self.repositories = {
            "ibid": f"ssh://{ssh.HOST}{self.folder}/ibid",
            "restic": f"sftp:{ssh.HOST}:{self.folder}/restic",
            "rustic": "opendal:sftp",
        }
        self.rustic_options = {"endpoint": ssh.HOST, "root": f"{self.folder}/rustic"}
        return self

    def __exit__(self, *_):
        self.server.__exit__()

    def stored(self, prefix):
        """Returns the bytes and the number of the files below a folder."""
        sizes = [path.stat().st_size for path in (self.folder / prefix).rglob("*") if path.is_file()]
        return sum(sizes), len(sizes)

    def far_cpu_s(self):
        return self.server.cpu_s()


class Tool:
    """A program with a repository at a place, below a prefix of its name."""

    def __init__(self, program, place, work, tree):
        self.program, self.place, self.work, self.tree = program, place, work, tree
        self.environment = os.environ | place.environment | {"TZ": "UTC", "HOME": str(work)}

    @property
    def cache(self):
        return self.work / f"{self.name}-cache"

    @property
    def repository(self):
        return self.place.repositories[self.name]


class Ibid(Tool):
    name = "ibid"

    def command(self, *arguments):
        # On the other machine, this is the same program.
        there = f"?ibid={self.program}" if self.repository.startswith("ssh://") else ""
        self.environment |= {"IBID_REPO": self.repository + there, "IBID_PASSWORD": PASSWORD}
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
        self.environment |= {"RESTIC_REPOSITORY": self.repository, "RESTIC_PASSWORD": PASSWORD}
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
        options = "".join(f'{name} = "{value}"\n' for name, value in self.place.rustic_options.items())
        profile.write_text(f"""
[repository]
repository = "{self.repository}"
password = "{PASSWORD}"
cache-dir = "{self.cache}"
[repository.options]
{options}""")
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


def run_tool(tool, versions, out, log):
    """Returns the steps of one tool, which restores into the folder `out`."""
    steps = []
    proxy = tool.place.proxy

    def step(name, commands):
        proxy.take()
        before = tool.place.far_cpu_s()
        figures = measure(tool, commands, log)
        if before is not None:
            figures["far_cpu_s"] = round(tool.place.far_cpu_s() - before, 2)
        size, objects = tool.place.stored(tool.name)
        counted = proxy.take()
        steps.append({"step": name, **figures, **counted, "stored_bytes": size, "objects": objects})
        requests = sum(counted["requests"].values())
        print(f"  {tool.name} {name}: {figures['wall_s']:.2f} s, {figures['cpu_s']:.2f} s CPU, {requests} requests, "
              f"{counted['to_server']} up, {counted['to_client']} down, {size} stored", file=sys.stderr, flush=True)

    def restored(name):
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
    figures = [name for name in ("wall_s", "cpu_s", "far_cpu_s", "to_server", "to_client") if name in steps[0]]
    for step in steps:
        name = "more versions" if step["step"].startswith("version ") else step["step"]
        row = rows.setdefault(name, dict.fromkeys([*figures, "requests"], 0))
        for figure in figures:
            row[figure] += step[figure]
        row["requests"] += sum(step["requests"].values())
        row["stored_bytes"] = step["stored_bytes"]
    return rows


def table(record):
    """Returns the results as Markdown."""
    lines = []
    for run in record["outcome"]["servers"]:
        rows = {tool["tool"]: summed(tool["steps"]) for tool in run["tools"]}
        far = "far_cpu_s" in next(iter(rows.values()))["init"]
        asked = "connections" if far else "requests"
        columns = [asked, "MB up", "MB down", "wall, s", "CPU, s", *(["CPU there, s"] if far else []), "MB stored"]
        lines += [f"{run['corpus']}, " + ("through SSH" if far else f"{run['latency_ms']} ms a request"), ""]
        lines += ["| step | tool | " + " | ".join(columns) + " |", "|---|---|" + "--:|" * len(columns)]
        for name in next(iter(rows.values())):
            for tool in rows:
                row = rows[tool][name]
                up, down, stored = (f"{row[figure] / 1e6:.1f}" for figure in ("to_server", "to_client", "stored_bytes"))
                seconds = [f"{row[figure]:.1f}" for figure in ("wall_s", "cpu_s", "far_cpu_s") if figure in row]
                cells = [name, tool, f"{row['requests']}", up, down, *seconds, stored]
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ibid", type=lambda text: pathlib.Path(text).absolute(), help="the program")
    parser.add_argument("--corpus", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--over", default="s3", choices=["s3", "ssh"], help="how repositories are reached (s3)")
    parser.add_argument("--latency", action="append", type=int, metavar="MS", help="how long requests wait (0)")
    parser.add_argument("--processes", type=int, default=4, choices=[1, 4], help="processes of MinIO (4)")
    parser.add_argument("--restore-in", type=pathlib.Path, metavar="FOLDER", help="where to restore (temporary)")
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
    shown += [f"--restore-in {options.restore_in}"] if options.restore_in else []
    shown += [f"--latency {latency_ms}" for latency_ms in options.latency or []]
    shown += ["--processes 1"] if options.processes == 1 else []
    if options.over == "ssh":
        said = subprocess.run(["ssh", "-V"], text=True, stderr=subprocess.PIPE).stderr.strip()
        place_kind, server, shown = Machine, f"sshd on the same machine, {said}", [*shown, "--over ssh"]
    else:
        place_kind = Bucket
        server = f"{servers.MINIO[0]}@{servers.MINIO[1]}, 4 drives, EC:2, processes: {options.processes}"
    record = {
        "command": " ".join(["beside.py", "--ibid ibid", f"--tools {options.tools}", *shown]),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "experiment": "servers",
        "load_before": os.getloadavg(),
        "machine": machine(),
        "outcome": {"server": server, "servers": []},
    }
    for name, _, folder in (corpus.partition("=") for corpus in options.corpus):
        versions = sorted(pathlib.Path(folder).iterdir())[:VERSIONS]
        for latency_ms in options.latency or [0]:
            run = {"corpus": name, "latency_ms": latency_ms, "versions": len(versions), "tools": []}
            record["outcome"]["servers"].append(run)
            print(f"{name}, {latency_ms} ms", file=sys.stderr)
            for kind, program in chosen:
                # A server of its own for each, so that none is slowed by what another has left.
                with (
                    tempfile.TemporaryDirectory() as work,
                    tempfile.TemporaryDirectory(dir=options.restore_in) as restored,
                    place_kind(options, latency_ms, pathlib.Path(work)) as place,
                    open(pathlib.Path(work) / "log", "wb") as log,
                ):
                    work = pathlib.Path(work)
                    tool = kind(program, place, work, work / "current")
                    steps = run_tool(tool, versions, pathlib.Path(restored) / "out", log)
                    run["tools"].append({"tool": tool.name, "version": tool.version(), "steps": steps})
                # After each tool: another may fail.
                record["load_after"] = os.getloadavg()
                if options.json:
                    options.json.write_text(json.dumps(record, indent=1) + "\n")
    print(table(record))


if __name__ == "__main__":
    main()
