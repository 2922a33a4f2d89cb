"""State of one syncer call, and the cached state of a pod between calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.images import PulledImage
from nodeagent.contracts.pods import SyncOutcome, WaitingReason
from nodeagent.contracts.runtime import RuntimePod, SandboxConfig, SandboxStatus
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import ImageError, NodeAgentError
from nodeagent.model.pod import Pod
from nodeagent_plugins.pod_sync.definitions import Definitions
from nodeagent_plugins.pod_sync.paths import PodPaths
from nodeagent_plugins.pod_sync.stopping import StopState


class PodSyncState(MutableStruct):
    """Cached state; losing it only costs additional calls."""

    paths: PodPaths
    stops: StopState = field(default_factory=StopState)
    sandbox_configs: dict[str, SandboxConfig] = field(default_factory=dict)
    stopped_sandboxes: set[str] = field(default_factory=set)
    stopping_since: float | None = None
    """Time of the first failed attempt to stop the containers of the pod."""
    definitions: Definitions = field(default_factory=Definitions)
    failed_discards: dict[str, float] = field(default_factory=dict)
    """Time of the first failed removal of a container that was never started, by container ID."""


class Step(MutableStruct):
    """One call: input, intermediate state and outcome."""

    pod: Pod
    observed: RuntimePod
    memory: PodSyncState
    paths: PodPaths
    sandbox_id: str = ""
    sandbox: SandboxConfig | None = None
    runtime_handler: str = ""
    ips: Sequence[str] = ()
    volumes: Mapping[str, MountedVolume] = field(default_factory=dict)
    volume_images: dict[str, PulledImage | ImageError] | None = None
    """Result of the pull of each image volume; ``None`` before the pulls."""
    waiting: dict[str, WaitingReason] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    error: NodeAgentError | None = None
    retry_seconds: float | None = None
    image_seconds: float = 0.0
    resize_error: str = ""
    """Cause for which running containers could not be resized."""
    created_sandbox: SandboxStatus | None = None

    def fail(self, error: NodeAgentError) -> None:
        """Record why the step must be repeated; the first error is kept."""
        if self.error is None:
            self.error = error

    def retry_in(self, seconds: float) -> None:
        """Record that the next sync is due in *seconds*; the minimum is kept."""
        self.retry_seconds = seconds if self.retry_seconds is None else min(self.retry_seconds, seconds)

    def outcome(self) -> SyncOutcome:
        return SyncOutcome(
            self.waiting,
            frozenset(self.touched),
            self.error,
            self.retry_seconds,
            self.image_seconds,
            self.resize_error,
            self.created_sandbox,
        )
