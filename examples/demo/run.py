#!/usr/bin/env python3
"""The demo: one job script on a burst buffer of four storage nodes, on the default one-node buffer, and on the plain directory.

usage: run.py --forebay PROGRAM [--data DIRECTORY]

Makes the input once (see generate.py), runs the steps in place on the directory that holds it, then runs demo.sh twice under
`forebay run`, which stages the input in and the results out. Everything that came back is compared with what the plain directory
gave. State, results and job scripts live below one temporary directory beside the data. It is removed at the end; after a
failure it is kept for a look, and its path is printed. The input stays for the next time.

Exit status: 0 all steps ran and all results agree, 1 something failed or differs (it is named).
"""

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SHOWN = "plain directory"
# Disk that must be free: input 0.8 GB, the fragments of one burst buffer 1.6 GiB, the results of three runs.
NEEDED_BYTES = 4 << 30

WAYS = {"4 storage nodes": ["--nodes", "4"], "default, 1 node": []}


def fail(message):
    raise SystemExit(f"demo: {message}")


def check_space(directory):
    stat = os.statvfs(directory)
    free = stat.f_bavail * stat.f_frsize
    if free < NEEDED_BYTES:
        fail(f"{directory} has {free >> 20} MiB free, the demo wants {NEEDED_BYTES >> 20} MiB")


def job_script(work, data, results):
    """demo.sh with its paths filled in."""
    text = (HERE / "demo.sh").read_text()
    for mark, path in {"@PFS@/@RESULTS@": results, "@PFS@": data, "@STEPS@": HERE / "steps.py"}.items():
        text = text.replace(mark, str(path))
    script = work / f"{results.name}.sh"
    script.write_text(text)
    return script


def run_plain(data, results):
    subprocess.run([sys.executable, HERE / "steps.py", data, results], check=True)


def run_buffered(forebay, options, script, state):
    """One job, on the terminal as its user sees it; the seconds from start to exit."""
    environment = {**os.environ, "FOREBAY_STATE_DIR": str(state)}
    command = [forebay, "run", *options, script]
    print(f"\n$ forebay run {' '.join(options + ['examples/demo/demo.sh'])}", flush=True)
    start = time.monotonic()
    status = subprocess.run(command, env=environment, cwd=script.parent, check=False).returncode
    if status != 0:
        fail(f"forebay run ended with status {status}")
    return time.monotonic() - start


def check_equal(name, expected, found):
    """The steps' reports and the result files of a burst buffer must be those of the plain directory."""
    reports = [json.loads((directory / "steps.json").read_text()) for directory in (expected, found)]
    for step, report in reports[0].items():
        want, have = ({key: value for key, value in r.items() if key != "seconds"} for r in (report, reports[1].get(step, {})))
        if want != have:
            fail(f"{name}: {step}: {have}, the plain directory gave {want}")
    # The database holds the time of each insert, so its bytes differ; its rows were compared above.
    files = sorted(path.name for path in expected.iterdir() if path.name not in ("steps.json", "inserts.sqlite"))
    _, different, missing = filecmp.cmpfiles(expected, found, files, shallow=False)
    if different or missing:
        fail(f"{name}: results differ: {different or '-'}, missing: {missing or '-'}")


def check_nothing_left(state):
    """No mount, no loop device and no instance of ours may outlive its job."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    left = [mount for mount in mounts if mount.startswith(f"{state}/")]
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        left += [path for path in [backing.read_text().strip()] if path.startswith(f"{state}/")]
    left += [str(path) for path in (state / "instances").glob("*")]
    if left:
        fail(f"the jobs left behind: {', '.join(left)}")


def table(seconds, totals):
    """The table of the demo as lines; `seconds` is way -> step -> seconds, the plain directory first."""
    ways = list(seconds)
    width = max(len(step) for step in seconds[SHOWN])
    yield f"{'seconds, median of rounds':<{width}}" + "".join(f"{way:>18}" for way in ways)
    for step, plain in seconds[SHOWN].items():
        cells = [f"{plain:.2f}"] + [f"{seconds[way][step]:.2f} ({plain / seconds[way][step]:.2f}x)" for way in ways[1:]]
        yield f"{step:<{width}}" + "".join(f"{cell:>18}" for cell in cells)
    cells = ["in place"] + [f"{totals[way]:.1f}" for way in ways[1:]]
    yield f"{'whole job with staging':<{width}}" + "".join(f"{cell:>18}" for cell in cells)


def compare(forebay, data, work):
    print("demo: the steps on the plain directory", flush=True)
    results = {SHOWN: work / "results-plain"}
    run_plain(data, results[SHOWN])
    totals, state = {}, work / "state"
    for number, (way, options) in enumerate(WAYS.items(), start=1):
        results[way] = work / f"results-{number}"
        totals[way] = run_buffered(forebay, options, job_script(work, data, results[way]), state)
        check_equal(way, results[SHOWN], results[way])
    check_nothing_left(state)
    seconds = {
        way: {step: report["seconds"] for step, report in json.loads((path / "steps.json").read_text()).items()}
        for way, path in results.items()
    }
    print("\nThe same steps, on the same disk (a factor above 1 means faster than the plain directory):\n")
    print("\n".join(table(seconds, totals)))
    print("\nAll results agree with those of the plain directory: sums of spectra, rows, checkpoints; nothing was left behind.")


def main():
    parser = argparse.ArgumentParser(description="Run the demo job on a burst buffer and beside it.")
    parser.add_argument("--forebay", type=Path, required=True, help="the forebay program")
    parser.add_argument("--data", type=Path, default=ROOT / "target" / "demo-data", help="where the input is kept")
    arguments = parser.parse_args()
    forebay = arguments.forebay.resolve()
    if not os.access(forebay, os.X_OK):
        fail(f"{forebay} is not there: run 'make build' first")
    data = arguments.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    check_space(data)
    subprocess.run([sys.executable, HERE / "generate.py", data], check=True)
    work = Path(tempfile.mkdtemp(prefix="demo-run-", dir=data.parent))
    try:
        compare(forebay, data, work)
    except BaseException:
        print(f"demo: kept for a look, remove it when done: {work}", file=sys.stderr)
        raise
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
