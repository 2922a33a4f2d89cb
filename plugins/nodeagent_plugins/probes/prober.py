"""Prober: one worker per probe of each pod, and the effective results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nodeagent.base.logging import v_level
from nodeagent.base.structs import Struct
from nodeagent.contracts.events import EventType
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import RuntimeContainerStatus, RuntimePod
from nodeagent.model.pod import Container, ContainerKind, Pod, PodStatus, Probe
from nodeagent_plugins.probes.actions import Actions
from nodeagent_plugins.probes.outcome import INITIAL
from nodeagent_plugins.probes.worker import ProbeWorker

if TYPE_CHECKING:
    from nodeagent.contracts.context import PullerContext

_log = logging.getLogger(__name__)

_STATUSES = {
    (ProbeKind.LIVENESS, ProbeResult.FAILURE): "unhealthy",
    (ProbeKind.READINESS, ProbeResult.SUCCESS): "ready",
    (ProbeKind.READINESS, ProbeResult.FAILURE): "",
    (ProbeKind.STARTUP, ProbeResult.SUCCESS): "started",
    (ProbeKind.STARTUP, ProbeResult.FAILURE): "unhealthy",
}
"""Status by result, as the kubelet logs it; a successful liveness probe is not logged."""
_Key = tuple[str, ProbeKind]
_Results = dict[ProbeKind, ProbeResult]


class _Running(Struct, frozen=True):
    worker: ProbeWorker
    task: asyncio.Task[None]


class ProbeManager:
    """Implements :class:`~nodeagent.contracts.probes.Prober`. Pods without probes need no worker."""

    def __init__(self, context: PullerContext) -> None:
        self._context, self._actions = context, Actions(context)
        self._started_at = context.clock.now()
        self._pods: dict[str, _PodProbes] = {}
        self._results: dict[str, _Results] = {}
        self._unreported: dict[str, _PodProbes] = {}
        self._starting: dict[str, _PodProbes] = {}
        """Pods with probed containers that have not started yet, by UID."""
        self._added: set[str] = set()

    def add_pod(self, pod: Pod, observed: RuntimePod) -> None:
        """Start, update or keep the probes of *pod*; idempotent and cheap."""
        self._added.add(pod.uid)
        known = self._pods.get(pod.uid)
        if known is None:
            if not any(probes_of(pod)):
                return
            known = self._pods[pod.uid] = self._starting[pod.uid] = _PodProbes(
                self._context, self._actions, self._results, self._unreported, self._started_at
            )
        known.update(pod, observed)
        if pod.metadata.deletion_timestamp is not None:
            known.end_liveness()

    def end_liveness(self, pod_uid: str) -> None:
        """Stop liveness and startup probes of a terminating pod; readiness probes continue.

        Liveness is reported as success. A container that has not started by then is never reported as started: its
        pod must not become ready.
        """
        if pod_uid in self._pods:
            self._pods[pod_uid].end_liveness()

    def remove_pod(self, pod_uid: str) -> None:
        """Stop all probes of a pod and drop the results."""
        self._added.discard(pod_uid)
        self._starting.pop(pod_uid, None)
        known = self._pods.pop(pod_uid, None)
        if known is not None:
            known.close()

    def result(self, container_id: str, kind: ProbeKind) -> ProbeResult | None:
        """Return the last effective result, or ``None`` if the container has no such probe."""
        if container_id not in self._results:
            # The result is requested right after the start, before a probe has run.
            self._see(container_id)
        if (waiting := self._unreported.get(container_id)) is not None:
            waiting.adopt_reported(container_id)
        known = self._results.get(container_id)
        return (self._reported_results(container_id) if known is None else known).get(kind)

    def _see(self, container_id: str) -> None:
        """Start probing a new container; searched first in the pods that have been waiting longest for their start."""
        for pod in self._starting.values():
            if pod.sees(container_id):
                if pod.complete:
                    del self._starting[pod.uid]
                return
        any(pod.sees(container_id) for pod in self._pods.values())

    def _reported_results(self, container_id: str) -> _Results:
        """Return the reported results of a container from before a restart, until its pod is added."""
        for pod in self._context.pods.active():
            if pod.metadata.uid in self._added or (status := self._context.pods.reported_status(pod.uid)) is None:
                continue
            if found := reported(pod, status, container_id):
                return found
        return {}


class _PodProbes:
    """Probes of one pod.

    :param results: the effective results by container ID, of all pods.
    :param unreported: pods by the ID of a container whose status in the API has not been read, as before the mirror pod
        of a static pod is known.
    """

    def __init__(
        self,
        context: PullerContext,
        actions: Actions,
        results: dict[str, _Results],
        unreported: dict[str, _PodProbes],
        started_at: float,
    ) -> None:
        self._context, self._actions, self._started_at = context, actions, started_at
        self._results, self._unreported = results, unreported
        self._probed: set[_Key] = set()
        """Container IDs in *unreported*, with the probes that had a result since the start of the agent."""
        self._workers: dict[_Key, _Running] = {}
        self._containers: dict[str, str] = {}
        self._liveness_ended = False
        self._pod = Pod()
        self._observed = RuntimePod("", "", "")

    # --- calls of the manager -------------------------------------------------------------------------------

    def update(self, pod: Pod, observed: RuntimePod) -> None:
        """Update the workers for *pod* and its new containers."""
        resumed = self._liveness_ended and pod.metadata.deletion_timestamp is None
        if resumed:  # The pod was stopped because it was not permitted to run, and now it is.
            self._liveness_ended = False
        changed = resumed or pod.spec != self._pod.spec
        self._pod, self._observed = pod, observed
        if changed:
            self._replace_workers()
        for name in {name for name, _ in self._workers}:
            status = self.newest(name)
            if status is not None:
                self.start_container(name, status.id)

    def end_liveness(self) -> None:
        if self._liveness_ended:
            return
        self._liveness_ended = True
        for key in [key for key in self._workers if key[1] is not ProbeKind.READINESS]:
            self._end(key)
        for container_id in self._containers.values():
            results = self._results.get(container_id, {})
            if ProbeKind.LIVENESS in results:
                results[ProbeKind.LIVENESS] = ProbeResult.SUCCESS

    def close(self) -> None:
        for key in list(self._workers):
            self._end(key)
        for container_id in self._containers.values():
            self._drop(container_id)

    def sees(self, container_id: str) -> bool:
        """Start probing a container if it is the latest with its name in this pod; return whether it is."""
        for name in {name for name, _ in self._workers}:
            status = self.newest(name)
            if status is not None and status.id == container_id:
                self.start_container(name, container_id)
                return True
        return False

    @property
    def complete(self) -> bool:
        """True if all probed containers have started."""
        return all(name in self._containers for name, _ in self._workers)

    def adopt_reported(self, container_id: str) -> None:
        """Use the results in the API for probes without a result, once the pod's status there has been read."""
        status = self._context.pods.reported_status(self.uid)
        if status is None:
            return
        del self._unreported[container_id]
        probed = {kind for owner, kind in self._probed if owner == container_id}
        self._probed -= {(container_id, kind) for kind in probed}
        adopted = {kind: r for kind, r in reported(self._pod, status, container_id).items() if kind not in probed}
        if adopted:
            self._results[container_id] |= adopted
            self._trigger(next(name for name, known in self._containers.items() if known == container_id))

    # --- calls of the workers -------------------------------------------------------------------------------

    @property
    def uid(self) -> str:
        return self._pod.uid

    @property
    def name(self) -> str:
        return self._pod.name

    @property
    def namespace(self) -> str:
        return self._pod.namespace

    def pod_ip(self) -> str:
        status = self._context.pods.status(self.uid)
        if status is not None and status.pod_ip:
            return status.pod_ip
        ips = self._now().ips
        return ips[0] if ips else ""

    def newest(self, name: str) -> RuntimeContainerStatus | None:
        return self._now().newest(name)

    def start_container(self, name: str, container_id: str) -> None:
        """Set the initial results of a new container and trigger its probes."""
        before = self._containers.get(name)
        if before == container_id:
            return
        self._containers[name] = container_id
        if before is not None:
            self._drop(before)
        self._results[container_id] = {kind: INITIAL[kind] for owner, kind in self._workers if owner == name}
        if before is None:
            self._unreported[container_id] = self
            self.adopt_reported(container_id)
        self._trigger(name)

    def result(self, container_id: str, kind: ProbeKind) -> ProbeResult | None:
        return self._results.get(container_id, {}).get(kind)

    def set_result(self, container_id: str, name: str, kind: ProbeKind, result: ProbeResult) -> None:
        results = self._results.get(container_id)
        if container_id in self._unreported:
            self._probed.add((container_id, kind))
        if results is None or results.get(kind) is result:
            return
        results[kind] = result
        if kind is ProbeKind.STARTUP and result is ProbeResult.SUCCESS:
            for waiting in (ProbeKind.READINESS, ProbeKind.LIVENESS):
                if (name, waiting) in self._workers:
                    self._workers[name, waiting].worker.trigger()
        if (status := _STATUSES.get((kind, result))) is not None:
            fields = {"probe": kind.lower(), "status": status, "pod": self._pod.full_name, "containerName": name}
            _log.log(v_level(1), "SyncLoop (probe)", extra=fields)
        self._context.pods.trigger_sync(self.uid)

    def record(self, field_path: str, type: EventType, reason: str, note: str) -> None:
        self._context.recorder.record(self._pod.reference(field_path), type, reason, note)

    # --- helpers --------------------------------------------------------------------------------------------

    def _now(self) -> RuntimePod:
        return self._context.pods.observed(self.uid) or self._observed

    def _trigger(self, name: str) -> None:
        for (owner, _), running in self._workers.items():
            if owner == name:
                running.worker.trigger()

    def _end(self, key: _Key) -> None:
        """End a probe, which then has no metrics."""
        running = self._workers.pop(key)
        running.task.cancel()
        running.worker.remove_metrics()

    def _drop(self, container_id: str) -> None:
        """Remove the results of a container."""
        self._results.pop(container_id, None)
        self._unreported.pop(container_id, None)

    def _replace_workers(self) -> None:
        desired = {
            (container.name, kind): (where, container, probe) for where, container, kind, probe in probes_of(self._pod)
        }
        for key, running in list(self._workers.items()):
            if key not in desired:
                self._end(key)
            elif desired[key][2] != running.worker.probe:
                self._workers.pop(key).task.cancel()
        for key, (where, container, probe) in desired.items():
            name, kind = key
            if key in self._workers or (self._liveness_ended and kind is not ProbeKind.READINESS):
                continue
            worker = ProbeWorker(self._context, self._actions, self, (where, container), kind, probe, self._started_at)
            task = self._context.tasks.start(worker.run(), f"probe/{self._pod.full_name}/{name}/{kind}")
            self._workers[key] = _Running(worker, task)


def reported(pod: Pod, status: PodStatus, container_id: str) -> _Results:
    """Return the successful probes of a container in *status*, the status of *pod* in the API.

    A restart of the agent does not make pods unready: where the kubelet starts with "not ready", the reported readiness
    remains until a probe changes it, and a completed startup is not repeated.
    """
    containers = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    shown = next((s for s in containers if str(s.container_id).rpartition("://")[2] == container_id), None)
    if shown is None:
        return {}
    successful = {ProbeKind.READINESS: shown.ready, ProbeKind.STARTUP: shown.started}
    return {
        kind: ProbeResult.SUCCESS
        for _, container, kind, _ in probes_of(pod)
        if container.name == shown.name and successful.get(kind)
    }


def probes_of(pod: Pod) -> Iterator[tuple[ContainerKind, Container, ProbeKind, Probe]]:
    """Yield the probes of regular containers and sidecars."""
    for where, container in pod.containers():
        if where is ContainerKind.EPHEMERAL or (where is ContainerKind.INIT and not container.restartable_init):
            continue
        for kind, probe in (
            (ProbeKind.LIVENESS, container.liveness_probe),
            (ProbeKind.READINESS, container.readiness_probe),
            (ProbeKind.STARTUP, container.startup_probe),
        ):
            if probe is not None:
                yield where, container, kind, probe
