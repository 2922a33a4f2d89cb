"""One probe of one container, repeated as long as the pod lives."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Protocol

from nodeagent.base.metrics import Counter, Histogram
from nodeagent.contracts.events import EventType
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus
from nodeagent.model.pod import Container, ContainerKind, Probe, container_field_path
from nodeagent_plugins.probes.actions import Actions, Target
from nodeagent_plugins.probes.outcome import Outcome, ProbeError, Streak, Verdict

if TYPE_CHECKING:
    from nodeagent.contracts.context import AgentContext

_ATTEMPTS = 3
_START_SECONDS = 1.0
"""How soon to look again at a container that is just being started."""
_log = logging.getLogger(__name__)

PROBES = Counter(
    "prober_probe_total",
    "Probes of containers, by outcome.",
    ("probe_type", "result", "container", "pod", "namespace", "pod_uid"),
    prefixed=False,
    page="probes",
)
DURATIONS = Histogram(
    "prober_probe_duration_seconds",
    "How long probes took.",
    ("probe_type", "container", "pod", "namespace"),
    prefixed=False,
    page="probes",
)
_RESULTS = ("successful", "failed", "unknown")


class ProbedPod(Protocol):
    """What a worker asks of its pod and tells to it."""

    @property
    def uid(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    def pod_ip(self) -> str: ...

    def newest(self, name: str) -> RuntimeContainerStatus | None:
        """Return the newest container called *name*."""
        ...

    def begin(self, name: str, container_id: str) -> None:
        """Note that a container is the newest of its name; repeatable."""
        ...

    def result(self, container_id: str, kind: ProbeKind) -> ProbeResult | None: ...

    def set_result(self, container_id: str, name: str, kind: ProbeKind, result: ProbeResult) -> None: ...

    def record(self, field_path: str, type: EventType, reason: str, note: str) -> None: ...


class ProbeWorker:
    """Probes one container name through all its restarts.

    Failures of liveness and startup put it on hold until a new container shows: the old one is to be killed.
    """

    def __init__(
        self,
        context: AgentContext,
        actions: Actions,
        pod: ProbedPod,
        container: tuple[ContainerKind, Container],
        kind: ProbeKind,
        probe: Probe,
        agent_started_at: float,
    ) -> None:
        self.probe, self.kind = probe, kind
        self._clock, self._actions, self._pod = context.clock, actions, pod
        self._container = container[1]
        self._field_path = container_field_path(container[0], container[1].name)
        self._agent_started_at = agent_started_at
        self._period = max(probe.period_seconds, 1)
        self._container_id = ""
        self._streak = Streak()
        self._on_hold = False
        self._triggered = asyncio.Event()
        self._sleeper: asyncio.Task[None] | None = None

    def trigger(self) -> None:
        """Look at the container again now."""
        self._triggered.set()
        if self._sleeper is not None:
            self._sleeper.cancel()

    async def run(self) -> None:
        """Probe until cancelled."""
        if self._clock.now() - self._agent_started_at < self._period:
            # After a restart of the agent not all probes of the node come at once.
            await self._clock.sleep(random.random() * self._period)  # noqa: S311
        while True:
            self._triggered.clear()
            began = self._clock.now()
            pause = await self._step()
            await self._rest(None if pause is None else began + pause)

    async def _rest(self, due: float | None) -> None:
        """Wait until *due* or triggered."""
        if self._triggered.is_set():
            return
        if due is None:
            await self._triggered.wait()
            return
        self._sleeper = asyncio.ensure_future(self._clock.sleep_until(due))
        try:
            await asyncio.wait({self._sleeper})
        finally:
            self._sleeper.cancel()
            self._sleeper = None

    async def _step(self) -> float | None:
        """Probe if it is time; return seconds from the step's begin to the next, ``None`` to wait for a trigger."""
        status = self._pod.newest(self._container.name)
        if status is None:
            return self._period
        if status.id != self._container_id:
            self._container_id, self._streak, self._on_hold = status.id, Streak(), False
            self._pod.begin(self._container.name, status.id)
            self._triggered.clear()  # this is the look that was asked for
        if self._on_hold:
            return None
        if status.state is not ContainerState.RUNNING:
            if self.kind is ProbeKind.READINESS:
                self._set(ProbeResult.FAILURE)
            return min(_START_SECONDS, self._period) if status.state is ContainerState.CREATED else self._period
        left = self.probe.initial_delay_seconds - (self._clock.wall().timestamp() - status.started_at / 1e9)
        if left > 0:
            return left
        if self._started() == (self.kind is ProbeKind.STARTUP):
            return None  # startup is over, or liveness and readiness wait for it
        outcome = await self._counted_attempt(status.id)
        if outcome is not None and self._container_id == status.id:
            self._count(ProbeResult.FAILURE if outcome.verdict is Verdict.FAILURE else ProbeResult.SUCCESS)
        return self._period

    def _started(self) -> bool:
        return self._pod.result(self._container_id, ProbeKind.STARTUP) in (None, ProbeResult.SUCCESS)

    def forget_counts(self) -> None:
        """Show no metrics of this probe any more."""
        for result in _RESULTS:
            PROBES.forget(*self._labels(result))
        DURATIONS.forget(self.kind, self._container.name, self._pod.name, self._pod.namespace)

    async def _counted_attempt(self, container_id: str) -> Outcome | None:
        began = self._clock.now()
        outcome = await self._attempt(container_id)
        result = "unknown" if outcome is None else "failed" if outcome.verdict is Verdict.FAILURE else "successful"
        PROBES.inc(*self._labels(result))
        seconds = self._clock.now() - began
        DURATIONS.observe(seconds, self.kind, self._container.name, self._pod.name, self._pod.namespace)
        return outcome

    def _labels(self, result: str) -> tuple[str, ...]:
        pod = self._pod
        return self.kind, result, self._container.name, pod.name, pod.namespace, pod.uid

    async def _attempt(self, container_id: str) -> Outcome | None:
        """Probe once, again at once if the probe itself fails; ``None`` when nothing was found out."""
        target = Target(self._container, container_id, self._pod.pod_ip())
        problem = ""
        for _ in range(_ATTEMPTS):
            try:
                outcome = await self._actions.run(self.probe, target)
            except ProbeError as error:
                problem = str(error)
                continue
            except Exception as error:  # a fault of ours: it must not end the watch over the container
                _log.exception("Probe failed unexpectedly", extra={"uid": self._pod.uid, "probe": self._field_path})
                problem = repr(error)
                break
            if outcome.verdict is Verdict.WARNING:
                self._tell("ProbeWarning", f"{self.kind} probe warning: {outcome.output}")
            elif outcome.verdict is Verdict.FAILURE:
                self._tell("Unhealthy", f"{self.kind} probe failed: {outcome.output}")
            return None if outcome.verdict is Verdict.IGNORED else outcome
        self._tell("Unhealthy", f"{self.kind} probe errored: {problem}")
        return None

    def _count(self, result: ProbeResult) -> None:
        if not self._streak.add(result, self.probe):
            return
        if result is ProbeResult.FAILURE and self.kind is not ProbeKind.READINESS:
            self._on_hold = True
        self._set(result)

    def _set(self, result: ProbeResult) -> None:
        self._pod.set_result(self._container_id, self._container.name, self.kind, result)

    def _tell(self, reason: str, note: str) -> None:
        self._pod.record(self._field_path, EventType.WARNING, reason, note)
