"""Certificates of all pods on the node, by volume and source."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from nodeagent.base.aio.waker import wait_for
from nodeagent.base.metrics import SampledGauge
from nodeagent.errors import VolumeError
from nodeagent.model.pod import Pod, PodCertificate
from nodeagent_plugins.volumes.pod_certificates.projection import Credentials, Projection
from nodeagent_plugins.volumes.pod_certificates.requests import CertificateRequests

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

FIRST_WAIT_SECONDS = 5.0
"""Time that the setup of a volume waits for its first certificate before it fails and is repeated."""
STATES = SampledGauge(
    "podcertificate_states",
    "Gauge vector reporting the number of pod certificate projected volume sources, faceted by signer_name and state.",
    ("signer_name", "state"),
)


class _Key(NamedTuple):
    pod_uid: str
    volume: str
    source_index: int


class PodCertificates:
    """Starts a task per certificate when its volume is set up, which ends with the volume or the pod."""

    def __init__(self, context: CgroupsContext) -> None:
        self._context = context
        self._requests = CertificateRequests(context, context.api) if context.api is not None else None
        self._projections: dict[_Key, tuple[Projection, asyncio.Task[None]]] = {}
        STATES.sample = self._count

    async def credentials(self, pod: Pod, volume: str, index: int, source: PodCertificate) -> Credentials:
        """Return key and certificate for the source *index* of *volume*.

        :raises VolumeError: there is no certificate yet, or the signer rejected the request.
        """
        if self._requests is None:
            raise VolumeError("podCertificate projection is not supported in static kubelet mode")
        key = _Key(pod.uid, volume, index)
        if key not in self._projections:
            new = Projection(self._context, self._requests, pod, source)
            task = self._context.tasks.start(self._run(key, new), f"pod-certificate/{pod.full_name}/{volume}/{index}")
            self._projections[key] = new, task
            await wait_for(new.settled, self._context.clock, FIRST_WAIT_SECONDS)
        return self._projections[key][0].credentials()

    async def _run(self, key: _Key, projection: Projection) -> None:
        await projection.run()
        if key in self._projections and self._projections[key][0] is projection:
            del self._projections[key]

    def forget(self, pod_uid: str, volume: str) -> None:
        """Drop the certificates of a volume; keys are stored nowhere else."""
        for key in [key for key in self._projections if key[:2] == (pod_uid, volume)]:
            self._projections.pop(key)[1].cancel()

    def _count(self) -> Mapping[tuple[str, ...], float]:
        counts: Counter[tuple[str, ...]] = Counter()
        for projection, _ in self._projections.values():
            counts[projection.source.signer_name, projection.state()] += 1
        return counts
