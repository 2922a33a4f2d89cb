"""Whether the container runtime works, asked every few seconds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from nodeagent.base.aio import Clock
from nodeagent.contracts.runtime import ContainerRuntime, RuntimeCondition, RuntimeVersion
from nodeagent.errors import RuntimeFailure

PERIOD_SECONDS = 5.0
DOWN_SECONDS = 30.0
RUNTIME_READY = "RuntimeReady"
NETWORK_READY = "NetworkReady"

_log = logging.getLogger(__name__)


class RuntimeHealth:
    """Keeps the runtime's last word on itself.

    :param changed: called when what :attr:`problems` says may have changed.
    """

    def __init__(self, runtime: Callable[[], ContainerRuntime], clock: Clock, changed: Callable[[], None]) -> None:
        self._runtime, self._clock, self._changed = runtime, clock, changed
        self._conditions: Sequence[RuntimeCondition] = ()
        self._answered_at: float | None = None
        self._failing = False
        self._said: list[str] = []
        self.version: RuntimeVersion | None = None
        """Name and version; ``None`` until the runtime has told them."""

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.check()
            await self._clock.sleep(PERIOD_SECONDS)

    async def check(self) -> None:
        """Ask once; failures show in :attr:`problems`."""
        try:
            conditions = await self._runtime().status()
            if self.version is None or self._failing:  # it may have been replaced while it was away
                self.version = await self._runtime().version()
        except RuntimeFailure as error:
            if not self._failing:
                _log.error("Container runtime does not answer", extra={"err": str(error)})
            self._failing = True
        else:
            if self._failing:
                _log.info("Container runtime answers again")
            self._failing = False
            self._conditions, self._answered_at = conditions, self._clock.now()
        if (problems := self.problems) != self._said:
            self._said = problems
            self._changed()

    @property
    def problems(self) -> list[str]:
        """Sentences that keep the node from being Ready."""
        if self._answered_at is None:
            return ["container runtime status check may not have completed yet"]
        if self._clock.now() - self._answered_at > DOWN_SECONDS:
            return ["container runtime is down"]
        runtime = self._problem(RUNTIME_READY, "container runtime not ready")
        return [sentence for sentence in (runtime, self.network_problem) if sentence]

    @property
    def network_problem(self) -> str:
        """Why pods cannot get a network now; empty when they can, or when the runtime has not answered yet."""
        return self._problem(NETWORK_READY, "container runtime network not ready")

    def _problem(self, kind: str, sentence: str) -> str:
        found = next((condition for condition in self._conditions if condition.type == kind), None)
        if found is None or found.status:
            return ""
        return f"{sentence}: {kind}=false reason:{found.reason} message:{found.message}"
