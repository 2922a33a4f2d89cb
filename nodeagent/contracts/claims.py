"""Contracts of dynamic resource allocation: drivers that prepare the devices of resource claims, and the claim manager.

A driver is a gRPC driver that registers with a socket, or an object of a Python plugin. Both have the same permissions,
and their claims are prepared, stored and reported in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from nodeagent.base.structs import Struct
from nodeagent.contracts.devices import DeviceHealth
from nodeagent.model.pod import Container, Pod


class ClaimReference(Struct, frozen=True, order=True):
    """A resource claim."""

    namespace: str
    name: str
    uid: str


class PreparedDevice(Struct, frozen=True):
    """A device of a claim as prepared by its driver."""

    pool: str
    device: str
    requests: Sequence[str] = ()
    """Requests of the claim that the device satisfies; empty for all."""
    cdi_devices: Sequence[str] = ()
    """Qualified CDI names that containers receive."""
    share_id: str | None = None


class PrepareResult(Struct, frozen=True):
    """Result for one claim; with an *error* the claim is not prepared."""

    devices: Sequence[PreparedDevice] = ()
    error: str = ""


class ReportedHealth(Struct, frozen=True):
    """Health of a device as reported by its driver."""

    pool: str
    device: str
    health: str
    """``Healthy``, ``Unhealthy`` or ``Unknown``."""
    message: str = ""
    timeout_seconds: float = 30.0
    """Time after which the health is unknown unless it is reported again."""


PublishHealth = Callable[[Sequence[ReportedHealth]], None]
"""Publishes the health of all devices of a driver, which replaces the previous one."""


class ClaimDriver(Protocol):
    """Prepares the devices of claims on this node.

    All methods are idempotent: a claim may be prepared or unprepared again after a restart of the agent or the driver.
    """

    name: str
    """Name of the driver in the allocation of claims, a DNS subdomain."""
    endpoint: str
    """Origin for display: the socket of a gRPC driver or the name of a Python plugin."""

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareResult]:
        """Prepare the devices of claims for containers.

        :param claims: claims that are allocated and reserved for a pod on this node.
        :returns: one result per claim, by UID.
        :raises ClaimError: the call failed; none of the claims is prepared.
        """
        ...

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Undo the preparation of claims that no pod on this node uses any more; the objects may be deleted.

        :param claims: the claims.
        :returns: one error message per claim, by UID; empty for success.
        :raises ClaimError: the call failed; the claims are unprepared again.
        """
        ...

    async def watch_health(self, publish: PublishHealth) -> None:
        """Publish the health of all devices, and again after each change, until cancelled.

        If it returns, the health of the devices is not reported. If it raises, it is called again after a pause.

        :param publish: called with each complete list.
        :raises ClaimError: the health is unavailable.
        """
        ...


class ClaimedDeviceHealth(Struct, frozen=True):
    """Health of the devices of one claim that a container uses."""

    claim: str
    """``claim:<name in the pod>`` or ``claim:<name in the pod>/<request>``; the resource for extended resources."""
    devices: Sequence[DeviceHealth]


class ClaimManager(Protocol):
    """Prepares the claims of pods; ``context.claims``."""

    async def prepare_pod(self, pod: Pod) -> None:
        """Prepare the claims of *pod*; called before a sandbox or container is created. Idempotent.

        :param pod: the pod with its status in the API.
        :raises ClaimError: a claim cannot be prepared now; called again, and triggered when its driver registers.
        """
        ...

    async def release_pod(self, pod: Pod) -> None:
        """Unprepare the claims that only *pod* used; called after its last container has stopped. Idempotent.

        Until it succeeds, the pod does not reach a terminal phase, since its devices may then be allocated elsewhere.

        :param pod: the pod.
        :raises ClaimError: a claim cannot be unprepared now; called again, and triggered when its driver registers.
        """
        ...

    def is_in_use(self, pod_uid: str) -> bool:
        """Return whether a claim may be prepared for a pod, which then does not reach a terminal phase.

        :param pod_uid: UID of the pod.
        """
        ...

    def cdi_devices(self, pod: Pod, container: Container) -> Sequence[str]:
        """Return the CDI names of the devices that *container* uses; see :meth:`prepare_pod`.

        :param pod: the pod with its status in the API.
        :param container: one of its containers.
        :raises ClaimError: a claim is not prepared.
        """
        ...

    def devices(self, pod: Pod, container: Container) -> Sequence[ClaimedDeviceHealth]:
        """Return the prepared devices of a container; their health is ``Unknown`` if the driver does not report it.

        :param pod: the pod with its status in the API.
        :param container: one of its containers.
        """
        ...

    def health(self, pod: Pod, container: Container) -> Sequence[ClaimedDeviceHealth]:
        """Return the health of the devices of a container whose driver reports it.

        :param pod: the pod with its status in the API.
        :param container: one of its containers.
        """
        ...
