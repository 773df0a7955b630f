"""A server of SSH on this machine, with keys of its own, for measurements: see beside.py."""

import contextlib
import os
import pathlib
import socket
import subprocess
import time

import servers

SSHD = "/usr/sbin/sshd"
# What clients call the server.
HOST = "there"
HERTZ = os.sysconf("SC_CLK_TCK")


class Sshd:
    """A server that runs as this user, and a proxy before it that counts. It begins with `with`, and ends with it.

    `environment` has a PATH on which `ssh` knows the server as `there`, with nothing of this user's own settings: so
    all tools are called as anyone would call them.
    """

    def __init__(self, cache, folder):
        self.cache, self.folder = cache, folder

    def __enter__(self):
        for key in ("host", "client"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key]
            subprocess.run(command, check=True)
        (port,) = servers.free_ports(1)
        (self.folder / "authorized_keys").write_text((self.folder / "client.pub").read_text())
        config = self.folder / "sshd_config"
        config.write_text(f"""ListenAddress 127.0.0.1
Port {port}
HostKey {self.folder}/host
AuthorizedKeysFile {self.folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp internal-sftp
""")
        if os.geteuid() == 0:
            # A server that root starts wants this folder.
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        log = open(self.folder / "sshd.log", "wb")
        self.process = subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=log)
        log.close()
        try:
            until = time.monotonic() + servers.PATIENCE_S
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                if self.process.poll() is not None or time.monotonic() > until:
                    raise SystemExit((self.folder / "sshd.log").read_text())
                time.sleep(0.05)
            self.proxy = servers.Proxy(self.cache, f"tcp://127.0.0.1:{port}").__enter__()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        (self.folder / "known_hosts").write_text(f"{HOST} {(self.folder / 'host.pub').read_text()}")
        (self.folder / "ssh_config").write_text(f"""Host {HOST}
HostName 127.0.0.1
HostKeyAlias {HOST}
Port {self.proxy.url.rpartition(":")[2]}
IdentityFile {self.folder}/client
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {self.folder}/known_hosts
BatchMode yes
""")
        program = self.folder / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\nexec /usr/bin/ssh -F '{self.folder}/ssh_config' \"$@\"\n")
        program.chmod(0o755)
        return self

    def __exit__(self, *_):
        self.proxy.__exit__()
        self.process.terminate()
        self.process.wait()

    def environment(self):
        return {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def cpu_s(self):
        """Returns user and system seconds of all that has served connections and ended."""
        time.sleep(0.2)
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / HERTZ
