"""Agent context: configuration and components that are shared with plugins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nodeagent.base.aio import Clock, TaskOwner
from nodeagent.base.gates import FeatureGates
from nodeagent.contracts.api import Api, ConnectApi
from nodeagent.contracts.cgroups import CgroupManager
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.effective_config import EffectiveConfig
from nodeagent.contracts.events import EventRecorder
from nodeagent.contracts.images import ImagePuller
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.objects import ObjectReader
from nodeagent.contracts.pods import PodDirectory, PodSyncer
from nodeagent.contracts.probes import Prober
from nodeagent.contracts.runtime import ContainerRuntime, ImageService
from nodeagent.contracts.settings import NodeSettings
from nodeagent.contracts.stats import StatsProvider
from nodeagent.contracts.volumes import VolumeManager
from nodeagent.model.meta import ObjectReference


async def _nothing_to_flush(_seconds: float) -> None:
    """Return immediately; there is no API server."""


class NewApi(Protocol):
    """Creates another API client with a separate rate limit."""

    def __call__(self, qps: float, burst: int, /, *, deadline_seconds: float | None = None) -> Api:
        """Return a client that is limited to *qps* requests per second with bursts of *burst*; 0 is unlimited.

        :param deadline_seconds: time limit of one attempt; defaults to that of the agent's client.
        """
        ...


async def _return_immediately() -> None:
    """Return immediately; there is no API server."""


@dataclass(slots=True, kw_only=True)
class AgentContext:
    """Configuration and components of the agent; components are set in the order of the fields during startup.

    A provider hook may store the context, but must not use a component that is not set yet. Only ``api`` and
    ``new_api`` may be ``None`` (standalone mode).
    """

    config: NodeAgentConfiguration
    gates: FeatureGates
    settings: NodeSettings
    effective: EffectiveConfig
    """The configuration in other forms, and the files that it names."""
    connect_api: ConnectApi
    """Connects to an API server with another kubeconfig than the agent's."""
    clock: Clock
    tasks: TaskOwner
    """Owner of the tasks that plugins start; closed before the clients."""
    cleanup: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Callbacks that run on shutdown: ``cleanup.push_async_callback(channel.close)``."""
    plugin_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Validated settings from ``--plugin-config`` by plugin name."""
    api: Api | None = None
    """The rate-limited client; ``None`` in standalone mode."""
    new_api: NewApi | None = None
    """Creates another client with a separate rate limit, for example for events."""
    node: Callable[[], Mapping[str, Any] | None] = lambda: None
    """Returns the node object as last read from or written to the API server."""
    wait_for_node: Callable[[], Awaitable[None]] = _return_immediately
    """Waits until the node object was read once; admission uses its labels and taints."""
    node_reference: Callable[[], ObjectReference] = ObjectReference
    """Returns a reference to this node, for events."""
    trigger_node_status: Callable[[], None] = lambda: None
    """Requests an immediate node status update, because a plugin's report has changed."""
    queries: Mapping[str, LocalQuery] = field(default_factory=dict)
    """Local queries by name, set once all components exist."""
    flush_statuses: Callable[[float], Awaitable[None]] = _nothing_to_flush
    """Waits until all pod statuses were sent to the API server, at most the given seconds."""
    recorder: EventRecorder = field(init=False)
    runtime: ContainerRuntime = field(init=False)
    images: ImageService = field(init=False)
    objects: ObjectReader = field(init=False)
    cgroups: CgroupManager = field(init=False)
    volumes: VolumeManager = field(init=False)
    puller: ImagePuller = field(init=False)
    pods: PodDirectory = field(init=False)
    prober: Prober = field(init=False)
    stats: StatsProvider = field(init=False)
    syncer: PodSyncer = field(init=False)

    @property
    def node_name(self) -> str:
        return self.settings.node_name

    @property
    def root_dir(self) -> Path:
        return Path(self.settings.root_dir)

    def pod_dir(self, pod_uid: str) -> Path:
        """Return the directory of a pod: ``<root>/pods/<uid>``."""
        return self.root_dir / "pods" / pod_uid
