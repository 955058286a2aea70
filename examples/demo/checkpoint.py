#!/usr/bin/env python3
"""Writes a checkpoint from several processes at once, to one shared file or to a file of each process.

usage: checkpoint.py shared|per-process DIRECTORY [PROCESSES [MEBIBYTES]]     (2 processes with 64 MiB each)

In the shared file process p owns the p-th part. Every process writes records of 1 MiB and ends with fsync; the time runs from
the common start until the last process has ended. Afterwards everything is read back and compared with what was meant to be
written. Prints one line of JSON: seconds, bytes, and a checksum over all of it.
"""

import json
import os
import random
import sys
import time
import zlib
from pathlib import Path

RECORD = 1 << 20


def record(process, number):
    """Record `number` of a process: a pseudo-random block that begins with its own coordinates."""
    name = b"%08d.%08d" % (process, number)
    return name + BLOCKS[process % len(BLOCKS)][len(name) :]


BLOCKS = [random.Random(seed).randbytes(RECORD) for seed in range(4)]


def place(mode, directory, process, records):
    """The file a process writes to, and the offset its part begins at."""
    if mode == "shared":
        return directory / "checkpoint.shared", process * records * RECORD
    return directory / f"checkpoint.{process}", 0


def write_all(descriptor, data, offset):
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


def write_part(path, offset, process, records):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    for number in range(records):
        write_all(descriptor, memoryview(record(process, number)), offset + number * RECORD)
    os.fsync(descriptor)
    os.close(descriptor)


def run(mode, directory, processes, records):
    """Forks the writers, lets them go together, waits for all of them; the seconds it took."""
    go_read, go_write = os.pipe()
    children = []
    for process in range(processes):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(go_write)
                os.read(go_read, 1)
                write_part(*place(mode, directory, process, records), process, records)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    start = time.perf_counter()
    os.close(go_write)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    seconds = time.perf_counter() - start
    os.close(go_read)
    if any(statuses):
        raise SystemExit(f"checkpoint: writers ended with {statuses}, their messages are above")
    return seconds


def verify(mode, directory, processes, records):
    """Reads everything back; the checksum over all records in order."""
    checksum = 0
    for process in range(processes):
        path, offset = place(mode, directory, process, records)
        with open(path, "rb") as file:
            file.seek(offset)
            for number in range(records):
                data = file.read(RECORD)
                if data != record(process, number):
                    raise SystemExit(f"checkpoint: {path}: record {number} of process {process} is not what was written")
                checksum = zlib.crc32(data, checksum)
    return checksum


def main(arguments):
    if len(arguments) not in (2, 3, 4) or arguments[0] not in ("shared", "per-process"):
        print(__doc__, file=sys.stderr)
        return 2
    mode, directory = arguments[0], Path(arguments[1])
    processes = int(arguments[2]) if len(arguments) > 2 else 2
    records = int(arguments[3]) if len(arguments) > 3 else 64
    for process in range(processes):
        place(mode, directory, process, records)[0].unlink(missing_ok=True)
    seconds = run(mode, directory, processes, records)
    checksum = verify(mode, directory, processes, records)
    print(json.dumps({"seconds": seconds, "bytes": processes * records * RECORD, "sum": f"{checksum:08x}"}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
