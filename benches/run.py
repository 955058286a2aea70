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

from measure import GROUPS
from rows import limit_row, row, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# The reference image, a burst buffer, and a source of 2 GiB exist at once.
IMAGE_BYTES = 5 << 30
CAPACITY = "4GiB"
SMALL_CAPACITY = "256MiB"
NEEDED_BYTES = 13 << 30
BIG_FILE_BYTES = 2 << 30
SMALL_FILES = 10_000
SMALL_FILE_BYTES = 4096
START_RUNS = 15
START_LIMIT_MS = 150
START_LIMIT_MIB = 60
NAMES_LIMIT = 4000

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
LABELS = {
    "write-new": ("1 MiB write, new file", "MiB/s"),
    "rewrite": ("1 MiB rewrite", "MiB/s"),
    "read": ("1 MiB read", "MiB/s"),
    "random-write": ("4 KiB random write", "op/s"),
    "random-read": ("4 KiB random read", "op/s"),
    "shared-new": ("two writers, new shared file", "MiB/s"),
    "shared-rewrite": ("two writers, shared file", "MiB/s"),
    "create": ("create", "files/s"),
    "unlink": ("unlink", "files/s"),
    "sqlite": ("SQLite transactions", "transactions/s"),
}


class Bench:
    """A work directory with the probe and the reference file system in it, and the way to run jobs."""

    def __init__(self, forebay, work, rounds):
        self.forebay, self.work, self.rounds = forebay, work, rounds
        self.reference = work / "reference"
        self.image = work / "reference.img"
        self.probe = work / "ioprobe"
        self.plain = work / "plain"
        self.mark = work / "began"
        self.environment = {**os.environ, "FOREBAY_STATE_DIR": str(work / "state")}

    def __enter__(self):
        call("cc", "-O2", "-Wall", "-o", self.probe, HERE / "ioprobe.c")
        self.reference.mkdir()
        self.plain.mkdir()
        with open(self.image, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, IMAGE_BYTES)
        call("mkfs.xfs", "-q", self.image)
        call("mount", "-o", "loop", self.image, self.reference)
        return self

    def __exit__(self, *failure):
        if os.path.ismount(self.reference):
            call("umount", self.reference)

    def script(self, name, capacity, directives, body):
        text = f"#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity={capacity}\n{directives}{body}\n"
        path = self.work / f"{name}.sh"
        path.write_text(text)
        return path

    def job(self, script, *options):
        """Runs a job; seconds until the script began (when it wrote its start file), seconds in all, peak resident bytes."""
        self.mark.unlink(missing_ok=True)
        with open(self.work / "job.log", "wb") as log:
            start = time.time()
            process = subprocess.Popen(
                [self.forebay, "run", *options, script],
                env=self.environment, cwd=self.work, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.time() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.stderr.write((self.work / "job.log").read_text(errors="replace"))
            raise SystemExit(f"bench: the job {script.name} ended with status {process.returncode}")
        began = float(self.mark.read_text()) - start if self.mark.exists() else None
        return began, seconds, usage.ru_maxrss * 1024


def call(*command):
    subprocess.run([str(word) for word in command], check=True)


def note(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def io_group(bench, group, options, places):
    """The tests of measure.py, run inside one job."""
    note(f"{group}: {len(GROUPS[group])} tests, {bench.rounds} rounds and one to warm up")
    output = bench.work / f"{group}.json"
    others = " ".join(f"'{name}={path}'" for name, path in places.items())
    command = f"exec '{sys.executable}' '{HERE}/measure.py' {group} '{output}' '{bench.probe}' {bench.rounds}"
    script = bench.script(group, CAPACITY, "", f'{command} "ours=$DW_JOB_STRIPED" {others}')
    bench.job(script, *options)
    return json.loads(output.read_text())


def io_rows(prefix, results, goals):
    """Rows against bare XFS for every test, and for information against the plain directory where that was measured too."""
    for test, places in results.items():
        label, unit = LABELS[test]
        name = f"{prefix}: {label}"
        yield row(name, places["ours"], places["reference"], unit, goals.get(test))
        if "plain" in places:
            yield row(f"{name} / plain", places["ours"], places["plain"], unit, against="plain directory")


def one_node(bench):
    places = {"reference": bench.reference, "plain": bench.plain}
    return list(io_rows("one node", io_group(bench, "one-node", [], places), ONE_NODE_GOALS))


def four_nodes(bench):
    results = io_group(bench, "four-nodes", ["--nodes", "4"], {"reference": bench.reference})
    rows = list(io_rows("four nodes, FUSE", results, FOUR_NODES_GOALS))
    for test in ("create", "unlink"):
        rows.append(limit_row(f"four nodes, FUSE: {test}, at least", results[test]["ours"], NAMES_LIMIT, "files/s"))
    return rows


def empty_script(bench):
    """`forebay run` of a script that does nothing, with an allocation, from start to exit."""
    note(f"empty script: {START_RUNS} runs of each kind")
    rows = []
    for label, options, limited in (("one node", [], True), ("four nodes", ["--nodes", "4"], False)):
        script = bench.script("empty", SMALL_CAPACITY, "", ":")
        bench.job(script, *options)
        runs = [bench.job(script, *options)[1:] for _ in range(START_RUNS)]
        bare = [bare_bash(script) for _ in range(START_RUNS)]
        times, sizes = [1000 * seconds for seconds, _ in runs], [size / (1 << 20) for _, size in runs]
        name = f"forebay run, empty script, {label}"
        if limited:
            rows.append(limit_row(f"{name}: at most", times, START_LIMIT_MS, "ms"))
            rows.append(limit_row(f"{name}: resident, at most", sizes, START_LIMIT_MIB, "MiB"))
        else:
            rows.append(row(name, times, bare, "ms", against="bash alone"))
    return rows


def bare_bash(script):
    start = time.time()
    call("bash", script)
    return 1000 * (time.time() - start)


def timed_copy(sources, target):
    """cp -r and a sync of the file system it wrote to: seconds until the copy is on the disk, as it is after a stage-in."""
    call("sync", "-f", target.parent)
    start = time.time()
    call("cp", "-r", sources, target)
    if target.is_file():
        call("sync", target)
    else:
        call("sync", "-f", target)
    seconds = time.time() - start
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    return seconds


def stage_in(bench, kind, source, name):
    """Seconds of a stage-in and of cp, round by round, and the resident bytes of forebay.

    The stage-in runs from the moment the instance is there until the script begins: the whole time until the script began, less
    what the same job without a stage_in line takes to begin.
    """
    note(f"{name}: {bench.rounds} rounds and one to warm up")
    begin = f"date +%s.%N >'{bench.mark}'"
    directive = f"#DW stage_in type={kind} source={source} destination=$DW_JOB_STRIPED/input\n"
    staging = bench.script(f"stage-{kind}", CAPACITY, directive, begin)
    idle = bench.script("idle", CAPACITY, "", begin)
    ours, copies, sizes = [], [], []
    for number in range(bench.rounds + 1):
        call("sync")
        before = statistics.median(bench.job(idle)[0] for _ in range(3))
        began, _, resident = bench.job(staging)
        copy = timed_copy(source, bench.reference / "copy")
        if number > 0:
            ours.append(began - before)
            copies.append(copy)
            sizes.append(resident / (1 << 20))
    return ours, copies, sizes


def staging(bench):
    big = bench.work / "big.dat"
    block = os.urandom(1 << 20)
    with open(big, "wb") as file:
        for number in range(BIG_FILE_BYTES // len(block)):
            file.write(number.to_bytes(8, "little") + block[8:])
    ours, copies, sizes = stage_in(bench, "file", big, "stage-in of a 2 GiB file")
    rows = [
        row("stage-in: one 2 GiB file", ours, copies, "s", 1.0, against="cp and fsync to bare XFS"),
        row("stage-in: one 2 GiB file, resident", sizes, [float(START_LIMIT_MIB)] * len(sizes), "MiB", against="60 MiB"),
    ]
    big.unlink()

    tree = bench.work / "tree"
    for number in range(SMALL_FILES):
        path = tree / f"d{number // 1000}" / f"file-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(block[number : number + SMALL_FILE_BYTES])
    ours, copies, sizes = stage_in(bench, "directory", tree, "stage-in of 10,000 files")
    rows += [
        row("stage-in: 10,000 files of 4 KiB", ours, copies, "s", 2.0, against="cp -r and syncfs to bare XFS"),
        row("stage-in: 10,000 files, resident", sizes, [float(START_LIMIT_MIB)] * len(sizes), "MiB", against="60 MiB"),
    ]
    shutil.rmtree(tree)
    return rows


PARTS = {"empty-script": empty_script, "staging": staging, "one-node": one_node, "four-nodes": four_nodes}


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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.output.parent) as work:
        with Bench(forebay, Path(work), arguments.rounds) as bench:
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
