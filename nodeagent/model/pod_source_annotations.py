"""The annotations that tell which source a pod came from, and since when this node knows it."""

from __future__ import annotations

from datetime import UTC, datetime

from nodeagent.base import identity


def pod_source_annotations(source: str, seen_at: datetime) -> dict[str, str]:
    """Return the annotations of a pod that *source* first showed at *seen_at*."""
    names = identity.current()
    return {names.label("config.source"): source, names.label("config.seen"): _precise(seen_at)}


def _precise(moment: datetime) -> str:
    """Return RFC 3339 with nanoseconds, as the annotation is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
