#!/usr/bin/env python3
"""Sets a cluster up as docs/slurm.md says, by typing what stands there, on hosts with nothing but Debian 12.

The hosts are namespaces of this machine with Debian's base system (debootstrap) as their root: control, storage1, n1 and n2, with the
addresses of the page. Every block of the page is typed where the page says so; a block that is not there any more, or fails, ends
the run with its words. What differs from the page is listed in DIFFERENCES and WITHOUT_SYSTEMD, and nowhere else.

usage: newcomer.py --debs DIRECTORY [--base DIRECTORY] [--page FILE]

`--base` is a base system that was made before (and is made there if it is not); without it one is made and removed again, which takes
minutes and the network. Needs root and debootstrap. Exit status: 0 all of it went as the page says, 1 not, 2 not possible here.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MIRROR = "http://deb.debian.org/debian"
HOSTS = {"control": "10.1.0.1", "storage1": "10.1.0.11", "n1": "10.1.0.21", "n2": "10.1.0.22"}
COMPUTE = ("n1", "n2")
PACKAGES = {"control": "forebay-controller", "storage1": "forebay-node", "n1": "forebay-node", "n2": "forebay-node"}
# A disk of this machine is smaller than that of the page.
DIFFERENCES = {"1600GB": "4GiB", "20GiB": "1GiB", "40GiB": "2GiB"}
# Slurm's defaults want systemd and control groups, and all processors that a node is said to have.
WITHOUT_SYSTEMD = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSlurmdParameters=config_overrides\n"
LIMIT_S = 120
BOOTED = "booted"
# The first process of a host: makes its root, then reaps what its daemons leave.
BOOT = r"""
set -eu
own=$1 base=$2 name=$3 disk=$4 homes=$5
mount -t tmpfs none "$own"
mkdir "$own/upper" "$own/work" "$own/root"
mount -t overlay -o "lowerdir=$base,upperdir=$own/upper,workdir=$own/work" overlay "$own/root"
cd "$own/root"
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
mkdir -p ssd home
mount --bind "$disk" ssd
mount --bind "$homes" home
hostname "$name"
ip link set lo up
echo booted
while :; do sleep 1000 & wait $! || true; done
"""
# `systemctl` for hosts without systemd: starts what the unit says, as the user and with the directories that the unit says.
SYSTEMCTL = r"""#!/bin/bash
set -euo pipefail
verb=$1; shift
[ "${1:-}" != --now ] || { verb=start; shift; }
unit=$1
file=/etc/systemd/system/$unit.service
[ -e "$file" ] || file=/lib/systemd/system/$unit.service
[ -e "$file" ] || { echo "Unit $unit.service not found." >&2; exit 5; }
of() { sed -n "s/^$1=//p" "$file" | tail -1; }
case $verb in
enable) exit 0 ;;
start | restart) ;;
*) echo "no $verb here" >&2; exit 1 ;;
esac
record=/run/started/$unit
mkdir -p /run/started
if [ -e "$record" ]; then
    old=$(cat "$record")
    [ $verb = restart ] || ! kill -0 "$old" 2>/dev/null || exit 0
    kill "$old" 2>/dev/null || true
    for _ in $(seq 300); do kill -0 "$old" 2>/dev/null || break; sleep 0.1; done
fi
user=$(of User)
for directory in $(of RuntimeDirectory); do install -d -o "${user:-root}" "/run/$directory"; done
for directory in $(of StateDirectory); do install -d -o "${user:-root}" -m "$(of StateDirectoryMode)" "/var/lib/$directory"; done
read -r -a command <<<"$(of ExecStart | sed 's/\$[A-Z_]*//g')"
[ "$(of Type)" != forking ] || command+=(--foreground)
become=()
[ -z "$user" ] || become=(setpriv --reuid="$user" --regid="$user" --init-groups)
setsid "${become[@]}" "${command[@]}" </dev/null >>"/var/log/$unit.log" 2>&1 &
echo $! >"$record"
sleep 0.5
kill -0 $! || { echo "Job for $unit.service failed." >&2; cat "/var/log/$unit.log" >&2; exit 1; }
"""


class Failure(Exception):
    """What did not go as the page says."""


class Page:
    """The page's blocks of code: (section, language, text)."""

    def __init__(self, path):
        self.blocks, section, fence, lines = [], "", None, []
        for line in path.read_text().splitlines():
            if fence is None and line.startswith("## "):
                section = line[3:]
            elif line.startswith("```"):
                if fence is None:
                    fence, lines = line[3:], []
                else:
                    self.blocks.append((section, fence, "\n".join(lines) + "\n"))
                    fence = None
            elif fence is not None:
                lines.append(line)

    def block(self, section, language, words):
        """The one block of a section in which the words are, with the sizes of this machine."""
        found = [text for where, what, text in self.blocks if section in where and what == language and words in text]
        if len(found) != 1:
            raise Failure(f"the page has {len(found)} blocks of {language or 'plain text'} with {words!r} in section {section!r}, not one")
        text = found[0]
        for theirs, ours in DIFFERENCES.items():
            text = text.replace(theirs, ours)
        return text


def line_of(block, words):
    """The one line of a block in which the words are."""
    found = [line for line in block.splitlines() if words in line]
    if len(found) != 1:
        raise Failure(f"{len(found)} lines have {words!r} in\n{block}")
    return found[0]


class Host:
    """A host that runs until it is ended, with all that runs on it."""

    def __init__(self, name, work, base):
        self.name, self.own = name, work / name
        self.disk, homes = work / f"{name}.disk", work / "homes"
        for directory in (self.own, self.disk, homes):
            directory.mkdir(exist_ok=True)
        enter = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        command = [*enter, "bash", "-c", BOOT, "boot", self.own, base, name, self.disk, homes]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if self.process.stdout.readline().strip() != BOOTED:
            raise Failure(f"{name} does not boot")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.first = children[0]

    def path(self, path):
        """Where this program finds a file of the host."""
        return Path(f"/proc/{self.first}/root/{self.own}/root/{path}")

    def run(self, script, user="root", given=None):
        """Types a script; what it says, if it succeeds."""
        enter = ["nsenter", "--target", self.first, "--mount", "--uts", "--ipc", "--net", "--pid", "--"]
        become = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"] if user != "root" else []
        home = "/root" if user == "root" else f"/home/{user}"
        clean = ["env", "-i", "-C", home, f"HOME={home}", f"USER={user}", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]
        clean.append("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        command = [*enter, "chroot", self.own / "root", *become, *clean, "bash", "-euo", "pipefail", "-c", script]
        print(f"{self.name}{'$' if user != 'root' else '#'} {script.strip()}", flush=True)
        done = subprocess.run(
            command, input=given or "", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=LIMIT_S * 3
        )
        print("".join(f"    {line}\n" for line in done.stdout.splitlines()), end="", flush=True)
        if done.returncode != 0:
            raise Failure(f"on {self.name} ended with status {done.returncode}: {script.strip()}")
        return done.stdout

    def write(self, path, text):
        print(f"{self.name}# cat >{path}", flush=True)
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)

    def end(self):
        os.kill(int(self.first), signal.SIGKILL)
        self.process.wait()


def make_base(base, typed):
    """Debian's base system, with what the page has installed from Debian on every machine."""
    subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(base), MIRROR], check=True, stdout=sys.stderr)
    # Services are not started in a directory.
    policy = base / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    command = typed.split("#")[0].replace("apt-get install", "apt-get install --yes --no-install-recommends")
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["chroot", str(base), "sh", "-ec", f"apt-get update -q && {command}"], check=True, env=environment, stdout=sys.stderr)


def connect(hosts):
    """One network of all hosts; the bridge is in the network of the first."""
    def on(host, *words):
        subprocess.run(["nsenter", "--target", host.first, "--net", "ip", *words], check=True)

    first = hosts["control"]
    on(first, "link", "add", "br0", "type", "bridge")
    on(first, "link", "set", "br0", "up")
    on(first, "addr", "add", f"{HOSTS['control']}/24", "dev", "br0")
    for name, host in hosts.items():
        if host is not first:
            on(first, "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", host.first)
            on(first, "link", "set", f"to-{name}", "master", "br0", "up")
            on(host, "addr", "add", f"{HOSTS[name]}/24", "dev", "eth0")
            on(host, "link", "set", "eth0", "up")


def furnish(hosts, debs):
    """What every site has: names, the same users, and here our packages and something in the place of systemd."""
    names = "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in HOSTS.items())
    for host in hosts.values():
        host.path("etc/hosts").write_text(names)
        host.path("usr/local/bin/systemctl").write_text(SYSTEMCTL)
        host.path("usr/local/bin/systemctl").chmod(0o755)
        for package in debs.glob("*.deb"):
            shutil.copy(package, host.path("root"))
        # As if Debian's package had been installed on each machine: with a key of its own, and running.
        host.path("etc/munge/munge.key").write_bytes(os.urandom(1024))
        host.run("systemctl enable --now munge")
        host.run("useradd --uid 5001 --shell /bin/bash ann && install -d -o ann -g ann /home/ann")


def await_words(host, script, words):
    """Types it again until all the words are in what it says."""
    end = time.time() + LIMIT_S
    while True:
        said = host.run(script)
        if all(word in said for word in words):
            return said
        if time.time() > end:
            raise Failure(f"{script!r} on {host.name} does not say {words}")
        time.sleep(0.5)


def programs(page, hosts):
    block = page.block("1. Programs", "sh", "./forebay-client_*.deb")
    for name, host in hosts.items():
        host.run(line_of(block, PACKAGES[name]).replace("apt-get install", "apt-get install --yes --no-install-recommends"))


def munge(page, hosts):
    block = page.block("2. MUNGE", "sh", "munge.key")
    control = hosts["control"]
    control.run(line_of(block, "dd if="))
    key = control.path("etc/munge/munge.key").read_bytes()
    for host in hosts.values():
        host.path("etc/munge/munge.key").write_bytes(key)
        host.run(line_of(block, "chown munge:"))
        host.run(line_of(block, "systemctl enable"))
    line = line_of(block, "unmunge")
    here, there = line.split("#")[0].split("| ssh ")
    name, command = there.split(maxsplit=1)
    proven = hosts[name].run(command, given=control.run(here))
    if line.split("#")[1].strip().split()[-1] not in proven or "STATUS" not in proven:
        raise Failure(f"munge says {proven}")


def controller(page, hosts):
    control = hosts["control"]
    control.write("/etc/forebay/controller.toml", page.block("3. The controller", "toml", "[[pool]]"))
    block = page.block("3. The controller", "sh", "systemctl")
    control.run(line_of(block, "systemctl"))
    if "wlm_pool" not in control.run(line_of(block, "dwstat")):
        raise Failure("dwstat does not show the pool")


def agents(page, hosts):
    block = page.block("4. Agents", "sh", "systemctl")
    hosts["storage1"].write("/etc/forebay/agent.toml", page.block("4. Agents", "toml", "[storage]"))
    hosts["storage1"].run(line_of(block, "mkdir"))
    for name in COMPUTE:
        hosts[name].write("/etc/forebay/agent.toml", page.block("4. Agents", "toml", "[mounts]"))
    for name in ("storage1", *COMPUTE):
        hosts[name].run(line_of(block, "systemctl"))
    await_words(hosts["control"], line_of(block, "dwstat nodes"), ["storage1", *COMPUTE])


def clients(page, hosts):
    for name in ("storage1", *COMPUTE):
        hosts[name].write("/etc/forebay/client.toml", page.block("5. Clients", "toml", "controller = "))
        hosts[name].run("dwstat")


def slurm(page, hosts):
    control = hosts["control"]
    whole = page.block("6. Slurm", "", "ClusterName=")
    plugin = page.block("6. Slurm", "", "BurstBufferType=")
    for host in hosts.values():
        host.write("/etc/slurm/slurm.conf", whole + plugin + WITHOUT_SYSTEMD)
    lines = page.block("6. Slurm", "", "GetSysState=").splitlines(keepends=True)
    # "With the Debian packages the first two lines are not needed".
    control.write("/etc/slurm/burst_buffer.conf", "".join(lines[2:]))
    for line in page.block("6. Slurm", "sh", "StateSaveLocation").splitlines():
        control.run(line)
    block = page.block("6. Slurm", "sh", "scontrol show burst")
    control.run(line_of(block, "systemctl restart slurmctld"))
    for name in COMPUTE:
        hosts[name].run(line_of(block, "systemctl restart slurmd  "))
    await_words(control, line_of(block, "scontrol show burst"), ["DefaultPool=wlm_pool", "Granularity=1GiB"])
    await_words(control, "sinfo", ["idle"])


def look_over(page, hosts):
    for host in hosts.values():
        host.run(page.block("7. Look it over", "sh", "forebay doctor"))
    control = hosts["control"]
    job = page.block("7. Look it over", "sh", "sbatch job.sh")
    control.run(job, user="ann")
    end = time.time() + LIMIT_S
    while control.run("squeue --noheader --states=all --format=%T --jobs=1").strip() != "COMPLETED":
        if time.time() > end:
            raise Failure("the job does not end:\n" + control.run("scontrol show job 1"))
        time.sleep(1)
    written = (control.path("home/ann") / "slurm-1.out").read_text().split()
    if sorted(written) != ["n1", "n1", "n2", "n2"]:
        raise Failure(f"the job wrote {written}")
    await_words(control, "dwstat sessions", ["no sessions"])


STEPS = (programs, munge, controller, agents, clients, slurm, look_over)


def parse():
    parser = argparse.ArgumentParser(description="Set a cluster up as the page says.")
    parser.add_argument("--debs", type=Path, required=True, help="the packages that `make deb` made")
    parser.add_argument("--base", type=Path, help="a base system that is kept")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/slurm.md")
    return parser.parse_args()


def newcomer(arguments, work):
    page = Page(arguments.page)
    base = (arguments.base or work / "base").resolve()
    if not (base / "usr/sbin/slurmctld").exists():
        make_base(base, line_of(page.block("1. Programs", "sh", "slurm-wlm"), "slurm-wlm"))
    hosts = {}
    try:
        for name in HOSTS:
            hosts[name] = Host(name, work, base)
        connect(hosts)
        furnish(hosts, arguments.debs)
        for step in STEPS:
            print(f"--- {step.__name__}", flush=True)
            step(page, hosts)
    except Failure:
        for host in hosts.values():
            for log in host.path("var/log").glob("*.log"):
                print(f"--- {host.name} {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-20:]))
        raise
    finally:
        for host in hosts.values():
            host.end()


def main():
    arguments = parse()
    missing = [program for program in ("debootstrap", "unshare", "ip") if not shutil.which(program)]
    if os.geteuid() != 0 or missing or not list(arguments.debs.glob("*.deb")):
        print(f"newcomer: needs root, packages in {arguments.debs}, and programs; missing: {missing}", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="newcomer-") as work:
            newcomer(arguments, Path(work))
    except (Failure, subprocess.SubprocessError) as failure:
        print(f"newcomer: {failure}", file=sys.stderr)
        return 1
    print("newcomer: all of it went as the page says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
