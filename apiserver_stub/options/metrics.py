"""Command-line options for metrics."""

from __future__ import annotations

import argparse
import csv
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group, Merge
from apiserver_stub.telemetry.exposition import Choice
from nodeagent.base import yamlsafe

_log = logging.getLogger(__name__)

TITLE = "Metrics"
PREVIOUS_VERSION = "1.28"
_KEY = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*,\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*")
_FORMAT = (
    "--allow-metric-labels must have a list of kv pair with format `metricName:labelName=labelValue, labelValue,...` "
)


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class MetricOptions:
    """Values of the command-line options for metrics."""

    allow_metric_labels: Mapping[str, str] = field(default_factory=dict)
    allow_metric_labels_manifest: Path | None = None
    disabled_metrics: tuple[str, ...] = ()
    show_hidden_metrics_for_version: str = ""

    def metric_choice(self) -> Choice:
        """Return the selection of metrics; reads the manifest, and logs and ignores an invalid one."""
        manifest: Mapping[str, str] = {}
        if self.allow_metric_labels_manifest is not None:
            try:
                manifest = _read_manifest(self.allow_metric_labels_manifest)
            except (OSError, ValueError) as error:
                _log.error("Failed to read metric label manifest, ignoring it", extra={"err": error})
        allowed = {}
        for key, text in {**manifest, **self.allow_metric_labels}.items():
            if match := _KEY.fullmatch(key):
                allowed[match[1], match[2]] = frozenset(value.strip() for value in text.split(","))
        hidden = bool(self.show_hidden_metrics_for_version)
        return Choice(frozenset(self.disabled_metrics), allowed, hidden)


def declare(group: Group) -> None:
    group.add(
        "allow-metric-labels",
        parse_pairs,
        "METRIC,LABEL=VALUE,VALUE...: allowed values of a label; other values are reported as unexpected.",
        action=Merge,
    )
    group.add(
        "allow-metric-labels-manifest", Path, "YAML file with the same content; --allow-metric-labels takes precedence."
    )
    group.add("disabled-metrics", values.strings, "Names of metrics to disable.", action=Extend)
    group.add(
        "show-hidden-metrics-for-version",
        str,
        f"Show metrics that were hidden since this version; only {PREVIOUS_VERSION} is supported.",
    )


def check(options: MetricOptions) -> Iterator[str]:
    for key in options.allow_metric_labels:
        if not _KEY.fullmatch(key):
            yield _FORMAT
    if options.show_hidden_metrics_for_version not in ("", PREVIOUS_VERSION):
        yield (
            f"--show-hidden-metrics-for-version must be omitted or have the value '{PREVIOUS_VERSION}'. "
            "Only the previous minor version is allowed"
        )


def parse_pairs(text: str) -> dict[str, str]:
    """Parse ``key=value`` pairs; if there are several, a pair that contains a comma must be double-quoted."""
    pairs = [text.strip('"')] if text.count("=") == 1 else next(csv.reader([text]), [])
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"{pair} must be formatted as key=value")
        found[key] = value
    if not found:
        raise argparse.ArgumentTypeError(f"{text} must be formatted as key=value")
    return found


def _read_manifest(path: Path) -> Mapping[str, str]:
    document = yamlsafe.load(path.read_bytes())
    if not isinstance(document, Mapping) or not all(isinstance(value, str) for value in document.values()):
        raise ValueError(f"{path}: must map METRIC,LABEL to VALUE,VALUE...")
    return document
