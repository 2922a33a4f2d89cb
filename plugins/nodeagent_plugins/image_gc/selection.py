"""Selection of the images to remove. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nodeagent.base.duration import Duration
from nodeagent.base.structs import Struct
from nodeagent.contracts.images import CollectableImage
from nodeagent.contracts.runtime import Image

IN_USE = "in use"
PINNED = "pinned"


class Policy(Struct, frozen=True):
    """Collection settings; a *maximum_age* of zero disables the limit."""

    high_percent: int
    low_percent: int
    minimum_age: Duration
    maximum_age: Duration


class Record(Struct, frozen=True):
    """Times of an image, in seconds since the epoch."""

    first_seen: float
    last_used: float = 0.0
    """0 if no container has used it."""


def observe(
    records: Mapping[str, Record], images: Iterable[Image], used: Collection[str], now: float
) -> dict[str, Record]:
    """Return the updated records by image ID; records of removed images are dropped.

    :param used: names and IDs of the images of containers.
    """
    seen = {}
    for image in images:
        record = records.get(image.id) or Record(now)
        seen[image.id] = Record(record.first_seen, now) if image.names & set(used) else record
    return seen


def arrange(
    images: Iterable[Image],
    records: Mapping[str, Record],
    used: Collection[str],
    pinned: Collection[str],
    now: datetime,
    policy: Policy,
    *,
    known_since: datetime | None = None,
) -> list[CollectableImage]:
    """Return all images in removal order, with the reason of those that are retained.

    The least recently used image is first; images that were never used are sorted by the time of detection.

    :param known_since: time from which the minimum age counts at the earliest; ``None`` if the use of all images is
        known.
    """
    found = []
    for image in images:
        record = records[image.id]
        first_seen = _time(record.first_seen)
        young = now - max(first_seen, known_since or first_seen) < _length(policy.minimum_age)
        retained = ""
        if image.names & set(used):
            retained = IN_USE
        elif image.pinned or image.names & set(pinned):
            retained = PINNED
        elif young:
            retained = f"detected less than {policy.minimum_age} ago"
        found.append(
            CollectableImage(image, first_seen, _time(record.last_used) if record.last_used else None, retained)
        )
    return sorted(found, key=lambda one: (one.last_used.timestamp() if one.last_used else 0.0, one.first_seen))


def too_old(found: Sequence[CollectableImage], policy: Policy, now: datetime) -> list[CollectableImage]:
    """Return the images unused for longer than the maximum age; one never used counts from its detection.

    The minimum age is not checked, because it is always lower than the maximum age.
    """
    limit = _length(policy.maximum_age)
    if not limit:
        return []
    reason = f"unused for longer than {policy.maximum_age}"
    return [
        replace(one, retained_reason="", removal_reason=reason)
        for one in found
        if one.retained_reason not in (IN_USE, PINNED)
        and now - max(one.last_used or one.first_seen, one.first_seen) > limit
    ]


def bytes_to_free(capacity: int, available: int, policy: Policy) -> int:
    """Return the bytes to free to reach the low threshold; 0 below the high threshold."""
    if 100 - available * 100 // capacity < policy.high_percent:
        return 0
    return max(0, capacity * (100 - policy.low_percent) // 100 - available)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _length(duration: Duration) -> timedelta:
    return timedelta(seconds=duration.seconds)
