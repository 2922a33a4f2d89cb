"""Diagnostics of the running agent: requests and responses of ``nodeagent why`` and ``nodeagent status``."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from nodeagent.contracts.plugin_report import DecisionLine
from nodeagent.model.wire import WireStruct

WHY_QUERY = "why"
"""Local query: takes a :class:`WhyRequest`, returns a :class:`PodExplanation`."""
STATUS_QUERY = "status"
"""Local query: takes no arguments, returns a :class:`NodeOverview`."""


class Stage(StrEnum):
    """Stages of a pod until it is Ready, in display order."""

    ADMIT = "admit"
    VOLUMES = "volumes"
    PULL = "pull"
    SANDBOX = "sandbox"
    START = "start"
    READY = "ready"
    END = "end"
    """Reported only for a pod that is terminating or has terminated."""


class StageState(StrEnum):
    """State of a stage."""

    DONE = "done"
    WORKING = "working"
    """In progress, without a failure so far."""
    BLOCKED = "blocked"
    """Failed or rejected; the report states the cause."""
    WAITING = "waiting"
    """Not started; an earlier stage is not done."""


class StageReport(WireStruct, frozen=True, omit_defaults=False):
    """State of one stage."""

    stage: Stage
    state: StageState
    at: datetime | None = None
    """Time of completion, or the start of the current attempt or failure."""
    detail: str = ""
    """Completed or missing work, for display."""
    reason: str = ""
    """CamelCase reason of a blocked stage."""
    containers: list[str] = msgspec.field(default_factory=list)
    """Names of the affected containers; empty if the complete pod is affected."""


class PodEvent(WireStruct, frozen=True, omit_defaults=False):
    """An event of the pod since the agent started; equal events are aggregated with a count."""

    type: str
    reason: str
    note: str
    count: int
    first: datetime
    last: datetime
    field_path: str = ""


class WhyRequest(WireStruct, frozen=True):
    """Request for the explanation of one pod."""

    namespace: str
    name: str


class PodDeviceLine(WireStruct, frozen=True, omit_defaults=False):
    """A device of a container."""

    container: str
    resource: str
    """Extended resource, or ``claim:`` and the name of the claim in the pod."""
    id: str
    health: str
    message: str = ""


class PodExplanation(WireStruct, frozen=True, omit_defaults=False):
    """Stages of a pod, and the reason why it is not Ready."""

    namespace: str
    name: str
    uid: str
    source: str
    """``api``, ``file``, ``http`` or the name of a third-party source."""
    phase: str
    ready: bool
    stages: list[StageReport]
    blocking: Stage | None = None
    """The first stage that is not done; ``None`` for a pod that is Ready or has terminated."""
    blocked: bool = False
    """True if that stage failed; otherwise it is in progress."""
    reason: str = ""
    cause: str = ""
    plugin: str = ""
    """Name of the plugin that delays the pod, if one does."""
    next_try_seconds: float | None = None
    """Time until the next retry; 0 is now, ``None`` if the agent waits for something else."""
    remedy: str = ""
    events: list[PodEvent] = msgspec.field(default_factory=list)
    devices: list[PodDeviceLine] = msgspec.field(default_factory=list)
    """Devices that the containers have."""
    decisions: list[DecisionLine] = msgspec.field(default_factory=list)
    """Decisions of plugins about the pod."""


class PodLine(WireStruct, frozen=True, omit_defaults=False):
    """A pod in the overview."""

    namespace: str
    name: str
    uid: str
    phase: str
    ready: bool
    containers_ready: int
    containers: int
    restarts: int
    stage: Stage | None
    blocked: bool
    reason: str
    cause: str
    started_at: datetime | None = None


class ConditionLine(WireStruct, frozen=True, omit_defaults=False):
    """A condition of the node."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""


class PullLine(WireStruct, frozen=True, omit_defaults=False):
    """An image pull that is in progress or queued."""

    image: str
    pods: list[str]
    seconds: float
    waits: bool = False
    asks: bool = False  # wording: ok
    """True if its credentials are still being resolved."""


class DeviceResourceLine(WireStruct, frozen=True, omit_defaults=False):
    """Devices of one resource; ``problem`` is empty while their plugin is connected."""

    name: str
    capacity: int
    healthy: int
    allocated: int
    plugin: str = ""
    problem: str = ""


class LoopLine(WireStruct, frozen=True, omit_defaults=False):
    """A loop of the agent. ``problem`` is empty while the loop is healthy."""

    name: str
    problem: str = ""


class GaugeLine(WireStruct, frozen=True, omit_defaults=False):
    """Usage of a resource, in the unit of its name: bytes, inodes, nanocores or processes."""

    name: str
    used: int
    capacity: int


class PluginCostLine(WireStruct, frozen=True, omit_defaults=False):
    """Cost of loading a plugin: of its import and of its provider hooks.

    A module that several plugins import is attributed to the first one.
    """

    name: str
    cpu_seconds: float
    memory_bytes: int
    """Growth of the agent's resident memory."""


class NodeOverview(WireStruct, frozen=True, omit_defaults=False):
    """Overview of the node."""

    node: str
    version: str
    at: datetime
    started_at: datetime
    ready: bool
    runtime: str
    api_server: str
    """The connection error; empty while the API server responds, and in standalone mode."""
    conditions: list[ConditionLine]
    gauges: list[GaugeLine]
    pods: list[PodLine]
    pulls: list[PullLine]
    loops: list[LoopLine]
    devices: list[DeviceResourceLine] = msgspec.field(default_factory=list)
    release: str = ""
    """Kubernetes release that the node follows, with the reason for its selection."""
    memory_bytes: int = 0
    """Resident memory of the agent."""
    plugin_costs: list[PluginCostLine] = msgspec.field(default_factory=list)
    """Largest first."""
