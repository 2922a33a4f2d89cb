"""Probe worker: one probe of one container, for the lifetime of the pod."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Protocol

from nodeagent.base.aio.shared_times import until_shared
from nodeagent.base.logging import v_level
from nodeagent.base.metrics import Counter, Histogram
from nodeagent.base.release import Release
from nodeagent.contracts.events import EventType
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus
from nodeagent.model.pod import Container, ContainerKind, Probe, container_field_path
from nodeagent_plugins.probes.actions import Actions, Target
from nodeagent_plugins.probes.outcome import Outcome, OutcomeKind, ProbeError, Streak

if TYPE_CHECKING:
    from nodeagent.contracts.context import PullerContext

_ATTEMPTS = 3
_SHARED_SECONDS = 0.25
"""Interval of the times that network probes share: several together need a third of the CPU time of single ones."""
_START_SECONDS = 1.0
"""Interval of the checks of a container that is being started."""
_STATE_NAMED = Release(1, 33)
"""First release whose event of a failed probe attempt names the resulting state."""
_log = logging.getLogger(__name__)

PROBES = Counter(
    "prober_probe_total",
    "Cumulative number of a liveness, readiness or startup probe for a container by result.",
    ("probe_type", "result", "container", "pod", "namespace", "pod_uid"),
    prefixed=False,
    page="probes",
)
DURATIONS = Histogram(
    "prober_probe_duration_seconds",
    "Duration in seconds for a probe response.",
    ("probe_type", "container", "pod", "namespace"),
    prefixed=False,
    page="probes",
)
_RESULTS = ("successful", "failed", "unknown")


class ProbedPod(Protocol):
    """Interface of the worker to its pod."""

    @property
    def uid(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    def pod_ip(self) -> str: ...

    def newest(self, name: str) -> RuntimeContainerStatus | None:
        """Return the latest container with the name *name*."""
        ...

    def start_container(self, name: str, container_id: str) -> None:
        """Record a container as the latest of its name; idempotent."""
        ...

    def result(self, container_id: str, kind: ProbeKind) -> ProbeResult | None: ...

    def set_result(self, container_id: str, name: str, kind: ProbeKind, result: ProbeResult) -> None: ...

    def record(self, field_path: str, type: EventType, reason: str, note: str) -> None: ...


class ProbeWorker:
    """Probes the container with one name across restarts.

    A liveness or startup failure suspends the probe until a new container exists, because the old one is killed.
    """

    def __init__(
        self,
        context: PullerContext,
        actions: Actions,
        pod: ProbedPod,
        container: tuple[ContainerKind, Container],
        kind: ProbeKind,
        probe: Probe,
        agent_started_at: float,
    ) -> None:
        self.probe, self.kind = probe, kind
        self._clock, self._actions, self._pod = context.clock, actions, pod
        self._names_state = context.release.release >= _STATE_NAMED
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
        """Check the container now."""
        self._triggered.set()
        if self._sleeper is not None:
            self._sleeper.cancel()

    async def run(self) -> None:
        """Run until cancelled."""
        now = self._clock.now()
        if now - self._agent_started_at < self._period:
            # Spreads the probes of the node after a restart of the agent.
            await self._clock.sleep_until(self._due(now, random.random() * self._period))  # noqa: S311
        while True:
            self._triggered.clear()
            started = self._clock.now()
            pause = await self._step()
            await self._rest(None if pause is None else self._due(started, pause))

    def _due(self, start: float, seconds: float) -> float:
        """Return the time *seconds* after *start*, for a network probe the last shared time up to then."""
        if self.probe.exec is None:  # Commands at the same time would delay each other.
            seconds = until_shared(start, seconds, _SHARED_SECONDS)
        return start + seconds

    async def _rest(self, due: float | None) -> None:
        """Wait until *due* or until triggered."""
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
        """Probe if due; return the seconds from the start of this step to the next, ``None`` to wait for a trigger."""
        status = self._pod.newest(self._container.name)
        if status is None:
            return self._period
        if status.id != self._container_id:
            self._container_id, self._streak, self._on_hold = status.id, Streak(), False
            self._pod.start_container(self._container.name, status.id)
            self._triggered.clear()  # This step handles the trigger.
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
            return None  # Startup has completed, or liveness and readiness wait for it.
        outcome = await self._counted_attempt(status.id)
        if outcome is not None and self._container_id == status.id:
            self._count(ProbeResult.FAILURE if outcome.kind is OutcomeKind.FAILURE else ProbeResult.SUCCESS)
        return self._period

    def _started(self) -> bool:
        return self._pod.result(self._container_id, ProbeKind.STARTUP) in (None, ProbeResult.SUCCESS)

    def remove_metrics(self) -> None:
        """Remove the metrics of this probe."""
        for result in _RESULTS:
            PROBES.forget(*self._labels(result))
        DURATIONS.forget(self.kind, self._container.name, self._pod.name, self._pod.namespace)

    async def _counted_attempt(self, container_id: str) -> Outcome | None:
        started = self._clock.now()
        outcome = await self._attempt(container_id)
        result = "unknown" if outcome is None else "failed" if outcome.kind is OutcomeKind.FAILURE else "successful"
        PROBES.inc(*self._labels(result))
        seconds = self._clock.now() - started
        DURATIONS.observe(seconds, self.kind, self._container.name, self._pod.name, self._pod.namespace)
        return outcome

    def _labels(self, result: str) -> tuple[str, ...]:
        pod = self._pod
        return self.kind, result, self._container.name, pod.name, pod.namespace, pod.uid

    async def _attempt(self, container_id: str) -> Outcome | None:
        """Probe once, with retries if the probe itself fails; return ``None`` if the container's state is unknown."""
        target = Target(self._container, container_id, self._pod.pod_ip())
        problem = ""
        for _ in range(_ATTEMPTS):
            try:
                outcome = await self._actions.run(self.probe, target)
            except ProbeError as error:
                problem = str(error)
                continue
            except Exception as error:  # A bug in the agent must not stop the probe.
                _log.exception("Probe failed unexpectedly", extra=self._fields(probe=self._field_path))
                problem = repr(error)
                break
            if outcome.kind is OutcomeKind.WARNING:
                self._record("ProbeWarning", f"{self.kind} probe warning: {outcome.output}")
            elif outcome.kind is OutcomeKind.FAILURE:
                self._log_result("Probe failed", probeResult="failure", output=outcome.output)
                self._record("Unhealthy", f"{self.kind} probe failed: {outcome.output}")
            return None if outcome.kind is OutcomeKind.IGNORED else outcome
        self._log_result("Probe errored", err=problem)
        state = " and resulted in unknown state" if self._names_state else ""
        self._record("Unhealthy", f"{self.kind} probe errored{state}: {problem}")
        return None

    def _count(self, result: ProbeResult) -> None:
        if not self._streak.add(result, self.probe):
            return
        if result is ProbeResult.FAILURE and self.kind is not ProbeKind.READINESS:
            self._on_hold = True
        self._set(result)

    def _set(self, result: ProbeResult) -> None:
        self._pod.set_result(self._container_id, self._container.name, self.kind, result)

    def _fields(self, **more: object) -> dict[str, object]:
        pod = f"{self._pod.namespace}/{self._pod.name}"
        return {"pod": pod, "podUID": self._pod.uid, "containerName": self._container.name, **more}

    def _log_result(self, message: str, **more: object) -> None:
        _log.log(v_level(1), message, extra=self._fields(probeType=str(self.kind), **more))  # wording: ok

    def _record(self, reason: str, note: str) -> None:
        self._pod.record(self._field_path, EventType.WARNING, reason, note)
