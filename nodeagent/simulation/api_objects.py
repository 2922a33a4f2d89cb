"""Fields of API objects that several invariants read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

FINISHED = ("Succeeded", "Failed")
"""Phases of pods that do not run again."""
_MIRROR = "kubernetes.io/config.mirror"


def static_uid(pod: Mapping[str, Any]) -> str:
    """Return the UID of the static pod if *pod* is a mirror pod; otherwise, an empty text."""
    return str((pod["metadata"].get("annotations") or {}).get(_MIRROR, ""))


def container_statuses(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the statuses of all containers of a pod."""
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    return [container for kind in kinds for container in status.get(kind) or ()]


def read_time(text: str | None) -> datetime:
    """Return the time in a field; the latest one if it is missing."""
    return datetime.fromisoformat(text) if text else datetime.max.replace(tzinfo=UTC)
