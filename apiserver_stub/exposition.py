"""Numbers in the text format that collectors read, without what the options leave out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
UNEXPECTED = "unexpected"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = tuple[str, ...]


class Histogram:
    """How often a value fell below each of *bounds*."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.total = bounds, 0.0
        self.counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: Histogram) -> None:
        """Take in what *other* has seen."""
        self.total += other.total
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]


@dataclass(frozen=True, slots=True)
class Choice:
    """What is shown.

    :param disabled: names of metrics that are left out.
    :param allowed: the values that a label may show, by metric and label; any other is ``unexpected``.
    :param hidden: whether metrics that are on their way out are shown.
    """

    disabled: frozenset[str] = frozenset()
    allowed: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    hidden: bool = False


class Page:
    """A page of metrics in the making."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._lines: list[str] = []

    def counter(self, name: str, text: str, labels: Labels, samples: Iterable[tuple[Labels, float]]) -> None:
        self._simple("counter", name, text, labels, samples)

    def gauge(self, name: str, text: str, labels: Labels, samples: Iterable[tuple[Labels, float]]) -> None:
        self._simple("gauge", name, text, labels, samples)

    def histogram(
        self,
        name: str,
        text: str,
        labels: Labels,
        samples: Iterable[tuple[Labels, Histogram]],
        *,
        hidden: bool = False,
    ) -> None:
        if name in self._choice.disabled or (hidden and not self._choice.hidden):
            return
        merged: dict[Labels, Histogram] = {}
        for values, histogram in samples:
            shown = self._shown(name, labels, values)
            if shown not in merged:
                merged[shown] = Histogram(histogram.bounds)
            merged[shown].add(histogram)
        if not merged:
            return
        self._head(name, text, "histogram")
        for values, histogram in sorted(merged.items(), key=lambda item: item[0]):
            pairs = _pairs(labels, values)
            limits = [*(_number(bound) for bound in histogram.bounds), "+Inf"]
            counts = list(accumulate(histogram.counts))
            for limit, count in zip(limits, counts, strict=True):
                self._lines.append(f"{name}_bucket{_braces([*pairs, _pair('le', limit)])} {count}")
            self._lines.append(f"{name}_sum{_braces(pairs)} {_number(histogram.total)}")
            self._lines.append(f"{name}_count{_braces(pairs)} {counts[-1]}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def _simple(self, kind: str, name: str, text: str, labels: Labels, samples: Iterable[tuple[Labels, float]]) -> None:
        if name in self._choice.disabled:
            return
        merged: dict[Labels, float] = {}
        for values, value in samples:
            shown = self._shown(name, labels, values)
            merged[shown] = merged.get(shown, 0) + value
        if not merged:
            return
        self._head(name, text, kind)
        for values, value in sorted(merged.items()):
            self._lines.append(f"{name}{_braces(_pairs(labels, values))} {_number(value)}")

    def _shown(self, name: str, labels: Labels, values: Labels) -> Labels:
        allowed = self._choice.allowed
        if not allowed:
            return values
        return tuple(
            value if (known := allowed.get((name, label))) is None or value in known else UNEXPECTED
            for label, value in zip(labels, values, strict=True)
        )

    def _head(self, name: str, text: str, kind: str) -> None:
        self._lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _pairs(labels: Labels, values: Labels) -> list[str]:
    return [_pair(label, value) for label, value in zip(labels, values, strict=True)]


def _pair(label: str, value: str) -> str:
    return f'{label}="{value.translate(_ESCAPES)}"'


def _braces(pairs: Sequence[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
