"""Pod status manager: cache pod statuses and sync them to the API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any

import msgspec
from msgspec import field

from nodeagent.allocation.manager import AllocationManager
from nodeagent.base.aio import Backoff, Clock, TaskOwner
from nodeagent.base.gates import FeatureGates
from nodeagent.base.logging import v_level
from nodeagent.base.metrics import Histogram
from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.api import PODS, Api
from nodeagent.contracts.devices import DeviceHealth
from nodeagent.contracts.pods import WaitingReason
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import RuntimePod
from nodeagent.errors import ApiError, ApiNotFound
from nodeagent.model.pod import Pod, PodPhase, PodStatus
from nodeagent.model.resizing import ResizeCondition
from nodeagent.model.restart import ALL_CONTAINERS_RESTARTING
from nodeagent.pluginmanager import PluginManager
from nodeagent.status.generate import DISRUPTION_TARGET, PodStatusInputs, generate_status, presentable, resumed
from nodeagent.status.last_generation import LastGeneration, Lookups
from nodeagent.status.metrics import count_terminations
from nodeagent.status.patch import status_patch

_log = logging.getLogger(__name__)

DeviceHealthLookup = Callable[[str, str], Mapping[str, Sequence[DeviceHealth]]]
"""Returns the health of the devices of a container, given the UID of its pod and its name."""

PARALLEL_SENDS = 8
RETRY_SECONDS = 10.0
"""Maximum back-off before a failed status update is retried."""
_INVALID = frozenset([400, 413, 415, 422])
"""HTTP codes of a status that the API server would reject again."""
OVERWRITE_CHECK_SECONDS = 10.0
"""Time for the watch to deliver a sent status before the API's status is considered overwritten."""
SYNC_DURATION = Histogram(
    "pod_status_sync_duration_seconds",
    "Duration in seconds to sync a pod status update. Measures time from detection of a change to pod status until the "
    "API is successfully updated for that pod, even if multiple intevening changes to pod status occur.",
    bounds=(0.010, 0.050, 0.100, 0.500, 1, 5, 10, 20, 30, 45, 60),
)
OWNED_CONDITIONS = frozenset(
    {
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
        ALL_CONTAINERS_RESTARTING,
        *ResizeCondition,
    }
)


class _Entry(MutableStruct):
    pod: Pod
    status: PodStatus
    sent: PodStatus
    """The last status that the API server is known to have."""
    waiting: Mapping[str, WaitingReason] = field(default_factory=dict)
    ended: bool = False
    failed: tuple[str, str] | None = None
    disrupted: str = ""
    terminated: bool = False
    deleted: bool = False
    """True after the API server has accepted the deletion, which a later status must not repeat."""
    notified: PodStatus | None = None
    changed_at: float | None = None
    """Monotonic time of the first unsent change."""
    static: bool = False
    resuming: bool = False
    """True until the status is generated for the first time with that of the mirror pod from before a restart."""
    last: LastGeneration | None = None
    backoff: Backoff = field(default_factory=lambda: Backoff(0.5, RETRY_SECONDS))


class StatusManager:
    """Generates, caches and sends pod statuses; implements :class:`~nodeagent.podworker.interfaces.StatusReporter`.

    A status is sent as a patch if it has changed, never concurrently for one pod. While the API server is unavailable,
    only the latest status is retained.

    :param api: returns the client, ``None`` in standalone mode.
    :param mirror_of: returns the mirror pod of a static pod, if there is one.
    :param gates: ``PodReadyToStartContainersCondition`` and ``PodDisruptionConditions`` enable the conditions of these
        names, ``PodObservedGenerationTracking`` the observed generation.
    :param trigger_sync: callback that triggers a sync of a pod.
    :param note: returns the cause if a pod has not been ready for long, else an empty text.
    :param device_health: returns the health of the devices of a container; reported with ``ResourceHealthStatus``.
    :param allocations: allocated resources and resizes of the pods; ``None`` reports neither.
    :param uses_claims: returns whether a resource claim may be prepared for the pod with this UID.
    """

    def __init__(
        self,
        *,
        api: Callable[[], Api | None],
        clock: Clock,
        plugins: PluginManager,
        probes: Callable[[str, ProbeKind], ProbeResult | None],
        host_ips: Callable[[], Sequence[str]],
        runtime_name: Callable[[], str],
        is_static: Callable[[Pod], bool],
        mirror_of: Callable[[Pod], Pod | None],
        gates: FeatureGates,
        trigger_sync: Callable[[str], None] = lambda _: None,
        note: Callable[[Pod], str] = lambda _: "",
        allocations: AllocationManager | None = None,
        device_health: DeviceHealthLookup = lambda _uid, _container: {},
        uses_claims: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._api, self._clock, self._plugins = api, clock, plugins
        self._probes, self._host_ips, self._runtime_name = probes, host_ips, runtime_name
        self._is_static, self._mirror_of = is_static, mirror_of
        self._sandbox_condition = gates.enabled("PodReadyToStartContainersCondition")
        self._host_ips_field = gates.enabled("PodHostIPs")
        self._disruption_condition = gates.enabled("PodDisruptionConditions")
        self._observed_generation = gates.enabled("PodObservedGenerationTracking")
        self._stop_signals = gates.enabled("ContainerStopSignals")
        self._image_refs = gates.enabled("ImageVolumeWithDigest")
        reported, messages = gates.enabled("ResourceHealthStatus"), gates.enabled("ResourceHealthStatusMessage")
        self._device_health = _health_lookup(device_health, reported=reported, messages=messages)
        self._trigger_sync, self._note, self._uses_claims = trigger_sync, note, uses_claims
        self._allocations = allocations if allocations is not None and allocations.resizing else None
        self._entries: dict[str, _Entry] = {}
        self._dirty: dict[str, None] = {}
        self._busy: set[str] = set()
        self._failing: set[str] = set()
        """UIDs of pods whose status update is waiting for a retry."""
        self._overwrite_checks: dict[str, bool] = {}
        """UIDs of pods whose status in the API differs from the sent one; true once the check has been scheduled."""
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._unavailable = False

    # --- StatusReporter -------------------------------------------------------------------------------------

    def update(
        self,
        pod: Pod,
        observed: RuntimePod | None,
        *,
        waiting: Mapping[str, WaitingReason] | None = None,
        ended: bool = False,
        failed: tuple[str, str] | None = None,
        disrupted: str = "",
        blocked: tuple[str, str] | None = None,
    ) -> PodStatus:
        """Generate, cache and send a status; see :class:`~nodeagent.podworker.interfaces.StatusReporter`."""
        entry = self._entries.get(pod.uid)
        if entry is None:
            entry = _Entry(pod, pod.status, pod.status, static=self._is_static(pod))
            entry.sent = self._api_object(entry).status
            entry.status = resumed(entry.status, entry.sent)
            self._entries[pod.uid] = entry
        entry.pod = pod
        entry.resuming = False
        if waiting is not None:
            entry.waiting = waiting
        entry.ended = entry.ended or ended
        entry.failed = entry.failed or failed
        if self._disruption_condition:
            entry.disrupted = entry.disrupted or disrupted
        shown, host_ips, runtime_name = self._api_object(entry).status, tuple(self._host_ips()), self._runtime_name()
        note = "" if entry.ended else self._note(msgspec.structs.replace(pod, status=entry.status))
        resources = self._allocations.report(pod.uid) if self._allocations is not None else None
        resizes = self._allocations.conditions(pod.uid) if self._allocations is not None else ()
        uses_claims = self._uses_claims(pod.uid)
        objects = (pod, observed, entry.status, shown)
        values = (entry.waiting, entry.ended, entry.failed, entry.disrupted, blocked, host_ips, runtime_name, note,
                  resources, resizes, uses_claims)  # fmt: skip
        if entry.last is not None and entry.last.applies(objects, values):
            if entry.status != entry.sent and self._api() is not None:
                self._note_change(entry)
            return entry.last.status
        lookups = Lookups(self._probes, partial(self._device_health, pod.uid))
        status = generate_status(
            pod,
            PodStatusInputs(
                runtime=observed,
                before=_with_external_conditions(
                    entry.status,
                    shown,
                    OWNED_CONDITIONS | {DISRUPTION_TARGET} if entry.disrupted else OWNED_CONDITIONS,
                ),
                waiting=entry.waiting,
                ended=entry.ended,
                failed=entry.failed,
                disrupted=entry.disrupted,
                blocked=blocked,
                static=entry.static,
                now=self._clock.wall(),
                host_ips=host_ips,
                host_ips_field=self._host_ips_field,
                runtime_name=runtime_name,
                probes=lookups.probe,
                note=note,
                sandbox_condition=self._sandbox_condition,
                observed_generation=self._observed_generation,
                stop_signals=self._stop_signals,
                image_refs=self._image_refs,
                device_health=lookups.device_health,
                resources=resources,
                resize_conditions=resizes,
            ),
        )
        reported = presentable(status, entry.status, observed, uses_claims=uses_claims)
        changed = reported != entry.status
        entry.last = None if changed else LastGeneration(objects, values, lookups, status)
        if changed:
            count_terminations(entry.status, reported)
            entry.status = reported
        if changed or reported != entry.sent:
            self._note_change(entry)
        return status

    def record_api_status(self, pod: Pod) -> None:
        """Trigger a sync if a readiness gate of the pod has changed, or if the sent status was overwritten.

        The control plane overwrites it when it marks the pods of an unreachable node as not ready.
        """
        entry = self._entries.get(pod.uid)
        if entry is None:
            return
        entry.pod = pod
        shown, used = _condition_states(self._api_object(entry).status), _condition_states(entry.status)
        gates = [gate.condition_type for gate in pod.spec.readiness_gates or ()]
        if any(shown.get(gate) != used.get(gate) for gate in gates):
            self._trigger_sync(pod.uid)
        if self._overwritten(entry) and pod.uid not in self._overwrite_checks:
            self._overwrite_checks[pod.uid] = False
            self._woken.set()

    def terminated(self, pod: Pod) -> None:
        """Record the release of all resources; see :class:`~nodeagent.podworker.interfaces.StatusReporter`."""
        entry = self._entries.get(pod.uid)
        if entry is not None:
            entry.pod = pod
            entry.terminated = True
            self._mark(pod.uid)

    def forget(self, uid: str) -> None:
        self._entries.pop(uid, None)
        self._dirty.pop(uid, None)
        self._failing.discard(uid)

    def get(self, uid: str) -> PodStatus | None:
        entry = self._entries.get(uid)
        return entry.status if entry is not None else None

    def reported(self, pod: Pod) -> PodStatus | None:
        if not self._is_static(pod):
            return pod.status
        mirror = self._mirror_of(pod)
        return mirror.status if mirror is not None else None

    def mirror_appeared(self, uid: str, mirror: Pod) -> None:
        """Send the status of static pod *uid* to its new mirror pod, or resume the status from before a restart.

        Then the status is generated again before it is sent: probe results that the mirror pod reports remain.
        """
        entry = self._entries.get(uid)
        if entry is None:
            return
        entry.sent = mirror.status
        if self._mirror_of(entry.pod) is mirror:
            entry.status = resumed(entry.status, mirror.status)
            entry.resuming = bool(mirror.status.container_statuses) and not entry.ended
        if entry.resuming:
            self._trigger_sync(uid)
        else:
            self._mark(uid)

    # --- sending --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send changed statuses until cancelled."""
        async with TaskOwner("status") as tasks:
            while True:
                await self._woken.wait()
                self._woken.clear()
                for uid_to_check in [uid for uid, scheduled in self._overwrite_checks.items() if not scheduled]:
                    self._overwrite_checks[uid_to_check] = True
                    tasks.start(self._check_overwrite(uid_to_check), f"overwrite check {uid_to_check}")
                while self._dirty and len(self._busy) < PARALLEL_SENDS:
                    uid = next((uid for uid in self._dirty if uid not in self._busy), None)
                    if uid is None:
                        break
                    del self._dirty[uid]
                    self._busy.add(uid)
                    tasks.start(self._send_and_release(uid, tasks), uid)

    async def flush(self, timeout_seconds: float) -> None:
        """Send all pending statuses within the time limit."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while self._dirty or self._busy or self._failing:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            unsent = self._dirty.keys() | self._busy | self._failing
            _log.warning("Failed to send all pod statuses in time", extra={"pods": len(unsent)})

    def _note_change(self, entry: _Entry) -> None:
        if entry.changed_at is None:
            entry.changed_at = self._clock.now()
        self._mark(entry.pod.uid)

    def _mark(self, uid: str) -> None:
        self._dirty[uid] = None
        self._woken.set()

    async def _send_and_release(self, uid: str, tasks: TaskOwner) -> None:
        try:
            await self._notify_plugins(uid)
            await self._send(uid)
        except ApiError as error:
            self._failed(uid, error, tasks)
        else:
            self._succeeded(uid)
        finally:
            self._busy.discard(uid)
            self._woken.set()
            self._idle.set()

    def _succeeded(self, uid: str) -> None:
        self._failing.discard(uid)
        if (entry := self._entries.get(uid)) is not None:
            entry.backoff.reset()
        if self._unavailable:
            self._unavailable = False
            _log.info("Pod status updates recovered")

    def _failed(self, uid: str, error: ApiError, tasks: TaskOwner) -> None:
        if not self._unavailable:
            self._unavailable = True
            pod = entry.pod.full_name if (entry := self._entries.get(uid)) else ""
            _log.info("Failed to update status for pod", extra={"pod": pod, "podUID": uid, "err": str(error)})
        entry = self._entries.get(uid)
        if entry is not None and uid not in self._failing:
            self._failing.add(uid)
            tasks.start(self._send_again(uid, entry.backoff.next()), f"retry of {uid}")

    async def _send_again(self, uid: str, pause_seconds: float) -> None:
        """Retry after a back-off, during which newer statuses and those of other pods can be sent."""
        await self._clock.sleep(pause_seconds)
        if uid in self._failing:
            self._failing.discard(uid)
            if uid in self._entries:
                self._mark(uid)
        self._idle.set()

    async def _check_overwrite(self, uid: str) -> None:
        """Send a status again if the API still has a different one after a delay."""
        await self._clock.sleep(OVERWRITE_CHECK_SECONDS)
        while uid in self._busy:
            await self._clock.sleep(OVERWRITE_CHECK_SECONDS)
        del self._overwrite_checks[uid]
        entry = self._entries.get(uid)
        if entry is not None and self._overwritten(entry):
            entry.sent = self._api_object(entry).status
            self._trigger_sync(uid)

    def _overwritten(self, entry: _Entry) -> bool:
        """Return whether a condition owned by the agent differs in the API; terminal statuses are left unchanged."""
        status = self._api_object(entry).status
        if status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
            return False
        shown, sent = _condition_states(status), _condition_states(entry.sent)
        return any(shown.get(name) != sent[name] for name in sent.keys() & OWNED_CONDITIONS)

    async def _notify_plugins(self, uid: str) -> None:
        entry = self._entries.get(uid)
        if (
            entry is None
            or entry.notified == entry.status
            or not self._plugins.is_implemented("nodeagent_pod_status_changed")
        ):
            return
        entry.notified = entry.status
        await self._plugins.notify("nodeagent_pod_status_changed", pod=entry.pod, status=entry.status)

    async def _send(self, uid: str) -> None:
        api, entry = self._api(), self._entries.get(uid)
        if api is None or entry is None:
            return
        target = self._mirror_of(entry.pod) if entry.static else entry.pod
        if target is None or entry.resuming:
            return
        status, changed_at = entry.status, entry.changed_at
        entry.changed_at = None
        patch = status_patch(target.uid, entry.sent, status)
        try:
            if patch is not None:
                await api.patch(PODS, target.name, patch, target.namespace, subresource="status", decode=False)
                entry.sent = status
                _log.log(
                    v_level(3), "Status for pod updated successfully", extra={"pod": target.full_name, "podUID": uid}
                )
                if changed_at is not None:
                    SYNC_DURATION.observe(self._clock.now() - changed_at)
            if self._can_delete(entry):
                await api.delete(PODS, target.name, target.namespace, grace_seconds=0, uid=target.uid)
                entry.deleted = True
        except ApiNotFound:
            return
        except ApiError as error:
            if error.code not in _INVALID:
                entry.changed_at = changed_at
                raise
            _log.info(
                "Failed to update status for pod", extra={"pod": target.full_name, "podUID": uid, "err": str(error)}
            )
            entry.sent = status

    def _can_delete(self, entry: _Entry) -> bool:
        requested = entry.pod.metadata.deletion_timestamp is not None
        return entry.terminated and requested and not entry.static and not entry.deleted

    def _api_object(self, entry: _Entry) -> Pod:
        return (self._mirror_of(entry.pod) or entry.pod) if entry.static else entry.pod


def _condition_states(status: PodStatus) -> dict[str, str]:
    return {condition.type: condition.status for condition in status.conditions or ()}


def _with_external_conditions(status: PodStatus, shown: PodStatus, owned: Set[str]) -> PodStatus:
    """Return *status* with the conditions of other owners, all but *owned*, as stored in the API."""
    if status is shown:
        return status
    own = [c for c in status.conditions or () if c.type in owned]
    external = [c for c in shown.conditions or () if c.type not in owned]
    changes: dict[str, Any] = {"conditions": [*own, *external] or None}
    return msgspec.structs.replace(status, **changes)


def _health_lookup(lookup: DeviceHealthLookup, *, reported: bool, messages: bool) -> DeviceHealthLookup:
    """Return *lookup* limited to the content that feature gates enable."""
    if not reported:
        return lambda _uid, _container: {}
    if messages:
        return lookup

    def without_messages(uid: str, container: str) -> Mapping[str, Sequence[DeviceHealth]]:
        found = lookup(uid, container)
        return {name: [DeviceHealth(each.device_id, each.health) for each in health] for name, health in found.items()}

    return without_messages
