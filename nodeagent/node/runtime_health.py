"""Health of the container runtime, checked periodically."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from nodeagent.base.aio import Clock
from nodeagent.base.aio.shared_times import RUNTIME_SECONDS, SHARED_SECONDS, until_shared
from nodeagent.contracts.runtime import ContainerRuntime, RuntimeStatus, RuntimeVersion
from nodeagent.errors import RuntimeFailure

DOWN_SECONDS = 30.0
RUNTIME_READY = "RuntimeReady"
NETWORK_READY = "NetworkReady"

_log = logging.getLogger(__name__)


class RuntimeHealth:
    """Caches the conditions and features that the runtime reports.

    :param changed: called when :attr:`problems` or the features have changed.
    """

    def __init__(self, runtime: Callable[[], ContainerRuntime], clock: Clock, changed: Callable[[], None]) -> None:
        self._runtime, self._clock, self._changed = runtime, clock, changed
        self._status = RuntimeStatus()
        self._responded = asyncio.Event()
        self._responded_at: float | None = None
        self._failing = False
        self._last_problems: list[str] = []
        self.version: RuntimeVersion | None = None
        """Name and version; ``None`` until known."""

    async def run(self) -> None:
        """Check periodically until cancelled, more often while the runtime or its network is not ready."""
        while True:
            await self.check()
            seconds = SHARED_SECONDS if self._failing or self.problems else RUNTIME_SECONDS
            await self._clock.sleep(until_shared(self._clock.now(), seconds, interval=seconds))

    async def check(self) -> None:
        """Check once; failures are reported in :attr:`problems`."""
        features_changed = False
        try:
            status = await self._runtime().status()
            if self.version is None or self._failing:  # It may have been upgraded during the outage.
                self.version = await self._runtime().version()
        except RuntimeFailure as error:
            if not self._failing:
                _log.error("Container runtime sanity check failed", extra={"err": str(error)})
            self._failing = True
        else:
            if self._failing:
                _log.info("Container runtime recovered")
            self._failing = False
            features_changed = self._features(status) != self._features(self._status)
            self._status, self._responded_at = status, self._clock.now()
            self._responded.set()
        if (problems := self.problems) != self._last_problems or features_changed:
            self._last_problems = problems
            self._changed()

    async def status(self) -> RuntimeStatus:
        """Return the last status of the runtime; wait until it has responded once."""
        await self._responded.wait()
        return self._status

    @property
    def last_status(self) -> RuntimeStatus | None:
        """The last status of the runtime; ``None`` until it has responded once."""
        return self._status if self._responded.is_set() else None

    @property
    def problems(self) -> list[str]:
        """Reasons for a NotReady node."""
        if self._responded_at is None:
            return ["container runtime status check may not have completed yet"]
        if self._clock.now() - self._responded_at > DOWN_SECONDS:
            return ["container runtime is down"]
        runtime = self._problem(RUNTIME_READY, "container runtime not ready")
        return [problem for problem in (runtime, self.network_problem) if problem]

    @property
    def network_problem(self) -> str:
        """The reason why the pod network is not ready; empty if it is, or if it is unknown yet."""
        return self._problem(NETWORK_READY, "container runtime network not ready")

    @staticmethod
    def _features(status: RuntimeStatus) -> RuntimeStatus:
        return replace(status, conditions=())

    def _problem(self, kind: str, prefix: str) -> str:
        condition = next((each for each in self._status.conditions if each.type == kind), None)
        if condition is None or condition.status:
            return ""
        return f"{prefix}: {kind}=false reason:{condition.reason} message:{condition.message}"
