#!/usr/bin/env python3
"""The bench: the burst buffer against the bare file system, as ratios taken in one run.

usage: run.py --forebay PROGRAM [--rounds N] [--only GROUP[,GROUP...]] [--output FILE]

The reference is XFS on a loop image made for the bench on the same disk: the kind of file system that lies under a fragment. The
burst buffer is used the way a user does, by job scripts under `forebay run`; benches/README.md says what every row is. Writes the
rows as JSON (default target/bench.json), prints them as a table. Everything made is removed at the end, also after a failure.

Exit status: 0 measured (whether goals hold is in the rows), 1 something failed, 2 not possible here or wrong usage.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ceiling
from cluster import STORAGE_NODES, Site
from measure import FILE_MIB, FUSE_ALONE, GROUPS, MESSAGE, REFERENCE, measure
from network import Servers
from pipes import large_pipes
from rows import limit_row, one_after_the_other, row, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# The image of a bare XFS, a burst buffer, and a source of 2 GiB exist at once.
IMAGE_BYTES = 5 << 30
CAPACITY = "4GiB"
SMALL_CAPACITY = "256MiB"
NEEDED_BYTES = 13 << 30
BIG_FILE_BYTES = 2 << 30
SMALL_FILES = 10_000
SMALL_FILE_BYTES = 4096
START_RUNS = 15
MEMORY_RUNS = 3
START_LIMIT_MS = 150
START_LIMIT_MIB = 60
STAGING_LIMIT_MIB = 128
NAMES_LIMIT = 4000
# Four servers, one mount: what is asked of it when clients reach the fragments directly, and when all goes over TCP.
SHORT_CIRCUIT_GOALS = {
    "write-new": 0.45,
    "rewrite": 0.45,
    "read": 0.45,
    "shared-rewrite": 0.65,
    "shared-read": 0.45,
    "random-write": 0.06,
    "random-read": 0.06,
    "sqlite": 0.5,
}
TCP_GOALS = {"four-rewrite": 0.25, "four-read": 0.25}
SHORT_CIRCUIT_LIMITS = {"create": 15_000, "stat": 300_000, "unlink": 15_000}
TCP_LIMITS = {"create": 5_000, "stat": 300_000, "unlink": 5_000}
MOUNT_RUNS = 15
MOUNT_LIMIT_MS = 100
JOB_RUNS = 10
JOB_LIMIT_MS = 1000
SETUP_LIMIT_MS = 200

ONE_NODE_GOALS = {
    "write-new": 0.85,
    "rewrite": 0.85,
    "read": 0.85,
    "random-write": 0.85,
    "random-read": 0.85,
    "sqlite": 0.85,
    "create": 0.85,
    "unlink": 0.85,
}
FOUR_NODES_GOALS = {"write-new": 0.35, "rewrite": 0.35, "read": 0.35, "shared-new": 0.45, "shared-rewrite": 0.45}
# Of what FUSE alone gives: see docs/adr/0011.
FOUR_NODES_PARTS = {"rewrite": 0.5, "read": 0.7, "shared-rewrite": 0.5}
SHORT_CIRCUIT_PARTS = {"rewrite": 0.5, "read": 0.7, "shared-rewrite": 0.5, "shared-read": 0.7}
TCP_PARTS = {"four-rewrite": 0.3, "four-read": 0.3}
# What takes FUSE, the file system below and, where names are a server's, a message to it, one after the other.
SUMS = ("rewrite", "create", "unlink")
NAMES = ("create", "unlink")
LABELS = {
    "write-new": ("1 MiB write, new file", "MiB/s"),
    "rewrite": ("1 MiB rewrite", "MiB/s"),
    "read": ("1 MiB read", "MiB/s"),
    "random-write": ("4 KiB random write", "op/s"),
    "random-read": ("4 KiB random read", "op/s"),
    "shared-new": ("two writers, new shared file", "MiB/s"),
    "shared-rewrite": ("two writers, shared file", "MiB/s"),
    "shared-read": ("two readers, shared file", "MiB/s"),
    "four-rewrite": ("four writers, shared file", "MiB/s"),
    "four-read": ("four readers, shared file", "MiB/s"),
    "create": ("create", "files/s"),
    "stat": ("stat", "files/s"),
    "unlink": ("unlink", "files/s"),
    "sqlite": ("SQLite transactions", "transactions/s"),
}


class FreshXfs:
    """A new XFS image of fixed size, mounted while the context lasts, removed with it."""

    def __init__(self, directory):
        self.mount, self.image = directory, directory.with_suffix(".img")

    def __enter__(self):
        self.mount.mkdir()
        with open(self.image, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, IMAGE_BYTES)
        # Without a discard, which would give the blocks reserved here back: a fragment's image is reserved in full too, and a write
        # that reaches the disk costs more there than in an image with holes.
        call("mkfs.xfs", "-q", "-K", self.image)
        call("mount", "-o", "loop", self.image, self.mount)
        return self.mount

    def __exit__(self, *failure):
        if os.path.ismount(self.mount):
            call("umount", self.mount)
        self.image.unlink()
        self.mount.rmdir()


class Bench:
    """A work directory with the probe and the reference file system in it, and the way to run jobs."""

    def __init__(self, forebay, work, rounds):
        self.forebay, self.work, self.rounds = forebay, work, rounds
        self.probe = work / "ioprobe"
        self.plain = work / "plain"
        self.mark = work / "began"
        self.environment = {**os.environ, "FOREBAY_STATE_DIR": str(work / "state")}
        self.plain.mkdir()
        call("cc", "-O2", "-Wall", "-o", self.probe, HERE / "ioprobe.c")

    def fuse_alone(self):
        """See ceiling.py. The program lies beside forebay, as cargo has put it."""
        return ceiling.mounted(ceiling.program(self.forebay), self.work / "fuse-alone", FILE_MIB)

    def script(self, name, directives, body):
        path = self.work / f"{name}.sh"
        path.write_text(f"#!/bin/bash\n{directives}{body}\n")
        return path

    def command(self, *words):
        """A command of forebay that is not measured."""
        done = subprocess.run([self.forebay, *words], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench: forebay {' '.join(words)} ended with status {done.returncode}\n{done.stderr}")

    def job(self, script, *options, watch=None):
        """Runs a job; seconds until the script began (when it wrote its start file), and seconds in all.

        `watch` is called again and again while the job runs; without it nothing disturbs the time.
        """
        self.mark.unlink(missing_ok=True)
        with open(self.work / "job.log", "wb") as log:
            start = time.time()
            process = subprocess.Popen(
                [self.forebay, "run", *options, script],
                env=self.environment, cwd=self.work, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )
            while watch and process.poll() is None:
                watch()
            status = process.wait()
            seconds = time.time() - start
        if status != 0:
            sys.stderr.write((self.work / "job.log").read_text(errors="replace"))
            raise SystemExit(f"bench: the job {script.name} ended with status {status}")
        began = float(self.mark.read_text()) - start if self.mark.exists() else None
        return began, seconds

    def resident(self, script, *options):
        """Peak resident MiB of the job: the sum of the peaks of all processes of ours, with those that serve the instance.

        The kernel keeps each process's peak, so looking every few milliseconds misses only what grows just before its end.
        """
        peaks = {}

        def watch():
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    if os.path.samefile(process / "exe", self.forebay):
                        status = (process / "status").read_text()
                        peaks[process.name] = next(int(l.split()[1]) for l in status.splitlines() if l.startswith("VmHWM:"))
                except (OSError, StopIteration):
                    continue  # It ended between two looks.
            time.sleep(0.002)

        self.job(script, *options, watch=watch)
        if not peaks:
            raise SystemExit(f"bench: no process of {self.forebay} was seen while {script.name} ran")
        return sum(peaks.values()) / 1024


def call(*command):
    subprocess.run([str(word) for word in command], check=True)


def note(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def io_group(bench, group, options, places):
    """The tests of measure.py, run inside one job, beside a bare XFS."""
    note(f"{group}: {len(GROUPS[group])} tests, {bench.rounds} rounds and one to warm up")
    output = bench.work / f"{group}.json"
    with FreshXfs(bench.work / "reference") as reference:
        others = " ".join(f"'{name}={path}'" for name, path in {REFERENCE: reference, **places}.items())
        command = f"exec '{sys.executable}' '{HERE}/measure.py' {group} '{output}' '{bench.probe}' {bench.rounds}"
        bench.job(bench.script(group, Scratch.allocation, f'{command} "ours=$DW_JOB_STRIPED" {others}'), *options)
    return json.loads(output.read_text())


def io_rows(prefix, results, goals, parts=None):
    """Rows against bare XFS for every test, and where it was measured too against FUSE alone, with the goals `parts`, and for
    information against the plain directory."""
    parts = parts or {}
    for test, places in results.items():
        label, unit = LABELS[test]
        name = f"{prefix}: {label}"
        yield row(name, places["ours"], places[REFERENCE], unit, goals.get(test))
        if "plain" in places:
            yield row(f"{name} / plain", places["ours"], places["plain"], unit, against="plain directory")
        if FUSE_ALONE in places:
            yield row(f"{name} / FUSE alone", places["ours"], places[FUSE_ALONE], unit, parts.get(test), against="FUSE alone")


def sum_rows(prefix, results, messages=None):
    """For information: rows against doing one after the other what cannot be left out. `messages`: names are asked of a server."""
    for test in SUMS:
        label, unit = LABELS[test]
        places, parts = results[test], ["FUSE alone", "bare XFS"]
        rates = [places[FUSE_ALONE], places[REFERENCE]]
        if messages and test in NAMES:
            parts.append("a message")
            rates.append(messages)
        yield row(f"{prefix}: {label} / parts", places["ours"], one_after_the_other(*rates), unit, against=" + ".join(parts))


def one_node(bench):
    results = io_group(bench, "one-node", [], {"plain": bench.plain})
    return list(io_rows("one node", results, ONE_NODE_GOALS))


def four_nodes(bench):
    with large_pipes(), bench.fuse_alone() as alone:
        results = io_group(bench, "four-nodes", ["--nodes", "4"], {FUSE_ALONE: alone})
    rows = list(io_rows("four nodes, FUSE", results, FOUR_NODES_GOALS, FOUR_NODES_PARTS))
    rows += sum_rows("four nodes, FUSE", results)
    for test in ("create", "unlink"):
        rows.append(limit_row(f"four nodes, FUSE: {test}, at least", results[test]["ours"], NAMES_LIMIT, "files/s"))
    return rows


def empty_script(bench):
    """`forebay run` of a script that does nothing, with an allocation, from start to exit."""
    note(f"empty script: {START_RUNS} runs of each kind")
    script = bench.script("empty", f"#DW jobdw type=scratch access_mode=striped capacity={SMALL_CAPACITY}\n", ":")
    rows = []
    for label, options in (("one node", []), ("four nodes", ["--nodes", "4"])):
        bench.job(script, *options)
        times = [1000 * bench.job(script, *options)[1] for _ in range(START_RUNS)]
        sizes = [bench.resident(script, *options) for _ in range(MEMORY_RUNS)]
        name = f"forebay run, empty script, {label}"
        if not options:
            rows.append(limit_row(f"{name}: at most", times, START_LIMIT_MS, "ms"))
            rows.append(limit_row(f"{name}: resident, at most", sizes, START_LIMIT_MIB, "MiB"))
        else:
            bare = [bare_bash(script) for _ in range(START_RUNS)]
            rows.append(row(name, times, bare, "ms", against="bash alone"))
            rows.append(row(f"{name}: resident", sizes, [START_LIMIT_MIB] * len(sizes), "MiB", against=f"{START_LIMIT_MIB} MiB"))
    return rows


def servers(bench):
    """Four servers with a fragment each, one client: through the servers' Unix sockets, and over TCP on loopback."""
    rows = []
    for label, sockets, goals, limits in (
        ("four servers, short circuit", True, SHORT_CIRCUIT_GOALS, SHORT_CIRCUIT_LIMITS),
        ("four servers, TCP on loopback", False, TCP_GOALS, TCP_LIMITS),
    ):
        note(f"{label}: {len(GROUPS['servers'])} tests, {bench.rounds} rounds and one to warm up")
        four = Servers(bench.forebay, bench.work / "servers", sockets)
        with large_pipes(), FreshXfs(bench.work / "reference") as reference, four as running:
            with running.mounted() as mount, bench.fuse_alone() as alone:
                places = {"ours": mount / "bench", REFERENCE: reference / "bench"}
                for place in places.values():
                    place.mkdir()
                places[FUSE_ALONE] = alone
                results = measure("servers", bench.probe, bench.rounds, places)
            messages = results.pop(MESSAGE)[REFERENCE]
            rows += io_rows(label, results, goals, SHORT_CIRCUIT_PARTS if sockets else TCP_PARTS)
            if sockets:
                rows += sum_rows(label, results, messages)
            rows += [limit_row(f"{label}: {test}, at least", results[test]["ours"], least, "files/s") for test, least in limits.items()]
            times = [running.time_of_a_mount() for _ in range(MOUNT_RUNS + 1)][1:]
            rows.append(limit_row(f"{label}: mount to first byte written, at most", [t[0] for t in times], MOUNT_LIMIT_MS, "ms"))
            rows.append(limit_row(f"{label}: unmount, at most", [t[1] for t in times], MOUNT_LIMIT_MS, "ms"))
    return rows


def cluster(bench):
    """The calls of a job without staging, on a cluster in namespaces of this machine."""
    rows = []
    for kind in ("directory", "image"):
        note(f"cluster, fragments are of kind {kind}: {JOB_RUNS} jobs of each size and one to warm up")
        with Site(bench.forebay.parent, bench.work / f"site-{kind}", kind) as site:
            for nodes in (1, 4):
                # One fragment of each storage node, as large as XFS needs at least.
                jobs = [site.job(100 * nodes + number, nodes, f"{STORAGE_NODES // 2}GiB") for number in range(JOB_RUNS + 1)][1:]
                what = f"job without staging, {nodes} compute node{'s'[:nodes > 1]}, {STORAGE_NODES} fragments of kind {kind}"
                rows.append(limit_row(f"cluster: {what}: at most", [sum(calls.values()) for calls in jobs], JOB_LIMIT_MS, "ms"))
                if nodes == 1:
                    setups = [calls["setup"] for calls in jobs]
                    name = f"cluster: setup on {STORAGE_NODES} storage nodes, fragments of kind {kind}"
                    rows.append(limit_row(f"{name}: at most", setups, SETUP_LIMIT_MS, "ms"))
    return rows


def bare_bash(script):
    start = time.time()
    call("bash", script)
    return 1000 * (time.time() - start)


class Scratch:
    """Where a stage-in into the space of one job goes. It is not synced: its source stays, and the job ends with the machine."""

    durable = False
    variable = "$DW_JOB_STRIPED"
    allocation = f"#DW jobdw type=scratch access_mode=striped capacity={CAPACITY}\n"

    def __init__(self, bench):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *failure):
        pass


class Persistent:
    """A persistent instance, made anew. A stage-in into it survives a power cut, as the instance does."""

    durable = True
    variable = "$DW_PERSISTENT_STRIPED_bench"
    allocation = "#DW persistentdw name=bench\n"

    def __init__(self, bench):
        self.bench = bench

    def __enter__(self):
        self.bench.command("create-persistent", "bench", "--capacity", CAPACITY)

    def __exit__(self, *failure):
        self.bench.command("destroy-persistent", "bench", "--hurry")


def timed_copy(source, target, durable):
    """Seconds of cp -r, and where the stage-in is durable of an fsync of the file or a syncfs after the directory."""
    call("sync", "-f", target.parent)
    start = time.time()
    call("cp", "-r", source, target)
    if durable:
        call("sync", *([target] if target.is_file() else ["-f", target]))
    return time.time() - start


def copy_to_xfs(bench, source, durable):
    """timed_copy to an XFS image as fresh as the fragment is that a stage-in writes to."""
    with FreshXfs(bench.work / "fresh") as mount:
        return timed_copy(source, mount / "copy", durable)


def copy_to_plain(bench, source, durable):
    target = bench.plain / "copy"
    seconds = timed_copy(source, target, durable)
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    return seconds


def stage_in(bench, place, kind, source):
    """Seconds of a stage-in, of cp to bare XFS and of cp to the plain directory, round by round, and MiB that forebay takes.

    The stage-in runs from the moment the instance is there until the script begins: the whole time until the script began, less
    what the same job without a stage_in line takes to begin.
    """
    begin = f"date +%s.%N >'{bench.mark}'"
    directive = f"#DW stage_in type={kind} source={source} destination={place.variable}/input\n"
    staging = bench.script("stage", place.allocation + directive, begin)
    idle = bench.script("idle", place.allocation, begin)
    with place(bench):
        before = statistics.median(bench.job(idle)[0] for _ in range(3))

    def stage():
        with place(bench):
            call("sync", "-f", bench.work)
            return bench.job(staging)[0] - before

    seconds = [[], [], []]
    measures = [stage, lambda: copy_to_xfs(bench, source, place.durable), lambda: copy_to_plain(bench, source, place.durable)]
    for number in range(bench.rounds + 1):
        # Turned order: removing gigabytes goes on in the background and slows down who comes next.
        for i in range(len(measures)):
            turn = (i + number) % len(measures)
            seconds[turn].append(measures[turn]())
    with place(bench):
        size = bench.resident(staging)
    return *(values[1:] for values in seconds), size


def stage_rows(bench, name, kind, source, copies, goals):
    """Rows for one source, staged into the space of a job and into a persistent instance. `copies`: what cp is called in each."""
    for place in (Scratch, Persistent):
        title = f"stage-in: {name}" + (", durable" if place.durable else "")
        note(f"{title}: {bench.rounds} rounds and one to warm up")
        ours, xfs, plain, size = stage_in(bench, place, kind, source)
        how = copies[place.durable]
        yield row(title, ours, xfs, "s", goals[place.durable], against=f"{how} to bare XFS")
        yield row(f"{title} / plain", ours, plain, "s", against=f"{how} to the plain directory")
        yield limit_row(f"{title}: resident, at most", [size], STAGING_LIMIT_MIB, "MiB")


def staging(bench):
    block = os.urandom(1 << 20)
    big = bench.work / "big.dat"
    with open(big, "wb") as file:
        for number in range(BIG_FILE_BYTES // len(block)):
            file.write(number.to_bytes(8, "little") + block[8:])
    rows = list(stage_rows(bench, "one 2 GiB file", "file", big, ("cp", "cp and fsync"), (None, 1.0)))
    big.unlink()

    tree = bench.work / "tree"
    for number in range(SMALL_FILES):
        path = tree / f"d{number // 1000}" / f"file-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(block[number : number + SMALL_FILE_BYTES])
    copies = ("cp -r", "cp -r and syncfs")
    rows += stage_rows(bench, "10,000 files of 4 KiB", "directory", tree, copies, (2.0, 2.0))
    shutil.rmtree(tree)
    return rows


PARTS = {
    "empty-script": empty_script,
    "staging": staging,
    "one-node": one_node,
    "four-nodes": four_nodes,
    "servers": servers,
    "cluster": cluster,
}


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return f"{os.cpu_count()} x {model}, {memory} MiB, Linux {platform.release()}"


def parse():
    parser = argparse.ArgumentParser(description="Measure the burst buffer against the bare file system.")
    parser.add_argument("--forebay", type=Path, required=True, help="the forebay program, optimised")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds of each part (default 5)")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts to run, of: {', '.join(PARTS)}")
    parser.add_argument("--output", type=Path, default=ROOT / "target" / "bench.json", help="where the rows go")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.only.split(",") if part not in PARTS]
    if unknown or arguments.rounds < 1:
        parser.error(f"unknown parts: {unknown}" if unknown else "at least one round is needed")
    return arguments


def main():
    arguments = parse()
    # Jobs run in a directory of their own.
    arguments.output = arguments.output.absolute()
    forebay = arguments.forebay.resolve()
    if os.geteuid() != 0:
        print("bench: needs root: the reference is an XFS image on a loop device", file=sys.stderr)
        return 2
    if not os.access(forebay, os.X_OK):
        print(f"bench: {forebay} is not there: run 'make build' first", file=sys.stderr)
        return 2
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    stat = os.statvfs(arguments.output.parent)
    if stat.f_bavail * stat.f_frsize < NEEDED_BYTES:
        print(f"bench: {arguments.output.parent} needs {NEEDED_BYTES >> 30} GiB of free disk", file=sys.stderr)
        return 2
    if "cluster" in arguments.only.split(",") and not os.access(forebay.parent / "forebay-site", os.X_OK):
        print(f"bench: {forebay.parent}/forebay-site is not there: run 'make bench', which builds it", file=sys.stderr)
        return 2
    if {"four-nodes", "servers"} & set(arguments.only.split(",")) and not os.access(ceiling.program(forebay), os.X_OK):
        print(f"bench: {ceiling.program(forebay)} is not there: run 'make bench', which builds it", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.output.parent) as work:
        bench = Bench(forebay, Path(work), arguments.rounds)
        for part in arguments.only.split(","):
            rows += PARTS[part](bench)
    names = [entry["name"] for entry in rows]
    assert len(names) == len(set(names)), "a row's name is its identity from commit to commit"
    arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"\n{machine()}, medians of {arguments.rounds} interleaved rounds; a ratio above 1 is better than the reference\n")
    print("\n".join(table(rows)))
    print(f"\nwritten to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
