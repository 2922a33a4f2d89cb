"""Report of a soak test: one HTML file with a chart per figure and the table of slopes. No I/O."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.soak.growth import Growth, warm_up_seconds

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560, 200, 56, 22, 10
MAX_POINTS = 1000
_STYLE = """
body { font: 14px sans-serif; margin: 2em; color: #222 } table { border-collapse: collapse; margin: 1em 0 }
td, th { border: 1px solid #ccc; padding: 3px 8px; text-align: right }
td:first-child, th:first-child { text-align: left }
figure { display: inline-block; margin: 0 1em 1em 0 } figcaption { font-weight: bold } .failed { background: #fdd }
svg text { font-size: 10px; fill: #555 } .line { fill: none; stroke: #1f77b4 } .quiet { fill: #d62728 }
.warm { fill: #eee } .axis { stroke: #999 }
"""


@dataclass(frozen=True)
class Result:
    """Everything that a run has recorded."""

    facts: Mapping[str, str]
    times: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    quiet: Sequence[int]
    growth: Sequence[Growth]
    actions: Mapping[str, int]
    violations: Sequence[str]

    @property
    def failed(self) -> bool:
        return bool(self.violations) or any(each.grows for each in self.growth)


def text_table(result: Result) -> str:
    """Return the slopes for a terminal."""
    lines = [f"{'after the warm-up':28} {'first':>9} {'last':>9} {'highest':>9} {'per hour':>9}"]
    for each in result.growth:
        mark = "  grows" if each.grows else ""
        lines.append(
            f"{each.figure:28} {each.first:9.1f} {each.last:9.1f} {each.highest:9.1f} {each.per_hour:9.2f}{mark}"
        )
    return "\n".join([*lines, *(f"violation: {each}" for each in result.violations)])


def page(result: Result) -> str:
    """Return the report as an HTML document without external files."""
    charts = "\n".join(
        f"<figure><figcaption>{html.escape(figure)}</figcaption>{_chart(result, values)}</figure>"
        for figure, values in result.series.items()
    )
    violations = "".join(f"<li>{html.escape(each)}</li>" for each in result.violations)
    return f"""<!doctype html>
<meta charset="utf-8"><title>Soak test</title><style>{_STYLE}</style>
<h1>Soak test: {"failed" if result.failed else "passed"}</h1>
{_table(("run", ""), [(name, value) for name, value in result.facts.items()])}
{f"<h2>Violations</h2><ul>{violations}</ul>" if violations else ""}
<h2>Slopes after the warm-up</h2>
{_slopes(result.growth)}
<p>Counts are compared at the end of each round (red dots), when the node has neither pods nor clients. The slope is the
median of the slopes between all pairs of samples.</p>
<h2>Resources over time (hours)</h2>
{charts}
<h2>Load</h2>
{_table(("action", "number"), [(name, str(count)) for name, count in sorted(result.actions.items())])}
"""


def _slopes(growth: Sequence[Growth]) -> str:
    rows = "".join(
        f"<tr{' class=failed' if each.grows else ''}><td>{html.escape(each.figure)}</td><td>{each.first:.1f}</td>"
        f"<td>{each.last:.1f}</td><td>{each.highest:.1f}</td><td>{each.per_hour:.2f}</td></tr>"
        for each in growth
    )
    head = "<tr><th>figure</th><th>first</th><th>last</th><th>highest</th><th>slope per hour</th></tr>"
    return f"<table>{head}{rows}</table>"


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    body = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f"<table><tr><th>{head[0]}</th><th>{head[1]}</th></tr>{body}</table>"


def _chart(result: Result, values: Sequence[float | None]) -> str:
    times = result.times
    known = [value for value in values if value is not None]
    if not known:
        return ""
    length, low, high = max(times[-1], 1.0), min(known), max(known)
    margin = (high - low) * 0.05 or 1.0
    low, high = max(0.0, low - margin), high + margin

    def x(seconds: float) -> float:
        return round(LEFT + seconds / length * (WIDTH - LEFT - 8), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - BOTTOM - TOP), 1)

    step = max(1, len(times) // MAX_POINTS)
    points = [(at, value) for at, value in zip(times, values, strict=True) if value is not None][::step]
    line = " ".join(f"{x(at)},{y(value)}" for at, value in points)
    quiet = [(times[i], value) for i in result.quiet if (value := values[i]) is not None]
    dots = "".join(f'<circle class="quiet" cx="{x(at)}" cy="{y(value)}" r="2"/>' for at, value in quiet)
    warm = x(warm_up_seconds(length)) - LEFT
    labels = "".join(
        f'<text x="{LEFT - 4}" y="{y(value) + 3}" text-anchor="end">{value:.4g}</text>' for value in (low, high)
    )
    marks = "".join(
        f'<text x="{x(length * part / 4)}" y="{HEIGHT - 6}" text-anchor="middle">{length * part / 4 / 3600:.2g}</text>'
        for part in range(5)
    )
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<rect class="warm" x="{LEFT}" y="{TOP}" width="{warm:.1f}" height="{HEIGHT - BOTTOM - TOP}"/>'
        f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - 8}"/>'
        f'<polyline class="line" points="{line}"/>{dots}{labels}{marks}</svg>'
    )
