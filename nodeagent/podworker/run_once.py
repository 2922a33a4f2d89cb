"""Run-once mode: start the pods of all sources, then exit (spec: config.runOnce)."""

from __future__ import annotations

import logging

from nodeagent.base.aio import Clock
from nodeagent.model.pod import Pod, PodPhase
from nodeagent.podworker.workers import PodWorkers

_log = logging.getLogger(__name__)

SOURCES_TIMEOUT_SECONDS = 60.0
RUN_TIMEOUT_SECONDS = 600.0
_POLL_SECONDS = 0.2


class RunOnce:
    """Waits until every desired pod is running or has finished."""

    def __init__(self, pods: PodWorkers, clock: Clock) -> None:
        self._pods, self._clock = pods, clock

    async def run(self) -> int:
        """Return 0 if all pods are running or succeeded, else 1 after logging the others."""
        limit = self._clock.now() + SOURCES_TIMEOUT_SECONDS
        while not self._pods.all_sources_ready:
            if self._clock.now() > limit:
                _log.error("Failed to read all pod sources")
                return 1
            await self._clock.sleep(_POLL_SECONDS)
        limit = self._clock.now() + RUN_TIMEOUT_SECONDS
        while open_pods := [pod for pod in self._pods.all() if not self._settled(pod)]:
            if self._clock.now() > limit:
                break
            await self._clock.sleep(_POLL_SECONDS)
        failed = [*open_pods, *(pod for pod in self._pods.all() if self._phase(pod) == PodPhase.FAILED)]
        for pod in failed:
            status = self._pods.status(pod.uid)
            reason = f"{status.reason} {status.message}".strip() if status else ""
            _log.error("Failed to run pod", extra={"pod": pod.full_name, "phase": self._phase(pod), "reason": reason})
        if not failed:
            _log.info("All pods are running", extra={"pods": len(self._pods.all())})
        return 1 if failed else 0

    def _settled(self, pod: Pod) -> bool:
        return self._phase(pod) in (PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED)

    def _phase(self, pod: Pod) -> str:
        status = self._pods.status(pod.uid)
        return status.phase if status is not None else ""
