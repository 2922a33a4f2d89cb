"""Generic PLEG: detect pod changes by relisting the runtime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from nodeagent.base.aio import Clock
from nodeagent.base.aio.shared_times import RUNTIME_SECONDS, until_shared
from nodeagent.base.aio.waker import wait_for
from nodeagent.base.logging import v_level, verbose
from nodeagent.base.metrics import Gauge, Histogram
from nodeagent.contracts.runtime import (
    LABEL_POD_UID,
    ContainerInfo,
    ContainerRuntime,
    ContainerState,
    RuntimePod,
    SandboxInfo,
)
from nodeagent.errors import RuntimeFailure
from nodeagent.pleg.cache import PodCache
from nodeagent.pleg.diff import PodListing, changed_pods
from nodeagent.pleg.health import LoopHealth

_log = logging.getLogger(__name__)

RELIST_SECONDS = 1.0
QUIET_RELIST_SECONDS = RUNTIME_SECONDS
"""Interval while the runtime notifies of changes and has notified of none."""
ACTIVE_SECONDS = 3.0
"""Time after a notification during which the runtime is listed every second: it may list a change later."""
MAX_MISSED_CHANGES = 3
_NOTIFIED_DELAY_SECONDS = 0.05
_NOTIFIED_PAUSE_SECONDS = 0.25
"""Shortest time between the starts of two relists because of notifications."""
_LISTING_SHARE = 0.05
"""Share of the time that such relists may wait for the runtime; the pause is a second at most."""
_SHORTEST_PAUSE_SECONDS = 0.1
EVENTED_RELIST_SECONDS = 300.0
UNHEALTHY_SECONDS = 180.0
EVENTED_UNHEALTHY_SECONDS = 600.0
_PARALLEL_REFRESHES = 8

POD_RELIST_DURATION = Histogram(
    "pleg_pod_relist_duration_seconds", "Duration in seconds for relisting a single pod in PLEG."
)
RELIST_DURATION = Histogram("pleg_relist_duration_seconds", "Duration in seconds for relisting pods in PLEG.")
RELIST_INTERVAL = Histogram("pleg_relist_interval_seconds", "Interval in seconds between relisting in PLEG.")
LAST_SEEN = Gauge("pleg_last_seen_seconds", "Timestamp in seconds when PLEG was last seen active.")


_EVENT_TYPES = {ContainerState.RUNNING: "ContainerStarted", ContainerState.EXITED: "ContainerDied"}


class GenericPleg:
    """Lists the runtime periodically, refreshes changed pods in the cache and triggers their sync.

    A container that starts and is removed between two relists is not detected; the worker's resync covers it. Changes
    that a worker made and has already refreshed do not trigger a sync.

    :param trigger_sync: callback with the UID of each pod that changed.
    :param is_syncing: whether the worker of the pod with this UID has just started a sync, so that it created the new
        sandboxes and containers and refreshes them itself; they are left to it until a later relist.
    :param recovered: called when the runtime responds again after a failure.
    """

    def __init__(
        self,
        runtime: Callable[[], ContainerRuntime],
        cache: PodCache,
        clock: Clock,
        *,
        trigger_sync: Callable[[str], None],
        recovered: Callable[[], None] = lambda: None,
        is_syncing: Callable[[str], bool] = lambda uid: False,
    ) -> None:
        self._runtime, self._cache, self._clock = runtime, cache, clock
        self._trigger_sync, self._recovered, self._is_syncing = trigger_sync, recovered, is_syncing
        self.period_seconds = RELIST_SECONDS
        self.health = LoopHealth("pleg", clock, UNHEALTHY_SECONDS)
        self._last_listing: tuple[Sequence[SandboxInfo], Sequence[ContainerInfo]] | None = None
        self._relist_now = asyncio.Event()
        self._listed_at: float | None = None
        self._notified = False
        self._active_until = 0.0
        self._missed = 0
        self._listing_seconds = 0.0
        """Duration of the last listing and of its comparison with the previous one."""

    async def run(self) -> None:
        """Relist until cancelled; a failed relist is logged and retried."""
        while True:
            started = self._clock.now()
            await self.relist()
            await self._wait(started)

    def rely_on_events(self) -> None:
        """Relist at a long interval, because the runtime reports events."""
        self.period_seconds, self.health.limit_seconds = EVENTED_RELIST_SECONDS, EVENTED_UNHEALTHY_SECONDS

    def rely_on_listings(self) -> None:
        """Relist immediately, then every second."""
        self.period_seconds = RELIST_SECONDS
        self.relist_soon()

    def rely_on_notifications(self, *, rely: bool) -> None:
        """Relist at a longer interval while nothing changes, or no longer do so.

        A runtime that has repeatedly not notified of a change is not relied on.
        """
        self._notified = rely and self._missed < MAX_MISSED_CHANGES
        self.relist_soon()

    def notified(self) -> None:
        """Relist soon, and then every second for a short time, because the runtime has notified of a change."""
        self._active_until = self._clock.now() + ACTIVE_SECONDS
        self._relist_now.set()

    def relist_soon(self) -> None:
        """Relist without waiting for the current interval."""
        self._relist_now.set()

    async def relist(self) -> bool:
        """List once; return whether the runtime responded."""
        started = self._clock.now()
        if self._listed_at is not None:
            RELIST_INTERVAL.observe(started - self._listed_at)
        self._listed_at = started
        LAST_SEEN.set(self._clock.wall().timestamp())
        try:
            return await self._relist(started)
        finally:
            if self.period_seconds == RELIST_SECONDS:
                self.health.limit_seconds = UNHEALTHY_SECONDS
            RELIST_DURATION.observe(self._clock.now() - started)

    async def _relist(self, started: float) -> bool:
        quiet = self._quiet()
        try:
            listing = await self._list()
            self._listing_seconds = self._clock.now() - started
            if quiet and self._quiet() and self._differs(*listing):
                self._note_missed()
            complete = await self._process(*listing, started)
        except RuntimeFailure as error:
            self._last_listing = None
            self.health.failed(error)
            return False
        if not complete:
            self._last_listing = None
        if self.health.succeeded():
            self._recovered()
        return True

    async def _list(self) -> tuple[Sequence[SandboxInfo], Sequence[ContainerInfo]]:
        runtime = self._runtime()
        if self._last_listing is not None and not any(self._last_listing):  # There are no containers without sandboxes.
            sandboxes = await runtime.list_sandboxes()
            return sandboxes, await runtime.list_containers() if sandboxes else self._last_listing[1]
        return await asyncio.gather(runtime.list_sandboxes(), runtime.list_containers())

    def _differs(self, sandboxes: Sequence[SandboxInfo], containers: Sequence[ContainerInfo]) -> bool:
        return self._last_listing is None or not (
            self._last_listing[0] is sandboxes and self._last_listing[1] is containers
        )

    def _note_missed(self) -> None:
        self._missed += 1
        if self._missed == MAX_MISSED_CHANGES:
            self._notified = False
            _log.warning("Relisting every second, container runtime has not notified of changes")

    async def _process(
        self, sandboxes: Sequence[SandboxInfo], containers: Sequence[ContainerInfo], started: float
    ) -> bool:
        if not self._differs(sandboxes, containers):
            return True
        self._last_listing = (sandboxes, containers)
        uids = {sandbox.uid for sandbox in sandboxes}
        uids.update(container.labels.get(LABEL_POD_UID, "") for container in containers)
        self._cache.listed(uids)
        compared = self._clock.now()
        known = {pod.uid: pod for pod in self._cache.pods() if pod.observed_at <= started}
        late = {pod.uid for pod in self._cache.pods()} - known.keys()
        changes = {uid: ids for uid, ids in changed_pods(known, sandboxes, containers).items() if uid not in late}
        self._listing_seconds += self._clock.now() - compared
        left = {uid for uid, ids in changes.items() if self._is_syncing(uid) and _only_adds(known.get(uid), ids)}
        semaphore = asyncio.Semaphore(_PARALLEL_REFRESHES)
        refreshes = [self._refresh(uid, ids, started, semaphore) for uid, ids in changes.items() if uid not in left]
        results = await asyncio.gather(*refreshes)
        return all(results) and not late and not left

    async def _refresh(self, uid: str, ids: PodListing, started: float, semaphore: asyncio.Semaphore) -> bool:
        """Refresh one pod; a failure is retried at the next relist and does not affect other pods."""
        async with semaphore:
            try:
                changed = frozenset(ids.changed)
                with POD_RELIST_DURATION.time(self._clock.now):
                    pod = await self._cache.observe(uid, ids.sandbox_ids, ids.container_ids, changed, started)
            except RuntimeFailure:
                self._cache.failed(uid)
                return False
        if pod is not None:
            log_events(pod, changed)
        self._trigger_sync(uid)
        return True

    async def _wait(self, started: float) -> None:
        """Wait until the next relist is due; the last one *started* then."""
        if self.period_seconds > RELIST_SECONDS:
            await wait_for(self._relist_now, self._clock, started + self.period_seconds - self._clock.now())
        elif not self._notified:
            await self._clock.sleep(max(started + RELIST_SECONDS - self._clock.now(), _SHORTEST_PAUSE_SECONDS))
        else:
            seconds = RELIST_SECONDS
            if self._quiet():
                seconds = until_shared(started, QUIET_RELIST_SECONDS, interval=RUNTIME_SECONDS)
            pause = max(started + seconds - self._clock.now(), _SHORTEST_PAUSE_SECONDS)
            await wait_for(self._relist_now, self._clock, pause)
            if self._relist_now.is_set():
                shortest = min(max(self._listing_seconds / _LISTING_SHARE, _NOTIFIED_PAUSE_SECONDS), RELIST_SECONDS)
                await self._clock.sleep(max(started + shortest - self._clock.now(), _NOTIFIED_DELAY_SECONDS))
        self._relist_now.clear()

    def _quiet(self) -> bool:
        """Return whether no change is expected without a notification."""
        return self._notified and self._last_listing is not None and self._clock.now() >= self._active_until


def _only_adds(known: RuntimePod | None, listing: PodListing) -> bool:
    """Return whether all changed sandboxes and containers are new."""
    if listing.removed or known is None:
        return not listing.removed
    return listing.changed.isdisjoint([*(each.id for each in known.sandboxes), *(each.id for each in known.containers)])


def log_events(pod: RuntimePod, changed: Collection[str]) -> None:
    """Log the starts and exits among the *changed* sandboxes and containers of *pod*."""
    if not verbose(_log, 2):
        return
    events = {one.id: "ContainerStarted" if one.ready else "ContainerDied" for one in pod.sandboxes}
    events |= {one.id: _EVENT_TYPES[one.state] for one in pod.containers if one.state in _EVENT_TYPES}
    for object_id, event_type in events.items():
        if object_id in changed:
            fields = {"pod": f"{pod.namespace}/{pod.name}", "podUID": pod.uid, "event": event_type, "id": object_id}
            _log.log(v_level(2), "SyncLoop (PLEG): event for pod", extra=fields)
