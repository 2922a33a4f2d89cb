"""Metrics of the process and their text formats for Prometheus.

An instrument is created once, when its module is loaded, and counts for the process. A component that counts
for itself keeps its numbers and :class:`Buckets` and creates a :class:`Family` of them for each scrape::

    _RELISTS = Histogram("pleg_relist_duration_seconds", "Duration in seconds for relisting pods in PLEG.")
    _RELISTS.observe(0.02)

Counting is an addition in a dictionary; text is generated only for scrapes. Instruments are used in the thread of the
event loop, or under a lock.

Custom, since ``prometheus_client`` takes a lock for each observation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import accumulate
from math import inf, isinf

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Default bounds for durations."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
Row = tuple[str, str, float, int]
"""Suffix of the name, labels as text, value, and time of the measurement in epoch nanoseconds or 0."""
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_TOTAL = "_total"


class Buckets:
    """Histogram counts: values up to each of *bounds*, and above all of them; not cumulative."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.total = bounds, 0.0
        self.counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: Buckets) -> None:
        """Add the counts of *other*, which has the same bounds."""
        self.total += other.total
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]


class Family:
    """All samples of a metric.

    :param kind: ``counter``, ``gauge`` or ``histogram``.
    :param labels: names of the labels, in the order of the values.
    :param deprecated: release that deprecated the metric; it is then exposed only on request.
    """

    __slots__ = ("_histograms", "_samples", "deprecated", "kind", "labels", "name", "text")

    def __init__(self, name: str, kind: str, text: str, labels: Sequence[str] = (), *, deprecated: str = "") -> None:
        self.name, self.kind, self.labels, self.deprecated = name, kind, tuple(labels), deprecated
        self.text = f"(Deprecated since {deprecated}) {text}" if deprecated else text
        self._samples: list[tuple[Sequence[str] | str, float, int]] = []
        self._histograms: list[tuple[Buckets, Sequence[str]]] = []

    @property
    def rows(self) -> Iterator[Row]:
        """Samples, generated while they are read, as there are many."""
        for labels, value, at in self._samples:
            yield "", labels if isinstance(labels, str) else label_text(self.labels, labels), value, at
        for buckets, values in self._histograms:
            yield from self._rows_of(buckets, values)

    @property
    def is_empty(self) -> bool:
        return not self._samples and not self._histograms

    def add(self, value: float, *values: str, at: int = 0) -> None:
        """Add a sample with these label values, measured at *at* (epoch nanoseconds, 0 if unspecified)."""
        self._samples.append((values, value, at))

    def add_text(self, value: float, labels: str, at: int = 0) -> None:
        """Add a sample with formatted labels, for many samples with the same labels."""
        self._samples.append((labels, value, at))

    def add_buckets(self, buckets: Buckets, *values: str) -> None:
        """Add a histogram with these label values; *buckets* are read when the metrics are exposed."""
        self._histograms.append((buckets, values))

    def _rows_of(self, buckets: Buckets, values: Sequence[str]) -> Iterator[Row]:
        label_pairs = label_text(self.labels, values)
        cumulated = list(accumulate(buckets.counts))
        for bound, count in zip((*buckets.bounds, inf), cumulated, strict=True):
            limit = f'le="{_number(bound)}"'
            yield "_bucket", f"{label_pairs},{limit}" if label_pairs else limit, count, 0
        yield "_sum", label_pairs, buckets.total, 0
        yield "_count", label_pairs, cumulated[-1], 0


class _Instrument:
    """Metric that registers itself under its name.

    :param prefixed: whether the name is exposed with the prefix of the binary.
    :param page: endpoint that exposes it; empty for the main one.
    """

    kind = ""

    def __init__(
        self, name: str, text: str, labels: Sequence[str] = (), *, prefixed: bool = True, page: str = ""
    ) -> None:
        self.name, self.text, self.labels, self.prefixed, self.page = name, text, tuple(labels), prefixed, page
        _INSTRUMENTS[name] = self

    def family(self, prefix: str = "") -> Family:
        """Return the current values."""
        family = Family(prefix + self.name if self.prefixed else self.name, self.kind, self.text, self.labels)
        self.fill(family)
        return family

    def fill(self, family: Family) -> None:
        raise NotImplementedError


class Counter(_Instrument):
    """Value that only increases."""

    kind = "counter"

    def __init__(
        self, name: str, text: str, labels: Sequence[str] = (), *, prefixed: bool = True, page: str = ""
    ) -> None:
        super().__init__(name, text, labels, prefixed=prefixed, page=page)
        self._counts: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def inc(self, *values: str, by: float = 1) -> None:
        """Add *by* to the counter with these label values."""
        self._counts[values] = self._counts.get(values, 0) + by

    def value(self, *values: str) -> float:
        return self._counts.get(values, 0)

    def forget(self, *values: str) -> None:
        """Remove the series with these label values."""
        self._counts.pop(values, None)

    def fill(self, family: Family) -> None:
        for values, count in self._counts.items():
            family.add(count, *values)


class Gauge(Counter):
    """Value that can increase and decrease."""

    kind = "gauge"

    def set(self, value: float, *values: str) -> None:
        self._counts[values] = value


class SampledGauge(_Instrument):
    """Gauge that calls :attr:`sample` for its values by label values at each scrape; empty until that is set."""

    kind = "gauge"
    sample: Callable[[], Mapping[tuple[str, ...], float]] = staticmethod(dict)

    def fill(self, family: Family) -> None:
        for values, count in self.sample().items():
            family.add(count, *values)


class Histogram(_Instrument):
    """Counts of observed values by bucket."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str] = (),
        *,
        bounds: Sequence[float] = SECONDS,
        prefixed: bool = True,
        page: str = "",
    ) -> None:
        super().__init__(name, text, labels, prefixed=prefixed, page=page)
        self._bounds = tuple(bounds)
        self._series: dict[tuple[str, ...], Buckets] = {}
        if not labels:
            self._of(())

    def observe(self, value: float, *values: str) -> None:
        self._of(values).observe(value)

    @contextmanager
    def time(self, clock: Callable[[], float], *values: str) -> Iterator[None]:
        """Observe the duration of the block by *clock*, also if it raises."""
        started = clock()
        try:
            yield
        finally:
            self.observe(clock() - started, *values)

    def count(self, *values: str) -> int:
        return sum(self._series[values].counts) if values in self._series else 0

    def forget(self, *values: str) -> None:
        """Remove the series with these label values."""
        self._series.pop(values, None)

    def fill(self, family: Family) -> None:
        for values, buckets in self._series.items():
            family.add_buckets(buckets, *values)

    def _of(self, values: tuple[str, ...]) -> Buckets:
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = Buckets(self._bounds)
        return series


_INSTRUMENTS: dict[str, _Instrument] = {}


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return *count* bounds, each *factor* times the previous one."""
    return tuple(start * factor**power for power in range(count))


def instruments(prefix: str = "", page: str = "") -> Iterator[Family]:
    """Return the current values of all instruments of *page*, sorted by name."""
    for name in sorted(_INSTRUMENTS):
        if _INSTRUMENTS[name].page == page:
            yield _INSTRUMENTS[name].family(prefix)


def expose(families: Iterable[Family], accept: str = "", *, deprecated: bool = False) -> tuple[bytes, str]:
    """Return the text and its media type: OpenMetrics if *accept* includes it, else the text format.

    :param accept: the request's header ``Accept``.
    :param deprecated: whether deprecated metrics are included.
    """
    exposed = (family for family in families if not family.is_empty and (deprecated or not family.deprecated))
    is_open = "application/openmetrics-text" in accept
    body = BytesIO()  # Lines are not collected: a page can have 100,000 of them.
    for line in _open_lines(exposed) if is_open else _text_lines(exposed):
        body.write(line.encode())
    if is_open:
        body.write(b"# EOF\n")
    return body.getvalue(), OPEN_METRICS if is_open else TEXT


def _text_lines(families: Iterable[Family]) -> Iterator[str]:
    for family in families:
        yield f"# HELP {family.name} {_help(family)}\n# TYPE {family.name} {family.kind}\n"
        for suffix, label_pairs, value, at in family.rows:
            braces = f"{{{label_pairs}}}" if label_pairs else ""
            yield f"{family.name}{suffix}{braces} {_number(value)}{f' {at // 1_000_000}' if at else ''}\n"


def _open_lines(families: Iterable[Family]) -> Iterator[str]:
    for family in families:
        counts = family.kind == "counter"
        name = family.name.removesuffix(_TOTAL) if counts else family.name
        yield f"# HELP {name} {_help(family)}\n# TYPE {name} {family.kind}\n"
        for suffix, label_pairs, value, at in family.rows:
            braces = f"{{{label_pairs}}}" if label_pairs else ""
            when = f" {at / 1e9:.3f}" if at else ""
            yield f"{name}{_TOTAL if counts else suffix}{braces} {_number(value)}{when}\n"


def _help(family: Family) -> str:
    return family.text.replace("\\", r"\\").replace("\n", r"\n")


def label_text(labels: Sequence[str], values: Sequence[str]) -> str:
    """Return labels as in the text formats, without braces."""
    return ",".join(f'{label}="{_escaped(value)}"' for label, value in zip(labels, values, strict=True))


def _escaped(value: str) -> str:
    return value.translate(_ESCAPES) if "\\" in value or '"' in value or "\n" in value else value


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
