#!/usr/bin/env python3
"""Starts real servers of objects on this machine, for tests and measurements.

    servers.py minio                            until Ctrl-C; prints the variables that programs need
    servers.py minio -- cargo test …            as long as the command runs, with the variables set

Servers: minio (four processes, erasure coding), google (the same behind a proxy that speaks Google Cloud Storage's
dialect), moto and azurite. They listen on 127.0.0.1, keep what they store in a temporary folder, and end with this
program. On its standard input, `kill N` ends process N by SIGKILL, and `start N` brings it back with what it had
stored.

Programs are built once, of the versions below, in --cache (by default ~/.cache/ibid-servers). MinIO needs Go, azurite
needs npm. MinIO is under the AGPL: it is only run, and nothing of it is in this repository.
"""

import argparse
import base64
import contextlib
import datetime
import hashlib
import hmac
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

MINIO = ("github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c", ".")
MOTO = "moto[s3,server]==5.2.5"
AZURITE = "azurite@3.35.0"

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "ibid-servers"
KEY, SECRET = "servers", "of-this-machine"
# What Azurite and every client of it know by heart.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

# Buckets that every server gets. In S3 the second keeps old versions, and the third can lock them.
BUCKETS = ["tests", "tests-versions", "tests-locks"]
PATIENCE_S = 180


def exit_on_signals():
    """Makes signals end this program in order, so that the processes that it has started end, too."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(128 + number))


def free_ports(count):
    """Returns free ports in a row, below those from which systems choose ports of outgoing connections."""
    begin = 19000 + os.getpid() % 500 * 20
    for first in [*range(begin, 30000, 10), *range(19000, begin, 10)]:
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    taken = stack.enter_context(socket.socket())
                    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            return list(range(first, first + count))
    raise SystemExit("no free ports from 19000 on")


def request(method, url, body=b"", headers=()):
    """Sends a request; returns the answer's status and body."""
    headers = ({"Content-Type": "application/xml"} if body else {}) | dict(headers)
    sent = urllib.request.Request(url, data=body or None, headers=headers, method=method)
    # Without the proxies of the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(sent, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def s3_request(method, endpoint, path, query=(), body=b"", headers=(), keys=None, service="s3"):
    """Sends a request that is signed as S3 wants it; returns the answer's status and body. `keys` are a key, a secret
    and a token, in place of those of the server."""
    access, secret, token = keys or (KEY, SECRET, None)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{now[:8]}/us-east-1/{service}/aws4_request"
    quoted = urllib.parse.quote(path)
    query = "&".join(sorted(f"{urllib.parse.quote(k, '')}={urllib.parse.quote(v, '')}" for k, v in dict(query).items()))
    digest = hashlib.sha256(body).hexdigest()
    signed = {"host": endpoint.split("://")[1], "x-amz-content-sha256": digest, "x-amz-date": now}
    signed |= {"x-amz-security-token": token} if token else {}
    signed |= {name.lower(): value for name, value in dict(headers).items()}
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical = f"{method}\n{quoted}\n{query}\n{lines}\n{names}\n{digest}"
    to_sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    credential = f"Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}"
    signed["authorization"] = f"AWS4-HMAC-SHA256 {credential}"
    return request(method, f"{endpoint}{quoted}" + (f"?{query}" if query else ""), body, signed)


def expect(answer, *statuses):
    """Returns the body of an answer that has one of these statuses."""
    status, body = answer
    if status not in statuses:
        raise SystemExit(f"the server answers {status}: {body.decode(errors='replace')}")
    return body


def s3_put(endpoint, path, query=(), body=b"", headers=()):
    """Puts something, also if the server is not ready yet."""
    until = time.monotonic() + PATIENCE_S
    while (answer := s3_request("PUT", endpoint, path, query, body, headers))[0] == 503 and time.monotonic() < until:
        time.sleep(0.2)
    expect(answer, 200, 204)


def make_s3_buckets(endpoint):
    enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    for bucket in BUCKETS[:2]:
        s3_put(endpoint, f"/{bucket}")
    s3_put(endpoint, f"/{BUCKETS[2]}", headers={"x-amz-bucket-object-lock-enabled": "true"})
    s3_put(endpoint, f"/{BUCKETS[1]}", {"versioning": ""}, enabled)


def go_program(cache, name, module, version, package):
    """Builds a program of a Go module; returns its path."""
    program = cache / "bin" / f"{name}-{version}"
    if not program.exists():
        print(f"building {module}@{version}", file=sys.stderr)
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as empty:
            found = subprocess.run(
                ["go", "mod", "download", "-json", f"{module}@{version}"], cwd=empty, check=True, stdout=subprocess.PIPE
            )
            # In the module's own folder, `replace` in its go.mod holds, unlike with `go install`.
            source = json.loads(found.stdout)["Dir"]
            built = program.with_suffix(".new")
            build = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", built, package]
            variables = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
            subprocess.run(build, cwd=source, check=True, env=os.environ | variables)
        built.rename(program)
    return program


class Servers:
    """Processes that are one server. It begins with `with`, and ends with it."""

    # How many processes there are.
    count = 1

    def __init__(self, cache=CACHE, folder=None):
        self.cache = pathlib.Path(cache).expanduser().absolute()
        self.temporary = None if folder else tempfile.TemporaryDirectory(prefix="ibid-servers-")
        self.folder = pathlib.Path(folder or self.temporary.name)
        self.program = self.build()
        self.ports = free_ports(self.count)
        self.running = [None] * self.count

    def build(self):
        """Returns the path of the program, which this installs if it is not there."""
        raise NotImplementedError

    def command(self, number):
        """Returns arguments and variables of process `number`, which counts from 0."""
        raise NotImplementedError

    def is_healthy(self):
        """Returns whether the server answers as it should with all its processes."""
        raise NotImplementedError

    def make_buckets(self):
        raise NotImplementedError

    def environment(self):
        """Returns the variables that programs need. IBID_SERVER is the address that the tests use."""
        raise NotImplementedError

    def url(self, number=0):
        return f"http://127.0.0.1:{self.ports[number]}"

    def start(self, number):
        """Starts process `number`."""
        arguments, variables = self.command(number)
        log = open(self.folder / f"{number + 1}.log", "ab")
        self.running[number] = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | variables
        )
        log.close()

    def kill(self, number):
        """Ends process `number` at once, by SIGKILL."""
        process, self.running[number] = self.running[number], None
        if process:
            process.kill()
            process.wait()

    def wait(self):
        """Waits until the server is healthy."""
        until = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError):
                if self.is_healthy():
                    return
            if any(process and process.poll() is not None for process in self.running) or time.monotonic() > until:
                logs = "".join(log.read_text(errors="replace")[-2000:] for log in sorted(self.folder.glob("*.log")))
                raise SystemExit(f"{type(self).__name__} does not come up:\n{logs}")
            time.sleep(0.1)

    def __enter__(self):
        try:
            for number in range(self.count):
                self.start(number)
            self.wait()
            self.make_buckets()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for number in range(self.count):
            self.kill(number)
        if self.temporary:
            self.temporary.cleanup()


class Minio(Servers):
    """Four drives, two of data and two of parity, each with a process of its own; or all with one."""

    drives = 4

    def __init__(self, cache=CACHE, folder=None, count=drives):
        self.count = count
        super().__init__(cache, folder)

    def build(self):
        return go_program(self.cache, "minio", *MINIO)

    def drive(self, number):
        return self.folder / f"drive-{number + 1}"

    def command(self, number):
        hosts = [self.url(other) if self.count > 1 else "" for other in range(self.drives)]
        places = [f"{host}{self.drive(other)}" for other, host in enumerate(hosts)]
        arguments = [self.program, "server", "--quiet", "--address", f"127.0.0.1:{self.ports[number]}", *places]
        return arguments, {
            "MINIO_ROOT_USER": KEY,
            "MINIO_ROOT_PASSWORD": SECRET,
            "MINIO_BROWSER": "off",
            # Drives may be folders of the disk that the system is on.
            "MINIO_CI_CD": "1",
            # In a container, which of the addresses is meant can't be found by their names.
            "_MINIO_SERVER_LOCAL": f"127.0.0.1:{self.ports[number]}",
        }

    def is_healthy(self):
        live = [number for number in range(self.count) if self.running[number]]
        return all(request("GET", f"{self.url(number)}/minio/health/cluster")[0] == 200 for number in live)

    def make_buckets(self):
        make_s3_buckets(self.url())

    def environment(self):
        return s3_environment(self.url())


class Moto(Servers):
    def build(self):
        program = self.cache / "moto" / "bin" / "moto_server"
        if not program.exists():
            subprocess.run([sys.executable, "-m", "venv", self.cache / "moto"], check=True)
            subprocess.run([program.with_name("pip"), "install", "--quiet", MOTO], check=True)
        return program

    def command(self, number):
        return [self.program, "-H", "127.0.0.1", "-p", f"{self.ports[number]}"], {}

    def is_healthy(self):
        return request("GET", f"{self.url()}/moto-api/data.json")[0] == 200

    def make_buckets(self):
        make_s3_buckets(self.url())

    def environment(self):
        return s3_environment(self.url())


class Azurite(Servers):
    def build(self):
        program = self.cache / "azurite" / "node_modules" / ".bin" / "azurite-blob"
        if not program.exists():
            self.cache.mkdir(parents=True, exist_ok=True)
            prefix = self.cache / "azurite"
            subprocess.run(["npm", "install", "--silent", "--prefix", prefix, AZURITE], check=True, stdout=sys.stderr)
        return program

    def command(self, number):
        place = ["--location", self.folder, "--blobHost", "127.0.0.1", "--blobPort", f"{self.ports[number]}"]
        return [self.program, *place, "--silent", "--skipApiVersionCheck", "--disableTelemetry"], {}

    def is_healthy(self):
        return request("GET", f"{self.url()}/{AZURE_ACCOUNT}?comp=list")[0] in (400, 403)

    def make_buckets(self):
        for container in BUCKETS:
            date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
            version = "2021-12-02"
            resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{container}\nrestype:container"
            to_sign = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n{resource}"
            signature = base64.b64encode(hmac.digest(base64.b64decode(AZURE_KEY), to_sign.encode(), "sha256")).decode()
            signed = {"x-ms-date": date, "x-ms-version": version}
            signed["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{signature}"
            url = f"{self.url()}/{AZURE_ACCOUNT}/{container}?restype=container"
            expect(request("PUT", url, headers=signed), 201)

    def environment(self):
        return {
            "IBID_SERVER": f"az://{BUCKETS[0]}?endpoint={self.url()}/{AZURE_ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
        }


class Proxy:
    """What counts between programs and a server: see count.go."""

    def __init__(self, cache, target, *options):
        program = cache / "bin" / "count"
        source = pathlib.Path(__file__).with_name("count.go")
        subprocess.run(["go", "build", "-buildvcs=false", "-o", program, source], check=True)
        port, control = free_ports(2)
        self.url, self.control = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{control}/-/counts"
        arguments = ["-listen", f"127.0.0.1:{port}", "-control", f"127.0.0.1:{control}", "-to", target, *options]
        self.process = subprocess.Popen([program, *arguments])

    def take(self):
        """Returns what was counted since the last call."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return json.loads(request("GET", self.control)[1])
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def __enter__(self):
        try:
            self.take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Google(Minio):
    """MinIO that understands Google's dialect by a proxy, for gs:// addresses."""

    def make_buckets(self):
        super().make_buckets()
        for bucket in BUCKETS:
            places = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
            actions = ["s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
            allowed = {"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": actions, "Resource": places}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]}).encode()
            # It may take a while until it holds.
            while request("GET", f"{self.url()}/{bucket}?list-type=2")[0] != 200:
                s3_put(self.url(), f"/{bucket}", {"policy": ""}, policy)
        self.proxy = Proxy(self.cache, self.url(), "-google").__enter__()

    def environment(self):
        # An account that needs no token.
        account = {"client_email": "tests", "private_key": "", "private_key_id": "", "disable_oauth": True}
        file = self.folder / "account.json"
        file.write_text(json.dumps(account))
        return {"IBID_SERVER": f"gs://{BUCKETS[0]}?endpoint={self.proxy.url}", "GOOGLE_SERVICE_ACCOUNT": str(file)}

    def __exit__(self, *_):
        if hasattr(self, "proxy"):
            self.proxy.__exit__()
        super().__exit__()


def s3_environment(endpoint):
    return {
        "IBID_SERVER": f"s3://{BUCKETS[0]}?endpoint={endpoint}",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


SERVERS = {"minio": Minio, "google": Google, "moto": Moto, "azurite": Azurite}


def obey(servers, line):
    """Does what a line of standard input says."""
    match line.split():
        case ["kill" | "start" as what, number] if number in map(str, range(1, servers.count + 1)):
            number = int(number) - 1
            is_running = servers.running[number] is not None
            if is_running == (what == "kill"):
                getattr(servers, what)(number)
        case []:
            pass
        case _:
            print("type `kill N` or `start N`", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", choices=SERVERS)
    parser.add_argument("--cache", default=CACHE, help="folder for programs")
    parser.usage = "%(prog)s [-h] [--cache CACHE] SERVER [-- COMMAND...]"
    # Some versions of `argparse` take the second `--` away, too, which is one of the command.
    own, _, command = "\0".join(sys.argv[1:]).partition("\0--\0")
    options = parser.parse_args(own.split("\0") if own else [])
    options.command = command.split("\0") if command else []
    exit_on_signals()
    with SERVERS[options.server](options.cache) as servers:
        if options.command:
            sys.exit(subprocess.run(options.command, env=os.environ | servers.environment()).returncode)
        for name, value in servers.environment().items():
            print(f"export {name}='{value}'")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            for line in sys.stdin:
                obey(servers, line)


if __name__ == "__main__":
    main()
