#!/usr/bin/env python3
"""Checks the house style that rustfmt and clippy do not see.

- every Rust module of a crate's `src` opens with `//!` (but for unit tests in `tests.rs` and `tests/`)
- none of them has more than 900 lines
- no file or directory of source is called utils, helpers, common, misc or manager
- no trailing blanks in text (Rust is left to rustfmt, since string literals may need them; so are fenced blocks of Markdown)
- no reminders left in the code: they belong into an issue

usage: tidy.py [DIRECTORY]      (default: the repository that this program is in)
Exit status: 0 clean, 1 something to tidy (file:line: what), 2 wrong usage.
"""

import re
import subprocess
import sys
from pathlib import Path

MAX_LINES = 900
FORBIDDEN_NAMES = {"utils", "util", "helpers", "common", "misc", "manager"}
TEXT = {".rs", ".py", ".sh", ".c", ".h", ".md", ".toml", ".conf"}
NO_TRAILING_BLANKS = TEXT - {".rs"}
REMINDER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|\bto" r"do!\(|\bunimplemented!\(")


def source_files(root):
    """Paths of all files that are, or are about to be, in version control; all files where there is no git."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=False)
    if listed.returncode == 0:
        names = [Path(name.decode(errors="surrogateescape")) for name in listed.stdout.split(b"\0") if name]
    else:
        names = [path.relative_to(root) for path in root.rglob("*") if "target" not in path.relative_to(root).parts]
    return sorted(name for name in set(names) if (root / name).is_file() and not (root / name).is_symlink())


def is_module(path):
    """True for the Rust modules of a crate, crates/<crate>/src/**.rs, but for its unit tests in tests.rs and tests/."""
    inside = path.suffix == ".rs" and len(path.parts) > 3 and path.parts[0] == "crates" and path.parts[2] == "src"
    return inside and path.stem != "tests" and "tests" not in path.parts[3:]


def complaints_about_name(path):
    for part in (*path.parts[:-1], path.stem):
        if part in FORBIDDEN_NAMES and path.suffix in TEXT:
            yield 1, f"'{part}' says nothing: name the file after its noun or operation"


def complaints_about_module(lines):
    first = next((line for line in lines if line.strip()), "")
    if not first.startswith("//!"):
        yield 1, "a module opens with '//!': what it is for, its invariants, who may call it"
    if len(lines) > MAX_LINES:
        yield MAX_LINES + 1, f"{len(lines)} lines, at most {MAX_LINES} are allowed: split the module"


def complaints_about_lines(path, lines):
    fenced = False
    for number, line in enumerate(lines, start=1):
        if path.suffix == ".md" and line.lstrip().startswith("```"):
            fenced = not fenced
        if path.suffix in NO_TRAILING_BLANKS and not fenced and line != line.rstrip(" \t"):
            yield number, "trailing blanks"
        if REMINDER.search(line):
            yield number, "a reminder in the code: do it, or write an issue"


def complaints(root, path):
    yield from complaints_about_name(path)
    if path.suffix not in TEXT and path.name not in ("Makefile", "run"):
        return
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    if is_module(path):
        yield from complaints_about_module(lines)
    yield from complaints_about_lines(path, lines)


def main(arguments):
    if len(arguments) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    files = source_files(root)
    found = [(path, number, text) for path in files for number, text in complaints(root, path)]
    for path, number, text in found:
        print(f"{path}:{number}: {text}", file=sys.stderr)
    if not any(is_module(path) for path in files):
        print(f"tidy: no Rust modules found below {root}: is this the repository?", file=sys.stderr)
        return 2
    if not found:
        print(f"tidy: {len(files)} files, nothing to tidy")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
