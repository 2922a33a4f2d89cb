"""Retries of pending resizes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from nodeagent.allocation.manager import AllocationManager
from nodeagent.base.aio import Clock
from nodeagent.base.structs import Struct
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod
from nodeagent.podworker.desired import DesiredPods
from nodeagent.podworker.state import Phase

if TYPE_CHECKING:
    from nodeagent.podworker.worker import PodWorker

FIRST_RETRY_SECONDS = 30.0
RETRY_SECONDS = 180.0
PODS_ADDED, POD_UPDATED, PODS_REMOVED = "pods_added", "pod_updated", "pods_removed"
POD_TERMINATED, PERIODIC = "pod_terminated", "periodic_retry"


class RetryResizes(Struct, frozen=True):
    """Request to decide on all pending resizes; ``trigger`` is its reason in metrics."""

    trigger: str


class PodResizer:
    """Decides on pending resizes between the changes of pods, so that no pod is admitted at the same time.

    :param queue: queues a request behind the changes that are known already.
    """

    def __init__(self, allocations: AllocationManager, queue: Callable[[RetryResizes], None], clock: Clock) -> None:
        self._allocations, self._queue, self._clock = allocations, queue, clock
        self._queued: set[str] = set()

    def request(self, trigger: str) -> None:
        """Decide soon, if a resize is pending."""
        if self._allocations.pending and trigger not in self._queued:
            self._queued.add(trigger)
            self._queue(RetryResizes(trigger))

    async def run(self) -> None:
        """Decide periodically until cancelled, because not everything that frees resources is observed."""
        pause = FIRST_RETRY_SECONDS
        while True:
            await self._clock.sleep(pause)
            self.request(PERIODIC)
            pause = RETRY_SECONDS

    async def retry(
        self,
        trigger: str,
        workers: Mapping[str, PodWorker],
        desired: DesiredPods,
        admit: Callable[[Pod], Awaitable[Rejection | None]],
    ) -> None:
        """Decide on all pending resizes, once every source has published its pods."""
        self._queued.discard(trigger)
        if not desired.complete:
            return
        running = [uid for uid, worker in workers.items() if worker.phase is Phase.SYNC and worker.desired]
        pods = {uid: pod for uid in running if (pod := desired.get(uid)) is not None}

        def apply(pod: Pod) -> None:
            worker = workers.get(pod.uid)
            if worker is not None:
                worker.update(self._allocations.allocated(pod))

        await self._allocations.retry(pods, admit, trigger, apply)
