"""Invariants of image garbage collection: which images are removed, and when."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf

from nodeagent.simulation.disks import CAPACITY_BYTES, HIGH_PERCENT, IMAGEFS, LEAST_PERCENT, LOW_PERCENT
from nodeagent.simulation.lows import Lows
from nodeagent.simulation.node import Node
from nodeagent.simulation.runtime_objects import Container

MINIMUM_AGE_SECONDS = 120.0
DETECTION_SECONDS = 300.0
"""Interval in which the agent detects images, from which their age counts."""
COLLECTION_SECONDS = 60.0
"""Longest time from the start of a collection until it removes its last image, without a fault of the runtime."""
USED_SECONDS = 30.0
"""Time after which the agent must have observed that a container uses an image, or that none uses it any more."""
CONTAINERS_BYTES = 2 << 30
"""Space that removed containers can release during a collection."""
_DISTURBED_SECONDS = 240.0
"""Time after a fault of the runtime in which a collection that started before can remove images."""


class ImageRemovals:
    """Verifies that images are removed only if they are unused and the disk is full.

    :param verify: records a violation with a text if a condition does not hold.
    :param delays: start and end of the times at which calls of the runtime may last longer than usual.
    """

    def __init__(
        self, node: Node, verify: Callable[[object, str], None], delays: Collection[tuple[float, float]]
    ) -> None:
        self._node, self._verify, self._delays = node, verify, delays
        self._full, self._pressure = Lows(), Lows()
        self._first_seen: dict[str, float] = {}
        self._last_used: dict[str, float] = {}
        """Times of the last observed containers by image: the agent lists them before it decides."""
        self._present_since: dict[str, float] = {}
        """Times since which images are present: the agent may not observe that one was removed and pulled again."""

    def observe(self) -> None:
        """Record the images and the usage of their disk."""
        now, available = self._node.loop.time(), self._node.disks.available(IMAGEFS)
        self._full.observe(now, low=100 - available * 100 // CAPACITY_BYTES >= HIGH_PERCENT)
        self._pressure.observe(now, low=available * 100 < CAPACITY_BYTES * LEAST_PERCENT)
        for name in self._node.runtime.images:
            self._first_seen.setdefault(name, now)
        self._present_since = {name: self._present_since.get(name, now) for name in self._node.runtime.images}
        self._last_used |= {each.config.image.image: now for each in self._node.runtime.containers.values()}

    def removing(self, name: str) -> None:
        """Verify that the agent may remove an image now."""
        now, text = self._node.loop.time(), f"image {name} is removed"
        users = [each.id for each in self._users(name) if each.existing_since < now - USED_SECONDS]
        self._verify(not users, f"{text} although the containers {users} use it")
        if self._was_disturbed(now, _DISTURBED_SECONDS):
            return
        start = now - COLLECTION_SECONDS
        under_pressure = self._pressure.within(start, now)
        self._verify(under_pressure or self._full.within(start, now), f"{text} although its disk is not full")
        enough = CAPACITY_BYTES * (100 - LOW_PERCENT) // 100 + CONTAINERS_BYTES
        free = self._node.disks.available(IMAGEFS) >= enough and self._node.disks.released_at < start
        self._verify(under_pressure or not free, f"{text} although enough space is available")
        jumped = self._node.clock.offset_seconds
        age = now - self._first_seen.get(name, 0.0)
        self._verify(jumped or age >= MINIMUM_AGE_SECONDS, f"{text} although it is new")

    def removable(self) -> Collection[str]:
        """Return the images that the agent must remove before it evicts a pod; none if it may be unable to."""
        if self._node.clock.offset_seconds or self._was_disturbed(self._node.loop.time(), COLLECTION_SECONDS):
            return []  # Ages depend on the clock.
        needed = self._needed()
        age = MINIMUM_AGE_SECONDS + DETECTION_SECONDS + COLLECTION_SECONDS
        images = [name for name in self._node.runtime.images if name not in needed and not self._users(name)]
        return [name for name in images if self._is_old(name, age) and self._is_unused(name, USED_SECONDS)]

    def _users(self, name: str) -> list[Container]:
        return [each for each in self._node.runtime.containers.values() if each.config.image.image == name]

    def _needed(self) -> set[str]:
        """Return the images of the pods that the agent runs."""
        agent, needed = self._node.agent, set[str]()
        for pod in agent.context.pods.active() if agent is not None else ():
            needed |= {container.image for _, container in pod.containers()}
        return needed

    def _is_old(self, name: str, seconds: float) -> bool:
        """Return whether this process of the agent has known an image for some time."""
        since = max(self._present_since.get(name, 0.0), self._node.started_at)
        return self._node.loop.time() - since >= seconds

    def _is_unused(self, name: str, seconds: float) -> bool:
        """Return whether no container has used an image for some time."""
        return self._node.loop.time() - self._last_used.get(name, -inf) >= seconds

    def _was_disturbed(self, now: float, seconds: float) -> bool:
        return any(start <= now and end >= now - seconds for start, end in self._delays)

    def forget(self) -> None:
        """Drop the records of pressures that ended long ago."""
        for lows in (self._full, self._pressure):
            lows.forget(self._node.loop.time() - 3600)
