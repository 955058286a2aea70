"""The rows of the bench: what is compared with what, how a ratio is formed, and when a goal holds. Pure, tested in tests/bench.

A ratio above 1 always means "better than the reference", whatever the unit: rates are divided by the reference's rate, times and
sizes divide the reference's. A goal is the least ratio that is accepted, so `holds` is `ratio >= goal` in every row; where the
goal is an absolute one (so many files a second, at most so many milliseconds) the reference is that limit and the goal is 1.
Rows for information have no goal: `goal` and `holds` are null.
"""

import statistics

MORE_IS_BETTER = {"MiB/s", "op/s", "files/s", "transactions/s"}
LESS_IS_BETTER = {"s", "ms", "MiB"}


class RowError(Exception):
    """A row that cannot be formed: a bench without figures must not look like one that passed."""


def ratio_of(ours, reference, unit):
    if unit not in MORE_IS_BETTER | LESS_IS_BETTER:
        raise RowError(f"unknown unit {unit!r}")
    if ours <= 0 or reference <= 0:
        raise RowError(f"figures must be above zero, got {ours} and {reference}")
    return ours / reference if unit in MORE_IS_BETTER else reference / ours


def one_after_the_other(*rates):
    """The rate of doing several things one after the other, out of the rates of each: lists of one value a round."""
    return [1 / sum(1 / rate for rate in round_of) for round_of in zip(*rates, strict=True)]


def row(name, ours, reference, unit, goal=None, against="bare XFS"):
    """One row out of paired measurements: lists of equal length, one value a round.

    `ours` and `reference` become medians. The ratio is the median of the rounds' own ratios: the two figures of a round were taken
    seconds apart, so a slow minute of the machine cancels out.
    """
    if not ours or len(ours) != len(reference):
        raise RowError(f"{name}: {len(ours)} measurements against {len(reference)}")
    ratio = statistics.median(ratio_of(a, b, unit) for a, b in zip(ours, reference))
    return {
        "name": name,
        "ours": round(statistics.median(ours), 3),
        "reference": round(statistics.median(reference), 3),
        "unit": unit,
        "ratio": round(ratio, 3),
        "goal": goal,
        "holds": None if goal is None else ratio >= goal,
        "against": against,
        "spread": [round(min(ours), 3), round(max(ours), 3)],
    }


def limit_row(name, ours, limit, unit):
    """A row whose goal is an absolute figure: at least `limit` for a rate, at most `limit` for a time or a size."""
    return row(name, ours, [float(limit)] * len(ours), unit, goal=1.0, against="the limit")


def table(rows):
    """The rows as lines of text."""
    columns = ("", "ours", "reference", "unit", "ratio", "goal", "", "against")
    lines = [columns]
    for entry in rows:
        verdict = {True: "holds", False: "MISSED", None: ""}[entry["holds"]]
        goal = "" if entry["goal"] is None else f"{entry['goal']:.2f}"
        figures = (f"{entry['ours']:,.1f}", f"{entry['reference']:,.1f}", entry["unit"], f"{entry['ratio']:.2f}", goal)
        lines.append((entry["name"], *figures, verdict, entry["against"]))
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        cells = [line[0].ljust(widths[0])] + [line[i].rjust(widths[i]) for i in range(1, 6)]
        yield "  ".join([*cells, line[6].ljust(widths[6]), line[7]]).rstrip()
