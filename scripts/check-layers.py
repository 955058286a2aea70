#!/usr/bin/env python3
"""Checks the direction of dependencies between the workspace's crates.

The allowed edges are written down here once. Dev-dependencies are exempt: tests may look at anything. The pure crates
(`model`, `directive`, `wire`) may not use anything that can reach a file, a clock or a socket, so the crates that they take
from outside are a closed list as well.

usage: check-layers.py [--metadata FILE]      (FILE: output of `cargo metadata --no-deps`, for the tests of this program)
Exit status: 0 all edges are allowed, 1 some are not (each is named), 2 the metadata could not be read.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "forebay-"

ALLOWED = {
    "model": set(),
    "directive": {"model"},
    "wire": {"model"},
    "controller": {"model", "directive"},
    "awake": set(),
    "server": {"model", "wire", "awake"},
    "stager": {"model", "wire"},
    "client": {"model", "wire"},
    "fusedev": {"awake"},
    "fuse": {"fusedev", "awake", "client", "model", "wire"},
    "agent": {"awake", "controller", "directive", "server", "stager", "fuse", "client", "model", "wire"},
    "cli": {"model", "directive", "wire", "controller", "server", "stager", "client", "fuse", "agent"},
    "testkit": set(),
}
PURE = {"model", "directive", "wire"}
PURE_MAY_USE = {"blake3", "serde", "thiserror"}


def short(name):
    """The name of one of our packages as DESIGN and directories have it, None for a package of somebody else."""
    if name == "forebay":
        return "cli"
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else None


def violations(metadata):
    """Yields one sentence for each dependency that the layering does not allow."""
    for package in metadata["packages"]:
        crate = short(package["name"])
        if crate not in ALLOWED:
            yield f"{package['name']}: unknown crate: give it a place in ALLOWED of scripts/check-layers.py"
            continue
        for dependency in package["dependencies"]:
            if dependency["kind"] == "dev":
                continue
            used = short(dependency["name"])
            if used is not None and used not in ALLOWED[crate]:
                allowed = ", ".join(sorted(ALLOWED[crate])) or "no crate of ours"
                yield f"{crate} -> {used}: not allowed; {crate} may use {allowed}"
            if used is None and crate in PURE and dependency["name"] not in PURE_MAY_USE:
                yield f"{crate} -> {dependency['name']}: {crate} is pure and may use only {', '.join(sorted(PURE_MAY_USE))}"


def read_metadata(path):
    if path is not None:
        return json.loads(Path(path).read_text())
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description="Check the direction of dependencies between crates.")
    parser.add_argument("--metadata", metavar="FILE", help="output of `cargo metadata --no-deps` instead of running it")
    arguments = parser.parse_args()
    try:
        metadata = read_metadata(arguments.metadata)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"check-layers: no metadata: {error}\n{getattr(error, 'stderr', None) or ''}", file=sys.stderr)
        return 2
    found = list(violations(metadata))
    for violation in found:
        print(f"check-layers: {violation}", file=sys.stderr)
    if not found:
        print(f"check-layers: {len(metadata['packages'])} crates, all dependencies point the right way")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
