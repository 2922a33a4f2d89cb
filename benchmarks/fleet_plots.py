"""Results of the fleet by number of nodes, as charts with one line per server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WRITES = ("p99_POST", "p99_PATCH", "p99_PUT", "p99_DELETE")
# Title, unit, keys of figures, whether their sum is drawn instead of their maximum.
_CHARTS: tuple[tuple[str, str, tuple[str, ...], bool], ...] = (
    ("time until all pods are Running", "s", ("running",), False),
    ("requests without watches", "1/s", ("requests",), False),
    ("writes, p99 of the slowest verb", "ms", _WRITES, False),
    ("watch lag, p99", "ms", ("lag_p99",), False),
    ("replaced pod until Running, p99", "ms", ("replaced_p99",), False),
    ("CPU of server and store", "% of a core", ("cpu",), False),
    ("memory (RSS) of server and store", "MiB", ("rss", "store_rss"), True),
    ("CPU of the nodes", "% of a core", ("nodes_cpu",), False),
)


def draw(results: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write the charts of *results* of :mod:`benchmarks.fleet_results`."""
    drawing.save(file, [partial(_draw_chart, results, *chart) for chart in _CHARTS])


def _draw_chart(
    results: Sequence[Mapping[str, Any]], title: str, unit: str, keys: Sequence[str], added: bool, axis: Axes
) -> None:
    combine = sum if added else max
    for server in dict.fromkeys(result["server"] for result in results):
        own = [result for result in results if result["server"] == server]
        values = [combine(result["figures"].get(key, 0.0) for key in keys) for result in own]
        axis.plot([result["nodes"] for result in own], values, marker="o", markersize=3, linewidth=1, label=server)
    axis.set_title(title, fontsize=7)
    axis.set_xlabel("nodes")
    axis.set_ylabel(unit)
    axis.set_xlim(left=0)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=5, loc="best")
