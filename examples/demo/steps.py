#!/usr/bin/env python3
"""Runs the demo's steps, always the same programs in the same order, on one place for the input and one for the results.

usage: steps.py INPUT OUTPUT

INPUT holds spPlates/, spectra.h5 and pick1000.txt; OUTPUT is made. First all input is read once without being timed, so that
the page cache is warm in every place alike: freshly staged data is in the cache anyway, and an old directory would not be.
All steps run up to three times over. OUTPUT/steps.json gets the median time of each and what it reported; a step whose reports
differ from round to round, in anything but the time, ends the program.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 3
# No further round begins after this: on a machine that is busy syncing, one round can take longer than three on a quiet one.
SPAN_S = 10

STEPS = {
    "1000 spectra from FITS files": ["pick_spectra.py", "fits", "{input}", "{output}/mean-fits.txt"],
    "1000 spectra from one HDF5 file": ["pick_spectra.py", "hdf5", "{input}", "{output}/mean-hdf5.txt"],
    "SQLite, 2500 transactions": ["sqlite_inserts.py", "{output}/inserts.sqlite"],
    "checkpoint, 2 processes, one file": ["checkpoint.py", "shared", "{output}"],
    "checkpoint, 2 processes, own files": ["checkpoint.py", "per-process", "{output}"],
}


def warm(directory):
    for path in [*sorted((directory / "spPlates").iterdir()), directory / "spectra.h5"]:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def run_step(command, places):
    words = [word.format(**places) for word in command]
    done = subprocess.run([sys.executable, HERE / words[0], *words[1:]], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"demo: {' '.join(words)} ended with {done.returncode}")
    return json.loads(done.stdout)


def summary(name, reports):
    """One report for all rounds of a step: the median of the seconds, and what must be equal in all of them."""
    seconds = statistics.median(report.pop("seconds") for report in reports)
    if any(report != reports[0] for report in reports):
        raise SystemExit(f"demo: {name}: the rounds disagree: {reports}")
    return {"seconds": seconds, **reports[0]}


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    places = {"input": Path(arguments[0]), "output": Path(arguments[1])}
    places["output"].mkdir(exist_ok=True)
    warm(places["input"])
    rounds = []
    start = time.monotonic()
    while len(rounds) < ROUNDS and time.monotonic() - start < SPAN_S:
        rounds.append({name: run_step(command, places) for name, command in STEPS.items()})
    steps = {name: summary(name, [reports[name] for reports in rounds]) for name in STEPS}
    (places["output"] / "steps.json").write_text(json.dumps(steps, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
