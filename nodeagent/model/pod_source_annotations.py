"""Annotations with the source of a pod and the time at which this node first saw it."""

from __future__ import annotations

from datetime import UTC, datetime

from nodeagent.base import identity


def pod_source_annotations(source: str, seen_at: datetime) -> dict[str, str]:
    """Return the annotations of a pod that *source* first delivered at *seen_at*."""
    names = identity.current()
    return {names.label("config.source"): source, names.label("config.seen"): _precise(seen_at)}


def _precise(time: datetime) -> str:
    """Return RFC 3339 with nanoseconds, the format of the annotation."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
