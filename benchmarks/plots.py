"""``python -m benchmarks.plots``: draw the recorded results of all versions and of the fleet in ``docs/``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import (
    api_pods,
    api_server,
    drawing,
    fleet_plots,
    fleet_results,
    one_pod,
    start_up,
    static_pods,
    versions,
)
from benchmarks.figures import UPSTREAM_RUNS, Benchmark, Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOCS = versions.DIRECTORY.parent / "docs"
HISTORY, FLEET = _DOCS / "benchmarks-history.svg", _DOCS / "benchmarks-fleet.svg"
DRAWN: Mapping[str, tuple[Benchmark, tuple[str, ...]]] = {
    "static_pods": (static_pods, ("all_running", "start_cpu", "rss", "idle", "removed")),
    "api_pods": (api_pods, ("all_running", "start_cpu", "rss", "idle", "removed")),
    "one_pod": (one_pod, ("running",)),
    "start_up": (start_up, ("agent_healthy", "server_ready")),
    "api_server": (api_server, ("creates", "gets", "rss_empty")),
}
"""Benchmarks with the keys of their drawn figures."""


def main() -> int:
    """Draw all figures that have results."""
    lines = versions.read()
    charts = [(name, figure, _points(lines, name, figure.key)) for name, figure in _figures()]
    draw([chart for chart in charts if chart[2]], HISTORY)
    fleet_plots.draw(fleet_results.read(), FLEET)
    print(HISTORY, FLEET, sep="\n")
    return 0


def draw(charts: Sequence[tuple[str, Figure, Sequence[dict[str, Any]]]], file: Path) -> None:
    """Write one chart per figure; equal charts result in equal files."""
    drawing.save(
        file,
        [
            partial(_draw_chart, f"{name}: {figure.title.partition(', median')[0]}", figure, points)
            for name, figure, points in charts
        ],
    )


def _draw_chart(title: str, figure: Figure, points: Sequence[dict[str, Any]], axis: Axes) -> None:
    positions = range(len(points))
    low, median, high = zip(*(point["figures"] for point in points), strict=True)
    errors = [
        [middle - edge for middle, edge in zip(median, low, strict=True)],
        [edge - middle for middle, edge in zip(median, high, strict=True)],
    ]
    axis.errorbar(positions, median, yerr=errors, marker="o", markersize=3, capsize=2, linewidth=1, label="nodeagent")
    upstream = [(position, point[UPSTREAM_RUNS][1]) for position, point in enumerate(points) if UPSTREAM_RUNS in point]
    if upstream:
        axis.plot(*zip(*upstream, strict=True), "x", color="tab:gray", markersize=4, label="upstream")
    goal = figure.at_most if figure.at_most is not None else figure.at_least
    if goal is not None and not figure.matches:
        axis.axhline(goal, color="tab:green", linewidth=0.8, linestyle="--", label="goal")
    axis.set_title(title, fontsize=7)
    axis.set_ylabel(figure.unit)
    axis.set_ylim(bottom=0)
    labels = [f"{point['version']}\n{point['day'][5:]}" for point in points]
    axis.set_xticks(list(positions), labels, rotation=45, fontsize=5)
    axis.legend(fontsize=5, loc="best")


def _figures() -> list[tuple[str, Figure]]:
    return [
        (name, next(figure for figure in benchmark.FIGURES if figure.key == key))
        for name, (benchmark, keys) in DRAWN.items()
        for key in keys
    ]


def _points(lines: Sequence[Mapping[str, Any]], name: str, key: str) -> list[dict[str, Any]]:
    """Return the results of one figure by version."""
    points = []
    for line in lines:
        if line["name"] != name or key not in line["figures"]:
            continue
        point = {"version": line["version"], "day": line["day"], "figures": line["figures"][key]}
        if key in line.get(UPSTREAM_RUNS, {}):
            point[UPSTREAM_RUNS] = line[UPSTREAM_RUNS][key]
        points.append(point)
    return points


if __name__ == "__main__":
    sys.exit(main())
