"""Interfaces that pod workers require from PLEG and the status manager."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from nodeagent.contracts.pods import WaitingReason
from nodeagent.contracts.runtime import RuntimePod, SandboxStatus
from nodeagent.model.pod import Pod, PodStatus


class PodObserver(Protocol):
    """The cached runtime status of each pod."""

    def get(self, uid: str) -> RuntimePod | None:
        """Return the last observed status, or ``None`` if the pod does not exist in the runtime."""
        ...

    def is_known(self, uid: str) -> bool:
        """Return false if the status of the pod in the runtime could not be read yet, or not since a change."""
        ...

    def pods(self) -> Iterable[RuntimePod]:
        """Return all pods that exist in the runtime and whose status could be read."""
        ...

    def uids(self) -> frozenset[str] | None:
        """Return the UIDs of all pods that exist in the runtime, ``None`` until it has listed them."""
        ...

    def forget(self, uid: str) -> None:
        """Drop a pod that was removed from the runtime."""
        ...

    async def refresh(
        self, uid: str, touched: frozenset[str] | None = None, created: SandboxStatus | None = None
    ) -> RuntimePod | None:
        """Refresh the status of a pod now.

        :param touched: IDs of changed sandboxes and containers; others are taken from the cache. ``None`` is all.
        :param created: status of a new sandbox among them, which was requested already.
        :raises RuntimeFailure: the runtime did not respond.
        """
        ...


class StatusReporter(Protocol):
    """Generates pod statuses and sends them to the API server."""

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
        """Generate, cache and send the status of *pod*.

        A terminal phase is returned immediately, but cached and sent only once no container is running.

        :param waiting: waiting reasons by container; ``None`` keeps the previous ones.
        :param ended: no container is running and none will be started.
        :param failed: reason and message of a pod that the node terminated or rejected.
        :param disrupted: message of the ``DisruptionTarget`` condition.
        :param blocked: reason and message of an admitted pod that must not run now.
        """
        ...

    def record_api_status(self, pod: Pod) -> None:
        """Record the status that the API server reports for *pod* or a static pod's mirror pod."""
        ...

    def terminated(self, pod: Pod) -> None:
        """Record that all resources of *pod* are released, so that a deleted pod can be removed from the API."""
        ...

    def forget(self, uid: str) -> None:
        """Remove a pod that is no longer desired from the cache."""
        ...

    def get(self, uid: str) -> PodStatus | None:
        """Return the last generated status."""
        ...

    def reported(self, pod: Pod) -> PodStatus | None:
        """Return the status in the API, for a static pod that of its mirror pod, if there is one."""
        ...
