"""Invariants of evictions: their reasons, the order of pods, their grace periods, and the node's conditions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nodeagent.base.quantity import Quantity
from nodeagent.contracts.stats import PodUsage
from nodeagent.model.eviction_thresholds import Signal
from nodeagent.simulation.api_objects import FINISHED
from nodeagent.simulation.apiserver import NODES, PODS
from nodeagent.simulation.disks import CAPACITY_BYTES, IMAGEFS, LEAST_PERCENT, NODEFS
from nodeagent.simulation.lows import Lows
from nodeagent.simulation.node import MAX_PIDS, NODE, Node
from nodeagent.simulation.pressure import HARD_BYTES, SOFT_BYTES, SOFT_GRACE_SECONDS, SOFT_SECONDS

CRITICAL_PRIORITY = 2_000_000_000
TRANSITION_SECONDS = 300.0
CHECK_SECONDS = 11.0
"""Interval of the checks of the agent, rounded up."""
RECLAIM_SECONDS = 31.0
"""The same with the time in which a check removes images and containers."""
DELAYED_SECONDS = 130.0
"""Longest time in which the agent does not check the node because it waits for evicted pods."""
_REPORTED_SECONDS = 60.0
"""Time after which a pressure must be reported."""
_START_SECONDS = 30.0
_LEAST_GRACE, _LEAST_TIMEOUT = 1, 2
_REJECTED = "The node had condition: "
_OTHER_ENDS = ("Evicted", "DeadlineExceeded", "Terminated", "UnexpectedAdmissionError")
"""Reasons with which an evicted pod can end; after a restart of the agent, it can be rejected at the same time."""
MEMORY, PIDS, DISKS = Signal.MEMORY, Signal.PID, (NODEFS, IMAGEFS)
_CONDITIONS = {"MemoryPressure": (MEMORY,), "PIDPressure": (PIDS,), "DiskPressure": DISKS}


@dataclass(slots=True)
class Eviction:
    """Eviction of a pod by a process of the agent, with the grace period in seconds."""

    process: int
    grace: int
    longest_grace: int
    """Grace period if the agent did not observe that the hard threshold was met."""
    terminating: bool
    """The pod was deleted before, or its containers had ended."""


class Evictions:
    """Verifies the evictions on a node whose memory, disks and process IDs can run low.

    :param verify: records a violation with a text if a condition does not hold.
    :param removable_images: returns the images that the agent can remove instead of pods.
    :param delays: start and end of the times at which the agent may observe the node later than intended.
    """

    def __init__(
        self,
        node: Node,
        verify: Callable[[object, str], None],
        delays: Collection[tuple[float, float]],
        removable_images: Callable[[], Collection[str]],
    ) -> None:
        self._node, self._verify, self._delays, self._removable_images = node, verify, delays, removable_images
        self._hard: dict[str, Lows] = {signal: Lows() for signal in (MEMORY, PIDS, *DISKS)}
        self._soft: dict[str, Lows] = {MEMORY: Lows()}
        self._specs: dict[str, Mapping[str, Any]] = {}
        self._added: dict[str, float] = {}
        self._evicted: dict[str, Eviction] = {}
        self._latest = self._faulty_at = float("-inf")
        """Time of the latest eviction, and of the latest fault because of which the status of the node is delayed."""
        self._acted: dict[str, float] = {}
        """Time of the latest eviction by signal."""
        node.eviction_observer.evicting = self.evicting

    def observe(self) -> None:
        """Record whether the resources are low now."""
        now, available = self._node.loop.time(), self._node.memory.available
        self._hard[MEMORY].observe(now, low=available < HARD_BYTES)
        self._soft[MEMORY].observe(now, low=available < SOFT_BYTES)
        pids = self._node.host.stats.node_usage.current_pids or 0
        self._hard[PIDS].observe(now, low=MAX_PIDS - pids < MAX_PIDS // 10)
        for signal in DISKS:
            low = self._node.disks.available(signal) * 100 < CAPACITY_BYTES * LEAST_PERCENT
            self._hard[signal].observe(now, low=low)

    def added(self, uid: str, spec: Mapping[str, Any]) -> None:
        """Record a new pod of the API server."""
        self._specs[uid], self._added[uid] = spec, self._node.loop.time()

    def grace(self, uid: str) -> int | None:
        """Return the grace period of a pod that was evicted in seconds, or ``None``."""
        return self._evicted[uid].grace if uid in self._evicted else None

    # --- evictions --------------------------------------------------------------------------------------------

    def evicting(self, uid: str, signal: str) -> None:
        """Verify that the agent may evict a pod now, instead of another one."""
        node, now = self._node, self._node.loop.time()
        self._latest = self._acted[signal] = now
        text = f"pod {uid} is evicted because of {signal}"
        critical = uid not in self._specs or self._specs[uid].get("priority", 0) >= CRITICAL_PRIORITY
        self._verify(not critical, f"{text} although it is static or critical")
        graces = self._permitted_graces(uid, signal, now)
        self._verify(graces, f"{text} without pressure")
        rank = self._rank(uid, signal)
        for other in node.agent.context.pods.active() if node.agent is not None else ():
            if self._is_candidate(other.uid):
                self._verify(rank <= self._rank(other.uid, signal), f"{text} instead of pod {other.uid}")
        if signal == IMAGEFS or (signal == NODEFS and not node.disks.are_separate):
            images = self._removable_images()
            self._verify(not images, f"{text} instead of the images {sorted(images)}")
        pod, graces = self._find(uid), graces or [_LEAST_GRACE]
        terminating = pod is None or "deletionTimestamp" in pod["metadata"] or self._has_ended(uid, pod)
        self._evicted[uid] = Eviction(node.process, min(graces), max(graces), terminating)

    def _has_ended(self, uid: str, pod: Mapping[str, Any]) -> bool:
        """Return whether all containers of a pod have ended that are neither sidecars nor ephemeral."""
        if pod["spec"].get("restartPolicy") == "Always":
            return False
        found = [each for each in self._node.runtime.containers.values() if each.sandbox.uid == uid]
        main = [each for each in found if each.name.startswith("main")]
        return bool(main) and not any(each.running for each in main)

    def _permitted_graces(self, uid: str, signal: str, now: float) -> list[int]:
        """Return the grace periods with which the agent may evict a pod because of a signal; none without pressure."""
        interval = self._interval(now, 2 * RECLAIM_SECONDS)
        graces = [_LEAST_GRACE] if self._hard[signal].within(now - interval, now) else []
        since = self._soft[signal].since(now, interval) if signal in self._soft else None
        if since is not None and now - since >= SOFT_SECONDS:
            graces.append(SOFT_GRACE_SECONDS)
        return graces

    def _interval(self, now: float, seconds: float) -> float:
        """Return the longest interval between checks of the agent in the latest *seconds*."""
        reclaimed = any(self._hard[signal].within(now - seconds, now) for signal in DISKS)
        return RECLAIM_SECONDS if reclaimed else CHECK_SECONDS

    def _is_candidate(self, uid: str) -> bool:
        agent, spec = self._node.agent, self._specs.get(uid)
        if agent is None or spec is None or uid in self._evicted or spec.get("priority", 0) >= CRITICAL_PRIORITY:
            return False
        status = agent.context.pods.status(uid)
        return status is None or status.phase not in FINISHED

    def _rank(self, uid: str, signal: str) -> tuple[int, ...]:
        """Return the rank of a pod among those to evict; the lowest is evicted first."""
        spec, usage = self._specs.get(uid, {}), self._node.usage.sample.get(uid)
        priority = spec.get("priority", 0)
        if signal == PIDS:
            return priority, usage is not None
        used = _used(usage, signal, separate=self._node.disks.are_separate) if usage is not None else 0
        requested = _requested_memory(spec) if signal == MEMORY else 0
        return usage is not None, used <= requested, priority, requested - used

    def verify_stop(self, uid: str, timeout_seconds: int) -> None:
        """Verify the time that a container of a pod has when the agent stops it."""
        eviction = self._evicted.get(uid)
        if eviction is None or eviction.process != self._node.process or eviction.terminating:
            return
        longest = max(_LEAST_TIMEOUT, eviction.longest_grace)
        text = f"the evicted pod {uid} has {timeout_seconds} s to end instead of {longest} s"
        self._verify(timeout_seconds <= longest, text)

    # --- status -----------------------------------------------------------------------------------------------

    def verify_status(self, uid: str, status: Mapping[str, Any]) -> None:
        """Verify the status with which a pod ends."""
        phase, reason, message = status.get("phase"), status.get("reason", ""), status.get("message", "")
        eviction = self._evicted.get(uid)
        if reason == "Evicted" and _REJECTED in message:
            self._verify_rejection(uid)
        elif reason == "Evicted":
            self._verify(eviction is not None, f"pod {uid} is reported as evicted, but it was not")
            self._verify(phase == "Failed", f"the evicted pod {uid} has the phase {phase}")
        elif eviction is not None and eviction.process == self._node.process and not eviction.terminating:
            known = reason in _OTHER_ENDS or phase not in FINISHED
            self._verify(known, f"the evicted pod {uid} ends in phase {phase} with reason {reason!r}")

    def _verify_rejection(self, uid: str) -> None:
        spec, now = self._specs.get(uid, {}), self._node.loop.time()
        since = self._added.get(uid, now) - TRANSITION_SECONDS - DELAYED_SECONDS
        low = {signal for signal in self._hard if self._is_low(signal, since, now)}
        allowed = low - {MEMORY} or (low and not _requests_memory(spec))
        critical = spec.get("priority", 0) >= CRITICAL_PRIORITY
        self._verify(allowed and not critical, f"pod {uid} is rejected although no pressure affects it")

    def verify_ended(self) -> None:
        """Verify that the evicted pods have ended."""
        for uid, eviction in self._evicted.items():
            pod = self._find(uid)
            if pod is not None and eviction.process == self._node.process:
                phase = (pod.get("status") or {}).get("phase")
                self._verify(phase in FINISHED, f"the evicted pod {uid} has the phase {phase}")

    def verify_node(self, before: Mapping[str, Any] | None, node: Mapping[str, Any]) -> None:
        """Verify the conditions that the agent reports."""
        old, new = _conditions(before), _conditions(node)
        now = self._node.loop.time()
        for condition, signals in _CONDITIONS.items():
            if old.get(condition) == new.get(condition):
                continue
            if new.get(condition) == "True":
                start = now - TRANSITION_SECONDS - DELAYED_SECONDS
                reported = any(self._is_low(signal, start, now) for signal in signals)
                self._verify(reported, f"the node reports {condition} without pressure")
            elif old.get(condition) == "True":
                low = any(self._was_observed(signal, now) for signal in signals)
                self._verify(not low, f"the node stops to report {condition} within the transition period")

    def _was_observed(self, signal: str, now: float) -> bool:
        """Return whether this process of the agent must have observed pressure within the transition period."""
        if now < self._node.started_at + _START_SECONDS:  # The first report can precede the first check.
            return False
        interval = self._interval(now, TRANSITION_SECONDS + DELAYED_SECONDS)
        acted = self._acted.get(signal, float("-inf"))
        if acted > self._node.started_at and acted > now - TRANSITION_SECONDS + interval:
            return True
        return any(
            end > now - TRANSITION_SECONDS + interval
            and end - start >= interval
            and start >= self._node.started_at + _START_SECONDS
            and self._latest <= start - DELAYED_SECONDS
            and not self._was_disturbed(start)
            for start, end in self._widest(signal).times(now)
        )

    def verify_reported(self) -> None:
        """Verify that the node has the condition for a pressure that lasts."""
        node, now = self._node, self._node.loop.time()
        network = node.network
        faults = network.down, network.silent, network.rejections, network.lost, network.certificate_error
        if any(faults) or network.latency.factor > 1 or node.unruly.raises or node.unruly.hangs or not node.process:
            self._faulty_at = now
        start = now - _REPORTED_SECONDS
        if max(self._faulty_at, node.started_at) > start or self._was_disturbed(start):
            return
        reported = _conditions(node.server.find(NODES, "", NODE))
        for condition, signals in _CONDITIONS.items():
            for since in [self._widest(signal).since(now, 0.0) for signal in signals]:
                if since is not None and since <= start and not since - DELAYED_SECONDS < self._latest < since:
                    text = f"the node does not report {condition}, although it lasts for {now - since:.0f} s"
                    self._verify(reported.get(condition) == "True", text)

    def _was_disturbed(self, start: float) -> bool:
        """Return whether a fault may have prevented the agent from checking the node regularly since a time."""
        return any(end >= start - _START_SECONDS for _, end in self._delays)

    def _widest(self, signal: str) -> Lows:
        return self._soft.get(signal, self._hard[signal])

    def _is_low(self, signal: str, start: float, now: float) -> bool:
        return self._widest(signal).within(start, now)

    def _find(self, uid: str) -> Mapping[str, Any] | None:
        pods = self._node.server.objects.get(PODS, {}).values()
        return next((pod for pod in pods if pod["metadata"]["uid"] == uid), None)

    def forget(self, retained: Collection[str]) -> None:
        """Drop the records of pods with other UIDs than those *retained*, and of pressures that ended long ago."""
        self._specs = {uid: spec for uid, spec in self._specs.items() if uid in retained}
        self._added = {uid: time for uid, time in self._added.items() if uid in retained}
        self._evicted = {uid: eviction for uid, eviction in self._evicted.items() if uid in retained}
        for lows in (*self._hard.values(), *self._soft.values()):
            lows.forget(self._node.loop.time() - 3600)


def _conditions(node: Mapping[str, Any] | None) -> dict[str, str]:
    status = (node or {}).get("status") or {}
    return {each["type"]: each["status"] for each in status.get("conditions") or ()}


def _used(usage: PodUsage, signal: str, *, separate: bool) -> int:
    """Return the usage of a pod that counts for a signal.

    :param separate: whether writable layers are on another disk than logs.
    """
    if signal == MEMORY:
        return (usage.memory.working_set_bytes or 0) if usage.memory is not None else 0
    counted = [each.logs for each in usage.containers if signal == NODEFS or not separate]
    counted += [each.rootfs for each in usage.containers if signal == IMAGEFS or not separate]
    return sum(each.used_bytes or 0 for each in counted if each is not None)


def _requests(spec: Mapping[str, Any]) -> list[Mapping[str, str]]:
    return [(each.get("resources") or {}).get("requests") or {} for each in spec.get("containers") or ()]


def _requested_memory(spec: Mapping[str, Any]) -> int:
    return sum(Quantity.parse(requests.get("memory", "0")).value() for requests in _requests(spec))


def _requests_memory(spec: Mapping[str, Any]) -> bool:
    """Return whether a pod requests memory, and is therefore not of the class BestEffort."""
    return any("memory" in requests for requests in _requests(spec))
