#!/usr/bin/env python3
"""Measures one group of I/O tests in several places, in interleaved rounds. Runs inside the job, where the mount is.

usage: measure.py GROUP OUTPUT PROBE ROUNDS NAME=DIRECTORY [NAME=DIRECTORY]...

A round runs every test of the group once in every place, one place right after the other and in turned order from round to
round, so that what else the machine does hits all places alike. Round 0 warms everything up and is thrown away. Before each
test of each place the file system is synced, so that nobody pays for writing back what another one wrote.
A place named fuse-alone is a mount of the program `ceiling` (crates/fusedev/examples); it is measured where it can be.
OUTPUT gets {"test": {"place": [rate of round 1, ...]}} as JSON; rates are "more is better".
"""

import json
import os
import subprocess
import sys
from pathlib import Path

SQLITE = Path(__file__).resolve().parent.parent / "examples" / "demo" / "sqlite_inserts.py"
FILE_MIB = 512
MIB = 1 << 20
NAMES = 4000
ROWS = 400
MESSAGES = 20_000
# A mount that answers at once and keeps nothing: it has one file, which cannot be made anew, and no directories below it.
FUSE_ALONE = "fuse-alone"
# What no file system has a part in: between two processes.
MESSAGE = "message"
REFERENCE = "reference"
AT_FUSE_ALONE = {"create", "unlink", "rewrite", "read", "random-write", "random-read", "shared-rewrite", "shared-read", "four-rewrite", "four-read"}

# Order matters: `write-new` makes the file that the next tests use, `create` the names that `unlink` removes.
GROUPS = {
    "one-node": [
        ("write-new", FILE_MIB, MIB),
        ("rewrite", FILE_MIB, MIB),
        ("read", FILE_MIB, MIB),
        ("random-write", FILE_MIB, 4096),
        ("random-read", FILE_MIB, 4096),
        ("create", NAMES),
        ("unlink", NAMES),
        ("sqlite", ROWS),
    ],
    "four-nodes": [
        ("write-new", FILE_MIB, MIB),
        ("rewrite", FILE_MIB, MIB),
        ("read", FILE_MIB, MIB),
        ("random-write", FILE_MIB, 4096),
        ("random-read", FILE_MIB, 4096),
        ("shared-new", FILE_MIB, MIB),
        ("shared-rewrite", FILE_MIB, MIB),
        ("create", NAMES),
        ("stat", NAMES),
        ("unlink", NAMES),
        ("sqlite", ROWS),
    ],
    "servers": [
        ("write-new", FILE_MIB, MIB),
        ("rewrite", FILE_MIB, MIB),
        ("read", FILE_MIB, MIB),
        ("shared-rewrite", FILE_MIB, MIB),
        ("shared-read", FILE_MIB, MIB),
        ("four-rewrite", FILE_MIB, MIB),
        ("four-read", FILE_MIB, MIB),
        ("random-write", FILE_MIB, 4096),
        ("random-read", FILE_MIB, 4096),
        ("create", NAMES),
        ("stat", NAMES),
        ("unlink", NAMES),
        (MESSAGE, MESSAGES),
        ("sqlite", ROWS),
    ],
}


def output_of(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def rate(probe, test, directory, is_alone):
    """One measurement: the rate of a test in a directory. `is_alone`: that is FUSE alone."""
    name, *numbers = test
    if name == "sqlite":
        report = json.loads(output_of([sys.executable, SQLITE, directory / "bench.sqlite", str(numbers[0])]))
        return report["rows"] / report["seconds"]
    if name == MESSAGE:
        return float(output_of([probe, name, str(numbers[0])]))
    if name in ("create", "stat", "unlink"):
        names = directory if is_alone else directory / "names"
        names.mkdir(exist_ok=True)
        return float(output_of([probe, name, names, str(numbers[0])]))
    return float(output_of([probe, name, directory / "file", *map(str, numbers)]))


def sync(directory):
    """Flushes the file system of a directory: syncfs is not in Python, coreutils' sync -f is."""
    output_of(["sync", "-f", directory])


def is_measured(test, place):
    if test == MESSAGE:
        return place == REFERENCE
    return place != FUSE_ALONE or test in AT_FUSE_ALONE


def measure(group, probe, rounds, places):
    measured = {test[0]: [name for name in places if is_measured(test[0], name)] for test in GROUPS[group]}
    results = {test: {name: [] for name in names} for test, names in measured.items()}
    for number in range(rounds + 1):
        for test in GROUPS[group]:
            names = measured[test[0]]
            for name in names if number % 2 == 0 else reversed(names):
                sync(places[name])
                value = rate(probe, test, places[name], name == FUSE_ALONE)
                if number > 0:
                    results[test[0]][name].append(value)
        print(f"  {group}: round {number} of {rounds}" + (" (warm-up)" if number == 0 else ""), file=sys.stderr, flush=True)
    return results


def main(arguments):
    if len(arguments) < 5 or arguments[0] not in GROUPS:
        print(__doc__, file=sys.stderr)
        return 2
    group, output, probe, rounds = arguments[0], Path(arguments[1]), Path(arguments[2]), int(arguments[3])
    places = dict(word.split("=", 1) for word in arguments[4:])
    for name, path in places.items():
        places[name] = Path(path) if name == FUSE_ALONE else Path(path) / f"bench-{os.getpid()}"
        places[name].mkdir(exist_ok=name == FUSE_ALONE)
    output.write_text(json.dumps(measure(group, probe, rounds, places)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
