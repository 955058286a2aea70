#!/usr/bin/env python3
"""How the controller grows with the cluster: dwstat, allocation, restart and memory, from 100 to 10,000 jobs.

usage: controller_scale.py [--rounds N] [--output FILE] [--only JOBS] [--no-build] [--first]

For each size a registry with that many running jobs is made (the example `fill_registry` of the controller's crate), and the
real `forebay controller` is started on it, with nothing but a Unix socket. What is measured is what users and the workload
manager wait for: whole processes, from the fork to their end, with the output in a file in memory. Medians of the rounds, after one that is thrown
away; `spread` is the smallest and the largest. `cpu_ms` is the processor time of the command and the controller together. Run it
as root on a quiet machine; where there is none, `--first` lets what is measured run before everything else (SCHED_FIFO).
"""

import argparse
import http.client
import json
import os
import platform
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# (storage nodes, running jobs)
SIZES = [(10, 100), (100, 1_000), (1_000, 10_000)]
# Limits: milliseconds, and MiB.
GOALS = {
    "dwstat": 100.0,
    "show_instances": 50.0,
    "allocate": 10.0,
    "restart": 2000.0,
    "memory": 300.0,
}
UNITS = {name: "ms" for name in GOALS} | {"memory": "MiB"}
COMMANDS = {"dwstat": ("dwstat", "all"), "show_instances": ("dw_wlm_cli", "--function", "show_instances")}
ALLOCATIONS = 20
GRANULES = 8
GIB = 1 << 30
# No step takes so long.
LIMIT_S = 120


def build():
    cargo = ["cargo", "build", "--release", "--quiet"]
    subprocess.run(cargo + ["-p", "forebay-cli"], cwd=ROOT, check=True)
    subprocess.run(cargo + ["-p", "forebay-controller", "--example", "fill_registry"], cwd=ROOT, check=True)


def programs():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release"


def go_last():
    """In a child of a bench that goes first: an ordinary process again."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


class Controller:
    """A controller on a registry; its agents count as alive for as long as the bench takes."""

    def __init__(self, directory):
        self.shown = None
        self.socket = directory / "controller.sock"
        self.config = directory / "controller.toml"
        self.config.write_text(
            f'registry = "scale"\nlisten = []\nsocket = "{self.socket}"\nstate = "{directory / "state"}"\n'
            'workload_managers = []\nlost_after_s = 3600\n\n[[pool]]\nname = "wlm_pool"\ngranularity = "1GiB"\n'
        )
        self.process = None

    def start(self):
        """Milliseconds until it says that it is ready."""
        began = time.monotonic()
        command = [programs() / "forebay", "--config", self.config, "controller"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if "ready" not in line:
            raise SystemExit(f"the controller did not start: {line!r}")
        return (time.monotonic() - began) * 1e3

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(LIMIT_S)
            self.process.stdout.close()
            self.process = None

    def cpu_ms(self):
        """Processor time of all its threads so far."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e6

    def memory_mib(self):
        """The most that was resident since the start."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024

    def ask(self, method, path, body):
        connection = http.client.HTTPConnection("controller", timeout=LIMIT_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.socket))
        text = json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json", "Connection": "close"})
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {said}")
        return json.loads(said)

    def run(self, program, *words):
        """Milliseconds, processor time in milliseconds, and output of a command."""
        environment = {"PATH": os.environ["PATH"], "FOREBAY_CONTROLLER": f"unix:{self.socket}"}
        environment["FOREBAY_LOG"] = "/dev/null"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        controller = self.cpu_ms()
        began = time.monotonic()
        with open(self.shown, "wb") as shown:
            command = [programs() / program, *words]
            # With a timeout of its own `wait` looks now and then, up to 50 ms late.
            process = subprocess.Popen(command, env=environment, stdout=shown)
            late = threading.Timer(LIMIT_S, process.kill)
            late.start()
            status = process.wait()
        took = (time.monotonic() - began) * 1e3
        late.cancel()
        if status != 0:
            raise SystemExit(f"{program}: status {status}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3
        return took, cpu + self.cpu_ms() - controller, self.shown.read_bytes()


def allocate(controller, token):
    """Milliseconds until space for a job is decided and durable: the answer to whoever makes a session and an instance."""
    session = {"token": f"alloc{token}", "owner": 1000, "group": 100, "hosts": []}
    made = controller.ask("POST", "/v1/sessions", session)["answer"]["accepted"]["id"]
    space = {"capacity": {"bytes": GRANULES * GIB}, "strategy": "bandwidth", "kind": "scratch"}
    space["access"] = [{"mode": "striped", "client_cache": False}]
    instance = {"session": made, "label": f"alloc{token}", "space": space}
    began = time.monotonic()
    controller.ask("POST", "/v1/instances", instance)
    return (time.monotonic() - began) * 1e3


def measure(nodes, jobs, rounds):
    with tempfile.TemporaryDirectory(prefix="forebay-scale-") as name, \
            tempfile.TemporaryDirectory(prefix="forebay-scale-", dir="/dev/shm") as memory:
        directory = Path(name)
        subprocess.run(
            [programs() / "examples" / "fill_registry", directory / "state", str(nodes), str(jobs)],
            check=True, stdout=subprocess.DEVNULL, preexec_fn=go_last,
        )
        controller = Controller(directory)
        controller.shown = Path(memory) / "shown"
        found = {name: [] for name in GOALS}
        cpu = {"dwstat": [], "show_instances": []}
        try:
            for _ in range(rounds + 1):
                controller.kill()
                found["restart"].append(controller.start())
                for figure, words in COMMANDS.items():
                    milliseconds, worked, text = controller.run(*words)
                    check(figure, text, jobs)
                    found[figure].append(milliseconds)
                    cpu[figure].append(worked)
                found["memory"].append(controller.memory_mib())
            found["allocate"] = [allocate(controller, token) for token in range(ALLOCATIONS + 1)]
        finally:
            controller.kill()
        return {name: values[1:] for name, values in found.items()}, cpu


def check(figure, text, jobs):
    """All of the jobs are shown."""
    if figure == "show_instances":
        shown = len(json.loads(text)["instances"])
    else:
        lines = text.decode().splitlines()
        shown = sum("/mnt/dw/" in line for line in lines)
        if len(lines) < jobs * (6 + GRANULES):
            raise SystemExit(f"dwstat shows only {len(lines)} lines")
    if shown != jobs:
        raise SystemExit(f"{figure} shows {shown} of {jobs} jobs")


def rows_of(nodes, jobs, found, cpu):
    for name, values in found.items():
        ours, limit = statistics.median(values), GOALS[name]
        yield {
            "name": f"controller, {nodes} nodes, {jobs} jobs: {name}",
            "nodes": nodes,
            "jobs": jobs,
            "figure": name,
            "ours": round(ours, 2),
            "reference": limit,
            "unit": UNITS[name],
            "ratio": round(limit / ours, 3),
            "goal": 1,
            "holds": ours <= limit,
            "against": "limit",
            "spread": [round(min(values), 2), round(max(values), 2)],
            "cpu_ms": round(statistics.median(cpu[name][1:]), 2) if name in cpu else None,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=ROOT / "target" / "controller-scale.json")
    parser.add_argument("--only", type=int, help="the size with so many jobs")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--first", action="store_true", help="run before everything else on the machine")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("run it as root: it acts for the workload manager")
    if not arguments.no_build:
        build()
    if arguments.first:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    rows = []
    for nodes, jobs in SIZES:
        if arguments.only in (None, jobs):
            for row in rows_of(nodes, jobs, *measure(nodes, jobs, arguments.rounds)):
                print(f"{row['name']:<55} {row['ours']:>9.2f} {row['unit']:<4} limit {row['reference']:>6.0f}"
                      f"  {'holds' if row['holds'] else 'MISSED'}"
                      + (f"  {row['cpu_ms']:.1f} ms of processor" if row["cpu_ms"] else ""), flush=True)
                rows.append(row)
    machine = f"{os.cpu_count()} processors, Linux {platform.release()}"
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
