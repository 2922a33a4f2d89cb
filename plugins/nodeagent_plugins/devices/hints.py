"""Devices as a provider of topology hints."""

from __future__ import annotations

from nodeagent.contracts.topology import Hint, Hints
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.devices.manager import Devices


class DeviceHints:
    """:class:`~nodeagent.contracts.topology.HintProvider` of the device manager."""

    name = "devices"

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    def container_hints(self, pod: Pod, container: Container) -> Hints:
        return self._devices.reservations.container_hints(pod, container)

    def pod_hints(self, pod: Pod) -> Hints:
        return self._devices.reservations.pod_hints(pod)

    def allocate(self, pod: Pod, container: Container, hint: Hint) -> None:
        self._devices.reserve_aligned(pod, container, hint.nodes)

    def release(self, pod_uid: str) -> None:
        self._devices.undo(pod_uid)
