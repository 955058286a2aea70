"""docs/SECURITY.md names tests; each has to exist, and each line of its tables of threats has to name one.

Run with: python3 -m unittest discover -s tests/layers
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# `crate/file::test`; where the file is below `src` or `tests` of the crate is left open.
NAMED = re.compile(r"`(\w+)((?:/\w+)+)::([a-z0-9_]+)`")
SHOWN_BY = "shown by"


def exists(crate, path, test):
    """Whether a file of that name in the crate has a test of that name."""
    files = (file for top in ("src", "tests") for file in (ROOT / "crates" / crate / top).rglob("*.rs"))
    return any(str(file).endswith(f"{path}.rs") and re.search(rf"\bfn {test}\(", file.read_text()) for file in files)


def unshown(page):
    """Lines of threats without a test."""
    shown = False
    for line in page.splitlines():
        if not line.startswith("|"):
            shown = False
        elif SHOWN_BY in line:
            shown = True
        elif shown and not line.startswith("| ---") and not NAMED.search(line):
            yield line


class SecurityPage(unittest.TestCase):
    page = (ROOT / "docs/SECURITY.md").read_text()

    def test_every_test_that_is_named_exists(self):
        named = NAMED.findall(self.page)
        self.assertGreater(len(named), 30)
        self.assertEqual([f"{crate}{path}::{test}" for crate, path, test in named if not exists(crate, path, test)], [])

    def test_every_threat_names_a_test(self):
        self.assertEqual(list(unshown(self.page)), [])

    def test_what_is_missing_is_seen(self):
        self.assertFalse(exists("server", "/net/strangers", "no_such_test"))
        self.assertFalse(exists("server", "/net/no_such_file", "strangers_do_not_keep_others_out"))
        self.assertTrue(exists("server", "/net/strangers", "strangers_do_not_keep_others_out"))
        table = "| threat | what | shown by |\n| --- | --- | --- |\n| a | b | `server/net/strangers::x` |\n| c | d | nothing |\n"
        self.assertEqual(list(unshown(table)), ["| c | d | nothing |"])


if __name__ == "__main__":
    unittest.main()
