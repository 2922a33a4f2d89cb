"""Health of a container's devices, from the device manager and the claim manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodeagent.contracts.claims import ClaimManager
from nodeagent.contracts.devices import DeviceHealth, DeviceManager
from nodeagent.contracts.pods import PodDirectory


class DeviceHealthReport:
    """Combines the health of extended resources and of claims.

    :param claims: ``None`` if dynamic resource allocation is disabled.
    """

    def __init__(self, devices: DeviceManager, claims: ClaimManager | None, pods: PodDirectory) -> None:
        self._devices, self._claims, self._pods = devices, claims, pods

    def of_container(self, pod_uid: str, name: str) -> Mapping[str, Sequence[DeviceHealth]]:
        """Return the health of a container's devices by resource or claim."""
        found = dict(self._devices.health(pod_uid, name))
        pod = self._pods.get(pod_uid) if self._claims is not None else None
        if self._claims is None or pod is None or not self._claims.is_in_use(pod_uid):
            return found
        container = next((each for _, each in pod.containers() if each.name == name), None)
        if container is not None:
            found |= {each.claim: each.devices for each in self._claims.health(pod, container)}
        return found
