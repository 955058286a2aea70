"""A FUSE mount that answers at once and keeps nothing: the most that any file system over FUSE gives on this machine.

The kernel pins, copies and marks the caller's pages for each request, and two threads wake each other; the program `ceiling`
(crates/fusedev/examples/ceiling.rs) does nothing else. What Forebay reaches of that is its own part.
"""

import contextlib
import subprocess


def program(forebay):
    """Where cargo puts the program, beside forebay."""
    return forebay.parent / "examples" / "ceiling"


@contextlib.contextmanager
def mounted(command, directory, mib):
    """The directory, with a file named `file` of so many MiB, while the context lasts."""
    directory.mkdir()
    process = subprocess.Popen([command, directory, str(mib)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline() != "ready\n":
            raise SystemExit(f"bench: {command} did not mount anything, status {process.wait()}")
        yield directory
    finally:
        process.stdin.close()
        process.wait()
        directory.rmdir()
