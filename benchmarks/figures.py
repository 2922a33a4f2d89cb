"""Figures of benchmarks and the table of their results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

UPSTREAM = "kubelet and kube-apiserver 1.29.1 with containerd 1.6.20 on 2 cores"

UPSTREAM_RUNS = "upstream"
"""Key of the results of upstream in a recorded result."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity.

    :param upstream: value of the kubelet or kube-apiserver, for the order of magnitude; empty if it was not measured.
    :param at_most: goal of a figure for which smaller is better.
    :param at_least: goal of a figure for which larger is better.
    :param matches: the goal is the value that upstream has in the same run; *at_most* applies if it is not measured.
    """

    key: str
    title: str
    unit: str
    upstream: str = ""
    at_most: float | None = None
    at_least: float | None = None
    matches: bool = False

    def against(self, upstream: Sequence[Mapping[str, float]]) -> Figure:
        """Return the figure with the median of *upstream* as its goal if *matches* is set."""
        values = [run[self.key] for run in upstream if self.key in run]
        return replace(self, at_most=statistics.median(values)) if self.matches and values else self

    def goal(self) -> str:
        if self.at_most is not None:
            return f"≤ {shown(self.at_most)}"
        return f"≥ {shown(self.at_least)}" if self.at_least is not None else ""

    def reached(self, value: float) -> bool | None:
        """Return whether *value* reaches the goal; ``None`` without a goal."""
        if self.at_most is not None:
            return value <= self.at_most
        return value >= self.at_least if self.at_least is not None else None


class Benchmark(Protocol):
    """Interface of a benchmark module."""

    @property
    def FIGURES(self) -> Sequence[Figure]: ...  # noqa: N802

    def run(self) -> dict[str, float]: ...


def table(
    figures: Sequence[Figure], runs: Sequence[Mapping[str, float]], upstream: Sequence[Mapping[str, float]] = ()
) -> list[tuple[str, ...]]:
    """Return the rows of a table, starting with the header; figures without a value are omitted.

    :param upstream: runs of the kubelet and kube-apiserver in alternation with *runs*; without them the values recorded
        on another day are used.
    """
    rows: list[tuple[str, ...]] = [("figure", "unit", "median", "range", "goal", "reached", "upstream")]
    for figure in figures:
        values = sorted(run[figure.key] for run in runs if figure.key in run)
        if not values:
            continue
        median = statistics.median(values)
        compared = figure.against(upstream)
        reached = compared.reached(median)
        rows.append(
            (
                figure.title,
                figure.unit,
                shown(median),
                f"{shown(values[0])} to {shown(values[-1])}" if len(values) > 1 else "",
                compared.goal(),
                "" if reached is None else "yes" if reached else "NO",
                _median(figure, upstream) or figure.upstream,
            )
        )
    return rows


def _median(figure: Figure, runs: Sequence[Mapping[str, float]]) -> str:
    values = [run[figure.key] for run in runs if figure.key in run]
    return f"{shown(statistics.median(values))} (same day)" if values else ""


def shown(value: float) -> str:
    """Return *value* with its significant digits."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile *share* (0 to 1) of *values*."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
