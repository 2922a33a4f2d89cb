"""Plugin context: configuration and components that the agent shares with plugins, in stages.

A hook receives the stage that exists when it is called; each stage adds the components that were created since the
previous one. A component of a later stage is neither an attribute for the type checker nor available at runtime::

    ConfigContext    configuration, settings, clock, tasks
    ApiContext       + api, new_api
    RuntimeContext   + runtime
    ImageContext     + images
    RecorderContext  + recorder, node_reference, pods, allocations
    NodeContext      + node, on_node_change, wait_for_node, trigger_node_status, runtime_status
    ObjectsContext   + objects
    CgroupsContext   + cgroups
    VolumesContext   + volumes
    DevicesContext   + devices
    ClaimsContext    + claims
    PullerContext    + puller
    ProberContext    + prober
    StatsContext     + stats
    AgentContext     + syncer, flush_statuses
    ServerContext    + queries
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from msgspec import field

from nodeagent.base.aio import Clock, TaskOwner
from nodeagent.base.gates import FeatureGates
from nodeagent.base.release import SelectedRelease
from nodeagent.base.structs import Struct
from nodeagent.contracts.allocation import PodAllocations
from nodeagent.contracts.api import Api, ConnectApi
from nodeagent.contracts.cgroups import CgroupManager
from nodeagent.contracts.claims import ClaimManager
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.devices import DeviceManager
from nodeagent.contracts.effective_config import EffectiveConfig
from nodeagent.contracts.events import EventRecorder
from nodeagent.contracts.images import ImagePuller
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.objects import ObjectReader
from nodeagent.contracts.pods import PodDirectory, PodSyncer
from nodeagent.contracts.probes import Prober
from nodeagent.contracts.runtime import ContainerRuntime, ImageService, RuntimeStatus
from nodeagent.contracts.settings import NodeSettings
from nodeagent.contracts.stats import StatsProvider
from nodeagent.contracts.volumes import VolumeManager
from nodeagent.errors import NodeAgentError
from nodeagent.model.meta import ObjectReference

S = TypeVar("S", bound="ConfigContext")


class ComponentUnavailable(NodeAgentError, AttributeError):
    """A plugin requested a component that does not exist yet; the message names the hook and the component."""

    reason = "ComponentUnavailable"


def _ignore_listener(listener: Callable[[], None]) -> None:
    """Register no listener: the node object does not change."""


class NewApi(Protocol):
    """Creates another API client with a separate rate limit."""

    def __call__(self, qps: float, burst: int, /, *, deadline_seconds: float | None = None) -> Api:
        """Return a client that is limited to *qps* requests per second with bursts of *burst*; 0 is unlimited.

        :param qps: requests per second in the long term; 0 is unlimited.
        :param burst: number of requests that may exceed the rate.
        :param deadline_seconds: time limit of one attempt; defaults to that of the agent's client.
        """
        ...


class ConfigContext(Struct, frozen=True, kw_only=True):
    """Configuration and general services; exists before every component."""

    first_hook: ClassVar[str] = "nodeagent_configure"
    """The first hook that receives this stage."""

    config: NodeAgentConfiguration
    gates: FeatureGates
    settings: NodeSettings
    effective: EffectiveConfig
    """The configuration in other forms, and the files that it names."""
    connect_api: ConnectApi
    """Connects to an API server with another kubeconfig than the agent's."""
    clock: Clock
    release: SelectedRelease = field(default_factory=SelectedRelease)
    """Kubernetes release on which feature gates, defaults and the reported version depend."""
    tasks: TaskOwner
    """Owner of the tasks that plugins start; closed before the clients."""
    cleanup: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Callbacks that run on shutdown: ``cleanup.push_async_callback(channel.close)``."""
    plugin_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Validated settings from ``--plugin-config`` by plugin name."""
    hook: str = ""
    """The hook that received this context, for error messages."""

    if not TYPE_CHECKING:  # With it, the type checker would accept every attribute.

        def __getattr__(self, name: str) -> Any:
            stage = next((stage for stage in STAGES if name in stage.__annotations__), None)
            if stage is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise ComponentUnavailable(
                f"{self.hook or type(self).__name__} cannot use context.{name}: "
                f"it does not exist before {stage.first_hook}"
            )

    @property
    def node_name(self) -> str:
        """The name of this node."""
        return self.settings.node_name

    @property
    def root_dir(self) -> Path:
        """The root directory (``--root-dir``)."""
        return Path(self.settings.root_dir)

    def pod_dir(self, pod_uid: str) -> Path:
        """Return the directory of a pod: ``<root>/pods/<uid>``."""
        return self.root_dir / "pods" / pod_uid

    def stage(self, stage: type[S], **values: Any) -> S:
        """Return an earlier stage, or with the missing components in *values* a later one.

        :raises TypeError: a component of *stage* is missing.
        """
        names = set(stage.__struct_fields__) - values.keys()
        known = set(self.__struct_fields__)
        return stage(**{name: getattr(self, name) for name in names & known}, **values)


class ApiContext(ConfigContext, frozen=True, kw_only=True):
    """The stage after the agent has created its API client."""

    first_hook: ClassVar[str] = "nodeagent_provide_event_recorder"

    api: Api | None
    """The rate-limited client; ``None`` in standalone mode."""
    new_api: NewApi | None
    """Creates another client with a separate rate limit, for example for events; ``None`` in standalone mode."""


class RuntimeContext(ApiContext, frozen=True, kw_only=True):
    """The stage after the container runtime."""

    first_hook: ClassVar[str] = "nodeagent_provide_image_service"

    runtime: ContainerRuntime


class ImageContext(RuntimeContext, frozen=True, kw_only=True):
    """The stage after the image service; commands that run without the agent do not go further."""

    first_hook: ClassVar[str] = "nodeagent_provide_object_reader"

    images: ImageService


class RecorderContext(ImageContext, frozen=True, kw_only=True):
    """The stage after the event recorder and the pod workers."""

    first_hook: ClassVar[str] = "nodeagent_provide_object_reader"

    recorder: EventRecorder
    node_reference: Callable[[], ObjectReference]
    """Returns a reference to this node, for events."""
    pods: PodDirectory
    """The pods of this node; empty until the pod sources run."""
    allocations: PodAllocations
    """Resources that the runtime has applied to containers."""


class NodeContext(RecorderContext, frozen=True, kw_only=True):
    """The stage after the node manager."""

    first_hook: ClassVar[str] = "nodeagent_provide_object_reader"

    node: Callable[[], Mapping[str, Any] | None]
    """Returns the node object as last read from or written to the API server."""
    on_node_change: Callable[[Callable[[], None]], None] = _ignore_listener
    """Registers a function that is called after each change of the node object."""
    wait_for_node: Callable[[], Awaitable[None]]
    """Waits until the node object was read once; admission uses its labels and taints."""
    trigger_node_status: Callable[[], None]
    """Requests an immediate node status update, because a plugin's report has changed."""
    runtime_status: Callable[[], Awaitable[RuntimeStatus]]
    """Returns the runtime's last status, at most some seconds old; waits until the runtime has responded once."""


class ObjectsContext(NodeContext, frozen=True, kw_only=True):
    """The stage after the object reader."""

    first_hook: ClassVar[str] = "nodeagent_provide_cgroups"

    objects: ObjectReader


class CgroupsContext(ObjectsContext, frozen=True, kw_only=True):
    """The stage after the cgroup manager."""

    first_hook: ClassVar[str] = "nodeagent_provide_volume_kinds"

    cgroups: CgroupManager


class VolumesContext(CgroupsContext, frozen=True, kw_only=True):
    """The stage after the volume manager."""

    first_hook: ClassVar[str] = "nodeagent_provide_device_providers"

    volumes: VolumeManager


class DevicesContext(VolumesContext, frozen=True, kw_only=True):
    """The stage after the device manager."""

    first_hook: ClassVar[str] = "nodeagent_provide_claim_drivers"

    devices: DeviceManager


class ClaimsContext(DevicesContext, frozen=True, kw_only=True):
    """The stage after the claim manager."""

    first_hook: ClassVar[str] = "nodeagent_provide_image_puller"

    claims: ClaimManager | None
    """``None`` if dynamic resource allocation is disabled."""


class PullerContext(ClaimsContext, frozen=True, kw_only=True):
    """The stage after the image puller."""

    first_hook: ClassVar[str] = "nodeagent_provide_prober"

    puller: ImagePuller


class ProberContext(PullerContext, frozen=True, kw_only=True):
    """The stage after the prober."""

    first_hook: ClassVar[str] = "nodeagent_provide_stats"

    prober: Prober


class StatsContext(ProberContext, frozen=True, kw_only=True):
    """The stage after the stats provider."""

    first_hook: ClassVar[str] = "nodeagent_provide_pod_syncer"

    stats: StatsProvider


class AgentContext(StatsContext, frozen=True, kw_only=True):
    """The stage with all components."""

    first_hook: ClassVar[str] = "nodeagent_components_created"

    syncer: PodSyncer
    flush_statuses: Callable[[float], Awaitable[None]]
    """Waits until all pod statuses were sent to the API server, at most the given seconds."""


class ServerContext(AgentContext, frozen=True, kw_only=True):
    """The stage in which the HTTPS server is created."""

    first_hook: ClassVar[str] = "nodeagent_provide_authenticators"

    queries: Mapping[str, LocalQuery]
    """Local queries by name."""


STAGES: tuple[type[ConfigContext], ...] = (
    ConfigContext,
    ApiContext,
    RuntimeContext,
    ImageContext,
    RecorderContext,
    NodeContext,
    ObjectsContext,
    CgroupsContext,
    VolumesContext,
    DevicesContext,
    ClaimsContext,
    PullerContext,
    ProberContext,
    StatsContext,
    AgentContext,
    ServerContext,
)
"""Every stage, in order."""
