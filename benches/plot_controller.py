#!/usr/bin/env python3
"""Draws docs/scaling-controller.svg and the table of docs/scaling-controller.md from the rows of controller_scale.py.

usage: plot_controller.py ROWS.json

Each figure is drawn as a part of its limit, so that all fit one plot: what is below the line at 1 holds. Both axes are
logarithmic.
"""

import json
import math
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN, END = "<!-- rows -->", "<!-- end of rows -->"
LABELS = {
    "dwstat": "`dwstat all`, nine tables",
    "show_instances": "`dw_wlm_cli --function show_instances`",
    "allocate": "space for a job decided and durable",
    "restart": "controller killed, started, ready",
    "memory": "memory of the controller at most",
}
COLORS = ["#0b62a4", "#c2410c", "#15803d", "#7e22ce", "#475569"]
WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 30, 55
# The lowest part of a limit that is drawn, and the highest, as powers of ten.
LOW, HIGH = -3, 1


def sizes_of(rows):
    return sorted({(row["jobs"], row["nodes"]) for row in rows})


def table(rows):
    sizes = sizes_of(rows)
    heads = [f"{jobs:,} jobs, {nodes:,} nodes" for jobs, nodes in sizes]
    lines = ["| | " + " | ".join(heads) + " | limit |", "| --- |" + " ---: |" * (len(sizes) + 1)]
    for figure, label in LABELS.items():
        found = {row["jobs"]: row for row in rows if row["figure"] == figure}
        cells = [f"{found[jobs]['ours']:,.1f}" for jobs, _ in sizes]
        unit = next(iter(found.values()))["unit"]
        limit = next(iter(found.values()))["reference"]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {limit:,.0f} {unit} |")
    return "\n".join(lines)


def plot(rows):
    jobs = [size[0] for size in sizes_of(rows)]
    lowest, highest = math.log10(jobs[0]), math.log10(jobs[-1])
    span = max(highest - lowest, 1e-9)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def at(job, part):
        x = LEFT + (math.log10(job) - lowest) / span * (right - LEFT)
        power = min(max(math.log10(part), LOW), HIGH)
        return x, bottom - (power - LOW) / (HIGH - LOW) * (bottom - TOP)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for power in range(LOW, HIGH + 1):
        y = at(jobs[0], 10.0**power)[1]
        color, width = ("#111", 1.5) if power == 0 else ("#ddd", 1)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{color}" stroke-width="{width}"/>')
        name = "limit" if power == 0 else f"{10.0**power:g}"
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>')
    for job in jobs:
        x = at(job, 1)[0]
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{job:,}</text>')
    out.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 14}" text-anchor="middle">running jobs</text>')
    labels = []
    for (figure, _), color in zip(LABELS.items(), COLORS):
        found = sorted((row["jobs"], row["ours"] / row["reference"]) for row in rows if row["figure"] == figure)
        points = [at(job, part) for job, part in found]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>' for x, y in points]
        labels.append((points[-1][1], figure, color))
    last = TOP - 20
    for y, figure, color in sorted(labels):
        # Labels that would lie on each other are moved down.
        last = max(y, last + 15)
        out.append(f'<text x="{right + 12}" y="{last + 4:.1f}" fill="{color}">{figure.replace("_", " ")}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    measured = json.loads(Path(sys.argv[1]).read_text())
    (DOCS / "scaling-controller.svg").write_text(plot(measured["rows"]))
    page = DOCS / "scaling-controller.md"
    before, rest = page.read_text().split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    text = f"{BEGIN}\n\n{table(measured['rows'])}\n\nMeasured on: {measured['machine']}.\n\n{END}"
    page.write_text(before + text + after)


if __name__ == "__main__":
    main()
