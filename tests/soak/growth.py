"""Growth of time series: robust slopes, and the decision whether a figure grows. No I/O."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.soak.samples import BLOCKS, CPU, HEAP, INODES, RSS

RSS_LIMIT = 0.1
"""MiB per hour."""
RSS_HOURS = 2.0
"""Length of a run from which the slope of the memory is a criterion: start-up effects last longer than shorter runs."""
WARM_UP_SECONDS = 3600.0
TOLERANCE = 2
"""Difference of a count between quiet times that is ignored, for example a connection that is about to close."""
INODES_TOLERANCE = 50
MAX_POINTS = 400


@dataclass(frozen=True)
class Growth:
    """Growth of one figure after the warm-up.

    :ivar per_hour: median of the slopes between all pairs of samples.
    :ivar grows: whether that fails the test.
    """

    figure: str
    first: float
    last: float
    highest: float
    per_hour: float
    grows: bool


def warm_up_seconds(length_seconds: float) -> float:
    """Return the length of the start that is not evaluated: one hour, or a third of a short run."""
    return min(WARM_UP_SECONDS, length_seconds / 3)


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the median of the slopes between all pairs of points (Theil-Sen), 0.0 without pairs."""
    step = max(1, len(times) // MAX_POINTS)
    points = list(zip(times, values, strict=True))[::step]
    slopes = [(w - v) / (u - t) for (t, v), (u, w) in itertools.combinations(points, 2) if u > t]
    return statistics.median(slopes) if slopes else 0.0


def evaluate(
    times: Sequence[float], series: Mapping[str, Sequence[float | None]], quiet: Sequence[int]
) -> list[Growth]:
    """Return the growth of each figure.

    Counts are compared at the *quiet* samples, when the node has no load.
    """
    length = times[-1] if times else 0.0
    start, hours = warm_up_seconds(length), length / 3600
    results = []
    for figure, values in series.items():
        indexes = range(len(times)) if not _is_count(figure) else quiet
        points = [(times[i], value) for i in indexes if times[i] >= start and (value := values[i]) is not None]
        if not points:
            continue
        at, of = zip(*points, strict=True)
        per_hour = 3600 * slope(at, of)
        grows = count_grows(of, INODES_TOLERANCE if figure == INODES else TOLERANCE)
        if not _is_count(figure):
            grows = figure.endswith(RSS) and hours >= RSS_HOURS and per_hour >= RSS_LIMIT
        highest = max(value for value in values if value is not None)
        results.append(Growth(figure, of[0], of[-1], highest, per_hour, grows))
    return results


def count_grows(values: Sequence[float], tolerance: float) -> bool:
    """Return whether each value of the last third is higher than each of the first one, by more than *tolerance*."""
    third = len(values) // 3
    return third > 0 and min(values[-third:]) > max(values[:third]) + tolerance


def _is_count(figure: str) -> bool:
    return not figure.endswith((RSS, CPU, BLOCKS, HEAP))
