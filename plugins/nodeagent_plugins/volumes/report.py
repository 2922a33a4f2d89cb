"""Local query for the volumes on this node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodeagent.contracts.persistent_volumes import VolumeState
from nodeagent.contracts.stats import FilesystemStats
from nodeagent.contracts.volume_report import VolumeLine, VolumesReport, VolumesRequest
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Pod
from nodeagent_plugins.volumes.manager import Manager

if TYPE_CHECKING:
    from nodeagent.contracts.context import AgentContext


class VolumeReporter:
    """Combines the states of volumes with their pods and their last measurements."""

    def __init__(self, context: AgentContext, manager: Manager) -> None:
        self._context, self._manager = context, manager

    async def report(self, request: VolumesRequest) -> VolumesReport:
        """Return the selected volumes; nothing is measured now, because a driver may not respond."""
        used = await self._usage()
        now = self._context.clock.now()
        lines = []
        for state in self._manager.states():
            pod = self._context.pods.get(state.pod_uid) if state.pod_uid else None
            if request.namespace and (pod is None or pod.namespace != request.namespace):
                continue
            if request.pod and (pod is None or pod.name != request.pod):
                continue
            lines.append(volume_line(state, pod, used.get((state.pod_uid, state.volume)), now))
        lines.sort(key=lambda line: (line.namespace, line.pod, line.pod_uid, line.volume or line.name))
        return VolumesReport(self._context.node_name, lines)

    async def _usage(self) -> Mapping[tuple[str, str], FilesystemStats]:
        try:
            pods = await self._context.stats.pods()
        except NodeAgentError:
            return {}
        return {(pod.uid, volume.name): volume.filesystem for pod in pods for volume in pod.volumes}


def volume_line(state: VolumeState, pod: Pod | None, used: FilesystemStats | None, now: float) -> VolumeLine:
    """Return one line of the report.

    :param state: state of the volume.
    :param pod: its pod; ``None`` if it is not desired.
    :param used: the last measurement.
    :param now: monotonic time.
    """
    owners = (pod.metadata.owner_references or ()) if pod is not None else ()
    owner = next((f"{each.kind}/{each.name}" for each in owners if each.controller), "")
    return VolumeLine(
        namespace=pod.namespace if pod is not None else "",
        pod=pod.name if pod is not None else "",
        pod_uid=state.pod_uid,
        owner=owner,
        volume=state.volume,
        name=state.name,
        claim=state.claim,
        driver=state.plugin,
        state=state.phase,
        path=state.path,
        call=state.call,
        running_seconds=round(now - state.running_since, 3) if state.running_since else None,
        error=state.error,
        retry_seconds=round(max(0.0, state.next_attempt - now), 3) if state.next_attempt else None,
        used_bytes=used.used_bytes if used is not None else None,
        available_bytes=used.available_bytes if used is not None else None,
    )
