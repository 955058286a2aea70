#!/usr/bin/env python3
"""Inserts rows into an SQLite database, each in a transaction of its own, with SQLite's defaults (rollback journal, full sync).

usage: sqlite_inserts.py DATABASE [ROWS]      (2500 rows where nothing is said)

Every insert makes a journal file, syncs it, syncs the directory, writes the database, syncs it and removes the journal: many
small calls, and several waits for the disk. Prints one line of JSON: seconds, rows, and the sum that the database gives back.
"""

import json
import sqlite3
import sys
import time
from pathlib import Path

ROWS = 2500
INSERT = "INSERT INTO pts1 (I, DT, F1, F2) VALUES (?, CURRENT_TIMESTAMP, ?, ?)"


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    path, rows = Path(arguments[0]), int(arguments[1]) if len(arguments) > 1 else ROWS
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("CREATE TABLE pts1 (I INTEGER, DT TEXT, F1 INTEGER, F2 INTEGER)")
    start = time.perf_counter()
    for row in range(rows):
        database.execute(INSERT, (row, row * 7919 % 10007, row * row))
    seconds = time.perf_counter() - start
    database.close()

    database = sqlite3.connect(path)
    count, total = database.execute("SELECT count(*), sum(F1) + sum(F2) FROM pts1").fetchone()
    (verdict,) = database.execute("PRAGMA integrity_check").fetchone()
    database.close()
    if (count, verdict) != (rows, "ok"):
        print(f"{path}: {count} rows of {rows}, integrity check: {verdict}", file=sys.stderr)
        return 1
    print(json.dumps({"seconds": seconds, "rows": count, "sum": str(total)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
