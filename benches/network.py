"""Servers (four, if nothing else is asked) with a fragment each and a client mount, all on this machine: what `forebay serve` and `forebay mount` give.

The fragments are directories of XFS images of a fixed size, one for each server, as on storage nodes. Everything runs from one
work directory and is ended and removed with the context, also after a failure.
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time

SERVERS = 4
FRAGMENT_BYTES = 1 << 30
STARTING_S = 20


class Servers:
    """Servers that run while the context lasts. `sockets`: clients on this machine may use their Unix sockets."""

    def __init__(self, forebay, work, sockets, count=SERVERS, fragment_bytes=FRAGMENT_BYTES):
        self.forebay, self.work, self.sockets = forebay, work, sockets
        self.count, self.fragment_bytes = count, fragment_bytes
        self.processes, self.mounts = [], []

    def __enter__(self):
        self.work.mkdir()
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        for name in ("token", "seal"):
            path = self.work / name
            path.write_text(secrets.token_hex(32) + "\n")
            path.chmod(0o600)
        self.ports = free_ports(self.count)
        for position in range(self.count):
            config = self.work / f"server{position}.toml"
            config.write_text(self.server(position, self.fragment(position)))
            with open(self.work / f"server{position}.log", "wb") as log:
                command = [self.forebay, "serve", "--config", config]
                self.processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))
        for position in range(self.count):
            self.wait_for(position)
        (self.work / "instance.toml").write_text(self.instance())

    def wait_for(self, position):
        log, end = self.work / f"server{position}.log", time.time() + STARTING_S
        while "serving" not in log.read_text():
            if self.processes[position].poll() is not None or time.time() > end:
                raise SystemExit(f"bench: server {position} did not start\n{log.read_text()}")
            time.sleep(0.01)

    def fragment(self, position):
        image, mount = self.work / f"fragment{position}.img", self.work / f"fragment{position}"
        with open(image, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.fragment_bytes)
        subprocess.run(["mkfs.xfs", "-q", "-K", image], check=True)
        mount.mkdir()
        subprocess.run(["mount", "-o", "loop", image, mount], check=True)
        self.mounts.append(mount)
        directory = mount / "fragment"
        directory.mkdir(mode=0o700)
        return directory

    def addresses(self, table):
        for position, port in enumerate(self.ports):
            yield f'[[{table}]]\naddress = "127.0.0.1:{port}"'
            if self.sockets:
                yield f'socket = "{self.work}/server{position}.sock"'

    def server(self, position, fragment):
        where = f'socket = "{self.work}/server{position}.sock"\n' if self.sockets else ""
        return (
            f'listen = ["127.0.0.1:{self.ports[position]}"]\n{where}state = "{self.work}/state{position}"\n'
            f'[[instance]]\nid = 1\nname = "bench"\nfragment = "{fragment}"\nspace = "hard"\nposition = {position}\n'
            f'token_file = "{self.work}/token"\nseal_file = "{self.work}/seal"\n'
            + "\n".join(self.addresses("instance.server"))
            + '\n[[instance.namespace]]\nname = "c1"\nhome = 0\n'
        )

    def instance(self):
        head = f'id = 1\nname = "bench"\nnamespace = "c1"\nhome = 0\ntoken_file = "{self.work}/token"\n'
        return head + "\n".join(self.addresses("server")) + "\n"

    @contextlib.contextmanager
    def mounted(self):
        """The mount point of a client."""
        mount = self.work / "mount"
        mount.mkdir()
        self.forebay_does("mount", "--background", "--instance", self.work / "instance.toml", mount)
        try:
            yield mount
        finally:
            self.forebay_does("umount", mount)
            mount.rmdir()

    def time_of_a_mount(self):
        """Milliseconds from nothing to the first byte written, and of the unmount."""
        mount = self.work / "mount"
        mount.mkdir()
        start = time.time()
        self.forebay_does("mount", "--background", "--instance", self.work / "instance.toml", mount)
        (mount / "first").write_bytes(b"1")
        written = time.time()
        self.forebay_does("umount", mount)
        ended = time.time()
        mount.rmdir()
        return 1000 * (written - start), 1000 * (ended - written)

    def forebay_does(self, *words):
        done = subprocess.run([self.forebay, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench: forebay {' '.join(map(str, words))} ended with status {done.returncode}\n{done.stdout}")

    def __exit__(self, *failure):
        # A mount that could not be taken away: out of the way while its servers live, so that nothing is removed through it.
        if os.path.ismount(self.work / "mount"):
            subprocess.run(["umount", "-l", self.work / "mount"], check=True)
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        for mount in self.mounts:
            subprocess.run(["umount", mount], check=True)
        shutil.rmtree(self.work)


def free_ports(count):
    """Ports that nobody listens at: taken all at once, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
