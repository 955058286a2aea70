#!/usr/bin/env python3
"""Compares two files of bench rows by name.

usage: compare.py OLD NEW

Ratios are compared, not figures: each was taken against a reference in its own run, so two machines or two busy afternoons can
be put side by side. Prints every row that is in either file, with the change of its ratio.
Exit status: 0 no goal that held is missed now, 1 at least one is, 2 a file could not be read.
"""

import json
import sys
from pathlib import Path


def load(path):
    return {entry["name"]: entry for entry in json.loads(Path(path).read_text())}


def show(entry):
    return "-" if entry is None else f"{entry['ratio']:.2f}"


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        old, new = (load(path) for path in arguments)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    names = list(dict.fromkeys([*old, *new]))
    width = max(map(len, names), default=0)
    lost = []
    for name in names:
        before, after = old.get(name), new.get(name)
        change = f"{after['ratio'] / before['ratio'] - 1:+.0%}" if before and after else ""
        if before and before["holds"] and not (after and after["holds"]):
            lost.append(name)
            change += "  goal no longer holds"
        print(f"{name:<{width}}  {show(before):>7}  {show(after):>7}  {change}".rstrip())
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
