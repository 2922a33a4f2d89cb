"""What the agent hands to its plugins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nodeagent.base.aio import Clock, TaskOwner
from nodeagent.base.gates import FeatureGates
from nodeagent.config.settings import NodeSettings
from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.contracts.api import Api
from nodeagent.contracts.cgroups import CgroupManager
from nodeagent.contracts.events import EventRecorder
from nodeagent.contracts.images import ImagePuller
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.objects import ObjectReader
from nodeagent.contracts.pods import PodDirectory, PodSyncer
from nodeagent.contracts.probes import Prober
from nodeagent.contracts.runtime import ContainerRuntime, ImageService
from nodeagent.contracts.stats import StatsProvider
from nodeagent.contracts.volumes import VolumeManager
from nodeagent.model.meta import ObjectReference


async def _nothing_to_flush(_seconds: float) -> None:
    """Return at once: there is no API server to tell."""


class NewApi(Protocol):
    """Makes another client of the API server, with a rate of its own."""

    def __call__(self, qps: float, burst: int, /, *, deadline_seconds: float | None = None) -> Api:
        """Return a client that sends *qps* queries a second and *burst* at once; 0 is unlimited.

        :param deadline_seconds: how long one attempt may take; ``None`` is as long as with the agent's own client.
        """
        ...


async def _at_once() -> None:
    """Keep nobody waiting, for there is no API server."""


@dataclass(slots=True, kw_only=True)
class AgentContext:
    """The node and its parts, filled in the order of the fields while the agent starts.

    A provide hook may keep the context; it must not use a part before its own turn is over, because later parts are
    set after earlier ones. ``None`` means "not in this mode" for ``api`` only.
    """

    config: NodeAgentConfiguration
    gates: FeatureGates
    settings: NodeSettings
    clock: Clock
    tasks: TaskOwner
    """Owns what plugins start; closed before the clients."""
    cleanup: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Takes what plugins open and must close at the end: ``cleanup.push_async_callback(channel.close)``."""
    plugin_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Validated settings from ``--plugin-config`` by plugin name."""
    api: Api | None = None
    """The rate-limited client; ``None`` in standalone mode."""
    new_api: NewApi | None = None
    """Make another client with its own rate, such as for events."""
    node: Callable[[], Mapping[str, Any] | None] = lambda: None
    """Return the node object as last read from or written to the API server."""
    wait_for_node: Callable[[], Awaitable[None]] = _at_once
    """Wait until the API server has told whether this node is there: by its labels and taints pods are admitted."""
    node_reference: Callable[[], ObjectReference] = ObjectReference
    """Return a reference to this node, for events."""
    trigger_node_status: Callable[[], None] = lambda: None
    """Have the node's status computed and reported now, because what a plugin reports has changed."""
    queries: Mapping[str, LocalQuery] = field(default_factory=dict)
    """What the agent can be asked, by name, once everything stands."""
    flush_statuses: Callable[[float], Awaitable[None]] = _nothing_to_flush
    """Wait until the API server has been told every pod's status, at most the given seconds."""
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
