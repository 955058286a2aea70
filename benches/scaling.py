#!/usr/bin/env python3
"""How the file system grows: with more servers, with more names in a directory, and what memory that takes.

usage: scaling.py --forebay PROGRAM [--servers 1,2,4,8] [--names 1000,10000,100000] [--rounds N] [--output FILE] [--plot FILE]

Everything is on this one machine, so the figures say what the servers' number and the names' number cost, not what more machines
would give: all servers share its processors and its disk. One client mount over TCP, fragments on XFS images, as `benches/run.py`
has it. Names are made, looked at, listed and removed in an instance of four servers; 1,000,000 of them take a quarter of an hour
and are asked for with --names. Writes JSON (default target/scaling.json), a plot beside it (SVG), and prints tables. Everything made is
removed at the end, also after a failure.

Exit status: 0 measured, 1 something failed, 2 not possible here or wrong usage.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from network import Servers
from plot import panel, picture

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FILE_MIB = 256
BLOCK = 1 << 20
# What one server's names and stripes need at most: the file, and half a KiB for each name.
FRAGMENT_BYTES = 1 << 30
FRAGMENT_BYTES_OF_MANY = 4 << 30
MANY = 200_000
NAMES_OF_A_SERVERS_RUN = 4000
SERVERS_OF_A_NAMES_RUN = 4


def output_of(command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"scaling: {' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def resident_kib(process):
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def mount_process(work):
    """The process that serves the mount: the one whose command line names this instance."""
    wanted = str(work / "instance.toml").encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in words and b"--detached" in words:
                return int(entry.name)
    raise SystemExit("scaling: the process of the mount is not there")


def memory(running):
    """MiB resident of the home server, of the largest of the others, and of the mount."""
    servers = [resident_kib(process.pid) for process in running.processes]
    client = resident_kib(mount_process(running.work))
    return {"home": servers[0] / 1024, "others": max(servers[1:], default=0) / 1024, "client": client / 1024}


class Scaling:
    def __init__(self, forebay, work, rounds):
        self.forebay, self.work, self.rounds = forebay, work, rounds
        self.probe = work / "ioprobe"
        output_of(["cc", "-O2", "-Wall", "-o", self.probe, HERE / "ioprobe.c"])

    def rate(self, test, *words):
        output_of(["sync", "-f", words[0].parent])
        return float(output_of([self.probe, test, *words]))

    def with_servers(self, count):
        """One point: rates of one client with so many servers, the median of the rounds."""
        tests = ("write-new", "rewrite", "read", "create", "stat", "unlink")
        rates = {test: [] for test in tests}
        with Servers(self.forebay, self.work / "servers", False, count, FRAGMENT_BYTES) as running, running.mounted() as mount:
            for number in range(self.rounds + 1):
                names = mount / f"names{number}"
                names.mkdir()
                for test in tests:
                    words = (names, NAMES_OF_A_SERVERS_RUN) if test in ("create", "stat", "unlink") else (mount / "file", FILE_MIB, BLOCK)
                    value = self.rate(test, *words)
                    if number > 0:
                        rates[test].append(value)
            used = memory(running)
        note(f"{count} servers measured")
        return {"servers": count, "memory_mib": used, **{test: summary(values) for test, values in rates.items()}}

    def with_names(self, count):
        """One point: rates of one client in one directory of so many names, once."""
        size = FRAGMENT_BYTES if count <= MANY else FRAGMENT_BYTES_OF_MANY
        point = {"names": count}
        with Servers(self.forebay, self.work / "servers", False, SERVERS_OF_A_NAMES_RUN, size) as running, running.mounted() as mount:
            before = memory(running)
            names = mount / "names"
            names.mkdir()
            for test in ("create", "stat", "list", "unlink"):
                values = [self.rate(test, names, count)]
                point[test] = summary(values)
                if test == "list":
                    point["memory_mib"] = {who: used - before[who] for who, used in memory(running).items()}
        note(f"{count} names measured")
        return point


def summary(values):
    return {"median": round(statistics.median(values), 1), "least": round(min(values), 1), "most": round(max(values), 1)}


def note(text):
    print(f"  {text}; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return f"{os.cpu_count()} x {model}, {size} MiB, Linux {platform.release()}"


def cell(point, test):
    return f"{point[test]['median']:,.0f}"


def tables(result):
    yield "| servers | write new, MiB/s | rewrite, MiB/s | read, MiB/s | create/s | stat/s | unlink/s | resident MiB: home, other server, client |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for point in result["servers"]:
        cells = [cell(point, test) for test in ("write-new", "rewrite", "read", "create", "stat", "unlink")]
        used = ", ".join(f"{point['memory_mib'][who]:.0f}" for who in ("home", "others", "client"))
        yield f"| {point['servers']} | {' | '.join(cells)} | {used} |"
    yield ""
    yield "| names in a directory | create/s | stat/s | list, names/s | unlink/s | resident MiB more: home, client |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for point in result["names"]:
        cells = [cell(point, test) for test in ("create", "stat", "list", "unlink")]
        used = ", ".join(f"{point['memory_mib'][who]:.0f}" for who in ("home", "client"))
        yield f"| {point['names']:,} | {' | '.join(cells)} | {used} |"


def plot(result):
    def lines(points, over, tests):
        return {test: [(point[over], point[test]["median"]) for point in points] for test in tests}

    def grown(who):
        return [(point["names"], max(point["memory_mib"][who], 0.1)) for point in result["names"]]

    return picture(
        [
            panel("1 MiB calls, MiB/s, by servers", lines(result["servers"], "servers", ("write-new", "rewrite", "read"))),
            panel("names per second, by servers", lines(result["servers"], "servers", ("create", "unlink"))),
            panel("names per second, by names in the directory", lines(result["names"], "names", ("create", "stat", "list", "unlink"))),
            panel("memory taken by the names, MiB", {"home server": grown("home"), "client": grown("client")}),
        ]
    )


def numbers(text):
    values = [int(word) for word in text.split(",")]
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text}: whole numbers above zero are needed")
    return values


def parse():
    parser = argparse.ArgumentParser(description="Measure how the file system grows.")
    parser.add_argument("--forebay", type=Path, required=True, help="the forebay program, optimised")
    parser.add_argument("--servers", type=numbers, default=[1, 2, 4, 8], help="numbers of servers (default 1,2,4,8)")
    parser.add_argument("--names", type=numbers, default=[1000, 10_000, 100_000], help="names in a directory (default to 100,000)")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds with each number of servers (default 3)")
    parser.add_argument("--output", type=Path, default=ROOT / "target" / "scaling.json", help="where the result goes")
    parser.add_argument("--plot", type=Path, help="where the plot goes (default: beside the result)")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("at least one round is needed")
    return arguments


def main():
    arguments = parse()
    forebay = arguments.forebay.resolve()
    if os.geteuid() != 0:
        print("scaling: needs root: fragments are XFS images on loop devices", file=sys.stderr)
        return 2
    if not os.access(forebay, os.X_OK):
        print(f"scaling: {forebay} is not there: run 'make build' first", file=sys.stderr)
        return 2
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    result = {"machine": machine(), "version": output_of([forebay, "--version"]).strip(), "load": [round(os.getloadavg()[0], 1)]}
    begin = time.time()
    with tempfile.TemporaryDirectory(prefix="scaling-", dir=arguments.output.parent) as work:
        scaling = Scaling(forebay, Path(work), arguments.rounds)
        result["servers"] = [scaling.with_servers(count) for count in arguments.servers]
        result["load"].append(round(os.getloadavg()[0], 1))
        result["names"] = [scaling.with_names(count) for count in arguments.names]
    result["load"].append(round(os.getloadavg()[0], 1))
    result["rounds"], result["seconds"] = arguments.rounds, round(time.time() - begin)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    drawn = arguments.plot or arguments.output.with_suffix(".svg")
    drawn.write_text(plot(result))
    print("\n".join(tables(result)))
    print(f"\n{result['machine']}; load of the machine {result['load']}; written to {arguments.output} and {drawn}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
