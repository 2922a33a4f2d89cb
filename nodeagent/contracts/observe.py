"""What the runtime shows of pods, and what becomes of it: the seams between PLEG, pod workers and status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from nodeagent.contracts.pods import WaitingReason
from nodeagent.contracts.runtime import RuntimePod
from nodeagent.model.pod import Pod, PodStatus


class PodObserver(Protocol):
    """The newest picture of each pod."""

    def get(self, uid: str) -> RuntimePod | None:
        """Return what was last observed, or ``None`` when the runtime knows nothing of the pod."""
        ...

    def pods(self) -> Iterable[RuntimePod]:
        """Return all pods that the runtime knows."""
        ...

    async def refresh(self, uid: str, touched: frozenset[str] | None = None) -> RuntimePod | None:
        """Look at a pod again now.

        :param touched: ids that changed; the rest is taken as last observed. ``None`` asks the runtime for everything.
        :raises RuntimeFailure: the runtime did not answer.
        """
        ...


class StatusReporter(Protocol):
    """Turns observations into the status that the API shows."""

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
        """Generate, keep and send the status of *pod*.

        A final phase is returned at once, and kept and sent once no container runs any more.

        :param waiting: why containers wait; ``None`` keeps what was given last.
        :param ended: nothing runs any more and nothing will be started.
        :param failed: reason and message of a pod that was ended or refused by the node.
        :param disrupted: why the node ended the pod for its own sake, as its condition tells.
        :param blocked: reason and message of a pod that was admitted and may not run now.
        """
        ...

    def shown(self, pod: Pod) -> None:
        """Take what the API server shows of *pod*, or of a static pod's mirror, where nothing else of it changed."""
        ...

    def terminated(self, pod: Pod) -> None:
        """Note that *pod* holds nothing any more: once its status is sent, a deleted pod leaves the API."""
        ...

    def forget(self, uid: str) -> None:
        """Drop a pod that nobody wants any more."""
        ...

    def get(self, uid: str) -> PodStatus | None:
        """Return the status last generated."""
        ...
