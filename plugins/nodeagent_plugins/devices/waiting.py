"""Pods that wait for the providers of their devices, and the time limit for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.contracts.context import VolumesContext
from nodeagent.contracts.events import EventType
from nodeagent.errors import DeviceError, DevicesNotReady
from nodeagent.model.pod import Pod
from nodeagent_plugins.devices.inventory import Resource

NOT_REGISTERED = "not registered since the agent started"
Masks = Mapping[str, frozenset[int] | None]
"""NUMA nodes to prefer, by container."""


class _Waiting(Struct, frozen=True):
    since: float
    """Monotonic time of the admission."""
    resources: frozenset[str] = frozenset()
    masks: Masks = field(default_factory=dict)


class WaitingPods:
    """Pods by UID.

    :param wait_seconds: time that a pod waits before it is rejected.
    """

    def __init__(self, context: VolumesContext, resources: Mapping[str, Resource], wait_seconds: float) -> None:
        self._context, self._resources, self._wait_seconds = context, resources, wait_seconds
        self._pods: dict[str, _Waiting] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def resources_of(self, uid: str) -> Collection[str]:
        """Return the resources that a pod waits for."""
        waiting = self._pods.get(uid)
        return waiting.resources if waiting is not None else ()

    def masks_of(self, uid: str) -> Masks:
        waiting = self._pods.get(uid)
        return waiting.masks if waiting is not None else {}

    def waiting_for(self, resource: str) -> Sequence[str]:
        """Return the UIDs of the pods that wait for *resource*."""
        return [uid for uid, waiting in self._pods.items() if resource in waiting.resources]

    def set(self, pod: Pod, resources: Collection[str], masks: Masks) -> bool:
        """Record the resources that *pod* waits for; return whether it did not wait before."""
        before = self._pods.pop(pod.uid, None)
        if not resources:
            return False
        since = before.since if before is not None else self._context.clock.now()
        self._pods[pod.uid] = _Waiting(since, frozenset(resources), masks)
        if before is not None:
            return False
        note = f"Pod waits for the device plugins of: {', '.join(sorted(resources))}"
        self._context.recorder.record(pod.reference(), EventType.WARNING, "WaitingForDevices", note)
        return True

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def check(self, uid: str) -> None:
        """Raise the reason why a pod waits, if it does.

        :raises DevicesNotReady: until the time limit.
        :raises DeviceError: the time limit is exceeded.
        """
        waiting = self._pods.get(uid)
        if waiting is None:
            return
        names = sorted(waiting.resources)
        if self._context.clock.now() - waiting.since >= self._wait_seconds:
            raise DeviceError(f"no healthy devices present; cannot allocate unhealthy devices {names[0]}")
        errors = [f"{name}: {self._resources[name].error or NOT_REGISTERED}" for name in names]
        raise DevicesNotReady(f"waiting for device plugins: {'; '.join(errors)}")

    def expire(self, due: float) -> float:
        """Sync the pods whose time is over; return the seconds until the next one, at most *due*."""
        now = self._context.clock.now()
        for uid, waiting in list(self._pods.items()):
            left = waiting.since + self._wait_seconds - now
            if left <= 0:
                self._context.pods.trigger_sync(uid)
            else:
                due = min(due, left)
        return due
