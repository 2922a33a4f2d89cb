"""Nodes (core/v1), limited to the fields that the agent reports. Times are RFC 3339 text."""

from __future__ import annotations

import msgspec

from nodeagent.model.wire import WireStruct


class NodeAddress(WireStruct, frozen=True):
    type: str
    address: str


class NodeCondition(WireStruct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str = ""
    last_transition_time: str = ""


class ContainerImage(WireStruct, frozen=True):
    """Image on the node: its names, the most specific first, and its size."""

    names: list[str]
    size_bytes: int = 0


class NodeSwapStatus(WireStruct, frozen=True):
    """Swap of the host; the capacity is in bytes."""

    capacity: int


class NodeRuntimeHandlerFeatures(WireStruct, frozen=True, omit_defaults=False):
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


class NodeRuntimeHandler(WireStruct, frozen=True, omit_defaults=False):
    """A handler of runtime classes; the default handler has an empty name."""

    name: str = ""
    features: NodeRuntimeHandlerFeatures = NodeRuntimeHandlerFeatures()


class NodeFeatures(WireStruct, frozen=True, omit_defaults=False):
    """Features of the runtime that do not depend on the handler."""

    supplemental_groups_policy: bool = False


class NodeSystemInfo(WireStruct, frozen=True, omit_defaults=False):
    """Hardware and software of the host; all fields except swap are required in JSON."""

    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    agent_version: str = msgspec.field(default="", name="kubeletVersion")
    proxy_version: str = msgspec.field(default="", name="kubeProxyVersion")
    operating_system: str = "linux"
    architecture: str = ""
    swap: NodeSwapStatus | msgspec.UnsetType = msgspec.UNSET


class DaemonEndpoint(WireStruct, frozen=True):
    port: int = msgspec.field(name="Port")


class NodeDaemonEndpoints(WireStruct, frozen=True):
    agent_endpoint: DaemonEndpoint | None = msgspec.field(default=None, name="kubeletEndpoint")


class NodeStatus(WireStruct, frozen=True):
    """The agent's part of a node's status; ``addresses`` is ``None`` if another component sets them."""

    conditions: list[NodeCondition]
    capacity: dict[str, str]
    allocatable: dict[str, str]
    node_info: NodeSystemInfo
    images: list[ContainerImage]
    daemon_endpoints: NodeDaemonEndpoints
    addresses: list[NodeAddress] | None = None
    runtime_handlers: list[NodeRuntimeHandler] | None = None
    features: NodeFeatures | None = None
    declared_features: list[str] | None = None
    volumes_in_use: list[str] | None = None
