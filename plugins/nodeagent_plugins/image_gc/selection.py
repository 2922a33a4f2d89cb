"""Which images go, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from nodeagent.base.duration import Duration
from nodeagent.contracts.images import CollectableImage
from nodeagent.contracts.runtime import Image

IN_USE = "in use"
PINNED = "pinned"


@dataclass(frozen=True, slots=True)
class Policy:
    """When images go; a *maximum_age* of zero sets no limit."""

    high_percent: int
    low_percent: int
    minimum_age: Duration
    maximum_age: Duration


@dataclass(frozen=True, slots=True)
class Record:
    """What is remembered of an image, in seconds since the epoch."""

    first_seen: float
    last_used: float = 0.0
    """0 when no container was seen to use it."""


def observe(
    records: Mapping[str, Record], images: Iterable[Image], used: Collection[str], now: float
) -> dict[str, Record]:
    """Return the records by image id after a look at the store; images that are gone are forgotten.

    :param used: names and ids of the images that containers use.
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
    """Return every image in the order in which they go, with the reason of those that stay.

    First goes what was not used for longest; of what was never used, what was seen first.

    :param known_since: before that, nobody looked whether images are about to be used.
    """
    found = []
    for image in images:
        record = records[image.id]
        first_seen = _time(record.first_seen)
        young = now - max(first_seen, known_since or first_seen) < _length(policy.minimum_age)
        keeps = ""
        if image.names & set(used):
            keeps = IN_USE
        elif image.pinned or image.names & set(pinned):
            keeps = PINNED
        elif young:
            keeps = f"seen less than {policy.minimum_age} ago"
        found.append(CollectableImage(image, first_seen, _time(record.last_used) if record.last_used else None, keeps))
    return sorted(found, key=lambda one: (one.last_used.timestamp() if one.last_used else 0.0, one.first_seen))


def too_old(found: Sequence[CollectableImage], policy: Policy, now: datetime) -> list[CollectableImage]:
    """Return those that were unused for longer than they may be; one never used counts from when it was seen.

    The minimum age does not spare them: the maximum is always above it.
    """
    limit = _length(policy.maximum_age)
    if not limit:
        return []
    why = f"unused for longer than {policy.maximum_age}"
    return [
        replace(one, retained_reason="", removal_reason=why)
        for one in found
        if one.retained_reason not in (IN_USE, PINNED)
        and now - max(one.last_used or one.first_seen, one.first_seen) > limit
    ]


def bytes_to_free(capacity: int, available: int, policy: Policy) -> int:
    """Return how much has to go to come down to the low threshold; 0 below the high one."""
    if 100 - available * 100 // capacity < policy.high_percent:
        return 0
    return max(0, capacity * (100 - policy.low_percent) // 100 - available)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _length(duration: Duration) -> timedelta:
    return timedelta(seconds=duration.seconds)
