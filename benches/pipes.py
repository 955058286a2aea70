"""The machine's limit for pipes, as the package forebay-node sets it, while a context lasts.

Root may make larger pipes than the limit on a machine, but not in a container that was not given CAP_SYS_RESOURCE, nor within the
unit of the agent. So what is measured is what a node with our packages gives, wherever the bench runs.
"""

import contextlib
from pathlib import Path

LIMIT = Path("/proc/sys/fs/pipe-max-size")
SETTINGS = Path(__file__).resolve().parent.parent / "packaging" / "forebay-node" / "sysctl.conf"


def wanted(text):
    """Bytes that the package's settings say."""
    return next(int(line.split("=")[1]) for line in text.splitlines() if line.startswith("fs.pipe-max-size"))


@contextlib.contextmanager
def large_pipes():
    """Raised, unless it is as high already; afterwards as it was."""
    before, least = int(LIMIT.read_text()), wanted(SETTINGS.read_text())
    if before >= least:
        yield
        return
    LIMIT.write_text(str(least))
    try:
        yield
    finally:
        LIMIT.write_text(str(before))
