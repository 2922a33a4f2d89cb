"""What one call of the syncer works on, and what the agent remembers of a pod between calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodeagent.contracts.pods import SyncOutcome, WaitingReason
from nodeagent.contracts.runtime import RuntimePod, SandboxConfig
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Pod
from nodeagent_plugins.pod_sync.paths import PodPaths
from nodeagent_plugins.pod_sync.stopping import StopState


@dataclass(slots=True)
class PodSyncState:
    """What need not be found out again; losing it costs a little work and nothing else."""

    stops: StopState = field(default_factory=StopState)
    sandbox_configs: dict[str, SandboxConfig] = field(default_factory=dict)
    stopped_sandboxes: set[str] = field(default_factory=set)
    refused_discards: dict[str, float] = field(default_factory=dict)
    """When the runtime first refused to remove a container that never ran, by its id."""


@dataclass(slots=True)
class Step:
    """One call: its input, what was found out on the way, and what becomes of it."""

    pod: Pod
    observed: RuntimePod
    memory: PodSyncState
    paths: PodPaths
    sandbox_id: str = ""
    sandbox: SandboxConfig | None = None
    ips: Sequence[str] = ()
    volumes: Mapping[str, MountedVolume] = field(default_factory=dict)
    waiting: dict[str, WaitingReason] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    error: NodeAgentError | None = None
    retry_seconds: float | None = None
    image_seconds: float = 0.0

    def fail(self, error: NodeAgentError) -> None:
        """Note why the step has to be repeated; the first reason is kept."""
        if self.error is None:
            self.error = error

    def retry_in(self, seconds: float) -> None:
        """Note that something is due in *seconds*; the nearest is kept."""
        self.retry_seconds = seconds if self.retry_seconds is None else min(self.retry_seconds, seconds)

    def outcome(self) -> SyncOutcome:
        return SyncOutcome(self.waiting, frozenset(self.touched), self.error, self.retry_seconds, self.image_seconds)
