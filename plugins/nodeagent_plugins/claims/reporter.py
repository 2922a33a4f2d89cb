"""Reporter of claims for the pod-resources API."""

from __future__ import annotations

from nodeagent.contracts.pod_resources import AssignedClaim, AssignedResources, ClaimedDevice
from nodeagent.errors import ClaimError
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.claims.manager import Manager
from nodeagent_plugins.claims.pod_claims import uses_of


class ClaimReporter:
    """Implements :class:`~nodeagent.contracts.pod_resources.ResourceReporter`."""

    name = "claims"

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    def container_resources(self, pod: Pod, container: Container) -> AssignedResources:
        """Return the prepared claims that *container* uses."""
        try:
            uses = list(uses_of(pod, container))
        except ClaimError:
            return AssignedResources()
        claims: dict[str, dict[ClaimedDevice, None]] = {}
        for use in uses:
            entry = self._manager.cache.find(pod.namespace, use.claim, pod.uid)
            if entry is None:
                continue
            devices = (
                ClaimedDevice(driver, device.pool, device.device, tuple(device.cdi_devices), device.share_id)
                for driver, device in entry.devices(use.request)
            )
            claims.setdefault(use.claim, {}).update(dict.fromkeys(devices))
        return AssignedResources(
            claims=tuple(AssignedClaim(name, pod.namespace, tuple(devices)) for name, devices in claims.items())
        )

    def allocatable_resources(self) -> AssignedResources:
        """Return nothing, since the scheduler allocates devices of claims."""
        return AssignedResources()
