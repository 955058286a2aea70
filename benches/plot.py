"""Line plots with logarithmic axes as SVG: no more than the bench's pages need, and nothing but Python's own library."""

import math
from html import escape

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 78
COLUMNS = 2
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


def panel(title, lines):
    """One plot: lines by name, each a list of (x, y) with values above zero."""
    if not lines or any(not points for points in lines.values()):
        raise ValueError(f"{title}: every line needs points")
    if any(value <= 0 for points in lines.values() for point in points for value in point):
        raise ValueError(f"{title}: a logarithmic axis has no place for what is not above zero")
    return title, lines


def ticks(low, high):
    """The powers of ten from below the lowest value to above the highest."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def short(value):
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def drawn(title, lines):
    across = sorted({x for points in lines.values() for x, _ in points})
    rates = [y for points in lines.values() for _, y in points]
    marks = ticks(min(rates), max(rates))
    low, high = math.log10(marks[0]), math.log10(marks[-1])
    first, span = math.log10(across[0]), math.log10(across[-1]) - math.log10(across[0])

    def at_x(value):
        share = (math.log10(value) - first) / span if span else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def at_y(value):
        return HEIGHT - BOTTOM - (math.log10(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    yield f'<text x="{WIDTH / 2}" y="18" text-anchor="middle" font-weight="bold">{escape(title)}</text>'
    for mark in marks:
        yield f'<path d="M{LEFT} {at_y(mark):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{at_y(mark) + 4:.1f}" text-anchor="end">{short(mark)}</text>'
    for value in across:
        yield f'<text x="{at_x(value):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{short(value)}</text>'
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        way = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        yield f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{colour}"/>' for x, y in points)
        x, y = LEFT + (number % 4) * 96, HEIGHT - BOTTOM + 44
        yield f'<path d="M{x} {y}h16" stroke="{colour}" stroke-width="2"/><text x="{x + 20}" y="{y + 4}">{escape(name)}</text>'


def picture(panels):
    """All of them in two columns."""
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * WIDTH, rows * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, (title, lines) in enumerate(panels):
        x, y = number % COLUMNS * WIDTH, number // COLUMNS * HEIGHT
        parts.append(f'<g transform="translate({x} {y})">')
        parts.extend(drawn(title, lines))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"
