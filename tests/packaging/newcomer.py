#!/usr/bin/env python3
"""Sets a cluster up as docs/slurm.md says, by typing what stands there, on hosts with nothing but Debian 12.

The hosts are namespaces of this machine with Debian's base system (debootstrap) as their root and its systemd as their first process:
control, storage1, n1 and n2, with the addresses of the page. Every block of the page is typed where the page says so; a block that is
not there any more, or fails, ends the run with its words. What differs from the page is listed in DIFFERENCES and the lines
WITHOUT_..., and nowhere else. Then a job with everything in it runs while the services are confined to what their units leave them, and they are
started anew in the middle of it.

usage: newcomer.py --debs DIRECTORY [--base DIRECTORY] [--page FILE]

`--base` is a base system that was made before (and is made there if it is not); without it one is made and removed again, which takes
minutes and the network. `--base /` is this machine itself, never changed: hosts that have what it has, without the network. Needs root,
and debootstrap to make a base. Exit status: 0 all of it went as the page says, 1 not, 2 not possible here.
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
# Slurm's defaults want the controllers of control groups, which are the machine's, and all processors that a node is said to have.
WITHOUT_CONTROLLERS = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSlurmdParameters=config_overrides\n"
WITHOUT_HIERARCHY = "CgroupPlugin=cgroup/v1\n"
LIMIT_S = 120
# Without ps, which a bare Debian does not have. A process may end while it is looked at.
PROCESSES_OF_ANN = "for process in /proc/[0-9]*; do [ \"$(stat -c %U $process 2>&1)\" != ann ] || cat $process/comm 2>&1; done; true"
BOOTED = "booted"
UNITS = {"control": "forebay-controller", "storage1": "forebay-agent", "n1": "forebay-agent", "n2": "forebay-agent"}
# The capabilities that units may leave, by their numbers.
CAPABILITIES = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "MKNOD": 27,
}  # fmt: skip
# A job with everything in it.
JOB = """#!/bin/bash
#SBATCH -N 2
#DW jobdw type=scratch access_mode=striped,private capacity=2GiB
#DW stage_in type=directory source=/home/ann/in destination=$DW_JOB_STRIPED/in
#DW stage_out type=directory source=$DW_JOB_STRIPED/in destination=/home/ann/out
set -eu
cmp $DW_JOB_STRIPED/in/closed/f /home/ann/in/closed/f
srun bash -c 'echo $SLURM_PROCID > $DW_JOB_STRIPED/in/$SLURM_PROCID; echo x > $DW_JOB_PRIVATE/x'
chgrp project $DW_JOB_STRIPED/in/0
[ $(stat -c %G $DW_JOB_STRIPED/in/0) = project ]
cd $DW_JOB_STRIPED
setsid sleep 1000 &
touch /home/ann/ready
until [ -e /home/ann/go ]; do sleep 0.1; done
echo more > in/more
"""
# The first process of a host: makes its root and becomes systemd, which finds nothing of the machine's own services to start.
BOOT = r"""
set -eu
own=$1 base=$2 name=$3 disk=$4 homes=$5
mount -t tmpfs none "$own"
mkdir "$own/upper" "$own/work" "$own/root"
mount -t overlay -o "lowerdir=$base,upperdir=$own/upper,workdir=$own/work" overlay "$own/root"
cd "$own/root"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,ro,bind proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 none run
mount -t tmpfs -o mode=1777 none tmp
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 none dev/shm
mkdir -p ssd home old
mount --bind "$disk" ssd
mount --bind "$homes" home
rm -rf lib/systemd/system/*.target.wants etc/systemd/system/*.wants etc/fstab usr/sbin/policy-rc.d
mkdir lib/systemd/system/sysinit.target.wants
ln -s ../systemd-journald.service lib/systemd/system/sysinit.target.wants
tr -d - </proc/sys/kernel/random/uuid >etc/machine-id
echo "$name" >etc/hostname
hostname "$name"
ip link set lo up
pivot_root . old
cd /
umount -l /old
echo booted
exec env -i container=newcomer PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=basic.target --show-status=0 \
    </dev/null >/dev/null 2>&1
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
        self.name, self.own, self.base = name, work / name, base
        self.disk, self.homes = work / f"{name}.disk", work / "homes"
        self.group = work / "groups" / f"{work.name}-{name}"
        self.first = self.process = None

    def start(self):
        for directory in (self.own, self.disk, self.homes, self.group):
            directory.mkdir(exist_ok=True)
        group = ["bash", "-c", f"echo 0 >{self.group}/cgroup.procs; exec \"$@\"", "group"]
        enter = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--fork", "--kill-child", "--propagation", "private"]
        command = [*group, *enter, "bash", "-c", BOOT, "boot", self.own, self.base, self.name, self.disk, self.homes]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if self.process.stdout.readline().strip() != BOOTED:
            raise Failure(f"{self.name} does not boot")
        self.first = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0]
        self.await_systemd()

    def await_systemd(self):
        end = time.time() + LIMIT_S
        while subprocess.run([*self.enter(), "systemctl", "is-active", "basic.target"], capture_output=True, check=False).returncode != 0:
            if time.time() > end or self.process.poll() is not None:
                raise Failure(f"systemd does not start on {self.name}")
            time.sleep(0.1)

    def enter(self):
        """The beginning of a command that runs on the host."""
        return ["nsenter", "--target", self.first, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]

    def path(self, path):
        """Where this program finds a file of the host."""
        return Path(f"/proc/{self.first}/root/{path}")

    def run(self, script, user="root", given=None):
        """Types a script; what it says, if it succeeds."""
        become = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"] if user != "root" else []
        home = "/root" if user == "root" else f"/home/{user}"
        clean = ["env", "-i", "-C", home, f"HOME={home}", f"USER={user}", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]
        clean.append("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        command = [*self.enter(), "--", *become, *clean, "bash", "-euo", "pipefail", "-c", script]
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
        if self.first:
            os.kill(int(self.first), signal.SIGKILL)
        if self.process:
            self.process.wait()
        for directory, _, _ in os.walk(self.group, topdown=False):
            os.rmdir(directory)


def make_base(base, typed):
    """Debian's base system, with what the page has installed from Debian on every machine."""
    subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(base), MIRROR], check=True, stdout=sys.stderr)
    # Services are not started in a directory.
    policy = base / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    command = typed.split("#")[0].replace("apt-get install", "apt-get install --yes --no-install-recommends")
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["chroot", str(base), "sh", "-ec", f"apt-get update -q && {command} systemd"], check=True, env=environment, stdout=sys.stderr)


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
    """What every site has: names, the same users, and here our packages."""
    names = "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in HOSTS.items())
    for host in hosts.values():
        host.path("etc/hosts").write_text(names)
        for package in debs.glob("*.deb"):
            shutil.copy(package, host.path("root"))
        # As if Debian's package had been installed on each machine: with a key of its own, and running.
        host.path("etc/munge/munge.key").write_bytes(os.urandom(1024))
        host.run("systemctl enable --now munge")
        host.run("useradd --uid 5001 --shell /bin/bash ann && install -d -o ann -g ann /home/ann")
        host.run("groupadd --gid 5002 project && usermod --append --groups project ann")


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
        host.write("/etc/slurm/slurm.conf", whole + plugin + WITHOUT_CONTROLLERS)
        host.write("/etc/slurm/cgroup.conf", WITHOUT_HIERARCHY)
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


def is_confined(host, unit):
    """Every process of a unit has no more than the unit says, and one at least there is."""
    shown = host.run(f"systemctl show --property=CapabilityBoundingSet --value {unit}")
    bound = sum(1 << CAPABILITIES[name.removeprefix("cap_").upper()] for name in shown.split())
    expected = {"CapBnd": f"{bound:016x}", "NoNewPrivs": "1", "Seccomp": "2"}
    group = host.run(f"systemctl show --property=ControlGroup --value {unit}").strip()
    statuses = host.run(f"for p in $(cat /sys/fs/cgroup{group}/cgroup.procs); do echo; cat /proc/$p/status; done")
    processes = [dict(re.findall(r"^(\w+):\s*(\S*)", text, re.M)) for text in statuses.strip().split("\n\n")]
    for process in processes:
        found = {key: process[key] for key in expected}
        if found != expected:
            raise Failure(f"{process['Name']} of {unit} on {host.name} has {found}, not {expected}")
    return len(processes)


def whole_job(_, hosts):
    """A job with everything in it, with services that are confined and that are started anew in the middle."""
    control, home = hosts["control"], hosts["control"].path("home/ann")
    control.run("mkdir -p in/closed; seq 1000 >in/closed/f; ln -s f in/closed/link; mkfifo in/fifo; chmod 500 in/closed", user="ann")
    (home / "whole.sh").write_text(JOB)
    number = control.run("sbatch --parsable whole.sh", user="ann").strip()
    state = f"squeue --noheader --states=all --format=%T --jobs={number}"
    await_words(control, f"ls /home/ann; {state}", ["ready", "RUNNING"])
    # An agent, a file server and a mount on the nodes that have them.
    most = {name: is_confined(host, UNITS[name]) for name, host in hosts.items()}
    if most["storage1"] < 2 or most["n1"] < 2 or most["n2"] < 2:
        raise Failure(f"the job has not what it needs: {most} processes")
    for name, host in hosts.items():
        host.run(f"systemctl restart {UNITS[name]}")
    for name in ("storage1", "n1"):
        hosts[name].run(f"systemctl kill --kill-whom=main --signal=KILL {UNITS[name]}")
    await_words(control, "dwstat nodes", ["storage1", *COMPUTE])
    control.run("touch go", user="ann")
    await_words(control, state, ["COMPLETED"])
    control.run("cmp in/closed/f out/closed/f; cat out/0 out/1 out/more; [ -p out/fifo ]; [ -L out/closed/link ]", user="ann")
    control.run("[ $(stat -c %a out/closed) = 500 ]", user="ann")
    await_words(control, "dwstat sessions", ["no sessions"])
    for name in COMPUTE:
        if "sleep" in hosts[name].run(PROCESSES_OF_ANN):
            raise Failure(f"what used the space still runs on {name}")
    for name, host in hosts.items():
        host.run(f"systemctl is-active {UNITS[name]}; [ -n \"$(journalctl --quiet --unit={UNITS[name]})\" ]")


STEPS = (programs, munge, controller, agents, clients, slurm, look_over, whole_job)


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
    # Where the hosts' control groups are made, wherever and however this machine shows its own.
    (work / "groups").mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", work / "groups"], check=True)
    try:
        for name in HOSTS:
            hosts[name] = Host(name, work, base)
            hosts[name].start()
        connect(hosts)
        furnish(hosts, arguments.debs)
        for step in STEPS:
            print(f"--- {step.__name__}", flush=True)
            step(page, hosts)
    except Failure:
        for host in hosts.values():
            logs = [*host.enter(), "journalctl", "--no-pager", "--lines=60"]
            said = subprocess.run(logs, capture_output=True, text=True, errors="replace", check=False).stdout
            print(f"--- {host.name}\n{said}", flush=True)
        raise
    finally:
        for host in hosts.values():
            host.end()
        subprocess.run(["umount", work / "groups"], check=True)


def main():
    arguments = parse()
    needed = ["unshare", "ip"] if arguments.base and (arguments.base / "usr/sbin/slurmctld").exists() else ["debootstrap", "unshare", "ip"]
    missing = [program for program in needed if not shutil.which(program)]
    missing += [] if Path("/lib/systemd/systemd").exists() or "debootstrap" in needed else ["systemd"]
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
