"""Selection of metrics and of their label values, and the page in the text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from msgspec import field

from nodeagent.base.metrics import Buckets, Family, expose
from nodeagent.base.structs import Struct

UNEXPECTED = "unexpected"

Labels = tuple[str, ...]


class Choice(Struct, frozen=True):
    """Selection of metrics.

    :param disabled: names of omitted metrics.
    :param allowed: allowed values by metric and label; any other is shown as ``unexpected``.
    :param hidden: whether deprecated metrics are shown.
    """

    disabled: frozenset[str] = frozenset()
    allowed: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    hidden: bool = False


class Page:
    """A page of metrics under construction. Samples are read while its text is generated, one metric at a time."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._families: list[Callable[[], Family]] = []

    def counter(self, name: str, text: str, labels: Labels, samples: Iterable[tuple[Labels, float]]) -> None:
        self._add(name, partial(_numbers, self._choice, "counter", name, text, labels, samples))

    def gauge(self, name: str, text: str, labels: Labels, samples: Iterable[tuple[Labels, float]]) -> None:
        self._add(name, partial(_numbers, self._choice, "gauge", name, text, labels, samples))

    def histogram(
        self,
        name: str,
        text: str,
        labels: Labels,
        samples: Iterable[tuple[Labels, Buckets]],
        *,
        deprecated: str = "",
    ) -> None:
        """Add a histogram.

        :param deprecated: the release since which it is on its way out.
        """
        if self._choice.hidden or not deprecated:
            self._add(name, partial(_histogram, self._choice, name, text, labels, samples, deprecated))

    def text(self) -> tuple[bytes, str]:
        """Return the page and its media type."""
        return expose((family() for family in self._families), deprecated=self._choice.hidden)

    def _add(self, name: str, family: Callable[[], Family]) -> None:
        if name not in self._choice.disabled:
            self._families.append(family)


def counts_of(counts: Mapping[str, int]) -> list[tuple[Labels, float]]:
    """Return the samples of *counts* that are not zero, by their only label."""
    return [((name,), count) for name, count in counts.items() if count]


def _histogram(
    choice: Choice, name: str, text: str, labels: Labels, samples: Iterable[tuple[Labels, Buckets]], deprecated: str
) -> Family:
    merged: dict[Labels, Buckets] = {}
    for values, buckets in samples:
        shown = _shown(choice, name, labels, values)
        if shown not in merged:
            merged[shown] = Buckets(buckets.bounds)
        merged[shown].add(buckets)
    family = Family(name, "histogram", text, labels, deprecated=deprecated)
    for values in sorted(merged):
        family.add_buckets(merged[values], *values)
    return family


def _numbers(
    choice: Choice, kind: str, name: str, text: str, labels: Labels, samples: Iterable[tuple[Labels, float]]
) -> Family:
    merged: dict[Labels, float] = {}
    for values, value in samples:
        shown = _shown(choice, name, labels, values)
        merged[shown] = merged.get(shown, 0) + value
    family = Family(name, kind, text, labels)
    for values in sorted(merged):
        family.add(merged[values], *values)
    return family


def _shown(choice: Choice, name: str, labels: Labels, values: Labels) -> Labels:
    allowed = choice.allowed
    if not allowed:
        return values
    return tuple(
        value if (known := allowed.get((name, label))) is None or value in known else UNEXPECTED
        for label, value in zip(labels, values, strict=True)
    )
