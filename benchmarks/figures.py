"""What a benchmark measures, and how its results are told."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

REFERENCE = "reference agent and API server of release 1.29.1 with containerd 1.6.20, 2 cores"


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing measured.

    :param reference: what the reference programs need, for the order of magnitude; empty if it was not measured.
    :param at_most: the goal of a figure that is better when small.
    :param at_least: the goal of a figure that is better when great.
    :param matches: the goal is the reference's figure; *at_most* is that of another day, for when it is not measured.
    """

    key: str
    title: str
    unit: str
    reference: str = ""
    at_most: float | None = None
    at_least: float | None = None
    matches: bool = False

    def against(self, reference: Sequence[Mapping[str, float]]) -> Figure:
        """Return the figure with the goal that *reference* sets, where it sets one."""
        values = [run[self.key] for run in reference if self.key in run]
        return replace(self, at_most=statistics.median(values)) if self.matches and values else self

    def goal(self) -> str:
        if self.at_most is not None:
            return f"≤ {shown(self.at_most)}"
        return f"≥ {shown(self.at_least)}" if self.at_least is not None else ""

    def reached(self, value: float) -> bool | None:
        """Return whether *value* reaches the goal; ``None`` where there is none."""
        if self.at_most is not None:
            return value <= self.at_most
        return value >= self.at_least if self.at_least is not None else None


class Benchmark(Protocol):
    """A module that measures."""

    @property
    def FIGURES(self) -> Sequence[Figure]: ...  # noqa: N802

    def run(self) -> dict[str, float]: ...


def table(
    figures: Sequence[Figure], runs: Sequence[Mapping[str, float]], reference: Sequence[Mapping[str, float]] = ()
) -> list[tuple[str, ...]]:
    """Return the rows of a table, its head first; a figure that no run has is left out.

    :param reference: runs of the reference programs in between; without any its figures of another day are shown.
    """
    rows: list[tuple[str, ...]] = [("measure", "unit", "median", "range", "goal", "reached", "reference")]
    for figure in figures:
        values = sorted(run[figure.key] for run in runs if figure.key in run)
        if not values:
            continue
        median = statistics.median(values)
        judged = figure.against(reference)
        reached = judged.reached(median)
        rows.append(
            (
                figure.title,
                figure.unit,
                shown(median),
                f"{shown(values[0])} to {shown(values[-1])}" if len(values) > 1 else "",
                judged.goal(),
                "" if reached is None else "yes" if reached else "NO",
                _median(figure, reference) or figure.reference,
            )
        )
    return rows


def _median(figure: Figure, runs: Sequence[Mapping[str, float]]) -> str:
    values = [run[figure.key] for run in runs if figure.key in run]
    return f"{shown(statistics.median(values))} (same day)" if values else ""


def shown(value: float) -> str:
    """Return *value* with as many digits as mean something."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which *share* (0 to 1) of *values* lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
